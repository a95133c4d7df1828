//! From a value to a colour: dark to bright in even steps for the eye, so that brightness can be read as loudness.

/// Entries of the palette's 256 that are shades; the others have a meaning of their own.
const SHADES: u8 = 252;

/// An entry of the palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colour(pub(super) u8);

pub(super) const BACKGROUND: Colour = Colour(SHADES);
pub(super) const SEPARATOR: Colour = Colour(SHADES + 1);
pub(super) const NOT_A_NUMBER: Colour = Colour(SHADES + 2);
pub(super) const EMPTY_TOKEN: Colour = Colour(SHADES + 3);

const SPECIAL: [[u8; 3]; 4] = [
    [0x60, 0x60, 0x60],
    [0xff, 0xff, 0xff],
    [0x00, 0xff, 0x00],
    [0xd0, 0x10, 0x10],
];

/// Nine points of the magma colour map, evenly spaced; between them a straight line is close enough.
const MAGMA: [[u8; 3]; 9] = [
    [0x00, 0x00, 0x04],
    [0x1d, 0x11, 0x47],
    [0x51, 0x12, 0x7c],
    [0x82, 0x26, 0x81],
    [0xb6, 0x36, 0x79],
    [0xe6, 0x51, 0x64],
    [0xfb, 0x88, 0x61],
    [0xfe, 0xc2, 0x87],
    [0xfc, 0xfd, 0xbf],
];

/// The colour of a place between darkest (0) and brightest (1).
pub(super) fn shade(position: f32) -> Colour {
    Colour((position.clamp(0.0, 1.0) * f32::from(SHADES - 1)).round() as u8)
}

/// Red, green, blue for each entry.
pub(super) fn palette() -> Vec<u8> {
    let shades = (0..SHADES).map(|shade| magma(f32::from(shade) / f32::from(SHADES - 1)));
    shades.chain(SPECIAL).flatten().collect()
}

fn magma(position: f32) -> [u8; 3] {
    let place = position * (MAGMA.len() - 1) as f32;
    let below = (place as usize).min(MAGMA.len() - 2);
    let part = place - below as f32;
    std::array::from_fn(|part_of_colour| {
        let from = f32::from(MAGMA[below][part_of_colour]);
        let to = f32::from(MAGMA[below + 1][part_of_colour]);
        (from + (to - from) * part).round() as u8
    })
}

/// The values that the colours span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    darkest: f32,
    brightest: f32,
}

impl Range {
    /// From the 2nd to the 99.5th percentile of the finite values: single clicks and digital silence lie outside.
    pub(super) fn of(values: &[f32]) -> Self {
        let mut finite: Vec<f32> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let darkest = percentile(&mut finite, 0.02);
        let brightest = percentile(&mut finite, 0.995);
        Range { darkest, brightest }
    }

    /// 0 at the darkest, 1 at the brightest; a flat mel is dark all over.
    pub(super) fn position(self, value: f32) -> f32 {
        let span = self.brightest - self.darkest;
        if span > 0.0 {
            (value - self.darkest) / span
        } else {
            f32::from(value > self.brightest)
        }
    }
}

fn percentile(values: &mut [f32], share: f64) -> f32 {
    if values.is_empty() {
        return 0.0;
    }
    let rank = ((values.len() - 1) as f64 * share).round() as usize;
    *values.select_nth_unstable_by(rank, f32::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shade_is_brighter_than_the_one_before() {
        let luminance = |rgb: &[u8]| {
            0.2126 * f64::from(rgb[0]) + 0.7152 * f64::from(rgb[1]) + 0.0722 * f64::from(rgb[2])
        };
        let palette = palette();
        let shades: Vec<f64> = palette.chunks_exact(3).map(luminance).collect();
        assert_eq!(shades.len(), 256);
        for pair in shades[..usize::from(SHADES)].windows(2) {
            assert!(pair[0] <= pair[1], "{pair:?}");
        }
    }

    #[test]
    fn a_single_click_does_not_darken_the_rest() {
        let mut values: Vec<f32> = (0..1_000).map(|i| i as f32 / 1_000.0).collect();
        let calm = Range::of(&values);
        values[500] = 1e9;
        let clicked = Range::of(&values);
        assert!((calm.position(0.5) - clicked.position(0.5)).abs() < 0.01);
    }

    #[test]
    fn nothing_and_constants_have_a_range_too() {
        assert_eq!(Range::of(&[]).position(0.0), 0.0);
        assert_eq!(Range::of(&[f32::NAN]).position(0.0), 0.0);
        assert_eq!(Range::of(&[3.0; 9]).position(3.0), 0.0);
    }
}
