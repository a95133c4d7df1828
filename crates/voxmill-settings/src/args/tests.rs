//! The command line: what is taken, what is refused and in which words.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};

use super::*;
use crate::ModelSize;
use crate::config::keys::Role;

fn parse(line: &str) -> Result<Verb, clap::Error> {
    let words = ["voxmill"].into_iter().chain(line.split_whitespace());
    Cli::try_parse_from(words).map(|cli| cli.verb)
}

fn train(line: &str) -> TrainArgs {
    match parse(&format!("train {line}")).unwrap() {
        Verb::Train(args) => *args,
        _ => panic!("another verb"),
    }
}

fn refused(line: &str) -> String {
    parse(line).unwrap_err().to_string()
}

fn help(verb: &str) -> String {
    // Lines are not wrapped, so that words stand together.
    let mut cli = Cli::command().term_width(0);
    cli.build();
    let verb = cli.find_subcommand_mut(verb).unwrap();
    verb.render_long_help().to_string()
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn every_key_that_acts_has_the_flag_that_is_named_for_it() {
    let cli = Cli::command();
    let train = cli.find_subcommand("train").unwrap();
    for key in keys::KEYS.iter().filter(|key| key.role == Role::Acts) {
        let named = |arg: &clap::Arg| arg.get_long() == Some(&key.long());
        assert!(train.get_arguments().any(named), "{}", key.flag());
    }
}

#[test]
fn a_switch_does_not_swallow_the_text() {
    let cases = [
        ("text --espeak hi", true),
        ("text --espeak=false hi", false),
    ];
    for (line, on) in cases {
        let Ok(Verb::Text(args)) = parse(line) else {
            panic!("{line}")
        };
        assert_eq!(args.text.as_deref(), Some("hi"));
        assert_eq!(args.flags.get(&keys::ESPEAK), Some(on));
    }
}

#[test]
fn a_flag_that_says_no_is_the_opposite_of_its_key() {
    let off = train("--no-cache --no-adapt=false --no-evaluation");
    assert_eq!(off.flags.get(&keys::ENABLE_CACHING), Some(false));
    assert_eq!(off.flags.get(&keys::AUTO_TUNE_PERFORMANCE), Some(true));
    assert_eq!(off.flags.get(&keys::ENABLE_EVALUATION), Some(false));
    assert!(!off.flags.contradict(&keys::ENABLE_EVALUATION));
    let both = train("--enable-evaluation --no-evaluation");
    assert!(both.flags.contradict(&keys::ENABLE_EVALUATION));
}

#[test]
fn every_flag_of_the_earlier_trainer_is_taken() {
    let args = train(
        "--train-data d --val-data v --config c --model-size normal --batch-size 8 --epochs 3 --max-steps 9 \
        --grad-accum 2 --num-workers 2 --buffer-size 50 --prefetch-buffer-size 8 --model-start-delay 2.0 \
        --enable-static-shapes --max-text-length 200 --max-mel-frames 900 --optimization-level plateau_breaker \
        --lr 8e-5 --seed 1 --reset-training --checkpoint-dir c --tensorboard-log-dir t --enable-evaluation \
        --evaluation-interval 50 --data-gpu 0 --model-gpu auto --disable-static-shapes --data-gpu-memory 8GB \
        --model-gpu-memory 16GB --enable-memory-isolation --mixed-precision",
    );
    let flags = &args.flags;
    assert_eq!(flags.get(&keys::SIZE), Some(ModelSize::Base));
    assert_eq!(flags.get(&keys::LEARNING_RATE), Some(8e-5));
    assert_eq!(flags.get(&keys::MODEL_GPU), Some("auto".to_owned()));
    let others = train("--learning-rate 8e-5 --gradient-accumulation-steps 2").flags;
    assert_eq!(others.get(&keys::LEARNING_RATE), Some(8e-5));
    assert_eq!(others.get(&keys::GRADIENT_ACCUMULATION_STEPS), Some(2_u32));
}

#[test]
fn resume_takes_a_run_or_none() {
    assert_eq!(train("").resume(), None);
    assert_eq!(train("--resume --lr 1e-3").resume(), Some(None));
    let run = train("--resume runs/a").resume();
    assert_eq!(run, Some(Some("runs/a".into())));
}

#[test]
fn what_is_out_of_range_is_refused_in_words() {
    let sizes = "one of nano, tiny, small, base, normal, big";
    for (line, words) in [
        ("prepare --batch-size 0", "a whole number from 1 to 4096"),
        ("train --model-size huge", sizes),
        ("train --lr 3", "a number from 1e-9 to 1"),
        ("train --lr -3", "`-3` is not a number from 1e-9 to 1"),
        ("train --max-steps -1", "`-1` is not a whole number from 1"),
        ("profile --num-steps 0", "`0` is not a whole number from 1"),
        ("scale --num-steps 3", "`3` is not a whole number from 5"),
        ("train --device gpu", "auto, cpu, or one of wgpu"),
        ("synthesize --speaking-rate 5", "a number from 0.25 to 4"),
    ] {
        let refused = refused(line);
        assert!(refused.contains(words), "{refused}");
    }
    assert!(parse("prepare --max-bad 5%").is_ok());
    assert!(parse("train --loudness-lufs -23").is_ok());
    let Ok(Verb::Synthesize(args)) = parse("synthesize --speaking-rate 0.25") else {
        panic!("another verb")
    };
    assert_eq!(args.flags.get(&keys::SPEAKING_RATE), Some(0.25));
    // They are of `prepare`.
    assert!(parse("train --gc").is_err() && parse("train --verify").is_err());
}

#[test]
fn the_help_says_what_the_levels_do_and_gives_examples() {
    let train = help("train");
    for words in [
        "Optimization levels",
        "Examples:",
        "Checkpoints:",
        "--init-from",
        "[default: 16; 8 for the built-in corpus]",
        "[default: 250 for nano and tiny, 1000 for small, base and big]",
    ] {
        assert!(train.contains(words), "{words}");
    }
    assert!(
        !train.contains("--shuffle-texts"),
        "a control experiment is no feature"
    );
    assert!(help("synthesize").contains("Examples:"));
    let validate = help("validate");
    assert!(validate.contains("Three levels"), "{validate}");
    assert!(!validate.contains("--resume"), "{validate}");
}

#[test]
fn what_validate_is_given_reaches_the_settings_of_train() {
    let line = "validate --config c.yaml --num-workers 12 --keep 9 --json --fix";
    let Ok(Verb::Validate(args)) = parse(line) else {
        panic!("another verb")
    };
    assert!(args.result.json && args.result.fix);
    let train = args.of_train();
    assert_eq!(train.flags.get(&keys::NUM_WORKERS), Some(12_usize));
    assert_eq!(train.flags.get(&keys::KEEP), Some(9_usize));
    assert!(parse("validate --fix").is_err());
}

/// Flags of cargo and of espeak-ng, which messages name as well.
const OF_OTHERS: [&str; 5] = ["features", "ipa", "locked", "path", "release"];

#[test]
fn every_flag_that_a_crate_names_is_a_flag_of_a_verb() {
    let mut flags: BTreeSet<String> = OF_OTHERS.map(str::to_owned).into();
    flags.extend(["help", "version"].map(str::to_owned));
    for verb in Cli::command().get_subcommands() {
        for argument in verb.get_arguments() {
            let names = argument.get_long_and_visible_aliases();
            flags.extend(names.into_iter().flatten().map(str::to_owned));
            let aliases = argument.get_all_aliases();
            flags.extend(aliases.into_iter().flatten().map(str::to_owned));
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut named = 0;
    for source in sources(crates) {
        let text = fs::read_to_string(&source).unwrap();
        let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = shipped
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for name in code.flat_map(flags_in) {
            assert!(flags.contains(name), "--{name} in {}", source.display());
            named += 1;
        }
    }
    assert!(named > 50, "the sources were read: {named}");
}

/// Of all crates, without files of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match path.is_dir() {
            true if !matches!(name.as_ref(), "tests" | "benches" | "examples" | "data") => {
                all.extend(sources(&path));
            }
            false if name.ends_with(".rs") && name != "tests.rs" => all.push(path),
            _ => {}
        }
    }
    all
}

/// `num-workers` of `"fewer --num-workers"`.
fn flags_in(line: &str) -> impl Iterator<Item = &str> {
    let starts = line.match_indices("--").filter_map(|(at, _)| {
        let before = line[..at].chars().next_back();
        let rest = &line[at + 2..];
        let is_flag = rest.starts_with(|c: char| c.is_ascii_lowercase());
        let alone = before.is_none_or(|c| !c.is_alphanumeric() && c != '-');
        (is_flag && alone).then_some(rest)
    });
    starts.map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        &rest[..end.unwrap_or(rest.len())]
    })
}
