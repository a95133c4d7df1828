//! `voxmill text`: each step that a sentence takes on its way to token ids.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};

use serde_json::json;
use voxmill_speech::text::symbols::SymbolTable;
use voxmill_speech::text::{FrontEnd, LanguageSource, Utterance};

use super::{say, show_settings, tell};
use crate::args::TextArgs;
use crate::complaint::Complaint;
use crate::settings::TextSettings;

pub(crate) fn run(mut args: TextArgs) -> anyhow::Result<()> {
    let settings = TextSettings::resolve(&mut args)?;
    for note in &settings.notes {
        tell(&format!("note: {note}"));
    }
    if args.config.show_settings {
        return show_settings(&settings.shown, args.json);
    }
    let front_end = FrontEnd::new(settings.text)?;
    let show = |text: &str| -> anyhow::Result<()> {
        let utterance = front_end.process(text, settings.language)?;
        if args.json {
            say(&as_json(text, &utterance).to_string())
        } else {
            say(&as_steps(text, &utterance))
        }
    };
    let nothing = || Complaint::new("there is no text to show", "voxmill text \"Hello there.\"");
    if let Some(text) = &args.text {
        return if text.trim().is_empty() {
            Err(nothing().into())
        } else {
            show(text)
        };
    }
    if std::io::stdin().is_terminal() {
        return Err(nothing().into());
    }
    let mut any = false;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if !line.trim().is_empty() {
            any = true;
            show(&line)?;
        }
    }
    if any { Ok(()) } else { Err(nothing().into()) }
}

fn as_steps(raw: &str, utterance: &Utterance) -> String {
    let how = match utterance.language_source {
        LanguageSource::Given => "given",
        LanguageSource::Detected => "detected",
    };
    let mut text = String::new();
    let _ = writeln!(text, "text        {raw}");
    if utterance.nfc != raw {
        let _ = writeln!(text, "composed    {}", utterance.nfc);
    }
    let _ = writeln!(text, "language    {} ({how})", utterance.language);
    let _ = writeln!(text, "normalised  {}", utterance.normalized);
    let width = utterance
        .words
        .iter()
        .map(|word| word.text.chars().count())
        .max()
        .unwrap_or(0);
    let said = utterance
        .words
        .iter()
        .map(|word| word.pronunciation.chars().count())
        .max()
        .unwrap_or(0);
    for (number, word) in utterance.words.iter().enumerate() {
        let label = if number == 0 { "words" } else { "" };
        let _ = writeln!(
            text,
            "{label:10}  {:width$}  {:said$}  {}",
            word.text,
            word.pronunciation,
            word.source.name()
        );
    }
    let table = SymbolTable::built_in();
    let symbols: Vec<_> = utterance
        .tokens
        .iter()
        .map(|&id| table.symbol(id).unwrap_or("?"))
        .collect();
    let ids: Vec<_> = utterance.tokens.iter().map(u16::to_string).collect();
    let _ = writeln!(
        text,
        "tokens      {}: {}",
        utterance.tokens.len(),
        symbols.join(" ")
    );
    let _ = write!(text, "ids         {}", ids.join(" "));
    let guessed: Vec<_> = utterance
        .unknown_words()
        .map(|word| word.text.as_str())
        .collect();
    if !guessed.is_empty() {
        let _ = write!(
            text,
            "\nguessed     {} (not in the dictionary; a line in --lexicon overrides)",
            guessed.join(", ")
        );
    }
    if !utterance.unknown_symbols.is_empty() {
        let dropped: Vec<_> = utterance
            .unknown_symbols
            .iter()
            .map(|c| format!("{c} (U+{:04X})", u32::from(*c)))
            .collect();
        let _ = write!(text, "\nnot read    {}", dropped.join(", "));
    }
    for problem in &utterance.problems {
        let _ = write!(text, "\nproblem     {problem}");
    }
    text
}

fn as_json(raw: &str, utterance: &Utterance) -> serde_json::Value {
    let words: Vec<_> = utterance
        .words
        .iter()
        .map(|word| json!({"text": word.text, "pronunciation": word.pronunciation, "source": word.source.name()}))
        .collect();
    json!({
        "text": raw,
        "language": utterance.language.code(),
        "language_detected": utterance.language_source == LanguageSource::Detected,
        "normalized": utterance.normalized,
        "words": words,
        "tokens": utterance.tokens,
        "symbol_table_version": SymbolTable::built_in().version,
        "unknown_words": utterance.unknown_words().map(|word| word.text.as_str()).collect::<Vec<_>>(),
        "unknown_symbols": utterance.unknown_symbols,
        "problems": utterance.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
