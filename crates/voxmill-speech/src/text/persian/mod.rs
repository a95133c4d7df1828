//! Stand-in until the Persian normaliser is merged: collapses white space.

pub fn normalize(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
