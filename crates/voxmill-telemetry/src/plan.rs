//! What the log keeps of a plan: stages, workers, buffers, slots and budgets, as plain data.
//!
//! Plans are built and checked in `voxmill-pipeline`. The order of `stages` is the order of the pipeline:
//! the first is the source, and what comes behind the last is the consumer.

use serde::{Deserialize, Serialize};

/// A pipeline, as it was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    pub stages: Vec<StagePlan>,
    /// Who takes the items at the end of the pipeline.
    pub consumer: String,
    #[serde(default)]
    pub budgets: Vec<BudgetPlan>,
    /// Places on the consumer's device; without them the last stage has an ordinary buffer.
    #[serde(default)]
    pub slots: Option<SlotsPlan>,
    #[serde(default)]
    pub order: Order,
    /// The longest that the consumer waits for full slots (or a full buffer) before its first item.
    /// Zero: it takes the first item as soon as it is there.
    #[serde(default)]
    pub start_delay_seconds: f64,
    /// `false`: the stages run one after another on the consumer's thread.
    pub overlap: bool,
    #[serde(default)]
    pub adapt: Option<AdaptPlan>,
    /// More skipped items than this stop the run.
    #[serde(default)]
    pub max_skipped: Option<u64>,
}

/// In which order items leave a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Items leave every stage in the order in which they came, whatever the number of workers.
    #[default]
    Kept,
    /// Items leave a stage as they are done.
    Free,
}

/// One step of a pipeline, with its own workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StagePlan {
    pub name: String,
    pub workers: Setting,
    /// How many finished items may wait behind this stage.
    pub buffer: Setting,
    /// The budget that the stage's results live in.
    #[serde(default)]
    pub budget: Option<String>,
    #[serde(default)]
    pub on_error: OnError,
}

/// A count that the controller may move, unless the user fixed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    pub value: usize,
    #[serde(default)]
    pub fixed: bool,
}

/// What becomes of an item that a stage fails on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnError {
    /// Tries after the first; a panic is not tried again.
    pub retries: u32,
    pub then: AfterError,
}

impl Default for OnError {
    fn default() -> OnError {
        OnError {
            retries: 0,
            then: AfterError::Stop,
        }
    }
}

/// When trying again is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterError {
    /// The item becomes a gap, which is reported to the consumer.
    Skip,
    /// The run ends with the error; where order is kept, after all items before it.
    Stop,
}

/// Bytes that stages share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetPlan {
    pub name: String,
    pub bytes: u64,
}

/// Places on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotsPlan {
    /// Batches in preparation or ready; the one in training has a place besides.
    pub ahead: Setting,
    /// The largest batch.
    pub bytes_each: u64,
    /// The device's budget, which the places take their bytes from once.
    #[serde(default)]
    pub budget: Option<String>,
}

impl SlotsPlan {
    /// All places: those ahead and the one in training.
    pub fn places(&self) -> usize {
        self.ahead.value + 1
    }
}

/// What the adaptive controller may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdaptPlan {
    /// Workers of all stages together.
    pub most_workers: usize,
    /// Items in any one buffer.
    pub most_buffered: usize,
}

impl Setting {
    /// A value that the controller may move.
    pub fn from(value: usize) -> Setting {
        Setting {
            value,
            fixed: false,
        }
    }

    /// A value that the user chose.
    pub fn fixed(value: usize) -> Setting {
        Setting { value, fixed: true }
    }
}

impl StagePlan {
    /// One worker and two places behind it, both free to move; an error stops the run.
    pub fn new(name: impl Into<String>) -> StagePlan {
        StagePlan {
            name: name.into(),
            workers: Setting::from(1),
            buffer: Setting::from(2),
            budget: None,
            on_error: OnError::default(),
        }
    }
}

impl Plan {
    /// An ordered, overlapped pipeline without budgets, slots or a controller.
    pub fn new(name: impl Into<String>, consumer: impl Into<String>) -> Plan {
        Plan {
            name: name.into(),
            stages: Vec::new(),
            consumer: consumer.into(),
            budgets: Vec::new(),
            slots: None,
            order: Order::Kept,
            start_delay_seconds: 0.0,
            overlap: true,
            adapt: None,
            max_skipped: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_the_same_after_it_was_stored() {
        let plan = Plan {
            stages: vec![
                StagePlan::new("plan"),
                StagePlan {
                    workers: Setting::fixed(6),
                    buffer: Setting::from(64),
                    budget: Some("host".into()),
                    on_error: OnError {
                        retries: 2,
                        then: AfterError::Skip,
                    },
                    ..StagePlan::new("featurize")
                },
            ],
            budgets: vec![BudgetPlan {
                name: "host".into(),
                bytes: 4_000_000_000,
            }],
            slots: Some(SlotsPlan {
                ahead: Setting::fixed(3),
                bytes_each: 50_000_000,
                budget: Some("device 0".into()),
            }),
            start_delay_seconds: 2.0,
            adapt: Some(AdaptPlan {
                most_workers: 12,
                most_buffered: 50,
            }),
            max_skipped: Some(100),
            ..Plan::new("train", "model")
        };
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }

    #[test]
    fn what_a_stored_plan_does_not_say_is_the_default() {
        let json = r#"{
            "name": "old", "consumer": "out", "overlap": true,
            "stages": [{"name": "in", "workers": {"value": 1}, "buffer": {"value": 2}}]
        }"#;
        let expected = Plan {
            stages: vec![StagePlan::new("in")],
            ..Plan::new("old", "out")
        };
        assert_eq!(serde_json::from_str::<Plan>(json).unwrap(), expected);
    }
}
