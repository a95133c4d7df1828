//! Makes inputs from others: what chance, a cut cable or an adversary does to a file.

/// A generator of numbers (splitmix64); the same seed gives the same inputs.
#[derive(Clone, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        match end {
            0 => 0,
            end => (self.next() % end as u64) as usize,
        }
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A range within this many bytes; mostly short.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let most = self.one(&[4, 16, 64, 1024, length]);
        let end = start + self.below(most.min(length - start) + 1);
        start..end
    }
}

/// Numbers at which something may turn over.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x00ff_ffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];

/// The same in writing, and what else may stand where a number or a word is expected.
const WRITTEN: [&str; 34] = [
    "0",
    "-1",
    "1",
    "-0.0",
    "255",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-308",
    "1e999",
    "NaN",
    "inf",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "\u{feff}",
    "\u{200c}",
    "\u{202e}",
    "\r\n",
    "\t",
    "|",
    "../",
    "/",
    "\\",
    "\0",
    "\u{1b}[31m",
    "۱۲۳",
    "ﷺ",
];

/// One input changed once or a few times, cut at `longest`. `other` is what may be spliced in.
pub(crate) fn changed(input: &[u8], other: &[u8], longest: usize, draws: &mut Draws) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..draws.one(&[1, 1, 1, 2, 3, 5, 8]) {
        change(&mut bytes, other, longest, draws);
        bytes.truncate(longest);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], longest: usize, draws: &mut Draws) {
    let at = draws.below(bytes.len());
    match draws.below(12) {
        0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << draws.below(8),
        2 if !bytes.is_empty() => bytes[at] = draws.next() as u8,
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(draws.range(bytes.len()))),
        // A length, an offset or a count.
        5 | 6 => {
            let number = draws
                .one(&NUMBERS)
                .wrapping_add(draws.below(3) as u64)
                .wrapping_sub(1);
            let (mut little, big) = (number.to_le_bytes(), number.to_be_bytes());
            let width = draws.one(&[1, 2, 3, 4, 8]);
            if draws.below(2) == 0 {
                little[..width].copy_from_slice(&big[8 - width..]);
            }
            let end = bytes.len().min(at + width);
            bytes[at..end].copy_from_slice(&little[..end - at]);
        }
        // Once more, or many times: what nests, nests deeper.
        7 => {
            let again = bytes[draws.range(bytes.len())].to_vec();
            let times = draws.one(&[1, 2, 10, 1000, 30_000]);
            let times = times.min(longest / again.len().max(1));
            insert(bytes, at, &again.repeat(times));
        }
        8 => {
            let part = &other[draws.range(other.len())];
            insert(bytes, at, part);
        }
        9 => {
            bytes.truncate(at);
            let rest = draws.below(other.len());
            bytes.extend_from_slice(&other[rest..]);
        }
        10 => replace_written(bytes, at, draws),
        _ => {
            let part = draws.one(&WRITTEN);
            insert(bytes, at, part.as_bytes());
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, part: &[u8]) {
    bytes.splice(at..at, part.iter().copied());
}

/// The number or word around or after a place becomes another one.
fn replace_written(bytes: &mut Vec<u8>, at: usize, draws: &mut Draws) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b".+-".contains(byte);
    let Some(start) = bytes[at..].iter().position(is_part) else {
        return;
    };
    let start = at + start;
    let length = bytes[start..].iter().position(|byte| !is_part(byte));
    let end = length.map_or(bytes.len(), |length| start + length);
    let written = draws.one(&WRITTEN).as_bytes();
    bytes.splice(start..end, written.iter().copied());
}
