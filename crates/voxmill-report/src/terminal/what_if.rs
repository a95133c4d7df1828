//! Predictions as text.

use voxmill_analysis::simulate::what_if::{Likely, Prediction};

use super::Mark;
use super::page::Page;
use crate::format::{Table, percent, short_percent, signed, size, three_digits, time};

/// Of the gain's own size: a change within it is none to speak of.
const NOTHING: f64 = 0.005;

/// `predicted: a step takes 38 % less time (35 to 41 %)`.
pub(super) fn predicted_gain(gain: Likely) -> String {
    let Likely { value, low, high } = gain;
    if value.abs() < NOTHING && low.abs() < NOTHING && high.abs() < NOTHING {
        return "predicted: none".to_owned();
    }
    let (less, [low, high]) = match value < 0.0 {
        true => ("more", [-high, -low]),
        false => ("less", [low, high]),
    };
    // In the direction of the word; a sign only where the interval has both directions.
    let [low, high] = [low.min(high), low.max(high)].map(|share| match low.min(high) < 0.0 {
        true => signed(100.0 * share, 1),
        false => format!("{:.1}", 100.0 * share),
    });
    let value = short_percent(value.abs());
    format!("predicted: a step takes {value} {less} time (likely {low} to {high} % {less})")
}

pub(super) fn what_if(page: &mut Page, prediction: &Prediction) {
    page.heading("What if");
    page.wrapped("  ", prediction.changes.join(", "));
    let mut table = Table::new(2)
        .left([""])
        .right(["ms a step", "model busy", "stall"]);
    for (name, pace) in [
        ("measured", prediction.measured),
        ("replayed", prediction.replayed),
        ("predicted", prediction.predicted),
    ] {
        let shares = [pace.busy, pace.stall].map(percent);
        let cells = [name.to_owned(), three_digits(pace.step_ms)];
        table.row(cells.into_iter().chain(shares));
    }
    page.table(&table);
    let Likely { low, high, .. } = prediction.step_ms;
    let interval = format!("likely step: {} to {}", time(low), time(high));
    page.wrapped("  ", interval);
    page.wrapped("  ", predicted_gain(prediction.gain));
    let bound = match prediction.bound_by.as_str() {
        "train" => "then the run would be bound by training".to_owned(),
        stage => format!("then the run would still wait, for `{stage}`"),
    };
    page.wrapped("  ", bound);
    if prediction.batch_memory > 0 {
        let memory = size(prediction.batch_memory);
        page.wrapped("  ", format!("batches ahead: {memory} at the most"));
    }
    for assumed in &prediction.assumes {
        page.point("  ", Mark::Open, format!("assumed: {assumed}"));
    }
}
