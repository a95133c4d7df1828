//! What a front-end's output depends on besides the text, for the cache to compare.

use serde::{Deserialize, Serialize};

/// Two front-ends with equal fingerprints make the same of every text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontEndFingerprint {
    /// What a person would call it, and its state.
    pub parts: Vec<(String, String)>,
}

impl FrontEndFingerprint {
    /// Of all that decides which tokens a text has.
    pub fn hash(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for text in self.parts.iter().flat_map(|(name, state)| [name, state]) {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.finalize().into()
    }
}
