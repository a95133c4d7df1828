//! HTML and SVG under construction.
//!
//! Names of tags and attributes are `&'static str`, so they are the program's own. Everything else is data, and
//! goes through [`escaped`]: there is no way to add a text as markup.

use std::fmt::Write as _;

use voxmill_untrusted::shown;

/// A text as it stands between tags and in attributes. What a terminal would obey is written out first: whoever
/// copies from the page may paste it into one.
pub(crate) fn escaped(text: &str) -> String {
    let text = shown::lines(text);
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Part of a page.
#[derive(Debug, Default)]
pub(crate) struct Html(String);

/// Names with their values.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Html {
    pub(crate) fn new() -> Html {
        Html::default()
    }

    /// An element with what `inside` puts into it.
    pub(crate) fn element(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Html),
    ) {
        self.open(tag, attributes);
        self.0.push('>');
        inside(self);
        let _ = write!(self.0, "</{tag}>");
    }

    /// An element that is empty by its nature.
    pub(crate) fn empty(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes);
        self.0.push('>');
    }

    /// The same in SVG, where it must be closed.
    pub(crate) fn shape(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes);
        self.0.push_str("/>");
    }

    /// An element that holds a text and nothing else.
    pub(crate) fn words(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.element(tag, attributes, |inside| inside.text(text));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.0.push_str(&escaped(text));
    }

    pub(crate) fn append(&mut self, other: Html) {
        self.0.push_str(&other.0);
    }

    /// What is part of the program.
    pub(crate) fn own(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            let _ = write!(self.0, " {name}=\"{}\"", escaped(value));
        }
    }
}

/// A coordinate: short, as there are many.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" | "" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// One with the places that zooming in needs.
pub(crate) fn fine(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" | "" => "0".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_never_markup() {
        let evil = "</style><script>alert('x\")</script>\u{1b}]52;c;QQ==\u{7}\u{202e}&amp;";
        let mut page = Html::new();
        page.element("p", &[("title", evil)], |p| p.text(evil));
        let page = page.into_string();
        let text = "&lt;/style&gt;&lt;script&gt;alert(&#39;x&quot;)&lt;/script&gt;\\u{1b}]52;c;QQ==\\u{7}\\u{202e}&amp;amp;";
        assert_eq!(page, format!("<p title=\"{text}\">{text}</p>"));
        let persian = "می\u{200c}روم";
        assert_eq!(escaped(persian), persian);
    }

    #[test]
    fn coordinates_are_short() {
        let written = [0.0, -0.001, 12.5, 3.10, 100.0].map(number);
        assert_eq!(written, ["0", "0", "12.5", "3.1", "100"]);
        assert_eq!(fine(0.123_456), "0.1235");
    }
}
