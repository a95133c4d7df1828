//! Hindrances on purpose, for those who want to see what is found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::complaint::Complaint;
use crate::feed::{Hindrance, compute_for};

/// `read=20ms`, `rivals=4`, …
pub(super) fn parse(planted: &[String]) -> anyhow::Result<Hindrance> {
    let mut all = Hindrance::default();
    for text in planted {
        let wrong = || {
            Complaint::new(
                format!("`{text}` cannot be planted"),
                "give read, resample, huge, collate or transfer with a time (read=20ms), or rivals with a number",
            )
        };
        let (part, value) = text.split_once('=').ok_or_else(wrong)?;
        if part == "rivals" {
            all.rivals = value.parse().map_err(|_| wrong())?;
            continue;
        }
        let number = value.strip_suffix("ms").ok_or_else(wrong)?;
        let milliseconds: f64 = number.parse().map_err(|_| wrong())?;
        let time = Duration::try_from_secs_f64(milliseconds / 1e3).map_err(|_| wrong())?;
        let place = match part {
            "read" => &mut all.read,
            "resample" => &mut all.resample,
            "huge" => &mut all.huge,
            "collate" => &mut all.collate,
            "transfer" => &mut all.transfer,
            _ => return Err(wrong().into()),
        };
        *place = time;
    }
    Ok(all)
}

/// Programs that compute beside this one, until dropped.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Rivals {
    pub(super) fn start(count: usize) -> Rivals {
        let over = Arc::new(AtomicBool::new(false));
        let threads = (0..count)
            .map(|_| {
                let over = Arc::clone(&over);
                std::thread::spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        compute_for(Duration::from_millis(5));
                    }
                })
            })
            .collect();
        Rivals { over, threads }
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
