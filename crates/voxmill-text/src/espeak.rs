//! Phones from an installed `espeak-ng`, for those who choose it.
//!
//! It is called as a separate program and never linked (its licence is the GPL). One process
//! serves one text and costs 10 to 20 ms, so 13,100 clips take a minute or two on two cores, once:
//! the result is in the cache. English does not come here: it has its dictionary, and a model
//! should not meet two alphabets of phones in one language.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::symbols::SymbolIds;
use crate::language::Language;

/// Longer clauses are broken by espeak-ng at places of its own choosing; we break them at a space.
const CLAUSE_BYTES: usize = 320;

/// A text takes milliseconds; a program that has said nothing for this long never will.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);

/// How often a running program is asked whether it has ended: little compared with its 10 to 20 ms.
const POLL: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Espeak {
    program: PathBuf,
    pub(super) version: String,
    limit: Duration,
}

/// Why espeak-ng gave no pronunciation.
#[derive(Debug, thiserror::Error)]
pub enum EspeakError {
    #[error(
        "cannot run `{}`: install espeak-ng or leave espeak off",
        program.display()
    )]
    Start {
        program: PathBuf,
        #[source]
        cause: std::io::Error,
    },
    #[error("cannot keep espeak-ng's text or answer in a temporary file")]
    Scratch(#[source] std::io::Error),
    #[error("`{}` does not answer like espeak-ng: {answer}", program.display())]
    Foreign { program: PathBuf, answer: String },
    #[error("espeak-ng failed for language `{language}`: {message}")]
    Failed { language: Language, message: String },
    #[error("espeak-ng needs the text's language, which was neither given nor found")]
    NoLanguage,
}

impl Espeak {
    /// Asks the program for its version, which proves that it is there.
    pub(super) fn find(program: &Path) -> Result<Espeak, EspeakError> {
        let foreign = |answer: String| EspeakError::Foreign {
            program: program.to_owned(),
            answer,
        };
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null());
        let answer = run(&mut command, LONGEST_ANSWER)?;
        let answer = answer.ok_or_else(|| foreign("no answer".to_owned()))?;
        let line = answer.output.lines().next().unwrap_or_default().trim();
        if !answer.status.success() || !line.to_lowercase().contains("espeak") {
            return Err(foreign(answer.status_unless(line)));
        }
        // What follows names a folder of the machine, which says nothing about the sounds.
        let version = line.split("Data at").next().unwrap_or(line).trim();
        Ok(Espeak {
            program: program.to_owned(),
            version: version.to_owned(),
            limit: LONGEST_ANSWER,
        })
    }

    /// The IPA of each clause. Clauses hold no line breaks and are not empty.
    pub(super) fn ipa<S: AsRef<str>>(
        &self,
        language: Language,
        clauses: &[S],
    ) -> Result<Vec<String>, EspeakError> {
        if language == Language::UNDETERMINED {
            return Err(EspeakError::NoLanguage);
        }
        let clauses = clauses.iter().map(S::as_ref);
        let pieces: Vec<Vec<&str>> = clauses.clone().map(break_up).collect();
        let output = self.speak(language, &pieces.concat().join("\n"))?;
        let lines: Vec<&str> = output.lines().collect();
        if lines.len() == pieces.iter().map(Vec::len).sum::<usize>() {
            let mut lines = lines.into_iter();
            let next = |pieces: Vec<&str>| join(lines.by_ref().take(pieces.len()));
            return Ok(pieces.into_iter().map(next).collect());
        }
        // It saw more or fewer clauses than we did: ask for each alone, so that none can move.
        let alone = |clause: &str| Ok(join(self.speak(language, clause)?.lines()));
        clauses.map(alone).collect()
    }

    fn speak(&self, language: Language, text: &str) -> Result<String, EspeakError> {
        let failed = |message| EspeakError::Failed { language, message };
        let mut command = Command::new(&self.program);
        command
            .args(["-q", "--ipa", "-b", "1", "-v", language.code()])
            .stdin(written(text).map_err(EspeakError::Scratch)?);
        let Some(answer) = run(&mut command, self.limit)? else {
            let seconds = self.limit.as_secs();
            return Err(failed(format!("no answer in {seconds} seconds")));
        };
        if !answer.status.success() {
            return Err(failed(answer.status_unless(answer.errors.trim())));
        }
        Ok(answer.output)
    }
}

/// What a program left behind.
struct Answer {
    status: ExitStatus,
    output: String,
    errors: String,
}

impl Answer {
    /// What it printed, or how it ended if it printed nothing.
    fn status_unless(&self, printed: &str) -> String {
        match printed {
            "" => self.status.to_string(),
            printed => printed.to_owned(),
        }
    }
}

/// Runs a program to its end; `None` if that did not come within `limit`.
///
/// Its answer goes to files, not pipes: a pipe that nobody empties would stop it, and one that a
/// child of its own keeps open would stop us.
fn run(command: &mut Command, limit: Duration) -> Result<Option<Answer>, EspeakError> {
    let file = || tempfile::tempfile().map_err(EspeakError::Scratch);
    let (output, errors) = (file()?, file()?);
    let copy = |file: &File| file.try_clone().map_err(EspeakError::Scratch);
    command.stdout(copy(&output)?).stderr(copy(&errors)?);
    let program = PathBuf::from(command.get_program());
    let start = |cause| EspeakError::Start {
        program: program.clone(),
        cause,
    };
    let mut child = command.spawn().map_err(start)?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(start)? {
            break status;
        }
        if begun.elapsed() >= limit {
            // It may have ended just now; either way it is over, and nobody waits for its answer.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(None);
        }
        std::thread::sleep(POLL);
    };
    Ok(Some(Answer {
        status,
        output: read_back(output).map_err(EspeakError::Scratch)?,
        errors: read_back(errors).map_err(EspeakError::Scratch)?,
    }))
}

/// A file holding `text` and a line's end, ready to be read.
fn written(text: &str) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.rewind()?;
    Ok(file)
}

fn read_back(mut file: File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn join<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

fn break_up(clause: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = clause.trim();
    while rest.len() > CLAUSE_BYTES {
        let limit = rest.floor_char_boundary(CLAUSE_BYTES);
        let space = rest[..limit].rfind(' ').filter(|&at| at > 0);
        let at = space.unwrap_or(limit);
        pieces.push(rest[..at].trim());
        rest = rest[at..].trim();
    }
    pieces.push(rest);
    pieces
}

/// One sound of espeak-ng's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EspeakSound {
    Id(u16),
    Space,
    Unknown(char),
}

/// Reads IPA as espeak-ng writes it: stress goes into the next vowel, length into the letter
/// before it, and marks like `(en)` where it changes its voice are skipped.
pub(super) fn read_ipa(ipa: &str, ids: &SymbolIds, mut take: impl FnMut(EspeakSound)) {
    let mut stress = "";
    let mut sound = String::new();
    let mut rest = ipa;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = after;
        match c {
            'ˈ' => stress = "ˈ",
            'ˌ' => stress = "ˌ",
            // Where words are drawn together: no sound of its own.
            '-' | '‿' => {}
            '(' => match after.split_once(')') {
                Some((voice, after)) if is_voice(voice) => rest = after,
                _ => take(EspeakSound::Unknown(c)),
            },
            _ if c.is_whitespace() => take(EspeakSound::Space),
            _ => {
                let c = if c == 'g' { 'ɡ' } else { c };
                let marks_end = after
                    .find(|m| !unicode_normalization::char::is_combining_mark(m))
                    .unwrap_or(after.len());
                let (marks, after) = after.split_at(marks_end);
                let long = after.strip_prefix('ː');
                rest = long.unwrap_or(after);
                let length = if long.is_some() { "ː" } else { "" };
                let mut look_up = |stress: &str| {
                    sound.clear();
                    sound.extend([stress]);
                    sound.push(c);
                    sound.push_str(length);
                    ids.ipa(&sound)
                };
                match look_up(stress) {
                    Some(id) => {
                        stress = "";
                        take(EspeakSound::Id(id));
                    }
                    None => take(look_up("").map_or(EspeakSound::Unknown(c), EspeakSound::Id)),
                }
                for mark in marks.chars() {
                    let id = ids.ipa(mark.encode_utf8(&mut [0; 4]));
                    take(id.map_or(EspeakSound::Unknown(mark), EspeakSound::Id));
                }
            }
        }
    }
}

fn is_voice(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 12
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// A script in the place of espeak-ng, so that tests need no espeak-ng.
#[cfg(all(test, unix))]
pub(super) mod stand_in {
    use std::path::PathBuf;
    use std::process::Command;

    /// How a script answers `--version`.
    pub(crate) const VERSION: &str =
        r#"[ "$1" = --version ] && echo "eSpeak NG text-to-speech: 9.9  Data at: /x" && exit"#;

    /// Another process writes the script: had this one opened it, a test forking at that moment
    /// would inherit the open file, and a file open for writing cannot be run.
    pub(crate) fn stand_in(script: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a test can write");
        let path = folder.path().join("espeak-ng");
        let status = Command::new("sh")
            .args([
                "-c",
                r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod +x "$2""#,
            ])
            .args(["sh", script])
            .arg(&path)
            .status()
            .expect("every Unix has sh");
        assert!(status.success());
        (folder, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::SymbolTable;

    fn sounds(ipa: &str) -> String {
        let (table, mut names) = (SymbolTable::built_in(), Vec::new());
        read_ipa(ipa, &SymbolIds::built_in(), |sound| {
            names.push(match sound {
                EspeakSound::Id(id) => table.symbol(id).unwrap().to_owned(),
                EspeakSound::Space => "_".to_owned(),
                EspeakSound::Unknown(c) => format!("?{c}"),
            });
        });
        names.join(" ")
    }

    #[test]
    fn stress_and_length_go_into_the_vowel() {
        assert_eq!(sounds("xˈuːb ast"), "/x/ /ˈuː/ /b/ _ /a/ /s/ /t/");
        assert_eq!(sounds("ˈt-ʃeː"), "/t/ /ʃ/ /ˈeː/");
        assert_eq!(sounds("gɑ̃ː(en)ɪz(fa)"), "/ɡ/ /ɑː/ /\u{303}/ /ɪ/ /z/");
        assert_eq!(sounds("a(b c)漢"), "/a/ ?( /b/ _ /c/ ?) ?漢");
    }

    #[test]
    fn long_clauses_break_at_spaces_and_lose_nothing() {
        let clause = "یک دو سه چهار ".repeat(60);
        let pieces = break_up(&clause);
        assert!(pieces.len() > 1 && pieces.iter().all(|p| p.len() <= CLAUSE_BYTES));
        assert_eq!(pieces.join(" "), clause.trim());
        let solid = "ا".repeat(1000);
        assert_eq!(break_up(&solid).concat(), solid);
    }

    #[test]
    fn an_absent_program_is_an_error_with_a_hint() {
        let error = Espeak::find(Path::new("no-such-espeak")).unwrap_err();
        assert!(error.to_string().contains("install espeak-ng"), "{error}");
    }

    #[cfg(unix)]
    mod with_a_stand_in {
        use super::*;

        use super::super::stand_in::{VERSION, stand_in};

        /// espeak-ng that answers with a script, which lasts as long as its folder.
        fn answering(script: &str) -> (tempfile::TempDir, Espeak) {
            let (folder, path) = stand_in(&format!("{VERSION}\n{script}"));
            (folder, Espeak::find(&path).unwrap())
        }

        #[test]
        fn each_clause_has_its_own_answer_even_where_the_program_breaks_it_up() {
            for (script, expected) in [
                ("sed 's/^/a /'", ["a b", "a c d"]),
                ("tr ' ' '\\n'", ["b", "c d"]),
            ] {
                let (_folder, espeak) = answering(script);
                assert_eq!(espeak.version, "eSpeak NG text-to-speech: 9.9");
                let ipa = espeak.ipa(Language::Persian, &["b", "c d"]).unwrap();
                assert_eq!(ipa, expected, "{script}");
            }
        }

        #[test]
        fn a_program_that_hangs_is_ended() {
            let (_folder, mut espeak) = answering("exec sleep 600");
            espeak.limit = Duration::ZERO;
            let error = espeak.ipa(Language::Persian, &["b"]).unwrap_err();
            assert!(error.to_string().contains("no answer"), "{error}");
        }

        #[test]
        fn failure_and_foreign_programs_are_reported() {
            let (_folder, espeak) = answering("echo no voice >&2; exit 1");
            let error = espeak.ipa(Language::Persian, &["b"]).unwrap_err();
            assert!(error.to_string().contains("`fa`: no voice"), "{error}");
            let undetermined = espeak.ipa(Language::UNDETERMINED, &["b"]);
            assert!(matches!(undetermined, Err(EspeakError::NoLanguage)));
            let (_folder, path) = stand_in("echo hello");
            let foreign = Espeak::find(&path);
            assert!(matches!(foreign, Err(EspeakError::Foreign { .. })));
        }
    }
}
