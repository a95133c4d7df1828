//! What `synthesize` takes: a text, a voice, and where the speech goes.

use std::path::PathBuf;

use clap::Args;
use voxmill_speech::language::Language;

use super::{ConfigArgs, FrontEndArgs, of};
use crate::config::keys;

const AFTER_HELP: &str = "\
Examples:
  voxmill synthesize --text \"The river runs to the mill.\"      speech.wav, by the newest run's best
  voxmill synthesize --text-file story.txt --output story.wav  a whole text as one file
  voxmill synthesize --text-file lines.txt --output wavs/      a file for each line
  voxmill synthesize --checkpoint runs/a --reference-audio me.wav --text \"Hello.\"
  echo \"Hello there.\" | voxmill synthesize --output hello.wav

Exit: 0 spoken, 1 failed";

#[derive(Debug, Default, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SynthesizeArgs {
    /// The text to speak [default: standard input]
    #[arg(long, value_name = "TEXT", help_heading = "Text")]
    pub(crate) text: Option<String>,
    /// A file with the text to speak
    #[arg(long, value_name = "FILE", help_heading = "Text", value_parser = of::<PathBuf>(&keys::TEXT_FILE))]
    pub(crate) text_file: Option<PathBuf>,
    /// The language, such as en or fa [default: detected]
    #[arg(long, value_name = "CODE", help_heading = "Text", value_parser = of::<Language>(&keys::LANGUAGE))]
    pub(crate) language: Option<Language>,
    #[command(flatten)]
    pub(crate) front_end: FrontEndArgs,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
    #[command(flatten)]
    pub(crate) speech: SpeechArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Voice")]
pub(crate) struct VoiceArgs {
    /// A checkpoint or a run's folder, of which the best is taken [default: the newest run]
    #[arg(long, value_name = "FILE_OR_RUN", value_parser = of::<PathBuf>(&keys::CHECKPOINT))]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Where runs are kept [default: runs]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(&keys::RUNS_DIR))]
    pub(crate) runs_dir: Option<PathBuf>,
    /// Speak as in this recording
    #[arg(long, value_name = "FILE", value_parser = of::<PathBuf>(&keys::REFERENCE_AUDIO))]
    pub(crate) reference_audio: Option<PathBuf>,
    /// Speak as this speaker of the training data [default: the one with the most clips]
    #[arg(long, value_name = "NAME", value_parser = of::<String>(&keys::SPEAKER))]
    pub(crate) speaker: Option<String>,
    /// How fast to speak: 2 is twice as fast [default: 1.0]
    #[arg(long, value_name = "X", value_parser = of::<f64>(&keys::SPEAKING_RATE))]
    pub(crate) speaking_rate: Option<f64>,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct SpeechArgs {
    /// A wav file, or a folder (one that exists, or ends in /) for a file for each line [default: speech.wav]
    #[arg(long, value_name = "FILE_OR_DIR", value_parser = of::<PathBuf>(&keys::OUTPUT))]
    pub(crate) output: Option<PathBuf>,
    /// Rounds in which the waveform is found [default: 32]
    #[arg(long, value_name = "N", value_parser = of::<u32>(&keys::GRIFFIN_LIM_ITERATIONS))]
    pub(crate) griffin_lim_iterations: Option<u32>,
    /// Threads to compute with [default: one for each core]
    #[arg(long, value_name = "N", value_parser = of::<usize>(&keys::COMPUTE_THREADS))]
    pub(crate) compute_threads: Option<usize>,
    /// Print what was spoken as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, Parser};

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        synthesize: SynthesizeArgs,
    }

    #[test]
    fn the_command_line_is_well_formed_and_ranges_hold() {
        Alone::command().debug_assert();
        let help = Alone::command().render_help().to_string();
        assert!(help.contains("Examples:"), "{help}");
        let parse = |args: [&str; 2]| Alone::try_parse_from(["synthesize", args[0], args[1]]);
        let alone = parse(["--speaking-rate", "0.25"]).unwrap();
        assert_eq!(alone.synthesize.voice.speaking_rate, Some(0.25));
        let refused = parse(["--speaking-rate", "5"]).unwrap_err().to_string();
        assert!(refused.contains("a number from 0.25 to 4"), "{refused}");
    }
}
