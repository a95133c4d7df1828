//! Folders that other programs lay out: recognised, so that none of them is misread.
//!
//! Piper's rows are read as they are ([`is_piper`]), and Coqui's by their header row. What keeps its audio or its
//! texts in another place is refused by its name, with the commands that bring it into our layout.

use std::collections::HashSet;
use std::fs;
use std::io::BufRead;
use std::path::Path;

/// A layout that is known and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    CommonVoice,
    /// With the name of its audio folder, and what follows an id in the names there.
    Vctk {
        audio: &'static str,
        suffix: &'static str,
    },
    AudioFolder,
    TextPerClip,
}

impl Layout {
    /// By what is in a folder.
    pub(super) fn of(folder: &Path) -> Option<Layout> {
        let has = |name: &str| folder.join(name).exists();
        let mut lists = ["validated.tsv", "train.tsv"].iter();
        if has("clips") && lists.any(|list| has(list)) {
            return Some(Layout::CommonVoice);
        }
        if has("txt") && has("wav48_silence_trimmed") {
            let (audio, suffix) = ("wav48_silence_trimmed", "_mic1");
            return Some(Layout::Vctk { audio, suffix });
        }
        if has("txt") && has("wav48") {
            let (audio, suffix) = ("wav48", "");
            return Some(Layout::Vctk { audio, suffix });
        }
        if has("metadata.jsonl") {
            return Some(Layout::AudioFolder);
        }
        let texts = fs::read_dir(folder).ok()?.filter_map(Result::ok);
        let mut texts = texts.map(|entry| entry.path()).filter(|path| {
            let extension = path.extension();
            extension.is_some_and(|extension| extension == "txt")
        });
        let is_clip = |path: &Path| {
            let mut kinds = ["wav", "flac", "ogg", "mp3"].iter();
            kinds.any(|kind| path.with_extension(kind).is_file())
        };
        texts
            .any(|path| is_clip(&path))
            .then_some(Layout::TextPerClip)
    }

    /// By the first line of a manifest that is not separated by `|`.
    pub(super) fn of_first_line(line: &str) -> Option<Layout> {
        let mut fields = line.split(',').map(|field| field.trim().trim_matches('"'));
        fields
            .any(|field| field == "file_name")
            .then_some(Layout::AudioFolder)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::CommonVoice => "the layout of Common Voice (clips/ and tables of tabs)",
            Layout::Vctk { .. } => "the layout of VCTK (txt/ and audio by speaker)",
            Layout::AudioFolder => {
                "the layout of Hugging Face's audiofolder (file_name in its metadata)"
            }
            Layout::TextPerClip => "one text file for each audio file",
        }
    }

    /// Commands to run in the folder, or what to do where texts need a parser.
    pub(super) fn hint(self) -> String {
        match self {
            Layout::CommonVoice => "run in that folder: `awk -F'\\t' 'NR==1 {for (i=1; i<=NF; i++) c[$i]=i; \
                 print \"id|text|speaker\"; next} {gsub(/\\|/, \" \"); print $c[\"path\"] \"|\" $c[\"sentence\"] \
                 \"|\" $c[\"client_id\"]}' validated.tsv > metadata.csv && ln -s clips wavs`"
                .to_owned(),
            Layout::Vctk { audio, suffix } => format!(
                "run in that folder: `(echo 'id|text|speaker'; for t in txt/*/*.txt; do i=${{t#txt/}}; \
                 i=${{i%.txt}}; echo \"${{i}}{suffix}|$(tr '\\n|' '  ' < \"$t\")|${{i%%/*}}\"; done) > metadata.csv \
                 && ln -s {audio} wavs`"
            ),
            Layout::AudioFolder => AUDIO_FOLDER.to_owned(),
            Layout::TextPerClip => "run in that folder: `for t in *.txt; do echo \"${t%.txt}|$(tr '\\n|' '  ' < \
                 \"$t\")\"; done > metadata.csv && ln -s . wavs`"
                .to_owned(),
        }
    }
}

/// Its metadata may be JSON lines or a table with quotes, and the texts have one of several names. A table that ours takes
/// the name of is kept.
const AUDIO_FOLDER: &str = "run in that folder: `python3 -c \"import csv, json, os; j = 'metadata.jsonl'; \
     rows = [json.loads(x) for x in open(j)] if os.path.exists(j) else list(csv.DictReader(open('metadata.csv'))); \
     get = lambda r, *names: ' '.join(next((str(r[n]) for n in names if r.get(n)), '').replace('|', ' ').split()); \
     os.path.exists('metadata.csv') and os.rename('metadata.csv', 'audiofolder.csv'); \
     out = open('metadata.csv', 'w'); out.write('id|text|speaker\\n'); \
     out.writelines(os.path.splitext(r['file_name'])[0] + '|' + get(r, 'transcription', 'text', 'sentence', \
     'transcript') + '|' + get(r, 'speaker_id', 'speaker') + '\\n' for r in rows)\" && ln -s . wavs`";

/// Folders that others keep the audio in.
const AUDIO_FOLDERS: [&str; 5] = ["wav", "audio", "clips", "flac", "mp3"];

/// What to do where there is a manifest and no `wavs`.
pub(super) fn hint_for_missing_audio(folder: &Path) -> String {
    let named = AUDIO_FOLDERS.iter();
    match { named }.find(|name| folder.join(name).is_dir()) {
        Some(name) => format!("run in that folder: `ln -s {name} wavs`"),
        None => "put the audio into wavs/<id>.wav (or .flac, .ogg, .mp3)".to_owned(),
    }
}

/// Rows that are looked at; a speaker who is not among them is found later all the same.
const LOOKED_AT: usize = 1_000;
/// A longer line is no row of this layout.
const MOST_BYTES: u64 = 4 << 20;

/// Whether a manifest without a header is `id|speaker|text`, as Piper takes it for several speakers: the second
/// column has few different words, none of which is its row's text. Taken for LJSpeech's order, the text would be
/// right and the speakers lost.
pub(super) fn is_piper(reader: impl BufRead) -> bool {
    let (mut rows, mut speakers, mut sentences) = (0, HashSet::new(), false);
    for line in reader.take(MOST_BYTES).split(b'\n').take(LOOKED_AT) {
        let Ok(Ok(line)) = line.map(String::from_utf8) else {
            continue;
        };
        if line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, speaker, text] = fields[..] else {
            return false;
        };
        let is_name = !speaker.is_empty()
            && speaker.len() <= 64
            && !speaker.contains(|c: char| c.is_whitespace() || ".,;:!?".contains(c));
        if !is_name || text.is_empty() || text.eq_ignore_ascii_case(speaker) {
            return false;
        }
        sentences |= text.contains(' ');
        speakers.insert(speaker.to_owned());
        rows += 1;
    }
    sentences && rows >= 4 && 2 * speakers.len() <= rows
}

#[cfg(test)]
mod tests;
