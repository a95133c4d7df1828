//! One target in a process of its own, so that whatever an input does can be seen from outside.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use voxmill_fuzz::FuzzFolder;

use crate::Asked;
use crate::bounds;
use crate::changes::{Draws, changed};

/// The input in hand: what is there when the process has ended is to blame.
pub(crate) const IN_HAND: &str = "in-hand";

/// Kept inputs, each with an outcome of its own.
const MOST_KEPT: usize = 2_000;

pub(crate) fn run(asked: &Asked, folder: &Path) -> anyhow::Result<()> {
    let target = asked.targets[0];
    let place = FuzzFolder::new()?;
    let in_hand = folder.join(IN_HAND);
    let mut inputs = 0_u64;
    let mut read = |bytes: &[u8]| -> anyhow::Result<String> {
        fs::write(&in_hand, bytes)?;
        inputs += 1;
        bounds::INPUT.store(inputs, Ordering::Relaxed);
        Ok((target.read)(&place, bytes))
    };
    if let Some(input) = &asked.input {
        bounds::watch_time();
        let bytes = fs::read(input)?;
        read(b"")?;
        bounds::limit_memory()?;
        println!("{}: {}", target.name, read(&bytes)?);
        return Ok(());
    }
    // Only now, and with thread pools and tables in place: their memory is nobody's fault.
    let mut kept: Vec<Vec<u8>> = target
        .inputs(&place)?
        .into_iter()
        .map(|(_, input)| input)
        .collect();
    read(kept.last().map_or(&b""[..], |input| input))?;
    bounds::limit_memory()?;
    bounds::watch_time();
    let mut outcomes = HashSet::new();
    for input in &kept {
        outcomes.insert(read(input)?);
    }
    let began = Instant::now();
    let mut draws = Draws::new(asked.seed);
    while began.elapsed() < asked.seconds {
        let (input, other) = (draws.below(kept.len()), draws.below(kept.len()));
        let new = changed(&kept[input], &kept[other], target.longest, &mut draws);
        if outcomes.insert(read(&new)?) && kept.len() < MOST_KEPT {
            kept.push(new);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let outcomes = outcomes.len();
    println!(
        "{:<10} {inputs:>9} inputs in {seconds:>5.0} s, {outcomes:>5} outcomes",
        target.name
    );
    Ok(())
}
