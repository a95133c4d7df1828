//! The pack: many small files in one, small enough to build into the program.
//!
//! Every Ogg Vorbis file of one sample rate and quality begins with the same 3.4 kB of code books:
//! with a thousand clips of three seconds that is a quarter of the corpus. So files are
//! front-coded: each is the first `shared` bytes of the file before it, followed by bytes of its own.
//!
//! Layout, all numbers little-endian:
//! `VOXPACK1` · u32 length of the index · index · the files' own bytes · blake3 of all before it.
//! The index is text, one line per file: `shared own name`.

use std::str;

const MAGIC: &[u8; 8] = b"VOXPACK1";
const HASH_BYTES: usize = blake3::OUT_LEN;

/// Why bytes are no pack.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PackError {
    #[error("not a pack of a known version (it should begin with VOXPACK1)")]
    UnknownFormat,
    #[error("the pack ends too early: {have} bytes where at least {need} were promised")]
    Truncated { have: usize, need: usize },
    #[error("the pack's index is damaged at line {line}")]
    Index { line: usize },
    #[error("the pack's checksum does not match its content")]
    Checksum,
}

/// A pack whose index has been read; the files are still in the bytes it was read from.
#[derive(Clone, Debug)]
pub struct Pack<'a> {
    bytes: &'a [u8],
    entries: Vec<PackedFile<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct PackedFile<'a> {
    name: &'a str,
    shared: usize,
    own: &'a [u8],
}

impl<'a> Pack<'a> {
    /// Reads the index and checks that every promised byte is there. Does not hash the content:
    /// that is `check`, which costs a pass over all bytes.
    pub fn read(bytes: &'a [u8]) -> Result<Pack<'a>, PackError> {
        let after_magic = bytes.strip_prefix(MAGIC).ok_or(PackError::UnknownFormat)?;
        let truncated = |need: usize| PackError::Truncated {
            have: bytes.len(),
            need,
        };
        let (length, rest) = after_magic
            .split_first_chunk::<4>()
            .ok_or_else(|| truncated(MAGIC.len() + 4))?;
        let index_bytes = u32::from_le_bytes(*length) as usize;
        let (index, mut content) = rest
            .split_at_checked(index_bytes)
            .ok_or_else(|| truncated(MAGIC.len() + 4 + index_bytes))?;
        let index = str::from_utf8(index).map_err(|_| PackError::Index { line: 1 })?;
        let mut entries = Vec::new();
        let mut previous_bytes = 0usize;
        for (line, text) in (1..).zip(index.lines()) {
            let (name, shared, own_bytes) =
                parse_line(text, previous_bytes).ok_or(PackError::Index { line })?;
            let before = bytes.len() - content.len();
            let (own, rest) = content.split_at_checked(own_bytes).ok_or_else(|| {
                truncated(before.saturating_add(own_bytes).saturating_add(HASH_BYTES))
            })?;
            content = rest;
            previous_bytes = shared + own_bytes;
            entries.push(PackedFile { name, shared, own });
        }
        if content.len() != HASH_BYTES {
            return Err(truncated(bytes.len() - content.len() + HASH_BYTES));
        }
        Ok(Pack { bytes, entries })
    }

    /// Hashes the content and compares.
    pub fn check(&self) -> Result<(), PackError> {
        let (content, _) = self.bytes.split_at(self.bytes.len() - HASH_BYTES);
        match blake3::hash(content).as_bytes() == self.recorded_hash() {
            true => Ok(()),
            false => Err(PackError::Checksum),
        }
    }

    /// The hash written in the pack: its content's name.
    pub(crate) fn recorded_hash(&self) -> &'a [u8] {
        &self.bytes[self.bytes.len() - HASH_BYTES..]
    }

    /// How many files it holds.
    pub fn files(&self) -> usize {
        self.entries.len()
    }

    /// Calls `visit` with each file's name and bytes, in the pack's order, until it says `Err`.
    /// Front coding makes this the natural way through: each file is built on the one before.
    pub fn visit<E>(
        &self,
        mut visit: impl FnMut(&'a str, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut file = Vec::new();
        for entry in &self.entries {
            file.truncate(entry.shared);
            file.extend_from_slice(entry.own);
            visit(entry.name, &file)?;
        }
        Ok(())
    }

    /// One file by name; walks to it, so it is for a few small files near the front.
    pub fn file(&self, wanted: &str) -> Option<Vec<u8>> {
        let found = self.visit(|name, bytes| match name == wanted {
            true => Err(bytes.to_vec()),
            false => Ok(()),
        });
        found.err()
    }
}

fn parse_line(text: &str, previous_bytes: usize) -> Option<(&str, usize, usize)> {
    let mut fields = text.splitn(3, ' ');
    let shared: usize = fields.next()?.parse().ok()?;
    let own: usize = fields.next()?.parse().ok()?;
    let name = fields.next()?;
    (shared <= previous_bytes && own <= isize::MAX as usize && is_plain(name))
        .then_some((name, shared, own))
}

/// A relative path that stays below the folder it is unpacked into.
fn is_plain(name: &str) -> bool {
    !name.contains(['\\', ':', '\0'])
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Packs files in the order given; like files side by side make the pack small.
pub fn write_pack<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> Vec<u8> {
    let mut index = String::new();
    let mut content = Vec::new();
    let mut previous: &[u8] = &[];
    for (name, file) in files {
        let is_fit = is_plain(name) && !name.contains('\n');
        assert!(is_fit, "`{name}` cannot name a file of a pack");
        let pairs = previous.iter().zip(file);
        let shared = pairs.take_while(|(a, b)| a == b).count();
        index.push_str(&format!("{shared} {} {name}\n", file.len() - shared));
        content.extend_from_slice(&file[shared..]);
        previous = file;
    }
    let index_bytes = u32::try_from(index.len()).expect("an index is far below 4 GB");
    let mut pack = MAGIC.to_vec();
    pack.extend_from_slice(&index_bytes.to_le_bytes());
    pack.extend_from_slice(index.as_bytes());
    pack.append(&mut content);
    let hash = blake3::hash(&pack);
    pack.extend_from_slice(hash.as_bytes());
    pack
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unpacked(pack: &[u8]) -> Result<Vec<(String, Vec<u8>)>, PackError> {
        let pack = Pack::read(pack)?;
        pack.check()?;
        let mut files = Vec::new();
        pack.visit(|name, bytes| {
            files.push((name.to_owned(), bytes.to_vec()));
            Ok(())
        })?;
        Ok(files)
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(contents in prop::collection::vec(prop::collection::vec(0u8..3, 0..40), 0..8)) {
            let files: Vec<(String, Vec<u8>)> =
                contents.into_iter().enumerate().map(|(i, bytes)| (format!("wavs/{i}.ogg"), bytes)).collect();
            let pack = write_pack(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
            prop_assert_eq!(unpacked(&pack).unwrap(), files);
        }

        /// Cut anywhere or changed anywhere: an error, never a panic and never other files.
        #[test]
        fn a_damaged_pack_is_an_error(at in 0usize..200, flip in 1u8..=255) {
            let pack = write_pack([("a", &b"one two"[..]), ("b", b"one three"), ("c", &[7; 40])]);
            prop_assert!(unpacked(&pack[..at % pack.len()]).is_err());
            let mut changed = pack.clone();
            changed[at % pack.len()] ^= flip;
            prop_assert!(unpacked(&changed).is_err());
        }
    }

    #[test]
    fn a_pack_may_not_write_outside_its_folder() {
        for name in ["../a", "/a", "a/../b", "a//b", "c:\\a", "."] {
            let mut pack = MAGIC.to_vec();
            let index = format!("0 0 {name}\n");
            pack.extend_from_slice(&(index.len() as u32).to_le_bytes());
            pack.extend_from_slice(index.as_bytes());
            pack.extend_from_slice(blake3::hash(&pack).as_bytes());
            let error = Pack::read(&pack).unwrap_err();
            assert_eq!(error, PackError::Index { line: 1 }, "{name}");
        }
    }

    #[test]
    fn a_truncated_pack_says_so() {
        let pack = write_pack([("a", &[1; 100][..])]);
        let (have, need) = (pack.len() - 1, pack.len());
        let error = Pack::read(&pack[..have]).unwrap_err();
        assert_eq!(error, PackError::Truncated { have, need });
        assert_eq!(Pack::read(b"PK").unwrap_err(), PackError::UnknownFormat);
    }
}
