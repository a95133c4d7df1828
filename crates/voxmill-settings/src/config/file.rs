//! Reads the YAML file into checked entries, each with its place, and finds everything wrong at once.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use saphyr::{MarkedYaml, ScalarStyle, YamlData};
use saphyr_parser::Marker;

use voxmill_untrusted::file::read_text;
use voxmill_untrusted::shown::unbroken;

use super::bounds;
use super::edit::Edit;
use super::keys::{self, Key, Role, Section};
use super::value::{FromValue, Kind, Value};
use crate::error::UserError;

/// With every key and a page of comments a file has 20 kB.
const MOST_BYTES: u64 = 1_000_000;

/// Problems that are described; more are counted. Each costs a search for the name that was meant, and
/// nobody reads on.
const MOST_DESCRIBED: usize = 100;

/// Characters of a name or a line that are repeated in a message.
const MOST_SHOWN: usize = 300;

/// A configuration file whose every key is known and whose every value is in range.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile {
    entries: HashMap<&'static str, FileEntry>,
    /// Keys that were given and have no effect, in file order, for one line to the person.
    pub without_meaning: Vec<&'static Key>,
}

#[derive(Clone, Debug)]
struct FileEntry {
    value: Value,
    place: Place,
}

/// Where something stands in the file; lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: PathBuf,
    pub line: usize,
    pub column: usize,
}

impl ConfigFile {
    /// Reads and checks a whole file.
    pub fn read(path: &Path) -> anyhow::Result<ConfigFile> {
        Self::parse(&Self::text_of(path)?, path)
    }

    /// A pipe can be read once, and a start looks into its file several times: its text is kept.
    pub fn text_of(path: &Path) -> anyhow::Result<String> {
        static PIPES: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
        let is_pipe = path.metadata().is_ok_and(|found| !found.is_file());
        let mut pipes = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = pipes.get(path).filter(|_| is_pipe) {
            return Ok(text.clone());
        }
        let text = read_text(path, MOST_BYTES).map_err(|error| {
            let what = format!("cannot read the configuration file `{}`", path.display());
            let hint = "give the path of a YAML file to --config, or leave the flag out";
            UserError::new(what, hint).because(error)
        })?;
        if is_pipe {
            pipes.insert(path.to_owned(), text.clone());
        }
        Ok(text)
    }

    fn parse(text: &str, path: &Path) -> anyhow::Result<ConfigFile> {
        let (config, faults) = Self::examine(text, path);
        match config {
            Some(config) if faults.is_empty() => Ok(config),
            _ => Err(to_error(faults, text, path)),
        }
    }

    /// What is good in a text, and all that is wrong with it. `None`: it is no YAML.
    pub fn examine(text: &str, path: &Path) -> (Option<ConfigFile>, FileProblems) {
        let documents = match bounds::load(text) {
            Ok(documents) => documents,
            Err(fault) => return (None, FileProblems::of(fault)),
        };
        let mut reader = FileReader {
            path,
            config: ConfigFile::default(),
            faults: FileProblems::default(),
        };
        for document in &documents {
            reader.document(document);
        }
        (Some(reader.config), reader.faults)
    }

    /// Where a key stands.
    pub fn place(&self, key: &Key) -> Option<&Place> {
        self.entries.get(key.name).map(|entry| &entry.place)
    }

    /// A value as it was read, for comparing.
    pub fn value(&self, key: &Key) -> Option<&Value> {
        self.entries.get(key.name).map(|entry| &entry.value)
    }

    /// A value with its place.
    pub fn get<T: FromValue>(&self, key: &Key) -> Option<(T, Place)> {
        let entry = self.entries.get(key.name)?;
        let value = T::from_value(entry.value.clone())?;
        Some((value, entry.place.clone()))
    }
}

/// One thing wrong in the file.
#[derive(Clone, Debug)]
pub struct FileProblem {
    pub line: usize,
    pub column: usize,
    width: usize,
    pub what: String,
    pub hint: String,
    /// What can be done about it without asking.
    pub fix: Option<Edit>,
}

/// All that is wrong in the file.
#[derive(Clone, Debug, Default)]
pub struct FileProblems {
    /// The first of them.
    pub described: Vec<FileProblem>,
    /// As many again are not described.
    pub more: usize,
}

impl FileProblems {
    pub(super) fn of(fault: FileProblem) -> FileProblems {
        FileProblems {
            described: vec![fault],
            more: 0,
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many there are, described or not.
    pub fn count(&self) -> usize {
        self.described.len() + self.more
    }

    fn add(&mut self, fault: impl FnOnce() -> FileProblem) {
        match self.described.len() < MOST_DESCRIBED {
            true => self.described.push(fault()),
            false => self.more += 1,
        }
    }
}

impl FileProblem {
    fn fixed_by(mut self, fix: Edit) -> FileProblem {
        self.fix = Some(fix);
        self
    }

    pub(super) fn at(marker: Marker, width: usize, what: String, hint: String) -> FileProblem {
        FileProblem {
            line: marker.line(),
            column: marker.col() + 1,
            width,
            what,
            hint,
            fix: None,
        }
    }
}

struct FileReader<'a> {
    path: &'a Path,
    config: ConfigFile,
    faults: FileProblems,
}

impl FileReader<'_> {
    fn document(&mut self, document: &MarkedYaml) {
        let sections = match &document.data {
            YamlData::Mapping(sections) => sections,
            data if is_null(data) => return,
            _ => {
                let what = "the file must hold the sections `data:`, `model:` and `training:`";
                let hint = "write `data:` on a line of its own, then `  batch_size: 16`";
                let at = document.span.start;
                self.faults
                    .add(|| FileProblem::at(at, 1, what.into(), hint.into()));
                return;
            }
        };
        for (name_node, body) in sections {
            let name = scalar_text(name_node).unwrap_or_default();
            let at = name_node.span.start;
            let section = Section::OF_A_FILE.into_iter().find(|s| s.name() == name);
            let Some(section) = section else {
                self.faults.add(|| unknown_section(name, at));
                continue;
            };
            match &body.data {
                YamlData::Mapping(entries) => {
                    for (key_node, value_node) in entries {
                        self.entry(section, key_node, value_node);
                    }
                }
                data if is_null(data) => {}
                _ => {
                    let found = found(&body.data);
                    let what = format!("`{name}:` must hold keys, but found {found}");
                    let hint = format!(
                        "write `{name}:` on a line of its own and indent its keys below it"
                    );
                    let at = body.span.start;
                    self.faults.add(|| FileProblem::at(at, 1, what, hint));
                }
            }
        }
    }

    fn entry(&mut self, section: Section, key_node: &MarkedYaml, value_node: &MarkedYaml) {
        let name = scalar_text(key_node).unwrap_or_default();
        let at = key_node.span.start;
        let Some(mut key) = keys::find(section, name) else {
            self.faults.add(|| unknown_key(section, name, at));
            return;
        };
        if is_null(&value_node.data) {
            // `key:` with nothing, or `null`: as if it were not there.
            return;
        }
        match self.value(key, value_node) {
            Err(fault) => {
                let line = at.line();
                self.faults
                    .add(|| fault.fixed_by(Edit::CommentOut { line }));
            }
            Ok(value) => {
                let place = Place {
                    file: self.path.to_owned(),
                    line: at.line(),
                    column: at.col() + 1,
                };
                match key.role {
                    Role::NoMeaning(_) => self.config.without_meaning.push(key),
                    Role::Alias(target) => {
                        if let Some(target) = keys::find(section, target) {
                            key = target;
                        }
                    }
                    Role::Acts => {}
                }
                if let Some(earlier) = self
                    .config
                    .entries
                    .insert(key.name, FileEntry { value, place })
                {
                    let what = format!(
                        "`{name}` sets `{}`, which line {} has set already",
                        key.name, earlier.place.line
                    );
                    let hint = "keep one of the two".into();
                    let fault = FileProblem::at(at, name.chars().count(), what, hint);
                    let line = at.line();
                    self.faults
                        .add(|| fault.fixed_by(Edit::CommentOut { line }));
                }
            }
        }
    }

    fn value(&self, key: &Key, node: &MarkedYaml) -> Result<Value, FileProblem> {
        let expected = key.kind.expects();
        let fault = |width: usize, what: String| {
            let what = format!("`{}`: {what}", key.name);
            let hint = format!("write {expected}, or leave the key out for the default");
            FileProblem::at(node.span.start, width, what, hint)
        };
        let wrong_type =
            |width: usize, found: &str| fault(width, format!("expected {expected}, found {found}"));
        let YamlData::Representation(text, style, _) = &node.data else {
            return Err(wrong_type(1, found(&node.data)));
        };
        let width = text.chars().count();
        let quoted = *style != ScalarStyle::Plain;
        let bare = matches!(
            key.kind,
            Kind::Whole { .. } | Kind::Number { .. } | Kind::Switch
        );
        if quoted && bare {
            return Err(wrong_type(width + 2, "a quoted text"));
        }
        key.kind.parse(text).map_err(|what| fault(width, what))
    }
}

fn unknown_section(name: &str, at: Marker) -> FileProblem {
    let hint = match keys::nearest(Section::Data, brief(name)) {
        Some(key) if key.name == name => {
            format!("`{name}` belongs under `{}:`", key.section.name())
        }
        _ => "the sections are `data:`, `model:` and `training:`".into(),
    };
    let what = format!("unknown section `{}`", brief(name));
    FileProblem::at(at, name.chars().count(), what, hint)
}

fn unknown_key(section: Section, name: &str, at: Marker) -> FileProblem {
    let line = at.line();
    let nearest = keys::nearest(section, brief(name));
    let (under, comment_out) = (section.name(), Edit::CommentOut { line });
    let (fix, hint) = match nearest.map(|key| (key.name, key.section)) {
        Some((to, of)) if of == section => {
            (Edit::Rename { line, to }, format!("did you mean `{to}`?"))
        }
        Some((other, of)) => {
            let hint = format!("did you mean `{other}` under `{}:`?", of.name());
            (comment_out, hint)
        }
        None => {
            let hint = "`voxmill train --show-settings` lists the keys";
            (comment_out, format!("{hint} under `{under}:`"))
        }
    };
    let what = format!("unknown key `{}` under `{under}:`", brief(name));
    FileProblem::at(at, name.chars().count(), what, hint).fixed_by(fix)
}

/// As much of a name as a message repeats.
pub(super) fn brief(name: &str) -> &str {
    let end = name.char_indices().nth(MOST_SHOWN);
    end.map_or(name, |(end, _)| &name[..end])
}

pub(super) fn scalar_text<'a>(node: &'a MarkedYaml) -> Option<&'a str> {
    match &node.data {
        YamlData::Representation(text, ..) => Some(text),
        _ => None,
    }
}

fn is_null<'a>(data: &YamlData<'a, MarkedYaml<'a>>) -> bool {
    matches!(data, YamlData::Representation(text, ScalarStyle::Plain, _) if matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL"))
}

pub(super) fn found<'a>(data: &YamlData<'a, MarkedYaml<'a>>) -> &'static str {
    match data {
        YamlData::Sequence(_) => "a list",
        YamlData::Mapping(_) => "a group of keys",
        YamlData::Representation(..) => "a single value",
        _ => "something else",
    }
}

/// All faults as one error, each with its line of the file and a mark under the place.
pub(super) fn to_error(faults: FileProblems, text: &str, path: &Path) -> anyhow::Error {
    let lines: Vec<&str> = text.lines().collect();
    let mut message = String::new();
    let last = faults.described.len() - 1;
    let mut hint = String::new();
    let path = path.display().to_string();
    let path = unbroken(&path);
    for (i, fault) in faults.described.into_iter().enumerate() {
        let FileProblem { line, column, .. } = fault;
        let head = if i == 0 { "" } else { "error: " };
        let what = unbroken(&fault.what);
        let _ = write!(message, "{head}{what}\n  --> {path}:{line}:{column}");
        let source = lines.get(line - 1).copied().unwrap_or_default();
        if brief(source) == source {
            let gap = " ".repeat(line.to_string().len());
            let width = fault.width.clamp(1, MOST_SHOWN);
            let mark = " ".repeat(column - 1) + &"^".repeat(width);
            let _ = write!(message, "\n {gap} |\n {line} | {source}\n {gap} | {mark}");
        }
        if i < last {
            let _ = write!(message, "\n\nhint: {}\n\n", fault.hint);
        } else {
            hint = fault.hint;
        }
    }
    if faults.more > 0 {
        let _ = write!(message, "\n\nand {} problems more", faults.more);
    }
    anyhow::Error::new(UserError::new(message, hint).in_lines())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::describe;

    fn faults(text: &str) -> String {
        describe(&ConfigFile::parse(text, Path::new("config.yaml")).unwrap_err())
    }

    fn parsed(text: &str) -> ConfigFile {
        ConfigFile::parse(text, Path::new("c.yaml")).unwrap()
    }

    /// As the shell hands over `<(command)`. What is read a second time would be an empty file, and so the defaults.
    #[test]
    fn a_pipe_says_the_same_whenever_it_is_asked() {
        use std::io::Write as _;
        use std::os::fd::AsRawFd as _;
        let (end, mut begin) = std::io::pipe().unwrap();
        begin.write_all(b"model:\n  size: nano\n").unwrap();
        drop(begin);
        let path = PathBuf::from(format!("/dev/fd/{}", end.as_raw_fd()));
        for _ in 0..2 {
            let file = ConfigFile::read(&path).unwrap();
            assert!(file.value(&keys::SIZE).is_some());
        }
    }

    #[test]
    fn values_are_read_with_their_places() {
        let config = parsed("data:\n  batch_size: 24\ntraining:\n  learning_rate: 1e-4\n");
        let (batch, place) = config.get::<u32>(&keys::BATCH_SIZE).unwrap();
        assert_eq!((batch, place.line, place.column), (24, 2, 3));
        assert_eq!(config.get::<f64>(&keys::LEARNING_RATE).unwrap().0, 1e-4);
        for empty in ["", "data:\n  num_workers: null\n"] {
            assert!(parsed(empty).entries.is_empty(), "{empty}");
        }
    }

    #[test]
    fn an_alias_sets_the_key_it_stands_for() {
        let config = parsed("data:\n  pipeline_buffer_size: 40\n");
        assert_eq!(config.get::<u32>(&keys::BUFFER_SIZE).unwrap().0, 40);
        assert!(
            faults("data:\n  pipeline_buffer_size: 40\n  buffer_size: 50\n")
                .contains("line 2 has set already")
        );
    }

    #[test]
    fn keys_of_the_earlier_trainer_are_named_and_do_nothing() {
        let config = parsed("data:\n  enable_xla: true\n  pin_memory: false\n");
        let names: Vec<_> = config.without_meaning.iter().map(|key| key.name).collect();
        assert_eq!(names, ["enable_xla", "pin_memory"]);
    }

    #[test]
    fn what_a_person_sees_of_a_bad_file() {
        insta::assert_snapshot!(faults(
            "data:\n  batch_sise: 16\n  n_mels: many\n  hop_length: [256]\n  n_fft: \"1024\"\n  sample_rate: 4\nmodell:\n  size: tiny\nbatch_size: 3\ntraining: 5\n"
        ));
        insta::assert_snapshot!(faults("data:\n  batch_size: 16\n  batch_size: 17\n"));
        insta::assert_snapshot!(faults("data:\n\tbatch_size: 16\n"));
        insta::assert_snapshot!(faults("just words\n"));
    }
}
