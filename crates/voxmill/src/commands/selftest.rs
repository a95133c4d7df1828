//! `voxmill selftest`: a device compared with the CPU, before anyone trusts it with a voice.

use anyhow::Context as _;
use voxmill_report::results::selftest::{CheckUnit, CheckVerdict, DeviceCheck, SelfTest, VERSION};
use voxmill_report::terminal::{check_text, self_test_summary};
use voxmill_settings::AvailableDevices;
use voxmill_settings::args::SelftestArgs;
use voxmill_trainer::device;
use voxmill_trainer::selftest::{self, CheckOutcome, SelftestCheck};

use super::{paint, print_output, print_result, status};
use crate::exit::Exit;
use voxmill_settings::open_device;

pub(crate) fn run(args: &SelftestArgs) -> anyhow::Result<Exit> {
    let available = AvailableDevices::detect();
    let usual = available.usual();
    let asked = args.device.as_ref().and_then(|choice| choice.id());
    let id = asked.unwrap_or(usual);
    available.check("--device", id)?;
    let opened = open_device(id)?;
    let signature = device::signature(id, &opened);
    let called = signature.as_deref().unwrap_or("the CPU");
    status!("comparing {id} ({called}) with the CPU; the first kernels of a GPU take a while");
    // For a person each line comes as soon as it is known.
    let mut shown = Ok(());
    let mut show = |check: &SelftestCheck| {
        if !args.json && shown.is_ok() {
            shown = print_output(&check_text(&result_of(check), paint()));
        }
    };
    let checks = match args.compare_only {
        true => selftest::parity(&opened, &mut show),
        false => selftest::all(&opened, &mut show),
    };
    shown?;
    let result = SelfTest {
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        device: id.to_string(),
        passed: !checks.iter().any(|check| check.outcome.is_failure()),
        checks: checks.iter().map(result_of).collect(),
        identity: signature,
    };
    if let Some(file) = &args.output {
        let json = serde_json::to_string_pretty(&result)? + "\n";
        std::fs::write(file, json).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    print_result(&result, args.json, |result| {
        self_test_summary(result, paint())
    })?;
    Ok(match result.passed {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

fn result_of(check: &SelftestCheck) -> DeviceCheck {
    let result = DeviceCheck::new(check.name, CheckVerdict::Pass);
    match &check.outcome {
        &CheckOutcome::Compared { off, most } => DeviceCheck {
            verdict: match check.outcome.is_failure() {
                true => CheckVerdict::Fail,
                false => CheckVerdict::Pass,
            },
            value: Some(off),
            limit: Some(most),
            unit: Some(CheckUnit::Difference),
            ..result
        },
        &CheckOutcome::Measured { value, unit } => DeviceCheck {
            value: Some(value),
            unit: Some(match unit {
                selftest::MeasuredUnit::BytesPerSecond => CheckUnit::BytesPerSecond,
                selftest::MeasuredUnit::Kernels => CheckUnit::Kernels,
                selftest::MeasuredUnit::Bits => CheckUnit::Bits,
            }),
            ..result
        },
        CheckOutcome::Passed(note) => DeviceCheck {
            note: Some(note.clone()),
            ..result
        },
        CheckOutcome::Failed(note) => DeviceCheck {
            verdict: CheckVerdict::Fail,
            note: Some(note.clone()),
            ..result
        },
        CheckOutcome::NotMeasurable(note) => DeviceCheck {
            verdict: CheckVerdict::NotMeasurable,
            note: Some(note.clone()),
            ..result
        },
    }
}
