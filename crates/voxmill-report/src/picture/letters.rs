//! Letters for titles and axes, three by five blocks each: enough to read which picture it is.

use super::canvas::Canvas;
use super::colour::Colour;

/// Pixels of a block.
const BLOCK: usize = 2;
/// From one letter to the next.
pub(super) const ADVANCE: usize = 4 * BLOCK;
pub(super) const HEIGHT: usize = 5 * BLOCK;

/// Rows from the top, three blocks each, the left one is the highest bit.
const LETTERS: [(char, [u8; 5]); 46] = [
    ('0', [7, 5, 5, 5, 7]),
    ('1', [2, 6, 2, 2, 7]),
    ('2', [7, 1, 7, 4, 7]),
    ('3', [7, 1, 3, 1, 7]),
    ('4', [5, 5, 7, 1, 1]),
    ('5', [7, 4, 7, 1, 7]),
    ('6', [7, 4, 7, 5, 7]),
    ('7', [7, 1, 2, 2, 2]),
    ('8', [7, 5, 7, 5, 7]),
    ('9', [7, 5, 7, 1, 7]),
    ('a', [2, 5, 7, 5, 5]),
    ('b', [6, 5, 6, 5, 6]),
    ('c', [3, 4, 4, 4, 3]),
    ('d', [6, 5, 5, 5, 6]),
    ('e', [7, 4, 6, 4, 7]),
    ('f', [7, 4, 6, 4, 4]),
    ('g', [3, 4, 5, 5, 3]),
    ('h', [5, 5, 7, 5, 5]),
    ('i', [7, 2, 2, 2, 7]),
    ('j', [1, 1, 1, 5, 2]),
    ('k', [5, 5, 6, 5, 5]),
    ('l', [4, 4, 4, 4, 7]),
    ('m', [5, 7, 7, 5, 5]),
    ('n', [6, 5, 5, 5, 5]),
    ('o', [2, 5, 5, 5, 2]),
    ('p', [6, 5, 6, 4, 4]),
    ('q', [2, 5, 5, 6, 3]),
    ('r', [6, 5, 6, 5, 5]),
    ('s', [3, 4, 2, 1, 6]),
    ('t', [7, 2, 2, 2, 2]),
    ('u', [5, 5, 5, 5, 7]),
    ('v', [5, 5, 5, 5, 2]),
    ('w', [5, 5, 7, 7, 5]),
    ('x', [5, 5, 2, 5, 5]),
    ('y', [5, 5, 2, 2, 2]),
    ('z', [7, 1, 2, 4, 7]),
    ('.', [0, 0, 0, 0, 2]),
    (',', [0, 0, 0, 2, 4]),
    (':', [0, 2, 0, 2, 0]),
    ('-', [0, 0, 7, 0, 0]),
    ('\'', [2, 2, 0, 0, 0]),
    ('"', [5, 5, 0, 0, 0]),
    ('!', [2, 2, 2, 0, 2]),
    ('?', [7, 1, 2, 0, 2]),
    ('(', [1, 2, 2, 2, 1]),
    (')', [4, 2, 2, 2, 4]),
];

/// What is not among them: a letter of another script, a sign.
const OTHER: [u8; 5] = [7, 7, 7, 7, 7];

/// Writes a line; what does not fit the canvas is left out.
pub(super) fn write(canvas: &mut Canvas, x: usize, y: usize, text: &str, colour: Colour) {
    for (place, sign) in text.chars().enumerate() {
        let Some(rows) = rows(sign) else { continue };
        for (row, blocks) in rows.into_iter().enumerate() {
            for column in (0..3).filter(|column| blocks & (4 >> column) != 0) {
                let (x, y) = (x + place * ADVANCE + column * BLOCK, y + row * BLOCK);
                canvas.fill(x, y, BLOCK, BLOCK, colour);
            }
        }
    }
}

/// `None` for a space.
fn rows(sign: char) -> Option<[u8; 5]> {
    let sign = sign.to_ascii_lowercase();
    let mut known = LETTERS.iter();
    let known = known.find_map(|&(letter, rows)| (letter == sign).then_some(rows));
    (!sign.is_whitespace()).then(|| known.unwrap_or(OTHER))
}
