//! How good predictions were.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Forecast, Ledger, Realised, RunKey};
use crate::simulate::what_if::BETWEEN_RUNS;

/// Of those that were scored, the worst that are listed.
const WORST: usize = 5;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scored {
    pub forecast: Forecast,
    pub realised: Realised,
    /// Of the measured step time, how far the predicted one was above it.
    pub error: f64,
    /// The share of a step's time that was saved.
    pub gain: f64,
    /// Whether faster was faster; `None` where the change was too small to be told from noise.
    pub right_sign: Option<bool>,
    /// Whether the step time lay in the interval.
    pub inside: bool,
}

impl Scored {
    pub fn new(forecast: &Forecast, realised: &Realised) -> Scored {
        let gain = 1.0 - realised.step_ms / forecast.measured_step_ms.max(1e-9);
        let interval = forecast.step_ms.low..=forecast.step_ms.high;
        Scored {
            error: forecast.step_ms.value / realised.step_ms.max(1e-9) - 1.0,
            gain,
            right_sign: (gain.abs() > BETWEEN_RUNS)
                .then_some((gain > 0.0) == (forecast.gain.value > 0.0)),
            inside: interval.contains(&realised.step_ms),
            forecast: forecast.clone(),
            realised: realised.clone(),
        }
    }
}

/// How many cases were right, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    pub hits: usize,
    pub of: usize,
}

impl Count {
    fn of(mut hits: impl Iterator<Item = bool>) -> Count {
        let mut count = Count::default();
        hits.by_ref().for_each(|hit| {
            count.of += 1;
            count.hits += usize::from(hit);
        });
        count
    }
}

/// All that `voxmill ledger` reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerReport {
    pub version: u32,
    pub predictions: usize,
    /// Nobody made the change yet.
    pub waiting: Vec<Forecast>,
    /// No setting makes the change, such as a faster disk.
    pub never: usize,
    /// Measured, but other programs took the cores before or after: that is not the prediction's error.
    pub crowded: usize,
    /// In the order of their measurements.
    pub scored: Vec<Scored>,
    /// Of the step times, without signs; `None` where nothing was scored.
    pub mean_absolute_error: Option<f64>,
    pub right_signs: Count,
    /// Of the intervals, which are to hold 90 %.
    pub inside: Count,
    /// Numbers of the scored ones with the largest errors, from 0, the worst first.
    pub worst: Vec<usize>,
    /// Lines of the ledger that could not be read.
    pub unread: usize,
}

pub fn report(ledger: &Ledger) -> LedgerReport {
    let mut scored = Vec::new();
    let (mut waiting, mut never, mut crowded) = (Vec::new(), 0, 0);
    for forecast in &ledger.forecasts {
        let mut measured = ledger.realised.iter();
        match measured.find(|realised| realised.forecast == forecast.id) {
            None if !RunKey::can_be_realised(&forecast.changes) => never += 1,
            None => waiting.push(forecast.clone()),
            Some(realised) if forecast.crowded || realised.crowded => crowded += 1,
            Some(realised) => scored.push(Scored::new(forecast, realised)),
        }
    }
    scored.sort_by(|a, b| {
        let when = |scored: &Scored| scored.realised.unix_seconds;
        when(a).total_cmp(&when(b))
    });
    let errors: f64 = scored.iter().map(|it| it.error.abs()).sum();
    let mut worst: Vec<usize> = (0..scored.len()).collect();
    worst.sort_by(|a, b| scored[*b].error.abs().total_cmp(&scored[*a].error.abs()));
    worst.truncate(WORST);
    LedgerReport {
        version: super::LEDGER_VERSION,
        predictions: ledger.forecasts.len(),
        waiting,
        never,
        crowded,
        mean_absolute_error: (!scored.is_empty()).then(|| errors / scored.len() as f64),
        right_signs: Count::of(scored.iter().filter_map(|it| it.right_sign)),
        inside: Count::of(scored.iter().map(|it| it.inside)),
        worst,
        scored,
        unread: ledger.unread,
    }
}
