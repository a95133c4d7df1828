//! Each step that a sentence takes on its way to token ids, as text.

use super::Paint;
use super::page::Page;
use crate::format::{Table, pad};
use crate::results::text::TextResult;

const LABEL: usize = 12;

/// What `text` prints of one text.
pub fn front_end_text(result: &TextResult, paint: Paint) -> String {
    let mut page = Page::new(LABEL, paint);
    page.line("text", &result.text);
    if result.composed != result.text {
        page.line("composed", &result.composed);
    }
    let how = match result.language_detected {
        true => "detected",
        false => "given",
    };
    page.line("language", format!("{} ({how})", result.language));
    page.line("normalised", &result.normalized);
    let mut words = Table::new(0);
    for (number, word) in result.words.iter().enumerate() {
        // Two blanks follow each cell.
        let label = if number == 0 {
            paint.heading("words")
        } else {
            String::new()
        };
        let label = pad(&label, LABEL - 2);
        words.row([&label, &word.text, &word.pronunciation, &word.source]);
    }
    page.table(&words);
    let ids: Vec<_> = result.tokens.iter().map(u16::to_string).collect();
    let symbols = result.symbols.join(" ");
    page.line("tokens", format!("{}: {symbols}", result.tokens.len()));
    page.line("ids", ids.join(" "));
    if !result.unknown_words.is_empty() {
        let words = result.unknown_words.join(", ");
        let text = format!("{words} (not in the dictionary; a line in --lexicon overrides)");
        page.line("guessed", text);
    }
    if !result.unknown_symbols.is_empty() {
        let dropped = result.unknown_symbols.iter();
        let dropped = dropped.map(|c| format!("{c} (U+{:04X})", u32::from(*c)));
        page.line("not read", dropped.collect::<Vec<_>>().join(", "));
    }
    for problem in &result.problems {
        page.line("problem", problem);
    }
    page.text()
}
