//! `--play`: a program of this machine that plays wav files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use voxmill_settings::error::UserError;

/// In the order in which they are looked for, with what keeps them quiet.
const PLAYERS: [(&str, &[&str]); 6] = [
    ("pw-play", &[]),
    ("paplay", &[]),
    ("aplay", &["-q"]),
    ("afplay", &[]),
    ("play", &["-q"]),
    ("ffplay", &["-nodisp", "-autoexit", "-loglevel", "error"]),
];

#[derive(Debug)]
pub(super) struct Player {
    program: PathBuf,
    args: &'static [&'static str],
}

impl Player {
    /// Looked for before anything is spoken: without one the flag cannot do what it says.
    pub(super) fn find() -> Result<Player, UserError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let found = PLAYERS.iter().find_map(|&(name, args)| {
            let mut programs = folders.iter().map(|folder| folder.join(name));
            let program = programs.find(|program| program.is_file())?;
            Some(Player { program, args })
        });
        found.ok_or_else(|| {
            let names: Vec<_> = PLAYERS.iter().map(|(name, _)| *name).collect();
            let what = format!("--play finds no player: none of {}", names.join(", "));
            let hint = "install one of them, or leave --play out and play the file yourself";
            UserError::new(what, hint)
        })
    }

    /// Until the end of the file.
    pub(super) fn play(&self, file: &Path) -> anyhow::Result<()> {
        let name = self.program.display();
        // A file's name may begin with a hyphen.
        let file = std::path::absolute(file).context("cannot find the working folder")?;
        let mut command = Command::new(&self.program);
        command.args(self.args).arg(&file).stdin(Stdio::null());
        // Standard output has the results.
        let played = command.stdout(Stdio::null()).status();
        let refused = |why: String| {
            let what = format!("`{name}` does not play `{}`: {why}", file.display());
            let hint = "the file is written; play it with another program";
            UserError::new(what, hint)
        };
        let status = played.map_err(|error| refused(error.to_string()))?;
        match status.success() {
            true => Ok(()),
            false => Err(refused(status.to_string()).into()),
        }
    }
}
