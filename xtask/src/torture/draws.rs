//! Numbers drawn for a round: the same for the same seed and round.

use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64, round: u64) -> Draws {
        let mut draws = Draws(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ round);
        // Neighbouring rounds have nothing in common.
        draws.next();
        draws
    }

    /// splitmix64
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to `end`, which is not among them.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// A moment within a span.
    pub(crate) fn within(&mut self, span: Duration) -> Duration {
        span.mul_f64(self.below(1_000_000) as f64 / 1e6)
    }

    pub(crate) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}
