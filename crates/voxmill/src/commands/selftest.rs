//! `voxmill selftest`: a device compared with the CPU, before anyone trusts it with a voice.

use anyhow::Context as _;
use voxmill_report::results::selftest::{DeviceCheck, SelfTest, Unit, VERSION, Verdict};
use voxmill_report::terminal::{check_text, self_test_summary};
use voxmill_settings::AvailableDevices;
use voxmill_settings::args::SelftestArgs;
use voxmill_trainer::device;
use voxmill_trainer::selftest::{self, Check, Outcome};

use super::{paint, print_output, print_result, status};
use crate::exit::Exit;
use crate::session::devices::open_device;

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
    let mut show = |check: &Check| {
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

fn result_of(check: &Check) -> DeviceCheck {
    let result = DeviceCheck::new(check.name, Verdict::Pass);
    match &check.outcome {
        &Outcome::Compared { off, most } => DeviceCheck {
            verdict: match check.outcome.is_failure() {
                true => Verdict::Fail,
                false => Verdict::Pass,
            },
            value: Some(off),
            limit: Some(most),
            unit: Some(Unit::Difference),
            ..result
        },
        &Outcome::Measured { value, unit } => DeviceCheck {
            value: Some(value),
            unit: Some(match unit {
                selftest::Unit::BytesPerSecond => Unit::BytesPerSecond,
                selftest::Unit::Kernels => Unit::Kernels,
                selftest::Unit::Bits => Unit::Bits,
            }),
            ..result
        },
        Outcome::Passed(note) => DeviceCheck {
            note: Some(note.clone()),
            ..result
        },
        Outcome::Failed(note) => DeviceCheck {
            verdict: Verdict::Fail,
            note: Some(note.clone()),
            ..result
        },
        Outcome::NotMeasurable(note) => DeviceCheck {
            verdict: Verdict::NotMeasurable,
            note: Some(note.clone()),
            ..result
        },
    }
}
