//! `voxmill devices`: what there is to train on, how it is linked, and how fast batches get across.

use voxmill_report::terminal::devices_text;
use voxmill_settings::args::DevicesArgs;
use voxmill_settings::results::devices::result;
use voxmill_settings::{AvailableDevices, FoundDevices};

use super::{paint, print_note, print_result};

pub(crate) fn run(args: &DevicesArgs) -> anyhow::Result<()> {
    let available = AvailableDevices::detect();
    let mut devices = FoundDevices::detect(&available);
    if let Some((chosen, notes)) = args.flags().choose(&available)? {
        for note in notes {
            print_note(&note);
        }
        devices.choose(chosen)?;
    }
    print_result(&result(&devices), args.json, |found| {
        devices_text(found, paint())
    })
}
