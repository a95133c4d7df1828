//! Three tiers of goals, and which of them a run reaches. What cannot be measured here is marked so, and so is what says
//! nothing of this program: on a machine that others use, and where there is nothing to overlap.

use crate::setting::AdvisedSetting;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use voxmill_format::{percent, whole_percent};

use crate::paired::LEAST_ROUNDS;
use crate::profile::Profile;
use crate::timing::Ratio;

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
    /// `None`: not graded; the note says why.
    pub reached: Option<bool>,
    pub note: String,
}

/// The measures of a run next to the goals of each tier.
pub fn scorecard(profile: &Profile) -> Vec<Score> {
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
        let goal = format!("model busy > {}", whole_percent(busy));
        let measured = Some((profile.busy, profile.busy > busy));
        rows.push(score(tier, goal, measured, percent(profile.busy)));
        let goal = format!("step time varies < {}", whole_percent(variation));
        let varies = profile.variation;
        let note = varies.map_or("not measured: too few steps".to_owned(), percent);
        let measured = varies.map(|varies| (varies, varies < variation));
        rows.push(score(tier, goal, measured, note));
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
            let goal = format!("data device busy > {}", whole_percent(data));
            let note = measured.map_or_else(one_device, percent);
            let measured = measured.map(|busy| (busy, busy > data));
            rows.push(score(tier, goal, measured, note));
        }
        if let Some(gain) = gain {
            let goal = format!("{gain} × as fast as {}", AdvisedSetting::NoOverlap);
            rows.push(overlap(tier, goal, profile, gain));
        }
    }
    // The head of the report names how many.
    if (profile.other_programs).is_some_and(|others| others.oversubscribed) {
        for row in rows.iter_mut().filter(|row| row.reached.is_some()) {
            row.reached = None;
            row.note = format!("{}: cores were taken", row.note);
        }
    }
    rows
}

fn overlap(tier: Tier, goal: String, profile: &Profile, gain: f64) -> Score {
    let feeding = &profile.feeding;
    let mut score = Score {
        tier,
        goal,
        measured: feeding.no_overlap_over_run.map(|ratio| ratio.value),
        reached: None,
        note: "not measured".to_owned(),
    };
    let Some(Ratio { value, low, high }) = feeding.no_overlap_over_run else {
        return score;
    };
    let most = feeding.most_overlap_can_gain;
    (score.reached, score.note) = match most.filter(|most| *most < gain) {
        // Whatever was measured: the feeding table has it next to this bound.
        Some(most) => (None, format!("at most {most:.3} × to gain")),
        None if (feeding.rounds as usize) < LEAST_ROUNDS => {
            (None, format!("{value:.2} ×: too few steps"))
        }
        None if low < gain && gain <= high => {
            (None, format!("{low:.2} to {high:.2} ×: not certain"))
        }
        None => (Some(value >= gain), format!("{value:.2} ×")),
    };
    score
}

#[cfg(test)]
mod tests {
    use crate::profile::profile;
    use crate::setting::AdvisedSetting;
    use crate::synthetic::SyntheticRun;

    fn gains(run: &SyntheticRun) -> Vec<(Option<bool>, String)> {
        let scores = profile(&run.run()).scorecard.into_iter();
        let gains =
            scores.filter(|score| score.goal.contains(&AdvisedSetting::NoOverlap.to_string()));
        gains.map(|score| (score.reached, score.note)).collect()
    }

    #[test]
    fn overlap_is_graded_where_there_is_something_to_overlap() {
        // Eight clips of 10 ms and 3 ms of batches next to a step of 100 ms: 1.83 × at most.
        let busy = SyntheticRun {
            stage_ms: vec![("featurize", 10), ("collate", 1), ("prepare", 2)],
            no_overlap_ms: 170,
            ..SyntheticRun::default()
        };
        let graded = gains(&busy);
        assert_eq!(graded[0].0, Some(true), "{graded:?}");
        assert_eq!(graded[1].0, None, "2 × cannot be: {graded:?}");
        let slow = SyntheticRun {
            no_overlap_ms: 110,
            ..busy.clone()
        };
        assert_eq!(gains(&slow)[0].0, Some(false));
        // Whatever was measured, 11 ms of work cannot gain half of a step of 100 ms.
        let idle = SyntheticRun {
            no_overlap_ms: 162,
            ..SyntheticRun::default()
        };
        let ungraded = gains(&idle);
        assert_eq!(ungraded[0].0, None);
        assert!(ungraded[0].1.contains("at most 1."), "{ungraded:?}");
    }

    #[test]
    fn nothing_is_graded_where_other_programs_took_the_cores() {
        let crowded = SyntheticRun {
            process_cpu: 100.0,
            ..SyntheticRun::default()
        };
        let scores = profile(&crowded.run()).scorecard;
        assert!(scores.iter().all(|score| score.reached.is_none()));
        let busy = &scores[0];
        assert!(busy.measured.is_some());
        assert!(busy.note.contains("cores were taken"), "{}", busy.note);
        let alone = profile(&SyntheticRun::default().run()).scorecard;
        assert_eq!(alone[0].reached, Some(true));
    }
}
