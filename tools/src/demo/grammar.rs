//! A template grammar: a text file that a person can edit, and sentences drawn from it.
//!
//! The file's own head explains its format. A sentence is a function of (grammar, seed, key):
//! adding an alternative changes only the sentences that might have drawn it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use voxmill_data::draw::{below, draw};

/// Deeper than any sensible grammar: reaching it means that a rule leads back to itself.
const MAX_DEPTH: usize = 20;
const START: &str = "sentence";
const MAY_REPEAT: &str = "may_repeat";

#[derive(Debug)]
pub(super) struct Grammar {
    rules: BTreeMap<String, Vec<Alternative>>,
    may_repeat: BTreeSet<String>,
}

#[derive(Debug)]
struct Alternative {
    weight: u64,
    pieces: Vec<GrammarPiece>,
}

#[derive(Debug)]
enum GrammarPiece {
    Text(String),
    Rule(String),
}

impl Grammar {
    pub(super) fn parse(text: &str) -> Result<Grammar> {
        let mut rules: BTreeMap<String, Vec<Alternative>> = BTreeMap::new();
        let mut current = None;
        for (number, line) in (1..).zip(text.lines()) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let alternatives = if line.starts_with(char::is_whitespace) {
                line
            } else {
                let (name, rest) = line
                    .split_once(':')
                    .with_context(|| format!("line {number}: a rule begins with `name:`"))?;
                ensure!(
                    !rules.contains_key(name),
                    "line {number}: `{name}` is defined twice"
                );
                current = Some(name.to_owned());
                rest
            };
            let name = current
                .clone()
                .with_context(|| format!("line {number}: an alternative before the first rule"))?;
            let rule = rules.entry(name).or_default();
            for alternative in alternatives
                .split(" / ")
                .map(str::trim)
                .filter(|a| !a.is_empty())
            {
                rule.push(
                    parse_alternative(alternative).with_context(|| format!("line {number}"))?,
                );
            }
        }
        let may_repeat = rules
            .remove(MAY_REPEAT)
            .unwrap_or_default()
            .into_iter()
            .flat_map(|alternative| alternative.pieces)
            .map(|piece| match piece {
                GrammarPiece::Text(word) | GrammarPiece::Rule(word) => word,
            })
            .collect();
        let grammar = Grammar { rules, may_repeat };
        grammar.check_names()?;
        Ok(grammar)
    }

    /// Every rule named must exist, and every rule written must be reachable by name: a misspelt
    /// rule would otherwise quietly thin out the corpus.
    fn check_names(&self) -> Result<()> {
        let mut used = BTreeSet::from([START]);
        for alternative in self.rules.values().flatten() {
            for piece in &alternative.pieces {
                if let GrammarPiece::Rule(name) = piece {
                    used.insert(name);
                }
            }
        }
        for name in &used {
            ensure!(self.rules.contains_key(*name), "there is no rule `{name}`");
        }
        for (name, alternatives) in &self.rules {
            ensure!(
                used.contains(name.as_str()),
                "nothing leads to the rule `{name}`"
            );
            ensure!(!alternatives.is_empty(), "the rule `{name}` is empty");
        }
        Ok(())
    }

    /// One sentence, or `None` where the draw repeated a word that should not come twice.
    pub(super) fn sentence(&self, seed: u64, key: &str) -> Result<Option<String>> {
        let mut text = String::new();
        let mut draws = 0;
        self.expand(START, seed, key, &mut draws, 0, &mut text)?;
        let mut seen = BTreeSet::new();
        let repeats =
            words(&text).any(|word| !self.may_repeat.contains(&word) && !seen.insert(word));
        Ok((!repeats).then(|| polish(&text)))
    }

    fn expand(
        &self,
        rule: &str,
        seed: u64,
        key: &str,
        draws: &mut u64,
        depth: usize,
        text: &mut String,
    ) -> Result<()> {
        ensure!(depth < MAX_DEPTH, "the rule `{rule}` leads back to itself");
        let alternatives = &self.rules[rule];
        let total = alternatives.iter().map(|a| a.weight).sum();
        let mut at = below(draw(seed, *draws, key, "demo grammar"), total);
        *draws += 1;
        for alternative in alternatives {
            if at >= alternative.weight {
                at -= alternative.weight;
                continue;
            }
            for piece in &alternative.pieces {
                match piece {
                    GrammarPiece::Text(literal) => text.push_str(literal),
                    GrammarPiece::Rule(name) => {
                        self.expand(name, seed, key, draws, depth + 1, text)?
                    }
                }
            }
            break;
        }
        Ok(())
    }
}

fn parse_alternative(text: &str) -> Result<Alternative> {
    let (weight, mut rest) = match text.split_once("* ") {
        Some((weight, rest)) => (weight.parse().context("a weight is a whole number")?, rest),
        None => (1, text),
    };
    ensure!(
        weight > 0,
        "a weight of 0 hides the alternative; delete it instead"
    );
    let mut pieces = Vec::new();
    while let Some((literal, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            bail!("`{{` without `}}` in `{text}`");
        };
        if !literal.is_empty() {
            pieces.push(GrammarPiece::Text(literal.to_owned()));
        }
        pieces.push(GrammarPiece::Rule(name.to_owned()));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(GrammarPiece::Text(rest.to_owned()));
    }
    Ok(Alternative { weight, pieces })
}

/// The words of a sentence, lower case, without punctuation.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphabetic() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// "a" becomes "an" where it must, and the sentence begins with a capital.
fn polish(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut polished = String::with_capacity(text.len() + 2);
    for (i, word) in words.iter().enumerate() {
        if i > 0 {
            polished.push(' ');
        }
        polished.push_str(word);
        if *word == "a" && words.get(i + 1).is_some_and(|next| takes_an(next)) {
            polished.push('n');
        }
    }
    if let Some(first) = polished.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    polished
}

fn takes_an(word: &str) -> bool {
    word.starts_with("hour")
        || (word.starts_with(['a', 'e', 'i', 'o', 'u'])
            && !word.starts_with("us")
            && !word.starts_with("one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_a_function_of_its_key() {
        let grammar =
            Grammar::parse("sentence: the {x} ran. / 2* a {x} sat.\nx: cat / owl\n").unwrap();
        let drawn: BTreeSet<String> = (0..50)
            .map(|i| grammar.sentence(1, &i.to_string()).unwrap().unwrap())
            .collect();
        let all = ["A cat sat.", "An owl sat.", "The cat ran.", "The owl ran."];
        assert_eq!(drawn, all.map(str::to_owned).into());
        assert_eq!(
            grammar.sentence(1, "k").unwrap(),
            grammar.sentence(1, "k").unwrap()
        );
    }

    #[test]
    fn a_repeated_word_is_thrown_away_unless_it_may_repeat() {
        let never =
            Grammar::parse("sentence: the {x} saw the {x}.\nx: cow\nmay_repeat: the\n").unwrap();
        assert_eq!(never.sentence(1, "k").unwrap(), None);
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        for (text, complaint) in [
            ("sentence: {gone}\n", "there is no rule `gone`"),
            (
                "sentence: x\nspare: y\n",
                "nothing leads to the rule `spare`",
            ),
            ("sentence: {sentence} x\n", "leads back to itself"),
            ("sentence: {open\n", "without"),
            ("sentence: a\nsentence: b\n", "defined twice"),
        ] {
            let error = Grammar::parse(text)
                .and_then(|grammar| grammar.sentence(1, "k"))
                .expect_err(text);
            assert!(format!("{error:#}").contains(complaint), "{error:#}");
        }
    }
}
