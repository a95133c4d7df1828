//! What feeding and measuring rest on: reads that do not hold the host up, stamps of completion, the device's own clock,
//! what its pools report, how fast data gets across, and how many kernels a step is.

use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor, TensorData};

use super::{CheckOutcome, MeasuredUnit, SelftestCheck};
use crate::device::{self, Coming, Reader, is_cpu, memory_in_use};

/// Rows and columns of the matrices that keep a device at work.
const LARGE: usize = 512;
/// Above any page of a pool, so that it cannot hide in one.
const BLOCK: usize = 64 << 20;

const IN_STEP: &str = "the CPU computes while it is asked: nothing is queued";

/// Something to do for a device, as one number at its end.
fn work(device: &Device, products: usize) -> Tensor<1> {
    let matrix = Tensor::<2>::full([LARGE, LARGE], 1e-3, device);
    let product = (0..products).fold(matrix.clone(), |product, _| product.matmul(matrix.clone()));
    product.sum()
}

/// How many products keep the device busy for at least this long. The first attempt also compiles them.
fn products_that_take(device: &Device, least: Duration) -> usize {
    let mut products = 2;
    device::read_one(work(device, products));
    loop {
        let begin = Instant::now();
        device::read_one(work(device, products));
        if begin.elapsed() >= least || products >= 4_096 {
            return products;
        }
        products *= 2;
    }
}

/// Whether asking for a number returns before the device has computed it.
pub(super) fn reads(device: &Device) -> Vec<SelftestCheck> {
    let name = "reads that are not waited for";
    if is_cpu(device) {
        return vec![SelftestCheck::not_measurable(name, IN_STEP)];
    }
    let products = products_that_take(device, Duration::from_millis(200));
    let reader = Reader::start();
    let begin = Instant::now();
    let number = work(device, products);
    let queued = begin.elapsed();
    let coming = reader.read(number, |_, came| came);
    let asked = begin.elapsed();
    let done = coming.wait() - begin;
    let share = |part: Duration| 100.0 * part.as_secs_f64() / done.as_secs_f64();
    let seen = format!(
        "asked for after {:.0} %, queued after {:.0} % of {:.0} ms",
        share(asked),
        share(queued),
        1e3 * done.as_secs_f64()
    );
    let outcome = match asked < done / 2 {
        true => CheckOutcome::Passed(seen),
        false => CheckOutcome::Failed(format!("the host waits for the device: {seen}")),
    };
    vec![SelftestCheck { name, outcome }]
}

/// Equal pieces of work, the host one piece ahead as in training, each stamped when it is done: the device's time line is
/// made of such stamps. A read that reaches the queue after the next piece waits for that too, so a stamp may be a piece
/// late; that charges time to a neighbour, and never happens where the device is idle. More would be wrong.
pub(super) fn stamps(device: &Device) -> Vec<SelftestCheck> {
    let name = "completion stamps";
    if is_cpu(device) {
        return vec![SelftestCheck::not_measurable(name, IN_STEP)];
    }
    const PIECES: usize = 8;
    let products = products_that_take(device, Duration::from_millis(100));
    let reader = Reader::start();
    let begin = Instant::now();
    let (mut ahead, mut came) = (None::<Coming<Instant>>, Vec::new());
    for _ in 0..PIECES {
        let coming = reader.read(work(device, products), |_, came| came);
        came.extend(ahead.replace(coming).map(Coming::wait));
    }
    came.extend(ahead.map(Coming::wait));
    let came: Vec<f64> = came
        .into_iter()
        .map(|at| (at - begin).as_secs_f64())
        .collect();
    // In pieces: as many as there are on average until each stamp.
    let piece = came[PIECES - 1] / PIECES as f64;
    let late = came
        .iter()
        .zip(1..)
        .map(|(at, done)| at / piece - f64::from(done));
    let latest = late.fold(0.0, f64::max);
    let seen = format!(
        "at most {latest:.2} of a piece late, of {:.0} ms",
        1e3 * piece
    );
    let outcome = match came.is_sorted() && latest < 1.25 {
        true => CheckOutcome::Passed(seen),
        false => CheckOutcome::Failed(seen),
    };
    vec![SelftestCheck { name, outcome }]
}

/// How long work took by the device's own clock, compared with the host's. The host sees it from outside: the device's
/// figure may only be smaller.
#[cfg(feature = "gpu")]
pub(super) fn clock(device: &Device) -> Vec<SelftestCheck> {
    use burn_cubecl::cubecl::{future::block_on, profile::TimingMethod};
    let name = "device clock";
    if is_cpu(device) {
        return vec![SelftestCheck::not_measurable(
            name,
            "the CPU has no clock of its own",
        )];
    }
    let products = products_that_take(device, Duration::from_millis(100));
    let begin = Instant::now();
    let on = device.clone();
    let profiled = device.profile(move || device::read_one(work(&on, products)));
    let by_host = begin.elapsed();
    let duration = match profiled {
        Ok((_, duration)) => duration,
        Err(why) => return vec![SelftestCheck::not_measurable(name, why.to_string())],
    };
    if duration.timing_method() == TimingMethod::System {
        let why = "the backend has none: it reports the host's";
        return vec![SelftestCheck::not_measurable(name, why)];
    }
    let Some(ticks) = block_on(duration.resolve()) else {
        return vec![SelftestCheck::not_measurable(
            name,
            "it was read and reported nothing",
        )];
    };
    let by_device = ticks.duration();
    let seen = format!(
        "{:.1} ms, {:.1} ms by the host's",
        1e3 * by_device.as_secs_f64(),
        1e3 * by_host.as_secs_f64()
    );
    let outcome = match by_device > by_host / 4 && by_device <= by_host {
        true => CheckOutcome::Passed(seen),
        false => CheckOutcome::Failed(seen),
    };
    vec![SelftestCheck { name, outcome }]
}

#[cfg(not(feature = "gpu"))]
pub(super) fn clock(_: &Device) -> Vec<SelftestCheck> {
    let why = "the CPU has no clock of its own";
    vec![SelftestCheck::not_measurable("device clock", why)]
}

/// Whether pools report memory that is taken, and report it as free again.
pub(super) fn memory(device: &Device) -> Vec<SelftestCheck> {
    let name = "memory report";
    let in_use = || {
        let synced = device.sync().map_err(|why| why.to_string());
        synced.map(|()| memory_in_use(device).map(|pools| pools.in_use))
    };
    let taken = || -> Result<Option<[u64; 3]>, String> {
        let Some(before) = in_use()? else {
            return Ok(None);
        };
        let block = Tensor::<1>::full([BLOCK / size_of::<f32>()], 1.0, device);
        let filled = block.clone() + 1.0;
        drop(block);
        let during = in_use()?.unwrap_or(0);
        drop(filled);
        let after = in_use()?.unwrap_or(u64::MAX);
        Ok(Some([before, during, after]))
    };
    let outcome = match taken() {
        Err(why) => CheckOutcome::Failed(why),
        Ok(None) => CheckOutcome::NotMeasurable("the backend reports no pools".to_owned()),
        Ok(Some([before, during, after])) => {
            let mb = |bytes: u64| bytes / 1_000_000;
            let seen = format!(
                "{} MB in use, {} with {} MB more, {} after",
                mb(before),
                mb(during),
                mb(BLOCK as u64),
                mb(after)
            );
            // The library may keep what a kernel of its own needs; it may not lose a block.
            let (block, slack) = (BLOCK as u64, BLOCK as u64 / 8);
            match during + slack >= before + block && after <= before + slack {
                true => CheckOutcome::Passed(seen),
                false => CheckOutcome::Failed(seen),
            }
        }
    };
    vec![SelftestCheck { name, outcome }]
}

/// Bytes a second, to the device and back: the best of some rounds, compared value by value.
pub(super) fn transfer(device: &Device) -> Vec<SelftestCheck> {
    const ROUNDS: usize = 3;
    if is_cpu(device) {
        let why = "tensors of the CPU are the host's memory";
        return vec![SelftestCheck::not_measurable("transfer", why)];
    }
    let values: Vec<f32> = (0..BLOCK / size_of::<f32>()).map(|at| at as f32).collect();
    let (mut to, mut back) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..=ROUNDS {
        let data = TensorData::new(values.clone(), [values.len()]);
        let begin = Instant::now();
        let there = Tensor::<1>::from_data(data, device);
        if let Err(why) = device.sync() {
            return vec![SelftestCheck::failed(
                "transfer to the device",
                why.to_string(),
            )];
        }
        to = to.min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        let here = device::read(there);
        back = back.min(begin.elapsed().as_secs_f64());
        if here != values {
            let why = "what came back is not what was sent";
            return vec![SelftestCheck::failed("transfer from the device", why)];
        }
    }
    let rate = |name, seconds: f64| SelftestCheck {
        name,
        outcome: CheckOutcome::Measured {
            value: BLOCK as f64 / seconds,
            unit: MeasuredUnit::BytesPerSecond,
        },
    };
    vec![
        rate("transfer to the device", to),
        rate("transfer from the device", back),
    ]
}

#[cfg(not(feature = "gpu"))]
pub(super) fn kernels(_: &Device) -> Vec<SelftestCheck> {
    let why = "the CPU launches none";
    vec![SelftestCheck::not_measurable("kernels of a step", why)]
}

#[cfg(feature = "gpu")]
pub(super) fn kernels(device: &Device) -> Vec<SelftestCheck> {
    let name = "kernels of a step";
    if is_cpu(device) {
        return vec![SelftestCheck::not_measurable(name, "the CPU launches none")];
    }
    let launched = super::launches::of_a_tiny_step(device);
    let sum: usize = launched.iter().flat_map(|phase| phase.values()).sum();
    let outcome = CheckOutcome::Measured {
        value: sum as f64,
        unit: MeasuredUnit::Kernels,
    };
    vec![SelftestCheck { name, outcome }]
}
