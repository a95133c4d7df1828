//! How a device compares with the CPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Grows when a program that reads it would misread it.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SelfTest {
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// The version of the program.
    pub program: String,
    /// As it is typed: `cuda:0`.
    pub device: String,
    /// As the device, its driver and the kernel compiler name themselves.
    pub identity: Option<String>,
    /// Nothing failed.
    pub passed: bool,
    pub checks: Vec<DeviceCheck>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCheck {
    pub name: String,
    pub verdict: CheckVerdict,
    /// What was measured; its unit is in `unit`.
    pub value: Option<f64>,
    /// The most that passes.
    pub limit: Option<f64>,
    pub unit: Option<CheckUnit>,
    /// What was seen, or why it failed or could not be measured.
    pub note: Option<String>,
}

impl DeviceCheck {
    /// Without a value: what was seen is added.
    pub fn new(name: &str, verdict: CheckVerdict) -> DeviceCheck {
        DeviceCheck {
            name: name.to_owned(),
            verdict,
            value: None,
            limit: None,
            unit: None,
            note: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    Pass,
    Fail,
    NotMeasurable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckUnit {
    /// A difference from the CPU, as a share of the largest value or step.
    Difference,
    BytesPerSecond,
    Kernels,
    /// Bits of a number's fraction that are kept: 23 in 32 bits, 10 in TF32.
    Bits,
}
