//! What `devices` takes.

use clap::Args;

use super::of;
use crate::config::keys;
use crate::settings::DeviceName;

const AFTER_HELP: &str = "\
Examples:
  voxmill devices                                          what is there, and what would be used
  voxmill devices --data-device vulkan:1 --model-device vulkan:0
  voxmill devices --data-device cpu --model-device cpu     how fast two lanes of the CPU copy
  voxmill devices --json                                   for programs

Exit: 0; 1 when a device that was asked for is not there";

#[derive(Clone, Debug, Default, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DevicesArgs {
    /// Measure how fast batches get from this device to --model-device
    #[arg(long, value_name = "DEVICE", requires = "model_device", value_parser = of::<DeviceName>(&keys::DATA_DEVICE))]
    pub(crate) data_device: Option<DeviceName>,
    /// The device that trains; needs --data-device
    #[arg(long, value_name = "DEVICE", requires = "data_device", value_parser = of::<DeviceName>(&keys::MODEL_DEVICE))]
    pub(crate) model_device: Option<DeviceName>,
    /// Print it all as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
