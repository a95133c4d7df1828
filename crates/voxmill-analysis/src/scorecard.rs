//! Three tiers of goals, and which of them a run reaches. What cannot be measured here is marked so.

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
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let score = |tier, goal, measured: Option<(f64, bool)>, note| Score {
        tier,
        goal,
        measured: measured.map(|(value, _)| value),
        reached: measured.map(|(_, reached)| reached),
        note,
    };
    let one_device = || "not measured: one device".to_owned();
    let tiers = [
        (Tier::Must, 0.70, 0.40, None, None),
        (Tier::Target, 0.80, 0.30, Some(0.50), Some(1.5)),
        (Tier::Stretch, 0.90, 0.20, Some(0.60), Some(2.0)),
    ];
    let mut rows = Vec::new();
    for (tier, busy, variation, data, gain) in tiers {
        let goal = format!("model busy > {:.0} %", 100.0 * busy);
        let measured = Some((profile.busy, profile.busy > busy));
        rows.push(score(tier, goal, measured, percent(profile.busy)));
        let goal = format!("step time varies < {:.0} %", 100.0 * variation);
        let measured = Some((profile.variation, profile.variation < variation));
        rows.push(score(tier, goal, measured, percent(profile.variation)));
        if tier == Tier::Must {
            let note = match profile.data_device_busy {
                None => one_device(),
                Some(_) => "profile both, then `compare`".to_owned(),
            };
            let goal = "two devices no slower than one".to_owned();
            rows.push(score(tier, goal, None, note));
        }
        if let Some(data) = data {
            let measured = profile.data_device_busy;
            let goal = format!("data device busy > {:.0} %", 100.0 * data);
            let note = measured.map_or_else(one_device, percent);
            let measured = measured.map(|busy| (busy, busy > data));
            rows.push(score(tier, goal, measured, note));
        }
        if let Some(gain) = gain {
            let measured = profile.feeding.no_overlap_over_run.map(|ratio| ratio.value);
            let goal = format!("{gain} × as fast as --no-overlap");
            let note = measured.map_or("not measured".to_owned(), |times| format!("{times:.2} ×"));
            let measured = measured.map(|times| (times, times >= gain));
            rows.push(score(tier, goal, measured, note));
        }
    }
    rows
}
