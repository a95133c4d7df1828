//! A batch in one go and in parts.

use super::super::gradients::StepTask;
use super::*;
use crate::device::read;

#[test]
fn parts_add_up_to_the_whole() {
    let clip = TestClip::new;
    let (a, b, c) = (clip("a", 9, 40), clip("b", 5, 17), clip("c", 7, 30));
    let batch = prepared(batch_of(&[Some(&a), None, Some(&b), Some(&c)], 10, 48, 32));
    let passed = |parts| {
        let task = StepTask {
            step: 0,
            prior_weight: 1.0,
            divisors: batch.counts,
            loss_scale: None,
        };
        let passed = fresh(options(1)).gradients_in_parts(&batch, parts, &task);
        let norm = read(passed.gradients.norm(&device()));
        (read(passed.losses), norm[0])
    };
    let (whole, norm) = passed(1);
    // In two parts, and in one for each of the four rows, one of them masked.
    for parts in [2, 4] {
        let (losses, norm_of_parts) = passed(parts);
        for (whole, parts) in whole.iter().zip(&losses) {
            assert!((whole - parts).abs() < 1e-5 * whole, "{whole} {parts}");
        }
        assert!((norm - norm_of_parts).abs() < 1e-4 * norm);
    }
}

#[test]
fn a_split_batch_has_every_row_once() {
    let clip = TestClip::new("a", 9, 40);
    let batch = prepared(batch_of(&[Some(&clip); 5], 10, 48, 32));
    let parts = batch.split(2);
    let rows: Vec<_> = parts.iter().map(|part| part.shape.rows).collect();
    assert_eq!(rows, [3, 2]);
    let clips: Vec<_> = parts.iter().flat_map(|part| part.clips.clone()).collect();
    assert_eq!(clips, batch.clips);
    let counts = parts.iter().map(|part| part.counts);
    let counts = counts.reduce(|a, b| a + b).unwrap();
    assert_eq!(counts, batch.counts);
}
