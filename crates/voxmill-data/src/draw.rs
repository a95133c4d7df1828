//! Random draws that are hashes of what they are for.
//!
//! A shared stream of random numbers makes every draw depend on all draws before it: add a clip,
//! a worker or a rank and everything reshuffles. A draw here depends on (seed, epoch, clip,
//! purpose) alone, so it is the same on any number of workers and after any resume.

/// One 64-bit draw. `clip` is the clip's id, so that a clip keeps its draws when others come and go.
pub fn draw(seed: u64, epoch: u64, clip: &str, purpose: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(&epoch.to_le_bytes());
    hasher.update(&(purpose.len() as u64).to_le_bytes());
    hasher.update(purpose.as_bytes());
    hasher.update(clip.as_bytes());
    let mut head = [0; 8];
    head.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(head)
}

/// Maps a draw evenly onto `0..n` without the bias of a remainder. `n` must not be 0.
pub fn below(draw: u64, n: u64) -> u64 {
    ((u128::from(draw) * u128::from(n)) >> 64) as u64
}

/// Maps a draw onto `[0, 1)`.
pub fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_each_of_its_parts_and_on_nothing_else() {
        let base = draw(1, 2, "clip", "shuffle");
        assert_eq!(base, draw(1, 2, "clip", "shuffle"));
        assert_ne!(base, draw(2, 2, "clip", "shuffle"));
        assert_ne!(base, draw(1, 3, "clip", "shuffle"));
        assert_ne!(base, draw(1, 2, "clap", "shuffle"));
        assert_ne!(base, draw(1, 2, "clip", "crop"));
    }

    #[test]
    fn below_and_unit_stay_in_range() {
        for d in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(below(d, 7) < 7);
            assert!((0.0..1.0).contains(&unit(d)));
        }
    }
}
