//! A natural logarithm that the compiler can vectorise: `f32::ln` is a call per value.

use std::f32::consts::LN_2;

/// Replaces each value by the logarithm of itself or of `floor`, whichever is larger.
///
/// `floor` must be a positive normal number. The result is within 1e-6 of the true logarithm,
/// relatively (tested); it is the same bits wherever it runs.
#[inline(always)]
pub(super) fn ln_at_least(floor: f32, values: &mut [f32]) {
    debug_assert!(floor >= f32::MIN_POSITIVE);
    for value in values {
        *value = ln(if *value > floor { *value } else { floor });
    }
}

/// Splits x into 2^e · m with m around 1, then sums the series of 2 artanh((m-1)/(m+1)), which
/// four terms bring below f32's resolution there.
#[inline(always)]
fn ln(x: f32) -> f32 {
    const SQRT_HALF_BITS: i32 = 0x3f35_04f3;
    let bits = x.to_bits() as i32;
    let exponent = (bits - SQRT_HALF_BITS) >> 23;
    let m = f32::from_bits((bits - (exponent << 23)) as u32);
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let series = s2 * (2.0 / 3.0 + s2 * (2.0 / 5.0 + s2 * (2.0 / 7.0 + s2 * (2.0 / 9.0))));
    exponent as f32 * LN_2 + (2.0 * s + s * series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_true_logarithm_over_the_whole_range() {
        // Every 997th float from 1e-5 up to 1e12, which visits all mantissas' neighbourhoods.
        for bits in (1e-5_f32.to_bits()..1e12_f32.to_bits()).step_by(997) {
            let x = f32::from_bits(bits);
            let expected = f64::from(x).ln();
            let error = (f64::from(ln(x)) - expected).abs();
            assert!(error <= 1e-6 * expected.abs(), "ln({x}) is off by {error}");
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn values_below_the_floor_give_its_logarithm() {
        let mut values = [0.0, 1e-6, 1e-5, -1.0, f32::NAN];
        ln_at_least(1e-5, &mut values);
        assert_eq!(values, [values[0]; 5]);
        assert!((values[0] - 1e-5_f32.ln()).abs() < 1e-6);
    }
}
