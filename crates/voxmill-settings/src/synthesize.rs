//! The settings of `synthesize`.

use std::path::PathBuf;

use voxmill_text::FrontEndOptions;
use voxmill_text::language::Language;

use super::ResolvedSetting;
use super::resolver::Resolver;
use super::text::front_end;
use crate::args::SynthesizeArgs;
use crate::config::keys::{self, Verbs};
use crate::error::UserError;
use crate::note::Note;
use voxmill_telemetry::probes::cores;

/// The settings of `synthesize`, valid as a whole.
#[derive(Debug)]
pub struct SynthesizeSettings {
    pub source: TextSource,
    pub language: Option<Language>,
    pub text: FrontEndOptions,
    /// A checkpoint or a run, also by its name under `runs_dir`; `None`: the newest run there.
    pub checkpoint: Option<PathBuf>,
    pub runs_dir: PathBuf,
    pub voice: VoiceChoice,
    /// 2 is twice as fast.
    pub speaking_rate: f64,
    pub output: Output,
    /// Play what was written.
    pub play: bool,
    /// Speak languages that the voice was not trained on.
    pub force: bool,
    pub griffin_lim_iterations: u32,
    pub compute_threads: usize,
    pub json: bool,
    pub notes: Vec<Note>,
    pub resolved: Vec<ResolvedSetting>,
}

/// Where the text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextSource {
    /// Not empty.
    Given(String),
    File(PathBuf),
    StandardInput,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoiceChoice {
    /// The speaker with the most training clips in a sentence's language.
    Main,
    Speaker(String),
    /// As in this recording.
    Reference(PathBuf),
}

/// Where the sound goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// All of the text in one wav file.
    File(PathBuf),
    /// A wav file for each line.
    Folder(PathBuf),
    /// All of the text as one wav file on standard output.
    StandardOutput,
}

impl SynthesizeSettings {
    /// Refuses what contradicts itself or cannot be had.
    pub fn resolve(args: SynthesizeArgs) -> anyhow::Result<SynthesizeSettings> {
        let mut resolver = Resolver::new(args.flags, Verbs::SYNTHESIZE)?;
        let r = &mut resolver;
        let source = source(given_text(args.words, args.text)?, args.text_file)?;
        let language = r.optional(&keys::LANGUAGE);
        let text = front_end(r);
        let checkpoint: Option<PathBuf> = r.optional(&keys::CHECKPOINT);
        let runs_dir = r.pick(&keys::RUNS_DIR);
        let reference = r.optional(&keys::REFERENCE_AUDIO);
        let speaker = r.optional(&keys::SPEAKER);
        let who = match (reference, speaker) {
            (None, None) => VoiceChoice::Main,
            (None, Some(name)) => VoiceChoice::Speaker(name),
            (Some(file), None) => VoiceChoice::Reference(file),
            (Some(_), Some(_)) => {
                let what = "--reference-audio and --speaker both say whose voice it is";
                let hint = "leave one of the two out";
                return Err(UserError::new(what, hint).into());
            }
        };
        let speaking_rate = r.pick(&keys::SPEAKING_RATE);
        let output = output(r.pick(&keys::OUTPUT))?;
        if output == Output::StandardOutput
            && let Some(other) = [(args.json, "--json"), (args.play, "--play")]
                .into_iter()
                .find_map(|(given, flag)| given.then_some(flag))
        {
            let what = format!(
                "--output - writes the speech to standard output: {other} does not go with it"
            );
            let hint = "leave one of the two out, or give --output a file";
            return Err(UserError::new(what, hint).into());
        }
        let griffin_lim_iterations = r.pick(&keys::GRIFFIN_LIM_ITERATIONS);
        let compute_threads = r.auto(&keys::COMPUTE_THREADS, cores(), "one for each core");
        Ok(SynthesizeSettings {
            source,
            language,
            text,
            checkpoint,
            runs_dir,
            voice: who,
            speaking_rate,
            output,
            play: args.play,
            force: args.force,
            griffin_lim_iterations,
            compute_threads,
            json: args.json,
            notes: resolver.notes(),
            resolved: resolver.resolved,
        })
    }
}

/// As words of the command line, or with --text.
fn given_text(words: Vec<String>, text: Option<String>) -> Result<Option<String>, UserError> {
    match (words.is_empty(), text) {
        (true, text) => Ok(text),
        (false, None) => Ok(Some(words.join(" "))),
        (false, Some(_)) => Err(UserError::new(
            format!("`{}` and --text both say what to speak", words.join(" ")),
            "leave one of the two out; a text of several words is put in quotes",
        )),
    }
}

fn source(text: Option<String>, file: Option<PathBuf>) -> Result<TextSource, UserError> {
    match (text, file) {
        (Some(_), Some(_)) => Err(UserError::new(
            "--text and --text-file both say what to speak",
            "leave one of the two out",
        )),
        (Some(text), None) if text == "-" => Ok(TextSource::StandardInput),
        (Some(text), None) if text.trim().is_empty() => Err(UserError::new(
            "there is no text to speak",
            "voxmill synthesize --text \"Hello there.\"",
        )),
        (Some(text), None) => Ok(TextSource::Given(text)),
        (None, Some(file)) => Ok(TextSource::File(file)),
        (None, None) => Ok(TextSource::StandardInput),
    }
}

fn output(path: PathBuf) -> Result<Output, UserError> {
    let text = path.as_os_str().to_string_lossy();
    if text == "-" {
        return Ok(Output::StandardOutput);
    }
    let slash = text.ends_with(std::path::is_separator);
    if slash || path.is_dir() {
        return Ok(Output::Folder(path));
    }
    let extension = path.extension();
    if extension.is_some_and(|extension| extension.eq_ignore_ascii_case("wav")) {
        return Ok(Output::File(path));
    }
    let (file, folder) = (path.with_extension("wav"), path.with_extension(""));
    let (path, file, folder) = (path.display(), file.display(), folder.display());
    let what = format!("--output `{path}` is neither a wav file nor a folder");
    let hint =
        format!("write `{file}` for a file, or `{folder}/` for a folder with a file for each line");
    Err(UserError::new(what, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use crate::error::describe;
    use clap::Parser as _;

    fn resolve(flags: &[&str]) -> anyhow::Result<SynthesizeSettings> {
        let line = ["voxmill", "synthesize"].iter().chain(flags);
        let Verb::Synthesize(args) = Cli::try_parse_from(line).unwrap().verb else {
            panic!("another verb")
        };
        SynthesizeSettings::resolve(*args)
    }

    fn refused(flags: &[&str]) -> String {
        describe(&resolve(flags).unwrap_err())
    }

    #[test]
    fn with_no_arguments_the_newest_voice_speaks_what_comes_in() {
        let settings = resolve(&[]).unwrap();
        assert_eq!(settings.source, TextSource::StandardInput);
        assert_eq!(settings.checkpoint, None);
        assert_eq!(settings.voice, VoiceChoice::Main);
        assert_eq!(settings.output, Output::File("speech.wav".into()));
        assert_eq!(settings.griffin_lim_iterations, 32);
        assert_eq!(settings.speaking_rate, 1.0);
    }

    #[test]
    fn a_folder_exists_or_ends_in_a_slash() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().to_owned();
        for (path, expected) in [
            (there.clone(), Output::Folder(there)),
            ("new/".into(), Output::Folder("new/".into())),
            ("a.WAV".into(), Output::File("a.WAV".into())),
        ] {
            assert_eq!(output(path).unwrap(), expected);
        }
        let error = describe(&output("a.mp3".into()).unwrap_err().into());
        let hint = "write `a.wav` for a file, or `a/`";
        assert!(error.contains(hint), "{error}");
    }

    #[test]
    fn text_and_output_have_short_ways() {
        let of = |flags: &[&str]| resolve(flags).unwrap();
        let given = |text: &str| TextSource::Given(text.to_owned());
        assert_eq!(of(&["Hello", "there."]).source, given("Hello there."));
        assert_eq!(of(&["--text", "Hello."]).source, given("Hello."));
        for piped in [&["--text", "-"][..], &["-"], &[]] {
            assert_eq!(of(piped).source, TextSource::StandardInput, "{piped:?}");
        }
        let short = of(&["Hello.", "-c", "runs/a", "-o", "a.wav"]);
        assert_eq!(short.output, Output::File("a.wav".into()));
        assert_eq!(short.checkpoint, Some("runs/a".into()));
        assert_eq!(of(&["Hello.", "-o", "-"]).output, Output::StandardOutput);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (flags, words) in [
            (
                "--text Hello. --text-file story.txt",
                "--text and --text-file",
            ),
            ("--text \n", "no text to speak"),
            ("Hello. --text Hello.", "both say what to speak"),
            ("Hello. -o - --json", "--json does not go with it"),
            ("Hello. -o - --play", "--play does not go with it"),
            ("--reference-audio me.wav --speaker slt", "whose voice"),
        ] {
            let flags: Vec<&str> = flags.split(' ').collect();
            let refused = refused(&flags);
            assert!(refused.contains(words), "{flags:?}: {refused}");
        }
    }
}
