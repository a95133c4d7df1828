//! Shapes in a line of text, where they say more than a number.

const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar for a share from 0 to 1.
pub fn bar(share: f64, width: usize) -> String {
    const PARTS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let filled = share.clamp(0.0, 1.0) * width as f64;
    let whole = filled.floor() as usize;
    let mut text = "█".repeat(whole);
    let rest = ((filled - whole as f64) * 8.0).round() as usize;
    if whole < width && rest > 0 {
        text.push(PARTS.get(rest - 1).copied().unwrap_or('█'));
    }
    text
}

/// Values over time, from 0 to the largest; a column is the mean of those that fall into it.
pub fn sparkline(values: &[f64], width: usize) -> String {
    let width = width.min(values.len());
    let most = values.iter().copied().fold(0.0, f64::max);
    if width == 0 || most <= 0.0 {
        return String::new();
    }
    (0..width)
        .map(|column| {
            let from = column * values.len() / width;
            let to = ((column + 1) * values.len() / width).max(from + 1);
            let part = &values[from..to];
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            let height = (mean / most * 7.0).round().clamp(0.0, 7.0) as usize;
            EIGHTHS[height]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_lines_have_the_shape_of_their_numbers() {
        assert_eq!(bar(0.5, 8), "████");
        assert_eq!(bar(0.0, 8), "");
        assert_eq!(bar(0.55, 10), "█████▌");
        assert_eq!(bar(2.0, 3), "███");
        assert_eq!(sparkline(&[1.0, 2.0, 4.0, 8.0], 4), "▂▃▅█");
        assert_eq!(sparkline(&[1.0, 1.0, 3.0, 3.0], 2), "▃█");
        assert_eq!(sparkline(&[], 10), "");
    }
}
