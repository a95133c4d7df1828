//! The pronouncing dictionary (CMUdict), packed so that it needs no loading.
//!
//! The text form takes 3.7 MB and tens of milliseconds to parse into a map. Packed it is 2 MB of
//! the program's read-only pages: a word's hash names a bucket of about eight entries that lie
//! side by side, so a lookup costs two cache misses and no allocation. Only the first pronunciation
//! of a word is kept.
//!
//! Format, little-endian: magic, version `u32`, bucket count `u32` (a power of two), entry count
//! `u32`, `buckets + 1` offsets `u32` into what follows, then the entries: length of the word `u8`,
//! number of phones `u8`, the word's bytes, the phones' indices.

use super::phonemes::Phone;
use crate::{FNV_START, fnv1a};

const MAGIC: &[u8; 4] = b"VXPD";
const VERSION: u32 = 1;
const HEADER: usize = 16;
const ENTRIES_PER_BUCKET: usize = 8;

/// The built-in dictionary, written by `cargo tools letter-to-sound`.
pub(super) static BUILT_IN: &[u8] = include_bytes!("../data/pronunciation/dictionary.bin");

/// Words with their pronunciations, read in place from bytes.
#[derive(Clone, Copy, Debug)]
pub struct Dictionary<'a> {
    offsets: &'a [u8],
    entries: &'a [u8],
    bucket_mask: u64,
}

/// Why bytes are no dictionary.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DictionaryError {
    #[error("not a packed dictionary of version {VERSION}")]
    Format,
    #[error("the packed dictionary is cut short or damaged")]
    Damaged,
    #[error("`{0}` does not fit a packed dictionary: 1 to 255 bytes and 255 phones")]
    Entry(String),
}

impl Dictionary<'static> {
    /// The one in the program.
    pub fn built_in() -> Dictionary<'static> {
        Dictionary::from_bytes(BUILT_IN).expect("the built-in dictionary is checked by a test")
    }
}

impl<'a> Dictionary<'a> {
    /// Checks the frame, not each entry: a damaged entry is an unknown word, never a panic.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Dictionary<'a>, DictionaryError> {
        if bytes.get(..4) != Some(MAGIC) || field(bytes, 4) != Some(VERSION) {
            return Err(DictionaryError::Format);
        }
        let buckets = field(bytes, 8).ok_or(DictionaryError::Damaged)? as usize;
        let offsets_len = (buckets + 1) * 4;
        let offsets = bytes.get(HEADER..HEADER + offsets_len);
        let entries = bytes.get(HEADER + offsets_len..);
        match (offsets, entries) {
            (Some(offsets), Some(entries)) if buckets.is_power_of_two() => Ok(Dictionary {
                offsets,
                entries,
                bucket_mask: buckets as u64 - 1,
            }),
            _ => Err(DictionaryError::Damaged),
        }
    }

    /// The pronunciation of a lower-case word as phone indices.
    pub fn get(&self, word: &str) -> Option<impl Iterator<Item = Phone> + use<'a>> {
        let bucket = (hash(word.as_bytes()) & self.bucket_mask) as usize;
        let range = self.offset(bucket)?..self.offset(bucket + 1)?;
        let mut entries = self.entries.get(range)?;
        while let [word_len, phone_count, rest @ ..] = entries {
            let (word_len, phone_count) = (usize::from(*word_len), usize::from(*phone_count));
            let phones = rest.get(word_len..word_len + phone_count)?;
            if &rest[..word_len] == word.as_bytes() {
                return Some(phones.iter().filter_map(|&index| Phone::from_index(index)));
            }
            entries = &rest[word_len + phone_count..];
        }
        None
    }

    fn offset(&self, bucket: usize) -> Option<usize> {
        field(self.offsets, bucket * 4).map(|offset| offset as usize)
    }
}

fn field(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*field))
}

/// Packs words and their pronunciations; each word at most once.
pub fn pack(words: &[(&str, &[Phone])]) -> Result<Vec<u8>, DictionaryError> {
    let bucket_count = (words.len() / ENTRIES_PER_BUCKET).next_power_of_two();
    let mut buckets = vec![Vec::new(); bucket_count];
    for (word, phones) in words {
        let sizes = (u8::try_from(word.len()), u8::try_from(phones.len()));
        let (Ok(word_len @ 1..), Ok(phone_count)) = sizes else {
            return Err(DictionaryError::Entry((*word).to_owned()));
        };
        let bucket = &mut buckets[hash(word.as_bytes()) as usize & (bucket_count - 1)];
        bucket.extend([word_len, phone_count]);
        bucket.extend(word.as_bytes());
        bucket.extend(phones.iter().map(|phone| phone.index()));
    }
    let mut bytes = MAGIC.to_vec();
    for field in [VERSION, bucket_count as u32, words.len() as u32, 0] {
        bytes.extend(field.to_le_bytes());
    }
    let mut offset = 0;
    for bucket in &buckets {
        offset += bucket.len() as u32;
        bytes.extend(offset.to_le_bytes());
    }
    bytes.extend(buckets.concat());
    Ok(bytes)
}

/// FNV-1a, folded so that the low bits depend on all bytes. Part of the format.
fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().copied().fold(FNV_START, fnv1a);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phonemes::{parse_phones, spell_phones};
    use proptest::prelude::*;

    fn pronounce(word: &str) -> Option<String> {
        let phones: Vec<_> = Dictionary::built_in().get(word)?.collect();
        Some(spell_phones(&phones))
    }

    #[test]
    fn the_built_in_dictionary_knows_common_words_and_no_others() {
        assert_eq!(pronounce("hello").as_deref(), Some("HH AH0 L OW1"));
        assert_eq!(pronounce("don't").as_deref(), Some("D OW1 N T"));
        assert_eq!(pronounce("zyzzyvas"), None);
        assert_eq!(pronounce(""), None);
    }

    #[test]
    fn each_entry_of_the_built_in_dictionary_is_whole() {
        let dictionary = Dictionary::built_in();
        let (mut rest, mut words) = (dictionary.entries, 0);
        while let [word_len, phone_count, tail @ ..] = rest {
            let (word, tail) = tail.split_at(usize::from(*word_len));
            let (phones, tail) = tail.split_at(usize::from(*phone_count));
            assert!(!phones.is_empty() && phones.iter().all(|&p| Phone::from_index(p).is_some()));
            let word = std::str::from_utf8(word).unwrap();
            assert!(dictionary.get(word).is_some(), "{word}");
            (rest, words) = (tail, words + 1);
        }
        assert_eq!(field(BUILT_IN, 12), Some(words));
        assert!(words > 120_000);
    }

    #[test]
    fn what_is_packed_is_found_again() {
        let phones = parse_phones("K AE1 T").unwrap();
        let bytes = pack(&[("cat", &phones), ("kat", &phones[1..])]).unwrap();
        let dictionary = Dictionary::from_bytes(&bytes).unwrap();
        let get = |word| dictionary.get(word).unwrap().collect::<Vec<_>>();
        assert_eq!(get("cat"), phones);
        assert_eq!(get("kat"), phones[1..]);
        assert!(dictionary.get("ca").is_none());
        assert!(pack(&[("", &phones)]).is_err());
    }

    proptest! {
        #[test]
        fn damage_is_an_error_or_an_unknown_word(at in 0usize..80, byte: u8, cut in 0usize..80) {
            let phones = parse_phones("K AE1 T").unwrap();
            let mut bytes = pack(&[("cat", &phones), ("a", &phones), ("dog", &phones)]).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            if let Ok(dictionary) = Dictionary::from_bytes(&bytes) {
                for word in ["cat", "a", "dog", "cow"] {
                    dictionary.get(word).map(Iterator::count);
                }
            }
        }
    }
}
