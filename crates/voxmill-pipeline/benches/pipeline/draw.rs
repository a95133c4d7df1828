//! Service times that are drawn by hash: the same for every plan that is compared.

use std::time::Duration;

/// A log-normal time with this mean and variation (standard deviation / mean).
pub(crate) fn log_normal(mean: Duration, variation: f64, stage: u64, item: u64) -> Duration {
    let variance = (1.0 + variation * variation).ln();
    let normal = {
        // Box and Muller.
        let (a, b) = (uniform(stage, item, 0), uniform(stage, item, 1));
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    };
    mean.mul_f64((variance.sqrt() * normal - variance / 2.0).exp())
}

/// In (0, 1].
fn uniform(stage: u64, item: u64, which: u64) -> f64 {
    let mut hash = item
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(stage.wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add(which.wrapping_mul(0x8cb9_2ba7_2f3d_8dd7));
    for _ in 0..2 {
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0xe703_7ed1_a0b4_28db);
    }
    hash ^= hash >> 29;
    ((hash >> 11) + 1) as f64 / (1u64 << 53) as f64
}
