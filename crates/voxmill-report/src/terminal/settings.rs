//! Settings with where they came from, as text.

use super::Paint;
use super::page::Page;
use crate::format::{pad, width};

/// A value that is wider has a line of its own.
const WIDEST_VALUE: usize = 24;

/// Name, value and origin of each setting.
pub fn settings_text(settings: &[(&str, String, String)], paint: Paint) -> String {
    let widest = |widths: &mut dyn Iterator<Item = usize>| widths.max().unwrap_or(0);
    let names = widest(&mut settings.iter().map(|(name, ..)| width(name)));
    let values = widest(&mut settings.iter().map(|(_, value, _)| width(value)));
    let values = values.min(WIDEST_VALUE);
    let mut page = Page::new(names + 2, paint);
    for (name, value, origin) in settings {
        let columns = if width(value) > values { 0 } else { values };
        page.settled(name, &pad(value, columns), names + values + 4, origin);
    }
    page.text()
}

#[cfg(test)]
mod tests {
    use super::super::tests::fits;
    use super::*;

    #[test]
    fn a_long_value_has_its_origin_below_it() {
        let line = |name, value: &str, origin: &str| (name, value.to_owned(), origin.to_owned());
        let text = settings_text(
            &[
                line("batch_size", "16", "default"),
                line("train_data", "a folder with a long name, in words", "flag"),
                line(
                    "gradient_accumulation_steps",
                    "1",
                    &"why it is so ".repeat(6),
                ),
            ],
            Paint::plain(),
        );
        insta::assert_snapshot!(fits(text));
    }
}
