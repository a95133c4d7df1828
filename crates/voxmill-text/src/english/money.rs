//! Amounts of money: signs before or after the amount, small coins, millions, old British money.

use super::figures::Figure;
use super::numbers;
use super::reader::{EnglishReader, Expects, byte_at, leading_word};
use super::tables::{Currency, TABLES};

/// Words for large amounts, which stand between the number and the currency when spoken.
const LARGE: [&str; 5] = ["hundred", "thousand", "million", "billion", "trillion"];

/// What an amount before it describes: two five dollar bills.
const COUNTED_MONEY: [&str; 6] = ["bill", "bills", "note", "notes", "coin", "coins"];

impl<'a> EnglishReader<'a> {
    /// A currency sign or code at the beginning of `text` that an amount follows, with the bytes
    /// before the amount.
    fn currency_before_amount(text: &'a str) -> Option<(&'static Currency, usize)> {
        let letters = text.bytes().take_while(u8::is_ascii_uppercase).count();
        let sign = text[letters..]
            .chars()
            .next()
            .filter(|c| !c.is_alphanumeric());
        let mut len = letters;
        let mut currency = None;
        if letters <= 2
            && let Some(sign) = sign
        {
            len += sign.len_utf8();
            currency = TABLES.currencies.get(&text[..len]);
        }
        if currency.is_none() && letters == 3 {
            len = letters;
            currency = TABLES.currencies.get(&text[..len]);
        }
        let currency = currency?;
        len += usize::from(byte_at(text, len) == b' ');
        let amount = byte_at(text, len).is_ascii_digit()
            || byte_at(text, len) == b'.' && byte_at(text, len + 1).is_ascii_digit();
        amount.then_some((currency, len))
    }

    /// `$13.87`, `£3 4s. 6d.`, `$3.5 million`, `€5bn`, `$5-10`.
    pub(super) fn read_money(&mut self) -> Option<()> {
        let (currency, sign) = Self::currency_before_amount(self.rest())?;
        let figure = Figure::parse(&self.rest()[sign..])?;
        self.at += sign + figure.len;
        let mut adjective = self.is_after_article();
        let large = self.take_large();
        if let Some(next) = self.rest().strip_prefix([' ', '-']) {
            adjective |= COUNTED_MONEY.contains(&leading_word(next));
        }
        if large.is_none() && !currency.hundredth.is_empty() && figure.fraction.len() == 2 {
            self.say_coins(currency, &figure);
        } else {
            self.out.word(&figure.spoken());
            let mut one = figure.is_one() && large.is_none();
            if let Some(large) = large {
                self.out.word(large);
            } else if let Some(second) = self.rest().strip_prefix('-').and_then(Figure::parse) {
                self.out.word("to");
                self.out.word(&second.spoken());
                self.at += 1 + second.len;
                one = false;
                if let Some(large) = self.take_large() {
                    self.out.word(large);
                }
            }
            let hyphen = self.rest().strip_prefix('-');
            if hyphen.is_some_and(|next| leading_word(next) == currency.one) {
                // "$5 trillion-dollar plan"
                self.out.hyphenated(currency.one);
                self.at += 1 + currency.one.len();
            } else {
                self.out.word(currency.name(one || adjective));
            }
        }
        if self.byte(0) == b'-' && Self::currency_before_amount(&self.rest()[1..]).is_some() {
            self.out.word("to");
            self.at += 1;
        }
        self.expects = match currency.many {
            "pounds" => Expects::Shillings,
            _ => Expects::Nothing,
        };
        Some(())
    }

    fn say_coins(&mut self, currency: &Currency, figure: &Figure<'_>) {
        let coins = numbers::small(figure.fraction);
        let whole = figure.whole.trim_start_matches('0');
        if !whole.is_empty() || coins == 0 {
            self.out.word(&numbers::cardinal(&figure.whole));
            self.out.word(currency.name(whole == "1"));
        }
        if coins > 0 {
            if !whole.is_empty() {
                self.out.mark(',');
            }
            self.out.word(&numbers::cardinal(figure.fraction));
            self.out.word(match coins {
                1 => currency.hundredth,
                _ => currency.hundredths,
            });
        }
    }

    /// Takes " million", "-million", "m" or "bn" after an amount.
    fn take_large(&mut self) -> Option<&'static str> {
        let rest = self.rest();
        let spaced = rest.strip_prefix([' ', '-']);
        let word = leading_word(spaced.unwrap_or(rest));
        let large = match spaced {
            Some(_) => LARGE.iter().find(|large| **large == word).copied(),
            None => TABLES.magnitudes.get(word).copied(),
        }?;
        self.at += word.len() + usize::from(spaced.is_some());
        Some(large)
    }

    /// `5 €`, `50¢` after a number that has been said.
    pub(super) fn read_trailing_currency(&mut self, one: bool) {
        let rest = self.rest();
        let gap = usize::from(rest.starts_with(' '));
        let sign = rest[gap..].chars().next().map_or(0, char::len_utf8);
        let len = leading_word(&rest[gap..]).len().max(sign);
        // In "5 $3 notes" the sign belongs to the three.
        if let Some(currency) = TABLES.currencies.get(&rest[gap..gap + len])
            && Self::currency_before_amount(&rest[gap..]).is_none()
        {
            self.out.word(currency.name(one));
            self.at += gap + len;
        }
    }

    /// Whether the `s` behind a figure means shillings, and no decade.
    pub(super) fn is_shillings(&self, figure: &Figure<'_>) -> bool {
        if figure.whole.len() > 2 || !figure.fraction.is_empty() {
            return false;
        }
        let after = &self.rest()[figure.len..];
        let Some(after) = after.strip_prefix('s') else {
            return false;
        };
        let dotted = after.strip_prefix('.');
        let pence = dotted.unwrap_or(after).trim_start_matches([',', ' ']);
        let pence = Figure::parse(pence).is_some_and(|figure| byte_at(pence, figure.len) == b'd');
        let apart = !after.starts_with(|c: char| c.is_alphanumeric() || c == '\'');
        apart
            && (self.expects == Expects::Shillings
                || pence
                || dotted.is_some() && numbers::small(&figure.whole) < 20)
    }

    /// `4s. 6d.` and the pence after pounds or shillings.
    pub(super) fn read_shillings_or_pence(&mut self, figure: &Figure<'_>) -> Option<()> {
        let after = &self.rest()[figure.len..];
        let one = figure.is_one();
        let name = if self.is_shillings(figure) {
            if one { "shilling" } else { "shillings" }
        } else if after.starts_with('d')
            && !byte_at(after, 1).is_ascii_alphanumeric()
            && figure.fraction.is_empty()
            && (self.expects == Expects::Shillings
                || byte_at(after, 1) == b'.' && numbers::small(&figure.whole) < 12)
        {
            if one { "penny" } else { "pence" }
        } else {
            return None;
        };
        self.say(&figure.spoken());
        self.out.word(name);
        self.at += figure.len + 1;
        self.read_abbreviation_dot(true);
        self.expects = Expects::Shillings;
        Some(())
    }
}
