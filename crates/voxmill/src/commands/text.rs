//! `voxmill text`: each step that a sentence takes on its way to token ids.

use std::io::{BufRead as _, IsTerminal as _, Read as _};

use voxmill_report::results::text::{self as result, TextResult};
use voxmill_report::terminal::front_end_text;
use voxmill_text::symbols::SymbolTable;
use voxmill_text::{LanguageSource, Utterance, Word};

use super::{paint, print_json_line, print_output, should_run};
use voxmill_settings::TextSettings;
use voxmill_settings::args::TextArgs;
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::front_end;

/// Far more than a sentence.
const MOST_LINE_BYTES: u64 = 4_000_000;

pub(crate) fn run(args: TextArgs) -> anyhow::Result<()> {
    let show_only = args.flags.show_settings;
    let settings = TextSettings::resolve(args.flags)?;
    if !should_run(&settings.notes, &settings.resolved, show_only, args.json)? {
        return Ok(());
    }
    let front_end = front_end(settings.text)?;
    let show = |text: &str| -> anyhow::Result<()> {
        let utterance = front_end.process(text, settings.language)?;
        let result = result(text, &utterance);
        match args.json {
            true => print_json_line(&result),
            false => print_output(&front_end_text(&result, paint())),
        }
    };
    let nothing = || UserError::new("there is no text to show", "voxmill text \"Hello there.\"");
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
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = String::new();
        let most = MOST_LINE_BYTES + 1;
        if (&mut input).take(most).read_line(&mut line)? == 0 {
            break;
        }
        if line.len() as u64 == most {
            let what = format!("a line on standard input has over {MOST_LINE_BYTES} bytes");
            return Err(UserError::new(what, "give one sentence a line").into());
        }
        let line = line.trim_end_matches(['\r', '\n']);
        if !line.trim().is_empty() {
            any = true;
            show(line)?;
        }
    }
    if any { Ok(()) } else { Err(nothing().into()) }
}

fn result(raw: &str, utterance: &Utterance) -> TextResult {
    let table = SymbolTable::built_in();
    let symbol = |&id: &u16| table.symbol(id).unwrap_or("?").to_owned();
    let word = |word: &Word| result::SpokenWord {
        text: word.text.clone(),
        pronunciation: word.pronunciation.clone(),
        source: word.source.name().to_owned(),
    };
    let unknown = utterance.unknown_words();
    let problems = utterance.problems.iter();
    TextResult {
        text: raw.to_owned(),
        composed: utterance.nfc.clone(),
        language: utterance.language.code().to_owned(),
        language_detected: utterance.language_source == LanguageSource::Detected,
        normalized: utterance.normalized.clone(),
        words: utterance.words.iter().map(word).collect(),
        tokens: utterance.tokens.clone(),
        symbols: utterance.tokens.iter().map(symbol).collect(),
        symbol_table_version: table.version,
        unknown_words: unknown.map(|word| word.text.clone()).collect(),
        unknown_symbols: utterance.unknown_symbols.clone(),
        problems: problems.map(ToString::to_string).collect(),
    }
}
