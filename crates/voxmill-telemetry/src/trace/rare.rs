//! What a trace shows next to single items.

use std::io::{self, Write};

use super::chrome::{Args, ChromeWriter, Slice, TraceProcess};
use crate::event::{DeviceSample, Event, HostSample, Nanos, Stamped, Step};

/// What is not of single items: steps have a thread, levels and samples are counters, and the rest
/// are marks.
pub(super) fn write_rare<W: Write>(
    out: &mut ChromeWriter<W>,
    stamped: &Stamped,
    steps: u32,
    events: u32,
) -> io::Result<()> {
    let at = stamped.at;
    let name = match &stamped.event {
        Event::Step(step) => return write_step(out, step, at, steps),
        Event::BufferLevel {
            buffer,
            items,
            capacity,
        } => {
            let series = [("items", *items), ("capacity", *capacity)];
            return out.level(&format!("buffer {buffer}"), at, series);
        }
        Event::BudgetLevel {
            budget,
            bytes,
            limit,
            ..
        } => {
            let series = [("bytes", *bytes), ("limit", *limit)];
            return out.level(&format!("budget {budget}"), at, series);
        }
        Event::DeviceMemory(memory) => {
            let series = [
                ("bytes", memory.bytes),
                ("limit", memory.limit.unwrap_or(0)),
            ];
            return out.level(&format!("memory of {}", memory.device), at, series);
        }
        Event::DeviceSample(sample) => return write_device(out, sample, at),
        Event::HostSample(sample) => return write_host(out, sample, at),
        Event::RunStarted(_) => "run started".to_owned(),
        Event::RunEnded { .. } => "run ended".to_owned(),
        Event::GateOpened { .. } => "gate opened".to_owned(),
        Event::PhaseBegan { phase } => format!("phase: {phase}"),
        Event::Validated(found) => format!("validated at step {}", found.step),
        Event::Warned { text } => format!("warning: {text}"),
        Event::Dataset(_) => "dataset".to_owned(),
        Event::Decision(decision) => format!("decision: {}", decision.subject),
        Event::Fault(fault) => format!("fault: {} {}", fault.stage, fault.name),
        Event::Checkpoint { position, .. } => format!("checkpoint {position}"),
        Event::Lost { events, .. } => format!("{events} events lost"),
        // Sums of what is in the lanes, or of events that are here one by one.
        Event::StageSecond(_) | Event::SlotSecond(_) | Event::MoreFaults { .. } => return Ok(()),
    };
    out.instant(events, &name, at, &stamped.event)
}

fn write_step<W: Write>(
    out: &mut ChromeWriter<W>,
    step: &Step,
    at: Nanos,
    thread: u32,
) -> io::Result<()> {
    let ended = step.ended.unwrap_or(at);
    let began = ended.since(step.service);
    let asked = began.since(step.waited);
    let late = step.late.as_deref().unwrap_or("input");
    let parts = [
        (asked.since(step.overhead), asked, "overhead".to_owned()),
        (asked, began, format!("waits for {late}")),
        (began, ended, format!("step {}", step.step)),
    ];
    for (start, end, name) in parts {
        if start < end {
            out.slice(&Slice {
                process: TraceProcess::Run,
                thread,
                name: &name,
                category: "step",
                start,
                end,
                args: Args {
                    step: Some(step.step),
                    shape: step.shape,
                    ..Args::default()
                },
            })?;
        }
    }
    Ok(())
}

fn write_device<W: Write>(
    out: &mut ChromeWriter<W>,
    sample: &DeviceSample,
    at: Nanos,
) -> io::Result<()> {
    let readings = [
        ("utilisation", "percent", sample.utilisation_percent),
        ("memory", "bytes", sample.memory_used.map(|n| n as f64)),
        ("power", "watts", sample.power_watts),
        ("temperature", "celsius", sample.temperature_celsius),
        ("clock", "mhz", sample.clock_mhz),
        ("memory clock", "mhz", sample.memory_clock_mhz),
        ("received", "bytes/s", sample.pcie_receive.map(|n| n as f64)),
        ("sent", "bytes/s", sample.pcie_send.map(|n| n as f64)),
    ];
    write_readings(out, sample.device.as_str(), at, &readings)
}

fn write_host<W: Write>(
    out: &mut ChromeWriter<W>,
    sample: &HostSample,
    at: Nanos,
) -> io::Result<()> {
    let whole = |value: Option<u64>| value.map(|n| n as f64);
    let readings = [
        ("cpu", "percent", sample.cpu_percent),
        ("process cpu", "percent", sample.process_cpu_percent),
        ("process memory", "bytes", whole(sample.process_memory)),
        ("free memory", "bytes", whole(sample.memory_available)),
        ("swap", "bytes", whole(sample.swap_used)),
        ("swap traffic", "bytes/s", whole(sample.swap_traffic)),
        ("disk read", "bytes/s", whole(sample.disk_read)),
        ("disk write", "bytes/s", whole(sample.disk_write)),
    ];
    write_readings(out, "host", at, &readings)
}

fn write_readings<W: Write>(
    out: &mut ChromeWriter<W>,
    of: &str,
    at: Nanos,
    readings: &[(&str, &str, Option<f64>)],
) -> io::Result<()> {
    for (what, unit, value) in readings {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let name = format!("{of} {what}");
            out.counter(TraceProcess::Devices, &name, at, &[(unit, value)])?;
        }
    }
    Ok(())
}
