//! Words in their one spelling: prefixes and endings joined where only one reading exists.

use super::marks::MARKS;
use super::tables::{SuffixWhen, TABLES};
use super::{ZWNJ, is_persian, stands_apart};

/// Words that may follow «می» ("wine", or the month) without being a verb with the prefix «می‌».
const NOT_AFTER_PREFIX: [&str; 6] = ["است", "نیست", "هست", "بود", "نبود", "باید"];

/// Joins separated prefixes and endings and restores tanvin. Expects tidy text: single spaces,
/// marks directly after words.
pub(super) fn join(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    // The word before, as written so far; empty after a mark, so that nothing joins across one.
    let mut previous = String::new();
    let mut before_previous = String::new();
    for token in text.split(' ') {
        let word = token.trim_end_matches(MARKS);
        let word = TABLES.tanvin.get(word).copied().unwrap_or(word);
        let marks = &token[token.trim_end_matches(MARKS).len()..];
        let joined = is_ending_of(word, &previous)
            || is_verb_after_prefix(word, &previous, &before_previous);
        if joined {
            if previous
                .chars()
                .next_back()
                .is_some_and(|c| !stands_apart(c))
            {
                out.push(ZWNJ);
                previous.push(ZWNJ);
            }
            previous.push_str(word);
        } else {
            if !out.is_empty() {
                out.push(' ');
            }
            before_previous = std::mem::replace(&mut previous, word.to_owned());
        }
        out.push_str(word);
        out.push_str(marks);
        if !marks.is_empty() {
            previous.clear();
        }
    }
    out
}

fn is_ending_of(word: &str, previous: &str) -> bool {
    let mut letters = previous.chars().rev();
    let Some(last) = letters.next().filter(|c| is_persian(*c)) else {
        return false;
    };
    match TABLES.suffixes.get(word) {
        Some(SuffixWhen::Any) => true,
        // به, که, نه, سه, ده and their like are words in which ه is no ending.
        Some(SuffixWhen::AfterHeh) => {
            last == 'ه' && letters.filter(|c| is_persian(*c)).count() >= 2
        }
        None => false,
    }
}

/// «می روم», «نمی دانند», «می رفت»: verbs end in a person's ending or, in the past, in t or d.
/// «ماه می», «می ناب» do not pass.
fn is_verb_after_prefix(word: &str, previous: &str, before: &str) -> bool {
    (previous == "می" && before != "ماه" || previous == "نمی")
        && word.chars().count() >= 2
        && word.chars().all(|c| is_persian(c) || c == ZWNJ)
        && word.ends_with(['م', 'ی', 'د', 'ت'])
        && !NOT_AFTER_PREFIX.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_only_what_cannot_be_a_word() {
        assert_eq!(join("من می روم"), "من می‌روم");
        assert_eq!(join("می ناب"), "می ناب");
        assert_eq!(join("می, روم"), "می, روم");
        assert_eq!(join("کتاب ها"), "کتاب‌ها");
        assert_eq!(join("کار ها"), "کارها");
        assert_eq!(join("هیزم تر"), "هیزم تر");
        assert_eq!(join("رفته ام."), "رفته‌ام.");
        assert_eq!(join("که ای"), "که ای");
    }
}
