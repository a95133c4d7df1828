//! One chart of a run by itself, for documents.

use voxmill_analysis::profile::slow_steps;

use super::words::ENGLISH;
use super::{Part, Reported, buffers, steps, timeline};

const STYLE: &str = include_str!("picture.css");

/// A chart of the page that is also there by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    StepTime,
    Timeline,
    Buffers,
}

/// An SVG that needs nothing else. `None` where the log has nothing to draw.
pub fn picture(run: &Reported, which: Picture) -> Option<String> {
    let part = Part {
        run,
        words: &ENGLISH,
        number: 1,
    };
    if run.history.steps.is_empty() && which != Picture::Buffers {
        return None;
    }
    let chart = match which {
        Picture::StepTime => steps::step_time(&part),
        Picture::Timeline => {
            let slow = slow_steps(&run.run.last_start(), 5);
            timeline::chart(&part, &slow)
        }
        Picture::Buffers => buffers::buffers(&part),
    };
    chart.has_data().then(|| chart.picture(STYLE))
}
