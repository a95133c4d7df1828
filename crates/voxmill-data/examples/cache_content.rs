//! What a cache holds, one line for each clip in order of id, whichever files it is spread over:
//! `cargo run -p voxmill-data --example cache_content -- path/to/voxmill-cache/features`
//!
//! Two caches that print the same hold the same features, bit for bit.

use std::path::PathBuf;

use voxmill_data::cache::{Cache, Hash128};

#[expect(clippy::print_stdout, reason = "an example prints what it got")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("which cache folder?")?);
    let cache = Cache::open(&path)?;
    for (id, entry) in cache.entries() {
        let clip = cache.get(id)?.ok_or("an entry without a clip")?;
        let mut bytes = Vec::new();
        bytes.extend(clip.mel.iter().flat_map(|value| value.to_le_bytes()));
        bytes.extend(clip.tokens.iter().flat_map(|token| token.to_le_bytes()));
        let (text, hash) = (clip.normalized, Hash128::of(&bytes));
        println!("{id} {} {} {hash} {text:?}", entry.frames, clip.language);
    }
    Ok(())
}
