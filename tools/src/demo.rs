//! The built-in demo corpus, made anew: sentences from a grammar, spoken by free synthesisers,
//! packed into one file that the program carries.
//!
//! The same tools give the same bytes: draws are hashes, streams have a fixed serial number.

mod grammar;
mod sentences;
mod speak;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use voxmill_data::demo;
use voxmill_data::draw::draw;

use crate::letter_to_sound::read_dictionary;
use grammar::{Grammar, words};
use sentences::{VoiceShare, choose, hold_out};
use speak::{DemoVoice, SpokenClip};

const SEED: u64 = 1;
/// Words of each unseen sentence that no training sentence may contain.
const UNSEEN_WORDS: usize = 3;

const MAIN: DemoVoice = DemoVoice::Flite("rms");
const PERSIAN: DemoVoice = DemoVoice::EspeakPersian;
/// Voice, and the sentences that it says for training.
const ENGLISH: [(DemoVoice, VoiceShare); 3] = [
    (MAIN, share(650 + demo::EVAL_CLIPS, 25, 50)),
    (DemoVoice::Flite("slt"), share(100, 20, 40)),
    (DemoVoice::Flite("awb"), share(100, 20, 40)),
];

const fn share(sentences: usize, shortest: usize, longest: usize) -> VoiceShare {
    VoiceShare {
        sentences,
        shortest,
        longest,
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Print the sentences and stop: what to do after a change of the grammar
    #[arg(long)]
    sentences_only: bool,
    /// CMUdict text file; with it, the phones of the training sentences are counted
    #[arg(long)]
    dictionary: Option<PathBuf>,
    /// Quality of the Ogg Vorbis encoder
    #[arg(long, default_value = "4", allow_negative_numbers = true)]
    quality: f32,
    /// Also keep the synthesisers' wav files here, to compare them with the encoded ones
    #[arg(long)]
    keep_wavs: Option<PathBuf>,
}

/// A clip to be spoken.
#[derive(Debug)]
struct DemoClip {
    id: String,
    text: String,
    voice: DemoVoice,
    manifest: &'static str,
}

pub(crate) fn run(args: DemoArgs) -> Result<()> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/voxmill-data/data/demo");
    let clips = plan(&data)?;
    let mut out = std::io::stdout().lock();
    if args.sentences_only {
        for clip in &clips {
            writeln!(out, "{}|{}", clip.id, clip.text)?;
        }
    }
    if let Some(path) = &args.dictionary {
        report_phones(&clips, path, &mut out)?;
    }
    if args.sentences_only {
        return Ok(());
    }
    let spoken = speak::speak_all(&clips, args.quality, args.keep_wavs.as_deref())?;
    let pack = pack(&clips, &spoken);
    report_clips(&clips, &spoken, pack.len(), &mut out)?;
    ensure!(
        pack.len() <= demo::MAX_PACK_BYTES,
        "{} bytes are more than the {} the program has room for",
        pack.len(),
        demo::MAX_PACK_BYTES
    );
    let path = data.join("demo.pack");
    let unfinished = data.join("demo.pack.part");
    fs::write(&unfinished, &pack)
        .and_then(|()| fs::rename(&unfinished, &path))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// All clips in the pack's order: by voice, so that files that begin alike stand side by side.
fn plan(data: &Path) -> Result<Vec<DemoClip>> {
    let read = |name: &str| {
        let path = data.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let grammar = Grammar::parse(&read("grammar.txt")?).context("grammar.txt")?;
    let mut lists = choose(&grammar, SEED, &ENGLISH.map(|(_, share)| share))?;
    let mut training = lists.remove(0);
    let held_out = hold_out(&mut training, &lists, demo::EVAL_CLIPS, SEED)?;
    let unseen = lines(&read("unseen.txt")?);
    let trained: BTreeSet<String> = training
        .iter()
        .chain(lists.iter().flatten())
        .flat_map(|text| words(text))
        .collect();
    for text in &unseen {
        let new = words(text).filter(|word| !trained.contains(word)).count();
        ensure!(
            new >= UNSEEN_WORDS,
            "only {new} words of `{text}` are untrained"
        );
    }
    let mut clips = Vec::new();
    let mut add = |voice: DemoVoice, kind: &str, texts: Vec<String>, manifest| {
        let width = texts.len().to_string().len();
        clips.extend((1..).zip(texts).map(|(n, text)| DemoClip {
            id: format!("{}-{kind}{n:0width$}", voice.speaker()),
            text,
            voice,
            manifest,
        }));
    };
    add(MAIN, "", training, demo::TRAIN_MANIFEST);
    add(MAIN, "eval-", held_out, demo::EVAL_MANIFEST);
    add(MAIN, "unseen-", unseen, demo::UNSEEN_MANIFEST);
    for ((voice, _), texts) in ENGLISH[1..].iter().zip(lists) {
        add(*voice, "", texts, demo::TRAIN_MANIFEST);
    }
    add(
        PERSIAN,
        "",
        lines(&read("persian.txt")?),
        demo::TRAIN_MANIFEST,
    );
    for clip in clips.iter().filter(|clip| clip.voice != PERSIAN) {
        ensure!(
            clip.text.is_ascii() && !clip.text.contains(|c: char| c.is_ascii_digit() || c == '|'),
            "`{}` is not plain English text",
            clip.text
        );
    }
    Ok(clips)
}

fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

fn pack(clips: &[DemoClip], spoken: &[SpokenClip]) -> Vec<u8> {
    let manifests = [
        demo::TRAIN_MANIFEST,
        demo::EVAL_MANIFEST,
        demo::UNSEEN_MANIFEST,
    ];
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for manifest in manifests {
        let mut text = String::from("id|text|normalized|speaker|language\n");
        for clip in clips.iter().filter(|clip| clip.manifest == manifest) {
            let (speaker, language) = (clip.voice.speaker(), clip.voice.language());
            text.push_str(&format!(
                "{}|{}|{}|{speaker}|{language}\n",
                clip.id, clip.text, clip.text
            ));
        }
        files.push((manifest.to_owned(), text.into_bytes()));
    }
    for (clip, spoken) in clips.iter().zip(spoken) {
        files.push((format!("wavs/{}.ogg", clip.id), spoken.ogg.clone()));
    }
    demo::write_pack(
        files
            .iter()
            .map(|(name, bytes)| (name.as_str(), bytes.as_slice())),
    )
}

fn report_clips(
    clips: &[DemoClip],
    spoken: &[SpokenClip],
    pack_bytes: usize,
    out: &mut impl std::io::Write,
) -> Result<()> {
    let mut groups: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for (clip, spoken) in clips.iter().zip(spoken) {
        groups
            .entry((clip.voice.speaker(), clip.manifest))
            .or_default()
            .push(spoken.seconds);
    }
    for ((speaker, manifest), mut seconds) in groups {
        seconds.sort_by(f64::total_cmp);
        writeln!(
            out,
            "{speaker:10} {manifest:20} {:4} clips  {:5.1} min  {:.2} to {:.2} s, median {:.2} s",
            seconds.len(),
            seconds.iter().sum::<f64>() / 60.0,
            seconds[0],
            seconds[seconds.len() - 1],
            seconds[seconds.len() / 2],
        )?;
    }
    let peak = spoken.iter().map(|s| s.peak).fold(0.0, f64::max);
    let quietest = spoken.iter().map(|s| s.rms).fold(1.0, f64::min);
    let minutes = spoken.iter().map(|s| s.seconds).sum::<f64>() / 60.0;
    writeln!(
        out,
        "largest peak {peak:.3}, quietest clip {:.1} dBFS",
        20.0 * quietest.log10()
    )?;
    writeln!(
        out,
        "{} clips, {minutes:.1} minutes, {pack_bytes} bytes packed",
        clips.len()
    )?;
    writeln!(out, "twenty of them:")?;
    let mut order: Vec<&DemoClip> = clips.iter().filter(|clip| clip.voice != PERSIAN).collect();
    order.sort_by_key(|clip| draw(SEED, 0, &clip.id, "demo report"));
    for clip in order.iter().take(20) {
        writeln!(out, "  {:16} {}", clip.id, clip.text)?;
    }
    Ok(())
}

/// Phones of the main voice's training sentences, by each word's first pronunciation.
fn report_phones(
    clips: &[DemoClip],
    dictionary: &Path,
    out: &mut impl std::io::Write,
) -> Result<()> {
    let dictionary = read_dictionary(dictionary)?;
    let mut heard: BTreeMap<String, usize> = BTreeMap::new();
    for clip in clips
        .iter()
        .filter(|c| c.voice == MAIN && c.manifest == demo::TRAIN_MANIFEST)
    {
        for word in words(&clip.text) {
            *heard.entry(word).or_default() += 1;
        }
    }
    let mut phones: BTreeMap<&str, usize> = BTreeMap::new();
    for (word, count) in &heard {
        let said = dictionary.get(word);
        let said = said.with_context(|| format!("`{word}` is not in the dictionary"))?;
        for phone in &said[0] {
            let phone = phone.as_str().trim_end_matches(char::is_numeric);
            *phones.entry(phone).or_default() += count;
        }
    }
    let mut rarest: Vec<(usize, &str)> = phones.iter().map(|(phone, n)| (*n, *phone)).collect();
    rarest.sort();
    let total: usize = heard.values().sum();
    let rare_words = heard.values().filter(|count| **count < 4).count();
    writeln!(
        out,
        "{} different words, {total} in all; {rare_words} come fewer than 4 times",
        heard.len()
    )?;
    writeln!(out, "{} phones, rarest first:", rarest.len())?;
    for (count, phone) in rarest {
        write!(out, " {phone} {count}")?;
    }
    writeln!(out)?;
    Ok(())
}
