//! Three tiers of goals, and which of them a run reaches. What cannot be measured here says so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::profile::Profile;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    Must,
    Target,
    Stretch,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    pub tier: Tier,
    pub goal: String,
    /// `None`: it cannot be measured here.
    pub measured: Option<f64>,
    pub reached: Option<bool>,
    pub note: String,
}

pub fn scorecard(profile: &Profile) -> Vec<Score> {
    let share = |value: f64| format!("{:.1} %", 100.0 * value);
    let times = |value: f64| format!("{value:.2} ×");
    let mut rows = Vec::new();
    let mut row =
        |tier, goal: String, measured: Option<f64>, reached: Option<bool>, note: String| {
            rows.push(Score {
                tier,
                goal,
                measured,
                reached,
                note,
            });
        };
    let tiers = [
        (Tier::Must, 0.70, 0.40, None, None),
        (Tier::Target, 0.80, 0.30, Some(0.50), Some(1.5)),
        (Tier::Stretch, 0.90, 0.20, Some(0.60), Some(2.0)),
    ];
    for (tier, busy, variation, data, gain) in tiers {
        row(
            tier,
            format!("model busy > {:.0} %", 100.0 * busy),
            Some(profile.busy),
            Some(profile.busy > busy),
            share(profile.busy),
        );
        row(
            tier,
            format!("step time varies < {:.0} %", 100.0 * variation),
            Some(profile.variation),
            Some(profile.variation < variation),
            share(profile.variation),
        );
        if tier == Tier::Must {
            row(
                tier,
                "two devices no slower than one".to_owned(),
                None,
                None,
                match profile.data_device_busy {
                    None => "not measured: one device".to_owned(),
                    Some(_) => "profile both, then `compare`".to_owned(),
                },
            );
        }
        if let Some(data) = data {
            let measured = profile.data_device_busy;
            row(
                tier,
                format!("data device busy > {:.0} %", 100.0 * data),
                measured,
                measured.map(|busy| busy > data),
                measured.map_or("not measured: one device".to_owned(), share),
            );
        }
        if let Some(gain) = gain {
            let measured = profile.feeding.no_overlap_over_run;
            row(
                tier,
                format!("{gain} × as fast as --no-overlap"),
                measured.map(|ratio| ratio.value),
                measured.map(|ratio| ratio.value >= gain),
                measured.map_or("not measured".to_owned(), |ratio| times(ratio.value)),
            );
        }
    }
    rows
}
