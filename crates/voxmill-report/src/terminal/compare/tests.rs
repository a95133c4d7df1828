//! What it looks like, with synthetic numbers.

use std::collections::BTreeMap;

use voxmill_analysis::compare::{COMPARISON_VERSION, Difference, LossAt};
use voxmill_analysis::timing::Spread;

use super::super::tests::fits;
use super::*;

fn side(name: &str, state: RunState) -> Side {
    Side {
        name: name.to_owned(),
        state,
        starts: 1,
        steps: 1_200,
        last_step: 1_200,
        warm_up_steps: 3,
        total_seconds: 312.4,
        best_held_out_mel: Some((1_000, 0.4377)),
        step_ms: Spread {
            count: 1_197,
            mean: 251.3,
            std: 12.6,
            p95: 270.2,
            ..Spread::default()
        },
        frames_per_second: 10_345.0,
        busy: 0.978,
        stall: 0.011,
        variation: Some(0.046),
        process_memory: Some(812_000_000),
        device_memory: BTreeMap::new(),
        others: Some(0.04),
        settings_known: true,
        lost: 0,
    }
}

fn change(value: f64, low: f64, high: f64) -> Change {
    Change { value, low, high }
}

fn against(run: &str, step_time: Change, verdict: Option<Verdict>) -> Against {
    let differences = [
        (Measure::StepTime, Some(step_time), Judgement::Worse),
        (
            Measure::Throughput,
            Some(change(-0.104, -0.12, -0.09)),
            Judgement::Worse,
        ),
        (
            Measure::Busy,
            Some(change(0.0004, -0.001, 0.002)),
            Judgement::NoDifference,
        ),
        (
            Measure::Stall,
            Some(change(-0.021, -0.025, -0.017)),
            Judgement::Better,
        ),
        (Measure::Variation, None, Judgement::NotMeasured),
    ];
    let differences = differences.map(|(measure, change, judgement)| Difference {
        measure,
        change,
        judgement,
    });
    Against {
        run: run.to_owned(),
        steps_matched: Matched::ByShape,
        differences: differences.into(),
        loss: Some(Loss {
            common_steps: 1_200,
            same_to_the_last_bit: false,
            same_dataset: Some(true),
            same_amount_of_data: false,
            at: vec![LossAt {
                step: 1_200,
                averaged: 20,
                first: 0.4321,
                this: 0.4301,
                change: change(-0.002, -0.005, 0.001),
                judgement: Judgement::NoDifference,
            }],
        }),
        held_out: Some(HeldOut {
            step: 1_000,
            first: 0.4402,
            this: 0.4377,
            same_clips: Some(true),
        }),
        verdict,
    }
}

fn two() -> Comparison {
    Comparison {
        version: COMPARISON_VERSION,
        runs: vec![
            side("before", RunState::Finished),
            side("after-a-long-evening-of-changes", RunState::Killed),
        ],
        against_first: vec![against(
            "after-a-long-evening-of-changes",
            change(0.116, 0.101, 0.131),
            Some(Verdict::Worse),
        )],
        differing: vec![Differing {
            name: "num_workers".to_owned(),
            values: vec![Some("1".to_owned()), Some("4".to_owned())],
        }],
        fail_above: Some(0.05),
    }
}

#[test]
fn two_runs() {
    insta::assert_snapshot!(fits(comparison_text(&two(), Paint::plain())));
}

#[test]
fn too_few_steps_are_named() {
    let mut few = two();
    few.runs[1].step_ms.count = 4;
    few.against_first[0].verdict = None;
    let text = comparison_text(&few, Paint::plain());
    assert!(text.contains("– too few steps: after-a-long"), "{text}");
}

#[test]
fn many_runs_go_into_several_tables() {
    let mut many = two();
    let mut grown = side("third", RunState::InProgress);
    grown.starts = 2;
    grown.lost = 1_234;
    grown.others = Some(0.42);
    grown.settings_known = false;
    grown.device_memory.insert("cuda:0".into(), 3_200_000_000);
    many.runs.extend([grown, side("fourth", RunState::Failed)]);
    let mut third = against("third", change(0.06, 0.03, 0.09), Some(Verdict::Uncertain));
    third.steps_matched = Matched::ByFrame;
    third.loss = None;
    let mut fourth = against("fourth", change(0.0, -0.01, 0.01), Some(Verdict::Within));
    fourth.loss = Some(Loss {
        common_steps: 1_200,
        same_to_the_last_bit: true,
        same_dataset: Some(false),
        same_amount_of_data: true,
        at: Vec::new(),
    });
    many.against_first.extend([third, fourth]);
    for row in &mut many.differing {
        row.values.extend([None, Some("8".to_owned())]);
    }
    insta::assert_snapshot!(fits(comparison_text(&many, Paint::plain())));
}
