//! Long texts cut into parts that are read in one breath.

/// A sentence of more letters than this is cut at its clauses: hardly a clip of a dataset is longer.
const LONG: usize = 240;

/// A long text cut at the ends of its sentences, and where they are still too long, at clauses.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        for sentence in cut(line, &['.', '!', '?', '؟', '…', '。'], 0) {
            if sentence.chars().count() <= LONG {
                all.push(sentence);
                continue;
            }
            for clause in cut(sentence, &[',', ';', ':', '،', '؛', '—'], LONG / 3) {
                cut_at_words(clause, &mut all);
            }
        }
    }
    all
}

/// Letters of a part that has no marks to be cut at. A text without any would otherwise be one breath, and
/// take memory without bound.
const LONGEST: usize = 4 * LONG;

fn cut_at_words<'a>(mut clause: &'a str, all: &mut Vec<&'a str>) {
    while let Some((end, _)) = clause.char_indices().nth(LONGEST) {
        // A word stays whole, but not one that is none (`a-a-a-a…`): that is cut after its last mark, or anywhere.
        let head = &clause[..end];
        let space = head.rfind(char::is_whitespace).filter(|at| *at > 0);
        let mark = |(at, c): (usize, char)| (!c.is_alphanumeric()).then_some(at + c.len_utf8());
        let at = space.or_else(|| head.char_indices().rev().find_map(mark));
        let (part, rest) = clause.split_at(at.unwrap_or(end));
        all.push(part.trim_end());
        clause = rest.trim_start();
    }
    if !clause.is_empty() {
        all.push(clause);
    }
}

/// Cuts after marks that a space follows, where the part before them has at least `least` letters.
/// A mark behind a single letter or a known short word is no end (`Mr. B. Smith`).
fn cut<'a>(text: &'a str, marks: &[char], least: usize) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let end = at + letter.len_utf8();
        let followed = letters.peek().is_none_or(|(_, next)| next.is_whitespace());
        if !marks.contains(&letter) || !followed {
            continue;
        }
        let part = text[begin..end].trim();
        let mut words = part.trim_end_matches(letter).rsplit(char::is_whitespace);
        let word = words.next().unwrap_or("");
        let abbreviated = letter == '.' && is_abbreviation(word);
        if !abbreviated && part.chars().count() >= least.max(1) {
            parts.push(part);
            begin = end;
        }
    }
    let rest = text[begin..].trim();
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

fn is_abbreviation(word: &str) -> bool {
    const SHORT: [&str; 12] = [
        "mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "no", "jr", "sr", "capt",
    ];
    word.chars().count() == 1 && word.chars().all(char::is_alphabetic)
        || SHORT.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_sentences_in_both_scripts() {
        let english = sentences("Hello there. How are you?\nFine!");
        assert_eq!(english, ["Hello there.", "How are you?", "Fine!"]);
        let persian = sentences("سلام. حال شما چطور است؟ خوبم");
        assert_eq!(persian, ["سلام.", "حال شما چطور است؟", "خوبم"]);
    }

    #[test]
    fn a_mark_inside_a_number_or_behind_a_title_is_no_end() {
        let whole = "Mr. B. Smith paid 3.50 pounds.";
        assert_eq!(sentences(whole), [whole]);
    }

    #[test]
    fn a_sentence_that_is_too_long_is_cut_at_its_clauses() {
        let long = "one two three four five six seven eight nine ten, ".repeat(10);
        let parts = sentences(&long);
        assert!(parts.len() > 2);
        assert!(parts.iter().all(|part| part.chars().count() <= LONG));
        assert_eq!(parts.join(" "), long.trim());
    }

    #[test]
    fn a_text_without_marks_is_cut_between_words() {
        let long = "word ".repeat(2_000);
        let parts = sentences(&long);
        let fits = |part: &&str| part.chars().count() <= LONGEST;
        assert!(parts.len() > 10 && parts.iter().all(fits));
        assert_eq!(parts.join(" "), long.trim());
    }

    #[test]
    fn a_text_without_words_is_cut_all_the_same() {
        for piece in ["x", "a-", "é", "—", "a\u{200c}"] {
            let long = piece.repeat(100_000);
            let parts = sentences(&long);
            let fits = |part: &&str| part.chars().count() <= LONGEST;
            assert!(parts.iter().all(fits), "{piece}");
            assert_eq!(parts.concat(), long, "{piece}");
        }
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert!(sentences(" \n\t\n").is_empty());
    }
}
