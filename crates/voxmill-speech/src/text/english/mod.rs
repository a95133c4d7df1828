//! Stand-in until the English normaliser is merged: collapses white space.

pub fn normalize(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
