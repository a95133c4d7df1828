//! Which field of a row is what: LJSpeech's order, or what a header row names.
//!
//! The first line is a header when two or more of its fields are names of different columns that
//! we know (case, spaces and hyphens aside). It may then order the columns as it likes, and must
//! name an id and a text (or normalized) column; columns with other names are ignored. No clip
//! worth training on reads `id|text`, and a header that we half know is an error rather than a row:
//! taken for LJSpeech's order, `id|utterance|speaker` would have speakers' names read aloud.

/// Each column's name, and others that it may have, in their normal form: lower case with underscores.
const NAMES: [(Column, &str, &str); 5] = [
    (
        Column::Id,
        "id",
        "clip clip_id file file_id file_name filename audio audio_file audio_path path wav name",
    ),
    (Column::Text, "text", "transcript transcription sentence"),
    (
        Column::Normalized,
        "normalized",
        "normalised normalized_text normalised_text normalized_transcript \
         normalized_transcription text_normalized",
    ),
    (Column::Speaker, "speaker", "speaker_id speaker_name"),
    (Column::Language, "language", "lang"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Id,
    Text,
    Normalized,
    Speaker,
    Language,
}

/// What each field of a row is; `None` is a column that we ignore.
#[derive(Debug)]
pub(super) struct Columns(Vec<Option<Column>>);

/// The fields of one row; absent ones are empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    pub(super) id: &'a str,
    pub(super) text: &'a str,
    pub(super) normalized: &'a str,
    pub(super) speaker: &'a str,
    pub(super) language: &'a str,
    /// How many fields the row has, not counting empty ones at its end.
    pub(super) count: usize,
}

impl Columns {
    /// The order without a header: `id|text|normalized`, the last one optional.
    pub(super) fn ljspeech() -> Columns {
        let columns = [Column::Id, Column::Text, Column::Normalized];
        Columns(columns.map(Some).into())
    }

    /// The order of Piper's rows for several speakers: `id|speaker|text`.
    pub(super) fn piper() -> Columns {
        let columns = [Column::Id, Column::Speaker, Column::Text];
        Columns(columns.map(Some).into())
    }

    /// Reads a manifest's first line. `None`: it is no header. `Err`: it is one, but unusable.
    pub(super) fn from_header(line: &str) -> Option<Result<Columns, String>> {
        let columns: Vec<_> = line.split('|').map(named).collect();
        let count_of = |wanted| columns.iter().filter(|c| **c == Some(wanted)).count();
        let known = NAMES.iter().filter(|(c, ..)| count_of(*c) > 0).count();
        if known < 2 {
            return None;
        }
        Some(
            if let Some((_, name, _)) = NAMES.iter().find(|(c, ..)| count_of(*c) > 1) {
                Err(format!("has more than one `{name}` column"))
            } else if count_of(Column::Id) == 0 {
                Err("has no `id` column".to_owned())
            } else if count_of(Column::Text) + count_of(Column::Normalized) == 0 {
                Err("has no `text` column".to_owned())
            } else {
                Ok(Columns(columns))
            },
        )
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Allocates nothing, so that a line of a million `|` costs no more than its bytes.
    pub(super) fn fields<'a>(&self, line: &'a str) -> Fields<'a> {
        let mut fields = Fields::default();
        for (index, field) in line.split('|').enumerate() {
            let field = field.trim();
            if !field.is_empty() {
                fields.count = index + 1;
            }
            match self.0.get(index).copied().flatten() {
                Some(Column::Id) => fields.id = field,
                Some(Column::Text) => fields.text = field,
                Some(Column::Normalized) => fields.normalized = field,
                Some(Column::Speaker) => fields.speaker = field,
                Some(Column::Language) => fields.language = field,
                None => {}
            }
        }
        fields
    }

    /// The id field of a row that is not UTF-8, as far as it can be shown.
    pub(super) fn id_of_bytes<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        let index = self.0.iter().position(|c| *c == Some(Column::Id));
        let mut fields = line.split(|&byte| byte == b'|');
        let id = index.and_then(|index| fields.nth(index));
        id.unwrap_or_default()
    }
}

fn named(field: &str) -> Option<Column> {
    // A text of 4 MB is no column name: do not copy it to find out.
    if field.len() > 64 {
        return None;
    }
    let name = field.trim().to_lowercase().replace([' ', '-'], "_");
    let is_named = |(_, first, others): &&(Column, &str, &str)| {
        *first == name || others.split(' ').any(|other| other == name)
    };
    NAMES.iter().find(is_named).map(|(column, ..)| *column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_may_order_its_columns_as_it_likes() {
        let columns = Columns::from_header("Speaker Name|audio_file|emotion|TEXT|lang");
        let columns = columns.unwrap().unwrap();
        let expected = Fields {
            id: "wavs/a.wav",
            text: "Hello.",
            normalized: "",
            speaker: "ann",
            language: "en",
            count: 5,
        };
        assert_eq!(columns.fields("ann| wavs/a.wav |happy|Hello.|en"), expected);
    }

    #[test]
    fn a_row_is_not_taken_for_a_header() {
        for row in ["LJ001-0001|text", "id|Hello.", "\"id\"|\"text\"", "id", ""] {
            assert!(Columns::from_header(row).is_none(), "{row}");
        }
    }

    #[test]
    fn a_header_that_is_half_known_is_refused_instead_of_guessed() {
        let problem = |line| Columns::from_header(line).unwrap().unwrap_err();
        assert!(problem("id|utterance|speaker").contains("no `text`"));
        assert!(problem("text|speaker").contains("no `id`"));
        assert!(problem("id|text|transcript").contains("more than one `text`"));
    }
}
