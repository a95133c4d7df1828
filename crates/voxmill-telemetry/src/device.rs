//! How events, statistics and results name a device.

use std::borrow::Borrow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::probes::topology::PciAddress;

/// A device's name in a log, where it is a plain string. The run names its own as the trainer does
/// (`cpu`, `vulkan:0`), the probes count the cards of each vendor (`nvidia0`): the two never match, and
/// [`DeviceIdentity`] holds both.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct DeviceLabel(String);

impl DeviceLabel {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for DeviceLabel {
    fn from(name: T) -> DeviceLabel {
        DeviceLabel(name.into())
    }
}

impl Borrow<str> for DeviceLabel {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A device of a run, by every name that it has. Backends count devices in one order, drivers in another; the
/// address on the bus is what they share. What is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceIdentity {
    /// As the run names it: backend and number.
    pub device: DeviceLabel,
    /// As it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<PciAddress>,
    /// As NVIDIA's driver numbers its cards for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// What its samples are called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_as: Option<DeviceLabel>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schemars::schema_for;

    use super::*;

    #[test]
    fn a_device_is_written_read_and_described_as_a_string() {
        let device = DeviceLabel::from("vulkan:0");
        assert_eq!(serde_json::to_string(&device).unwrap(), r#""vulkan:0""#);
        let read: DeviceLabel = serde_json::from_str(r#""vulkan:0""#).unwrap();
        assert_eq!((read, device.to_string()), (device, "vulkan:0".to_owned()));
        let mut schemas = [
            schema_for!(BTreeMap<DeviceLabel, f64>),
            schema_for!(BTreeMap<String, f64>),
        ];
        let titles = schemas.each_mut().map(|schema| schema.remove("title"));
        assert_ne!(titles[0], titles[1]);
        assert_eq!(schemas[0], schemas[1]);
    }
}
