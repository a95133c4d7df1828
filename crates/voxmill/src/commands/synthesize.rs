//! `voxmill synthesize`: text in, wav out, in a trained voice.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use voxmill_audio::{Featurizer, wav_bytes};
use voxmill_report::results::synthesize::{self, SpokenFile, Synthesized};
use voxmill_trainer::checkpoint::CheckpointFolder;
use voxmill_trainer::synthesis::{Speech, Synthesizer, TrainedVoice, symbols_fit};

use super::{print_json, print_output, should_run, status};
use crate::exit::Exit;
use crate::session::compute_pool;
use crate::session::errors::{front_end, of_checkpoint};
use crate::session::run_folder::{self, CheckpointPath};
use voxmill_settings::args::SynthesizeArgs;
use voxmill_settings::error::UserError;
use voxmill_settings::{Output, SynthesizeSettings, TextSource, Voice};
use voxmill_untrusted::file::{read_text, read_text_from};

/// A shelf of books.
const MOST_TEXT_BYTES: u64 = 16_000_000;

pub(crate) fn run(args: SynthesizeArgs) -> anyhow::Result<Exit> {
    let show = args.flags.show_settings;
    let settings = SynthesizeSettings::resolve(args)?;
    if !should_run(&settings.notes, &settings.resolved, show, settings.json)? {
        return Ok(Exit::Done);
    }
    compute_pool(settings.compute_threads)?.install(|| synthesize(&settings))
}

fn synthesize(settings: &SynthesizeSettings) -> anyhow::Result<Exit> {
    let text = text_of(&settings.source)?;
    let found = find(settings)?;
    let device = voxmill_trainer::device::cpu();
    let voice = TrainedVoice::load(&found, &device).map_err(of_checkpoint)?;
    if !symbols_fit(&voice.facts().symbols) {
        let what = "the voice was trained with symbols that this program does not have";
        let hint = "take the version of voxmill that trained it";
        return Err(UserError::new(what, hint).into());
    }
    warn_of_other_front_end(settings, &found);
    let style = style(settings, &voice)?;
    let front_end = front_end(settings.text.clone())?;
    let iterations = settings.griffin_lim_iterations as usize;
    let mut synthesizer = Synthesizer::new(&front_end, &voice.facts().audio, iterations)?;
    let mut speak = |path: &Path, text: &str| {
        write_speech(path, text, settings, &voice, &style, &mut synthesizer)
    };
    let mut written = Vec::new();
    match &settings.output {
        Output::File(path) => written.push(speak(path, &text)?),
        Output::Folder(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            for (number, line) in lines.enumerate() {
                let path = folder.join(format!("{:03}.wav", number + 1));
                match speak(&path, line) {
                    Ok(one) => written.push(one),
                    Err(error) => status!("warning: line {}: {error}", number + 1),
                }
            }
        }
    }
    if written.is_empty() {
        return Err(no_text().into());
    }
    if settings.json {
        print_json(&Synthesized {
            version: synthesize::VERSION,
            files: written,
        })?;
    } else {
        for one in &written {
            print_output(&line(one))?;
        }
    }
    Ok(Exit::Done)
}

fn text_of(source: &TextSource) -> anyhow::Result<String> {
    let text = match source {
        TextSource::Given(text) => text.clone(),
        TextSource::File(path) => read_text(path, MOST_TEXT_BYTES).map_err(|error| {
            let what = format!("cannot read `{}`", path.display());
            let hint = "give a text file in UTF-8 with --text-file, a long text in several files";
            UserError::new(what, hint).because(error)
        })?,
        TextSource::StandardInput => {
            let input = std::io::stdin().lock();
            if input.is_terminal() {
                return Err(no_text().into());
            }
            read_text_from(input, MOST_TEXT_BYTES).map_err(|error| {
                let hint = "give text in UTF-8, a long one in several parts";
                UserError::new("cannot read standard input", hint).because(error)
            })?
        }
    };
    if text.trim().is_empty() {
        return Err(no_text().into());
    }
    Ok(text)
}

fn no_text() -> UserError {
    let what = "there is no text to speak";
    let hint =
        "voxmill synthesize --text \"Hello there.\"  (or --text-file, or text on standard input)";
    UserError::new(what, hint)
}

/// The checkpoint that holds the voice.
fn find(settings: &SynthesizeSettings) -> anyhow::Result<CheckpointFolder> {
    let named = match &settings.checkpoint {
        Some(path) => CheckpointPath::find(path),
        None => {
            let run = run_folder::newest(&settings.runs_dir)?;
            status!("voice     {}", run.display());
            CheckpointPath::find(&run)
        }
    };
    let found = named.best().map_err(of_checkpoint)?;
    for damaged in &found.damaged {
        status!(
            "warning: {damaged}; taking `{}`",
            found.checkpoint.path().display()
        );
    }
    Ok(found.checkpoint)
}

/// A voice speaks best what the front-end of its training makes of a text.
fn warn_of_other_front_end(settings: &SynthesizeSettings, found: &CheckpointFolder) {
    let values = &found.facts().settings["values"];
    let trained = |name: &str| values[name].as_str().unwrap_or_default();
    let espeak = settings.text.espeak.is_some();
    if (trained("espeak") == "true") != espeak {
        let with = if espeak { "without" } else { "with" };
        status!("warning: the voice was trained {with} --espeak; its words may come out wrong");
    }
    let ours = settings.text.lexicon.as_ref();
    let ours = ours.map_or("none".to_owned(), |path| path.display().to_string());
    let theirs = trained("lexicon");
    if !theirs.is_empty() && theirs != ours && theirs != "none" {
        status!("warning: the voice was trained with --lexicon {theirs}");
    }
}

/// The style to speak in: of a recording, of a speaker by name, or of the main speaker.
fn style(settings: &SynthesizeSettings, voice: &TrainedVoice) -> anyhow::Result<Vec<f32>> {
    let facts = voice.facts();
    let of_name = |name: &str| {
        voice.style_named(name).map(<[f32]>::to_vec).ok_or_else(|| {
            let known: Vec<_> = facts.speakers.keys().map(String::as_str).collect();
            let what = format!("the voice knows no speaker `{name}`");
            let hint = format!("it knows: {}", known.join(", "));
            UserError::new(what, hint)
        })
    };
    match &settings.voice {
        Voice::Reference(path) => {
            let mut featurizer = Featurizer::new(&facts.audio)?;
            let features = featurizer.featurize(path).map_err(|error| {
                let what = format!("cannot take the voice from `{}`", path.display());
                let hint = "give a recording of some seconds: wav, flac, ogg or mp3";
                UserError::new(what, hint).because(error)
            })?;
            Ok(voice.style_of(features.mel))
        }
        Voice::Speaker(name) => Ok(of_name(name)?),
        Voice::Main => {
            // A checkpoint of the first steps may not have heard everybody yet.
            let any = facts.speakers.keys().next().unwrap_or(&facts.main_speaker);
            let known = facts.speakers.contains_key(&facts.main_speaker);
            Ok(of_name(if known { &facts.main_speaker } else { any })?)
        }
    }
}

fn line(file: &SpokenFile) -> String {
    format!(
        "{}  {:.2} s of speech in {:.2} s, real-time factor {:.3}",
        file.path.display(),
        file.seconds,
        file.took_seconds,
        file.real_time_factor
    )
}

fn write_speech(
    path: &Path,
    text: &str,
    settings: &SynthesizeSettings,
    voice: &TrainedVoice,
    style: &[f32],
    synthesizer: &mut Synthesizer<'_>,
) -> anyhow::Result<SpokenFile> {
    let begin = Instant::now();
    let Speech {
        samples,
        unread,
        problems,
        model_time,
        ..
    } = {
        let (language, rate) = (settings.language, settings.speaking_rate);
        synthesizer.synthesize(voice, text, language, style, rate)?
    };
    if !unread.is_empty() {
        let signs: Vec<_> = unread.iter().map(|sign| format!("`{sign}`")).collect();
        status!("warning: not read: {}", signs.join(" "));
    }
    for problem in problems {
        status!("warning: {problem}");
    }
    if samples.is_empty() {
        let what = format!("nothing in `{}` can be read aloud", text.trim());
        let hint = "give words in English or Persian letters";
        return Err(UserError::new(what, hint).into());
    }
    let rate = voice.facts().audio.sample_rate;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the folder `{}`", parent.display()))?;
    }
    std::fs::write(path, wav_bytes(&samples, rate)).map_err(|error| {
        let what = format!("cannot write `{}`", path.display());
        let hint = "give a file that can be written with --output";
        UserError::new(what, hint).because(error)
    })?;
    let seconds = samples.len() as f64 / f64::from(rate);
    let took_seconds = begin.elapsed().as_secs_f64();
    Ok(SpokenFile {
        path: path.to_owned(),
        seconds,
        took_seconds,
        model_seconds: model_time.as_secs_f64(),
        real_time_factor: took_seconds / seconds,
    })
}
