//! Delays injected on purpose, to see whether their cause is found.

use std::time::Duration;

use crate::error::UserError;
use voxmill_data::featurize::InjectedDelays;

/// `read=20ms`, …; nothing is injected where nothing was asked for.
pub fn parse(asked: &[String]) -> anyhow::Result<Option<InjectedDelays>> {
    let mut all = InjectedDelays::default();
    for text in asked {
        let wrong = || {
            let what = format!("`{text}` cannot be injected");
            let hint = "give read, resample, mel, huge, uneven, collate, transfer or step with a time (read=20ms)";
            UserError::new(what, hint)
        };
        let (part, value) = text.split_once('=').ok_or_else(wrong)?;
        let number = value.strip_suffix("ms").ok_or_else(wrong)?;
        let milliseconds: f64 = number.parse().map_err(|_| wrong())?;
        let time = Duration::try_from_secs_f64(milliseconds / 1e3).map_err(|_| wrong())?;
        let place = match part {
            "read" => &mut all.read,
            "resample" => &mut all.resample,
            "mel" => &mut all.mel,
            "huge" => &mut all.huge,
            "uneven" => &mut all.uneven,
            "collate" => &mut all.collate,
            "transfer" => &mut all.transfer,
            "step" => &mut all.step,
            _ => return Err(wrong().into()),
        };
        *place = time;
    }
    Ok((!asked.is_empty()).then_some(all))
}
