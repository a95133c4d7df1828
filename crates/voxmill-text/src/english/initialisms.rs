//! Words in capitals: acronyms said as words, initialisms said letter by letter, and headlines.
//!
//! The decision must not need the rest of the sentence where it can be helped, so that reading a
//! text twice changes nothing: a word in capitals is spelled when a table says so, when it has no
//! vowel, or when no English word begins or ends like it. Everything else is a word that someone
//! wrote large.

use super::reader::{EnglishReader, byte_at, leading_word};
use super::tables::{SpelledWhen, TABLES};
use crate::reject_if;

/// The longest word that is spelled for its unusual consonants; longer ones are names.
const LONGEST_UNUSUAL: usize = 5;

/// Letters with dots read at once; a longer row is read in pieces, so that none is read twice.
const MOST_DOTTED: usize = 24;

/// Longest key of the table of degrees.
const LONGEST_DEGREE: usize = 6;

/// What hangs on an initialism: FBI's, MPs.
#[derive(Clone, Copy)]
enum Ending {
    None,
    Plural,
    Possessive,
}

impl<'a> EnglishReader<'a> {
    /// Says a word that begins with a capital by its letters, if that is how it is read.
    pub(super) fn say_capitals(&mut self, word: &str) -> bool {
        let (stem, ending) = split_ending(word);
        if !stem.bytes().all(|letter| letter.is_ascii_uppercase()) {
            return false;
        }
        if stem.len() == 1 {
            return matches!(ending, Ending::None) && self.say_lone_capital(stem);
        }
        if TABLES.acronyms.contains(stem) {
            return false;
        }
        let spelled = match TABLES.initialisms.get(stem) {
            Some(SpelledWhen::Always) => true,
            Some(SpelledWhen::MixedCase) if self.all_capitals() => {
                // Written small, so that a second reading does not spell it.
                self.say(&word.to_ascii_lowercase());
                return true;
            }
            Some(SpelledWhen::MixedCase) => true,
            Some(SpelledWhen::AfterThe) => {
                let before = self.word_before();
                let after = |article: &&str| before.eq_ignore_ascii_case(article);
                ["the", "an"].iter().any(after) && !self.all_capitals()
            }
            None => !looks_like_a_word(stem),
        };
        if spelled {
            self.glue = false;
            self.say_letters_with(stem, ending);
        }
        spelled
    }

    /// An initial of a name, or a letter as such. A, I and O are words unless a dot and a name follow.
    fn say_lone_capital(&mut self, letter: &str) -> bool {
        let initial = self.byte(0) == b'.' && self.is_initial(letter);
        let named = letter == "A" && self.word_before() == "an";
        if matches!(letter, "A" | "I" | "O") && !initial && !named {
            return false;
        }
        self.glue = false;
        self.say_letters(letter);
        if initial {
            self.at += 1;
        }
        true
    }

    /// Whether the dot after a single capital abbreviates a name and does not end the sentence.
    fn is_initial(&self, letter: &str) -> bool {
        let after = &self.rest()[1..];
        let next = after.trim_start_matches(' ');
        let word = leading_word(next);
        // A quotation mark has become a second space. What it opens is speech, unless it closes
        // after a word: 'said J. "Go on."', but 'J. "Buck" Jones'.
        if after.len() - next.len() > 1 && !next[word.len()..].starts_with("  ") {
            return false;
        }
        let next = next.as_bytes();
        let starts = word.len() > 1 && TABLES.sentence_starts.contains(word);
        let capital = next.first().is_some_and(u8::is_ascii_uppercase) && !starts;
        let another = capital && next.get(1) == Some(&b'.');
        let before = self.word_before();
        let after_initial = before.len() == 1 && before.as_bytes()[0].is_ascii_uppercase();
        match letter {
            "I" => another || after_initial && capital,
            _ => capital,
        }
    }

    /// `U.S.`, `p.m.`, `B.C.`: two or more letters with dots between them.
    pub(super) fn read_dotted_letters(&mut self) -> Option<()> {
        let rest = self.rest();
        let mut letters = String::new();
        let mut len = 0;
        while letters.len() < MOST_DOTTED
            && byte_at(rest, len).is_ascii_alphabetic()
            && byte_at(rest, len + 1) == b'.'
        {
            letters.push(char::from(byte_at(rest, len)));
            len += 2;
        }
        // The last letter may lack its dot; a longer word behind is a new one ("U.S.army").
        let open = byte_at(rest, len).is_ascii_alphabetic();
        if open && !byte_at(rest, len + 1).is_ascii_alphanumeric() && !letters.is_empty() {
            letters.push(char::from(byte_at(rest, len)));
            len += 1;
        } else if letters.len() > 1 {
            len -= 1;
        }
        if letters.len() < 2 || rest[len..].starts_with(|c: char| c.is_alphanumeric()) {
            return self.read_degree();
        }
        let word = &rest[..len];
        let key = word.to_ascii_lowercase();
        self.at += len;
        match TABLES.abbreviations.get(key.as_str()) {
            Some(abbreviation) => self.say(abbreviation.spoken),
            None => {
                self.glue = false;
                let endings = [".'s", "'s"];
                match endings.iter().find(|it| self.rest().starts_with(**it)) {
                    Some(ending) => {
                        self.say_letters_with(&letters, Ending::Possessive);
                        self.at += ending.len();
                    }
                    None => self.say_letters(&letters),
                }
            }
        }
        self.remember(word);
        self.read_abbreviation_dot(false);
        Some(())
    }

    /// `Ph.D.`, `B.Sc.`: more than a letter between the dots.
    fn read_degree(&mut self) -> Option<()> {
        let rest = self.rest();
        let first = leading_word(rest).len();
        reject_if(first > 2 || byte_at(rest, first) != b'.')?;
        let len = first + 1 + leading_word(&rest[first + 1..]).len();
        let word = &rest[..len];
        reject_if(len > LONGEST_DEGREE || byte_at(rest, len).is_ascii_alphanumeric())?;
        let spoken = TABLES.degrees.get(&*word.to_ascii_lowercase())?;
        self.at += len;
        self.glue = false;
        self.out.word(spoken);
        self.remember(word);
        self.read_abbreviation_dot(false);
        Some(())
    }

    pub(super) fn say_letters(&mut self, letters: &str) {
        self.say_letters_with(letters, Ending::None);
    }

    fn say_letters_with(&mut self, letters: &str, ending: Ending) {
        for (index, letter) in letters.bytes().enumerate() {
            let upper = char::from(letter.to_ascii_uppercase());
            let Some(name) = TABLES.letters.get(&upper) else {
                continue;
            };
            let last = index + 1 == letters.len();
            match ending {
                Ending::Plural if last => self.out.word(&plural(name)),
                Ending::Possessive if last => self.out.word(&format!("{name}'s")),
                _ => self.out.word(name),
            }
        }
    }
}

fn plural(name: &str) -> String {
    match name.len() {
        1 => format!("{name}'s"),
        _ if name.ends_with(['s', 'x']) => format!("{name}es"),
        _ => format!("{name}s"),
    }
}

fn split_ending(word: &str) -> (&str, Ending) {
    if let Some(stem) = word.strip_suffix("'s").or_else(|| word.strip_suffix("'S")) {
        return (stem, Ending::Possessive);
    }
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 1 => (stem, Ending::Plural),
        _ => (word, Ending::None),
    }
}

/// Whether English letters could stand in this order at the edges of a word.
fn looks_like_a_word(capitals: &str) -> bool {
    let lower = capitals.to_ascii_lowercase();
    let is_vowel = |c: char| "aeiouy".contains(c);
    let Some(head) = lower.find(is_vowel) else {
        return is_interjection(&lower);
    };
    if lower.len() > LONGEST_UNUSUAL {
        return true;
    }
    let tail = lower.rfind(is_vowel).map_or(0, |at| at + 1);
    let fits = |place: &str, cluster: &str| {
        cluster.len() < 2 || TABLES.clusters.contains(&*format!("{place} {cluster}"))
    };
    fits("head", &lower[..head]) && fits("tail", &lower[tail..])
}

/// `HMM`, `SHH`, `PSST`, `BRRR`, `ZZZ`: sounds, not letters.
fn is_interjection(lower: &str) -> bool {
    matches!(
        lower,
        "psst" | "pst" | "tsk" | "nth" | "pfft" | "grr" | "brr"
    ) || lower.len() > 2
        && lower.bytes().all(|letter| b"hmsz".contains(&letter))
        && !matches!(lower, "hms" | "mms" | "sms" | "mss")
}
