//! The symbol table: what a token id stands for.
//!
//! A trained model knows ids, not sounds, so the table is stored with every checkpoint and an id
//! never changes its meaning: symbols are appended (`data/symbols/symbols.txt`) and the version
//! counts up. A model reads any table of which its own is the beginning.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::phonemes::{PHONES, Phone};

/// What fills rows up to a batch's length.
pub const PAD: u16 = 0;
/// What stands for a character without a symbol.
pub const UNKNOWN: u16 = 1;
pub(crate) const BEGIN: u16 = 2;
pub(crate) const END: u16 = 3;
pub(crate) const SPACE: u16 = 4;

/// The last of the structural symbols and marks, which stand at the head of the table for good.
const LAST_MARK: u16 = 13;

/// Whether a symbol is a sound or a letter, rather than a mark, a boundary or structure.
pub fn is_spoken(id: u16) -> bool {
    id > LAST_MARK
}

/// Counts up when `data/symbols/symbols.txt` grows.
const SYMBOL_TABLE_VERSION: u32 = 1;

static BUILT_IN: &str = include_str!("../data/symbols/symbols.txt");
const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';

/// What is stored with a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolTable {
    pub version: u32,
    /// A symbol's id is its index.
    pub symbols: Vec<String>,
}

impl SymbolTable {
    /// The table that new voices take.
    pub fn built_in() -> SymbolTable {
        SymbolTable {
            version: SYMBOL_TABLE_VERSION,
            symbols: lines().map(str::to_owned).collect(),
        }
    }

    /// Whether every id of this table means the same in `newer`.
    pub fn is_beginning_of(&self, newer: &SymbolTable) -> bool {
        newer.symbols.starts_with(&self.symbols)
    }

    /// What an id stands for.
    pub fn symbol(&self, id: u16) -> Option<&str> {
        self.symbols.get(usize::from(id)).map(String::as_str)
    }

    /// The ids as a line to read: phones apart, `<space>` as `_`.
    pub(crate) fn spell(&self, ids: &[u16]) -> String {
        let name = |id: &u16| match *id {
            SPACE => "_",
            id => self.symbol(id).unwrap_or("<no such symbol>"),
        };
        ids.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// A value that changes when any symbol does.
    pub fn hash(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.version.to_le_bytes());
        for symbol in &self.symbols {
            hasher.update(symbol.as_bytes());
            hasher.update(b"\n");
        }
        hasher.finalize()
    }
}

/// The way back: from phones, characters and IPA to ids of the built-in table.
#[derive(Debug)]
pub(super) struct SymbolIds {
    phones: [u16; PHONES.len()],
    chars: HashMap<char, u16>,
    ascii: [Option<u16>; 128],
    ipa: HashMap<&'static str, u16>,
}

impl SymbolIds {
    pub(super) fn built_in() -> SymbolIds {
        let by_symbol: HashMap<&str, u16> = lines().zip(0..).collect();
        let mut chars: HashMap<char, u16> = HashMap::new();
        let mut ipa = HashMap::new();
        for (symbol, &id) in &by_symbol {
            let sound = symbol.strip_prefix('/').and_then(|s| s.strip_suffix('/'));
            // Capital letters alone are phones, `^` and `$` are structure.
            if let Ok(c) = symbol.parse::<char>()
                && !c.is_ascii_uppercase()
                && !"^$".contains(c)
            {
                chars.insert(c, id);
            } else if let Some(sound) = sound {
                ipa.insert(sound, id);
            }
        }
        chars.insert(ZERO_WIDTH_NON_JOINER, by_symbol["<zwnj>"]);
        // Marks that differ in shape and not in what they do to the voice.
        for (written, stands_for) in [
            ('،', ','),
            ('؛', ';'),
            ('؟', '?'),
            ('…', '.'),
            ('۔', '.'),
            ('–', '—'),
            ('’', '\''),
            ('‐', '-'),
        ] {
            chars.insert(written, chars[&stands_for]);
        }
        SymbolIds {
            phones: PHONES.map(|phone| by_symbol[phone]),
            ascii: std::array::from_fn(|c| chars.get(&char::from(c as u8)).copied()),
            chars,
            ipa,
        }
    }

    pub(super) fn phone(&self, phone: Phone) -> u16 {
        self.phones[usize::from(phone.index())]
    }

    pub(super) fn char(&self, c: char) -> Option<u16> {
        match self.ascii.get(c as usize) {
            Some(id) => *id,
            None => self.chars.get(&c).copied(),
        }
    }

    /// `sound` is one IPA letter, with stress before and length after it where it has them.
    pub(super) fn ipa(&self, sound: &str) -> Option<u16> {
        self.ipa.get(sound).copied()
    }
}

/// Whether a character is a pause or an end, as the ids of the table know them.
pub(super) fn is_pause(c: char) -> bool {
    matches!(
        c,
        ',' | '.' | ';' | ':' | '?' | '!' | '—' | '–' | '،' | '؛' | '؟' | '…' | '۔'
    )
}

fn lines() -> impl Iterator<Item = &'static str> {
    BUILT_IN.lines().filter(|line| !line.starts_with("# "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sounds_begin_where_the_marks_end() {
        let table = SymbolTable::built_in();
        assert_eq!(table.symbol(LAST_MARK), Some("-"));
        assert!(!is_spoken(LAST_MARK) && !is_spoken(SPACE) && !is_spoken(END));
        assert_eq!(table.symbol(LAST_MARK + 1), Some("B"));
        assert!(is_spoken(LAST_MARK + 1));
    }

    /// If this fails, ids may have changed their meaning under trained models. Append symbols,
    /// count the version up, and only then write the new hash here.
    #[test]
    fn the_table_is_the_one_its_version_promises() {
        let table = SymbolTable::built_in();
        assert_eq!(table.version, 1);
        assert_eq!(
            table.hash().to_hex().as_str(),
            "cee8c6bff0d86db9463652a56034fc00997d61d5c26dc11e3cfc697303b2ede8"
        );
    }

    #[test]
    fn structure_has_its_fixed_ids_and_no_symbol_comes_twice() {
        let table = SymbolTable::built_in();
        for (id, symbol) in [
            (PAD, "<pad>"),
            (UNKNOWN, "<unknown>"),
            (BEGIN, "^"),
            (END, "$"),
            (SPACE, "<space>"),
        ] {
            assert_eq!(table.symbol(id), Some(symbol));
        }
        let mut sorted = table.symbols.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), table.symbols.len());
        assert!(table.symbols.len() < usize::from(u16::MAX));
    }

    #[test]
    fn the_table_survives_a_checkpoint_and_knows_its_successors() {
        let table = SymbolTable::built_in();
        let stored = serde_json::to_string(&table).unwrap();
        let read: SymbolTable = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, table);
        let mut newer = table.clone();
        newer.symbols.push("ж́".to_owned());
        assert!(table.is_beginning_of(&newer) && !newer.is_beginning_of(&table));
        newer.symbols.swap(7, 8);
        assert!(!table.is_beginning_of(&newer));
    }

    #[test]
    fn ids_lead_back_to_their_symbols() {
        let (table, ids) = (SymbolTable::built_in(), SymbolIds::built_in());
        for name in PHONES {
            let phone = Phone::parse(name).unwrap();
            assert_eq!(table.symbol(ids.phone(phone)), Some(name));
        }
        for c in ['a', 'z', 'é', 'پ', 'ж', 'ω', '\'', ',', '\u{64e}'] {
            let id = ids.char(c).unwrap();
            assert_eq!(table.symbol(id), Some(c.to_string().as_str()));
        }
        assert_eq!(ids.char('؟'), ids.char('?'));
        let zwnj = ids.char(ZERO_WIDTH_NON_JOINER).unwrap();
        assert_eq!(table.symbol(zwnj), Some("<zwnj>"));
        assert_eq!(['B', '^', '漢'].map(|c| ids.char(c)), [None; 3]);
        assert_ne!(ids.ipa("a"), ids.char('a'));
        assert!(ids.ipa("ˈəː").is_some() && ids.ipa("ʃ").is_some());
    }
}
