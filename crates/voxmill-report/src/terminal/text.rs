//! Each step that a sentence takes on its way to token ids, as text.

use super::Paint;
use super::page::Page;
use crate::format::{Table, pad};
use crate::results::text::TextResult;

const LABEL: usize = 12;

/// What `text` prints of one text.
pub fn front_end_text(result: &TextResult) -> String {
    let mut page = Page::new(LABEL, Paint::plain());
    page.whole_line("text", &result.text);
    if result.composed != result.text {
        page.whole_line("composed", &result.composed);
    }
    let how = match result.language_detected {
        true => "detected",
        false => "given",
    };
    page.whole_line("language", format!("{} ({how})", result.language));
    page.whole_line("normalised", &result.normalized);
    let mut words = Table::new(0);
    for (number, word) in result.words.iter().enumerate() {
        // Two blanks follow each cell.
        let label = pad(if number == 0 { "words" } else { "" }, LABEL - 2);
        words.row([&label, &word.text, &word.pronunciation, &word.source]);
    }
    page.table(&words);
    let ids: Vec<_> = result.tokens.iter().map(u16::to_string).collect();
    let symbols = result.symbols.join(" ");
    page.whole_line("tokens", format!("{}: {symbols}", result.tokens.len()));
    page.whole_line("ids", ids.join(" "));
    if !result.unknown_words.is_empty() {
        let words = result.unknown_words.join(", ");
        let text = format!("{words} (not in the dictionary; a line in --lexicon overrides)");
        page.whole_line("guessed", text);
    }
    if !result.unknown_symbols.is_empty() {
        let dropped = result.unknown_symbols.iter();
        let dropped = dropped.map(|c| format!("{c} (U+{:04X})", u32::from(*c)));
        page.whole_line("not read", dropped.collect::<Vec<_>>().join(", "));
    }
    for problem in &result.problems {
        page.whole_line("problem", problem);
    }
    page.text()
}
