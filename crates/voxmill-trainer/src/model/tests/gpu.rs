//! Operations of our own on a GPU compared with the same in the CPU's, at odd sizes: more channels than units and a
//! number of them that is no multiple, one row, one frame, rows that are masked, padding that is no zero.

use super::*;
use crate::device::{read, test_gpu};
use crate::optimizer::{AdamW, OptimizerState};
use crate::selftest::launches::counted;
use crate::selftest::parity;

struct Case {
    /// Valid frames of each row.
    lengths: &'static [u32],
    time: usize,
    channels: usize,
    width: usize,
    hidden: usize,
    style: Option<usize>,
}

const CASES: [Case; 4] = [
    Case {
        lengths: &[75, 0, 37],
        time: 80,
        channels: 40,
        width: 9,
        hidden: 100,
        style: Some(16),
    },
    Case {
        lengths: &[33, 1],
        time: 33,
        channels: 70,
        width: 5,
        hidden: 33,
        style: None,
    },
    Case {
        lengths: &[3],
        time: 3,
        channels: 130,
        width: 7,
        hidden: 8,
        style: Some(3),
    },
    Case {
        lengths: &[1, 1, 1, 1, 1],
        time: 1,
        channels: 1,
        width: 5,
        hidden: 1,
        style: Some(2),
    },
];

fn random<const D: usize>(name: &str, shape: [usize; D], device: &Device) -> Tensor<D> {
    let even = |i| draw(3, i, name, "test") as f32 / u64::MAX as f32 - 0.5;
    let count = shape.iter().product::<usize>() as u64;
    let values: Vec<f32> = (0..count).map(even).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Compared as a share of the largest.
fn agree(what: &str, names: &[&str], cpu: &[Vec<f32>], gpu: &[Vec<f32>], most: f32) {
    assert_eq!(cpu.len(), gpu.len(), "{what}");
    for (n, (cpu, gpu)) in cpu.iter().zip(gpu).enumerate() {
        let name = names.get(n).unwrap_or(&"");
        assert_eq!(cpu.len(), gpu.len(), "{what}, {name}");
        let largest = cpu.iter().fold(1e-3f32, |most, v| most.max(v.abs()));
        for (at, (cpu, gpu)) in cpu.iter().zip(gpu).enumerate() {
            let off = (cpu - gpu).abs() / largest;
            assert!(off <= most, "{what}, {name} {n}, {at}: {gpu} is not {cpu}");
        }
    }
}

/// The output, then the gradients of input, style and each weight.
fn block_on(device: &Device, case: &Case, recompute: bool) -> Vec<Vec<f32>> {
    let plain = device;
    let device = with_gradients(device, recompute);
    let (rows, time, channels) = (case.lengths.len(), case.time, case.channels);
    let init = Init::new(7, &device);
    let mut block = Block::new(&init, channels, case.width, case.hidden, case.style);
    block.recompute = recompute;
    let spans = Spans::new(case.lengths, time, plain);
    let tracked = |tensor| tracked_on(tensor, &device);
    let input = tracked(random("input", [rows, time, channels], plain));
    let style = case
        .style
        .map(|size| tracked_on(random("style", [rows, size], plain), &device));
    let output = block.forward(input.clone(), &spans, style.as_ref());
    let target = random("target", [rows, time, channels], &device);
    let grads = (output.clone() * target).sum().backward();
    let mut all = vec![read(output), read(input.grad(&grads).unwrap())];
    if let Some(style) = style {
        all.push(read(style.grad(&grads).unwrap()));
    }
    let weights = FlatGradients::collect(&block, grads);
    all.extend(
        weights
            .by_weight()
            .into_iter()
            .map(Option::unwrap)
            .map(read),
    );
    all
}

#[test]
fn a_block_and_the_gradient_of_each_input_agree_on_gpu() {
    let gpu = test_gpu();
    for (n, case) in CASES.iter().enumerate() {
        let expected = block_on(&device(), case, false);
        for recompute in [false, true] {
            let made = block_on(&gpu, case, recompute);
            let names = ["output", "input"];
            agree(&format!("case {n}"), &names, &expected, &made, 1e-4);
        }
    }
}

/// Ids that come often, once and never; durations of zero, rows without any, frames beyond a row's end.
#[test]
fn rows_that_are_looked_up_and_their_gradients_agree_on_gpu() {
    let durations = Durations::new(vec![2, 0, 3, 0, 0, 0, 1, 5, 1], 3);
    let on = |device: &Device| {
        let tracking = device.clone().autodiff();
        let table = tracked_on(random("table", [11, 37], device), &tracking);
        let ids = [3, 3, 10, 0, 3, 7, 7, 3];
        let ids = Tensor::<1, Int>::from_ints(ids, device);
        let param = Param::from_tensor(table.clone());
        let found = look_up(&param, ids);
        let tokens = tracked_on(random("tokens", [3, 3, 37], device), &tracking);
        let expanded = expand(tokens.clone(), &durations, 9);
        let of_found = (found.clone() * random("of found", [8, 37], &tracking)).sum();
        let of_expanded = expanded.clone() * random("of expanded", [3, 9, 37], &tracking);
        let grads = (of_found + of_expanded.sum()).backward();
        vec![
            read(found),
            read(expanded),
            read(param.val().grad(&grads).unwrap()),
            read(tokens.grad(&grads).unwrap()),
        ]
    };
    let names = ["found", "expanded", "table", "tokens"];
    agree("rows", &names, &on(&device()), &on(&test_gpu()), 1e-6);
}

/// They are what a cast at each use would make, to the bit; and a step casts few buffers instead of each weight.
#[test]
fn copies_in_16_bits_are_made_once_a_step_on_gpu() {
    let gpu = test_gpu();
    let Some(half) = Precision::half_of(&gpu) else {
        println!("this GPU has no 16 bits");
        return;
    };
    let batch = parity::prepared(&gpu, parity::batch());
    let even = Durations::new([vec![4; 10], vec![0; 10], vec![1; 10]].concat(), 10);
    let model = parity::voice_on(&gpu).computing_in(half);
    let state = OptimizerState::new(&model, &gpu);
    let forward = |model: &Voice| pass_with(model, &batch, even.clone(), false, parity::COUNTS).0;
    let fresh = FlatGradients::collect(&model, forward(&model).losses.total().backward());
    let (model, ..) = AdamW::default().step(model, state, fresh, 1e-2);
    let run = |model: &Voice| {
        let (made, launched) = counted(&gpu, || forward(model));
        let losses = read(made.losses.together(&made.losses.total()));
        let gradients = FlatGradients::collect(model, made.losses.total().backward());
        let gradients = gradients.by_weight().into_iter().flatten();
        let gradients: Vec<Vec<f32>> = gradients.map(read).collect();
        (losses, gradients, launched.values().sum::<usize>())
    };
    let cast_at_each_use = model.clone().with_casts(None);
    let ((losses, gradients, with), (expected, expected_gradients, without)) =
        (run(&model), run(&cast_at_each_use));
    assert_eq!(losses, expected);
    assert_eq!(gradients, expected_gradients);
    let products = model.weights().len() / 2;
    println!("{with} kernels forward, {without} without copies");
    assert!(with + products < without, "{with}, {without}");
}
