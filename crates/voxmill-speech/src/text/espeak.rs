//! Phones from an installed `espeak-ng`, for those who choose it.
//!
//! It is called as a separate program and never linked (its licence is the GPL). One process
//! serves one text and costs 10 to 20 ms, so 13,100 clips take a minute or two on two cores, once:
//! the result is in the cache. English does not come here: it has its dictionary, and a model
//! should not meet two alphabets of phones in one language.

use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::symbols::SymbolIds;
use crate::language::Language;

/// Longer clauses are broken by espeak-ng at places of its own choosing; we break them at a space.
const CLAUSE_BYTES: usize = 320;

#[derive(Debug)]
pub(super) struct Espeak {
    program: PathBuf,
    version: String,
}

#[derive(Debug, thiserror::Error)]
pub enum EspeakError {
    #[error(
        "cannot run `{}`: install espeak-ng, give the program's path, or leave espeak off",
        program.display()
    )]
    Start {
        program: PathBuf,
        #[source]
        cause: std::io::Error,
    },
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
        let start = |cause| EspeakError::Start {
            program: program.to_owned(),
            cause,
        };
        let output = Command::new(program)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(start)?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let answer = answer.lines().next().unwrap_or_default().trim();
        if !output.status.success() || !answer.to_lowercase().contains("espeak") {
            return Err(EspeakError::Foreign {
                program: program.to_owned(),
                answer: if answer.is_empty() {
                    output.status.to_string()
                } else {
                    answer.to_owned()
                },
            });
        }
        // What follows names a folder of the machine, which says nothing about the sounds.
        let version = answer.split("Data at").next().unwrap_or(answer).trim();
        Ok(Espeak {
            program: program.to_owned(),
            version: version.to_owned(),
        })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The IPA of each clause. Clauses hold no line breaks and are not empty.
    pub(super) fn ipa(
        &self,
        language: Language,
        clauses: &[&str],
    ) -> Result<Vec<String>, EspeakError> {
        if language == Language::UNDETERMINED {
            return Err(EspeakError::NoLanguage);
        }
        let pieces: Vec<Vec<&str>> = clauses.iter().map(|clause| break_up(clause)).collect();
        let output = self.speak(language, &pieces.concat().join("\n"))?;
        let lines: Vec<&str> = output.lines().collect();
        if lines.len() == pieces.iter().map(Vec::len).sum::<usize>() {
            let mut lines = lines.into_iter();
            let next = |pieces: Vec<&str>| join(lines.by_ref().take(pieces.len()));
            return Ok(pieces.into_iter().map(next).collect());
        }
        // It saw more or fewer clauses than we did: ask for each alone, so that none can move.
        let alone = |clause: &&str| Ok(join(self.speak(language, clause)?.lines()));
        clauses.iter().map(alone).collect()
    }

    fn speak(&self, language: Language, text: &str) -> Result<String, EspeakError> {
        let start = |cause| EspeakError::Start {
            program: self.program.clone(),
            cause,
        };
        let Output {
            status,
            stdout,
            stderr,
        } = self.run(language, text).map_err(start)?;
        if !status.success() {
            let message = String::from_utf8_lossy(&stderr).trim().to_owned();
            return Err(EspeakError::Failed {
                language,
                message: if message.is_empty() {
                    status.to_string()
                } else {
                    message
                },
            });
        }
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }

    fn run(&self, language: Language, text: &str) -> std::io::Result<Output> {
        // A file, not a pipe: a long text would fill a pipe while its answer fills the other.
        let mut input = tempfile::tempfile()?;
        input.write_all(text.as_bytes())?;
        input.write_all(b"\n")?;
        input.rewind()?;
        Command::new(&self.program)
            .args(["-q", "--ipa", "-b", "1", "-v", language.code()])
            .stdin(Stdio::from(input))
            .output()
    }
}

fn join<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

fn break_up(clause: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = clause.trim();
    while rest.len() > CLAUSE_BYTES {
        let mut limit = CLAUSE_BYTES;
        while !rest.is_char_boundary(limit) {
            limit -= 1;
        }
        let at = rest[..limit]
            .rfind(' ')
            .filter(|&at| at > 0)
            .unwrap_or(limit);
        pieces.push(rest[..at].trim());
        rest = rest[at..].trim();
    }
    pieces.push(rest);
    pieces
}

/// One sound of espeak-ng's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sound {
    Id(u16),
    Space,
    Unknown(char),
}

/// Reads IPA as espeak-ng writes it: stress goes into the next vowel, length into the letter
/// before it, and marks like `(en)` where it changes its voice are passed over.
pub(super) fn read_ipa(ipa: &str, ids: &SymbolIds, mut take: impl FnMut(Sound)) {
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
                _ => take(Sound::Unknown(c)),
            },
            _ if c.is_whitespace() => take(Sound::Space),
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
                        take(Sound::Id(id));
                    }
                    None => take(look_up("").map_or(Sound::Unknown(c), Sound::Id)),
                }
                for mark in marks.chars() {
                    let id = ids.ipa(mark.encode_utf8(&mut [0; 4]));
                    take(id.map_or(Sound::Unknown(mark), Sound::Id));
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
    pub(in crate::text) const VERSION: &str =
        r#"[ "$1" = --version ] && echo "eSpeak NG text-to-speech: 9.9  Data at: /x" && exit"#;

    /// Another process writes the script: had this one opened it, a test forking at that moment
    /// would inherit the open file, and a file open for writing cannot be run.
    pub(in crate::text) fn stand_in(script: &str) -> (tempfile::TempDir, PathBuf) {
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
    use crate::text::symbols::SymbolTable;

    fn sounds(ipa: &str) -> String {
        let (table, mut names) = (SymbolTable::built_in(), Vec::new());
        read_ipa(ipa, &SymbolIds::built_in(), |sound| {
            names.push(match sound {
                Sound::Id(id) => table.symbol(id).unwrap().to_owned(),
                Sound::Space => "_".to_owned(),
                Sound::Unknown(c) => format!("?{c}"),
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

        #[test]
        fn each_clause_gets_its_own_line() {
            let (_folder, path) = stand_in(&format!("{VERSION}\nsed 's/^/a /'"));
            let espeak = Espeak::find(&path).unwrap();
            assert_eq!(espeak.version(), "eSpeak NG text-to-speech: 9.9");
            let ipa = espeak.ipa(Language::Persian, &["b", "c d"]).unwrap();
            assert_eq!(ipa, ["a b", "a c d"]);
        }

        #[test]
        fn clauses_stay_apart_when_the_program_breaks_them_up() {
            let (_folder, path) = stand_in(&format!("{VERSION}\ntr ' ' '\\n'"));
            let espeak = Espeak::find(&path).unwrap();
            let ipa = espeak.ipa(Language::Persian, &["b", "c d"]).unwrap();
            assert_eq!(ipa, ["b", "c d"]);
        }

        #[test]
        fn failure_and_foreign_programs_are_told() {
            let (_folder, path) = stand_in(&format!("{VERSION}\necho no voice >&2; exit 1"));
            let espeak = Espeak::find(&path).unwrap();
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
