//! `voxmill synthesize`: text in, wav out, in a trained voice.

mod player;
mod progress;
mod speakers;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use voxmill_audio::wav_bytes;
use voxmill_report::format::counted;
use voxmill_report::results::synthesize::{self, SpokenFile, Synthesized};
use voxmill_trainer::checkpoint::CheckpointFolder;
use voxmill_trainer::synthesis::{Reading, Synthesizer, TrainedVoice, symbols_fit};

use super::{print_json, print_output, should_run, status, warning};
use crate::exit::Exit;
use crate::session::compute_pool;
use player::Player;
use progress::SentenceProgress;
use speakers::{SpeakerStyles, check_languages};
use voxmill_settings::args::SynthesizeArgs;
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::{front_end, of_checkpoint};
use voxmill_settings::recorded;
use voxmill_settings::run_folder::{self, CheckpointPath};
use voxmill_settings::{Output, SynthesizeSettings, TextSource};
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
    let player = settings.play.then(Player::find).transpose()?;
    if settings.output == Output::StandardOutput && std::io::stdout().is_terminal() {
        let what = "standard output is a terminal, which shows no wav file";
        let hint = "pipe it into a program, or give --output a file";
        return Err(UserError::new(what, hint).into());
    }
    let text = text_of(&settings.source)?;
    let found = find(settings)?;
    let device = voxmill_trainer::device::cpu();
    let voice = TrainedVoice::load(&found, &device).map_err(of_checkpoint)?;
    if !symbols_fit(&voice.facts().symbols) {
        let what = "the voice was trained with symbols that this program does not have";
        let hint = "take the version of voxmill that trained it";
        return Err(UserError::new(what, hint).into());
    }
    warn_of_little_training(&found);
    warn_of_other_front_end(settings, &found);
    let speakers = SpeakerStyles::choose(&settings.voice, &voice)?;
    let front_end = front_end(settings.text.clone())?;
    let iterations = settings.griffin_lim_iterations as usize;
    let synthesizer = Synthesizer::new(&front_end, &voice.facts().audio, iterations)?;
    let mut speaking = Speaking {
        settings,
        voice: &voice,
        speakers,
        synthesizer,
    };
    let written = match &settings.output {
        Output::File(path) => vec![speaking.write(path, &text)?],
        Output::StandardOutput => {
            let SpokenWav { wav, speakers, .. } = speaking.speak(&text)?;
            status!("speaker   {}", speakers.join(", "));
            let mut out = std::io::stdout().lock();
            let wrote = out.write_all(&wav).and_then(|()| out.flush());
            wrote.context("cannot write the speech to standard output")?;
            return Ok(Exit::Done);
        }
        Output::Folder(folder) => speaking.write_lines(folder, &text)?,
    };
    if settings.json {
        print_json(&Synthesized {
            version: synthesize::VERSION,
            files: written.clone(),
        })?;
    } else {
        for one in &written {
            print_output(&line(one))?;
        }
    }
    if let Some(player) = player {
        for one in &written {
            player.play(&one.path)?;
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
        Some(path) => CheckpointPath::find(&recorded::find(&settings.runs_dir, path)?),
        None => {
            let run = run_folder::newest(&settings.runs_dir)?;
            status!("voice     {}", run.display());
            CheckpointPath::find(&run)
        }
    };
    let found = named.best().map_err(of_checkpoint)?;
    for damaged in &found.damaged {
        warning!("{damaged}; taking `{}`", found.checkpoint.path().display());
    }
    Ok(found.checkpoint)
}

/// Below this share of the usual steps a voice makes noise.
const LITTLE: f64 = 0.01;

fn warn_of_little_training(found: &CheckpointFolder) {
    let (steps, size) = (found.facts().progress.step, found.facts().voice.size);
    let usual = size.usual_steps();
    if (steps as f64) < LITTLE * usual as f64 {
        let steps = counted(steps, "step");
        let usual = counted(usual, "step");
        warning!(
            "the voice was trained for {steps} only: expect noise (usual for {size}: {usual})"
        );
    }
}

/// A voice speaks best what the front-end of its training makes of a text.
fn warn_of_other_front_end(settings: &SynthesizeSettings, found: &CheckpointFolder) {
    let values = &found.facts().settings["values"];
    let trained = |name: &str| values[name].as_str().unwrap_or_default();
    let espeak = settings.text.espeak.is_some();
    if (trained("espeak") == "true") != espeak {
        let with = if espeak { "without" } else { "with" };
        warning!("the voice was trained {with} --espeak; its words may come out wrong");
    }
    let ours = settings.text.lexicon.as_ref();
    let ours = ours.map_or("none".to_owned(), |path| path.display().to_string());
    let theirs = trained("lexicon");
    if !theirs.is_empty() && theirs != ours && theirs != "none" {
        warning!("the voice was trained with --lexicon {theirs}");
    }
}

fn line(file: &SpokenFile) -> String {
    format!(
        "{}  {:.2} s of speech by {} in {:.2} s, real-time factor {:.3}",
        file.path.display(),
        file.seconds,
        file.speakers.join(", "),
        file.took_seconds,
        file.real_time_factor
    )
}

/// A voice that is ready to speak.
struct Speaking<'a> {
    settings: &'a SynthesizeSettings,
    voice: &'a TrainedVoice,
    speakers: SpeakerStyles,
    synthesizer: Synthesizer<'a>,
}

/// A text as a wav file in memory.
struct SpokenWav {
    wav: Vec<u8>,
    speakers: Vec<String>,
    seconds: f64,
    model_time: Duration,
}

impl Speaking<'_> {
    /// A file for each line; a line that cannot be spoken costs a warning, unless all are so.
    fn write_lines(&mut self, folder: &Path, text: &str) -> anyhow::Result<Vec<SpokenFile>> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let mut written = Vec::new();
        let mut failed = None;
        for (number, line) in lines.enumerate() {
            let path = folder.join(format!("{:03}.wav", number + 1));
            match self.write(&path, line) {
                Ok(one) => written.push(one),
                Err(error) => {
                    warning!("line {}: {error}", number + 1);
                    failed.get_or_insert(error);
                }
            }
        }
        match failed {
            Some(error) if written.is_empty() => Err(error),
            _ => Ok(written),
        }
    }

    fn write(&mut self, path: &Path, text: &str) -> anyhow::Result<SpokenFile> {
        let begin = Instant::now();
        let spoken = self.speak(text)?;
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot make the folder `{}`", parent.display()))?;
        }
        std::fs::write(path, &spoken.wav).map_err(|error| {
            let what = format!("cannot write `{}`", path.display());
            let hint = "give a file that can be written with --output";
            UserError::new(what, hint).because(error)
        })?;
        let took_seconds = begin.elapsed().as_secs_f64();
        Ok(SpokenFile {
            path: path.to_owned(),
            speakers: spoken.speakers,
            seconds: spoken.seconds,
            took_seconds,
            model_seconds: spoken.model_time.as_secs_f64(),
            real_time_factor: took_seconds / spoken.seconds,
        })
    }

    fn speak(&mut self, text: &str) -> anyhow::Result<SpokenWav> {
        let facts = self.voice.facts();
        let reading = (self.synthesizer).read(self.voice, text, self.settings.language)?;
        let Reading {
            sentences,
            unread,
            problems,
        } = &reading;
        if !unread.is_empty() {
            let signs: Vec<_> = unread.iter().map(|sign| format!("`{sign}`")).collect();
            warning!("not read: {}", signs.join(" "));
        }
        for problem in problems {
            warning!("{problem}");
        }
        if let Some(warning) = check_languages(&reading, &facts.languages, self.settings.force)? {
            warning!("{warning}");
        }
        let mut progress = SentenceProgress::new(sentences.len());
        let (speakers, rate) = (&self.speakers, self.settings.speaking_rate);
        let mut names: Vec<String> = Vec::new();
        for sentence in sentences {
            let name = &speakers.of(sentence.language).name;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let style = |language| &*speakers.of(language).style;
        let speech = self
            .synthesizer
            .speak(self.voice, sentences, style, rate, || progress.sentence())?;
        progress.finish();
        if speech.samples.is_empty() {
            let what = format!("nothing in `{}` can be read aloud", text.trim());
            let hint = "give words in English or Persian letters";
            return Err(UserError::new(what, hint).into());
        }
        let rate = facts.audio.sample_rate;
        Ok(SpokenWav {
            wav: wav_bytes(&speech.samples, rate),
            speakers: names,
            seconds: speech.samples.len() as f64 / f64::from(rate),
            model_time: speech.model_time,
        })
    }
}
