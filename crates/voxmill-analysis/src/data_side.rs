//! The data side alone: what it costs to prepare batches, how many workers keep up with a model, and what
//! each step would lose.

use crate::setting::AdvisedSetting;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use voxmill_format::{counted, percent, time, whole_percent};

use crate::profile::OtherPrograms;
use crate::timing::Spread;

/// Grows when a reader of the JSON would misread it.
pub const DATA_SIDE_VERSION: u32 = 1;

/// All that `analyze` measures, and its verdicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataSide {
    #[schemars(extend("const" = DATA_SIDE_VERSION))]
    pub version: u32,
    pub clips: u64,
    pub audio_seconds: f64,
    pub cores: u64,
    pub text: TextTimes,
    pub audio: Audio,
    pub disk: Disk,
    /// By the number of workers, with every file decoded.
    pub cold: Vec<Capacity>,
    /// The same with features from the cache; empty where it does not have them all.
    pub warm: Vec<Capacity>,
    pub feeding: Option<FeedingAt>,
    /// Clips of which the cache has the features; `None` where it is off.
    pub cached: Option<u64>,
    /// Of all clips, those for training and for validation.
    pub all_clips: u64,
    /// What other programs did meanwhile; `None` where the system does not report it.
    pub other_programs: Option<OtherPrograms>,
    pub verdicts: Vec<FeedVerdict>,
}

impl DataSide {
    /// Whether the cache has everything, so that no file is decoded.
    pub fn is_cached(&self) -> bool {
        self.cached == Some(self.all_clips)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextTimes {
    /// On one thread.
    pub ms_per_clip: Spread,
    /// All texts, on all cores.
    pub total_seconds: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Audio {
    /// Clips that were measured.
    pub clips: u64,
    pub read_ms: Spread,
    pub decode_ms: Spread,
    pub resample_ms: Spread,
    pub mel_ms: Spread,
    pub whole_ms: Spread,
    /// The slowest of them, slowest first.
    pub slowest: Vec<SlowClip>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowClip {
    pub clip: String,
    pub ms: f64,
    /// What most of it was: read, decode, resample or mel.
    pub part: String,
    pub audio_seconds: f64,
}

impl Audio {
    /// Standard deviation of the time of a clip, of its mean. Above 0.5: clips differ much, and a buffer
    /// has much to bridge.
    pub fn cv(&self) -> f64 {
        match self.whole_ms.mean > 0.0 {
            true => self.whole_ms.std / self.whole_ms.mean,
            false => 0.0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Megabytes a second, read when the page cache of the files was dropped.
    pub cold_mb_s: Option<f64>,
    /// The same files again.
    pub warm_mb_s: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    pub workers: u64,
    /// Of the whole pipeline, batches included.
    pub clips_per_second: f64,
    /// What each stage could do by itself, in clips a second.
    pub stages: Vec<(String, f64)>,
}

/// The pipeline with a consumer that takes a batch every so often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FeedingAt {
    pub step_ms: f64,
    /// Where the step time comes from.
    pub from: String,
    pub workers: u64,
    pub clips_per_batch: f64,
    pub wait_ms: Spread,
    /// The share of the time that a model of that pace would lose.
    pub lost: f64,
    pub needed_clips_per_second: f64,
    /// The fewest workers that keep up, of those that were tried: with features from the cache where it has them all,
    /// else with every file decoded.
    pub enough_workers: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    Good,
    Fair,
    Bad,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FeedVerdict {
    pub about: String,
    pub grade: Grade,
    pub text: String,
}

/// A tenth to spare: capacity was measured with nothing else at work.
const SPARE: f64 = 1.1;

/// The fewest workers of those tried that prepare `clips_per_second`.
pub fn enough_workers(capacities: &[Capacity], clips_per_second: f64) -> Option<u64> {
    let fast_enough = |capacity: &&Capacity| capacity.clips_per_second >= SPARE * clips_per_second;
    let enough = capacities.iter().filter(fast_enough);
    enough.map(|capacity| capacity.workers).min()
}

/// Three lines: text, audio, feeding; and one about the machine where other programs took its cores.
pub fn verdicts(data: &DataSide) -> Vec<FeedVerdict> {
    let all = [
        ("text", text_verdict(data)),
        ("audio", audio_verdict(data)),
        ("feeding", feeding_verdict(data)),
    ];
    let crowded = data.other_programs.and_then(OtherPrograms::why_ungraded);
    let verdict = |(about, (grade, text)): (&str, (Grade, String))| FeedVerdict {
        about: about.to_owned(),
        // What is measured next to other programs is no grade of the data.
        grade: if crowded.is_some() {
            Grade::Unknown
        } else {
            grade
        },
        text,
    };
    let mut all: Vec<FeedVerdict> = all.map(verdict).into();
    if let Some(crowded) = &crowded {
        all.push(FeedVerdict {
            about: "machine".to_owned(),
            grade: Grade::Bad,
            text: format!("{crowded}, and none was free: measure again when they are done"),
        });
    }
    all
}

fn text_verdict(data: &DataSide) -> (Grade, String) {
    let total = data.text.total_seconds;
    let (grade, text) = match total {
        s if s < 1.0 => (Grade::Good, "no wait"),
        s if s < 10.0 => (
            Grade::Fair,
            "the start waits for it once; the cache keeps it after that",
        ),
        _ if data.is_cached() => (Grade::Good, "no wait: the cache has them"),
        _ => (
            Grade::Bad,
            "the start waits for it: run `voxmill prepare` once",
        ),
    };
    let text = format!(
        "all {} texts are read in {} ({} each): {text}",
        data.clips,
        time(1e3 * total),
        time(data.text.ms_per_clip.mean)
    );
    (grade, text)
}

fn audio_verdict(data: &DataSide) -> (Grade, String) {
    let whole = data.audio.whole_ms;
    let parts = [
        ("reading", data.audio.read_ms),
        ("decoding", data.audio.decode_ms),
        ("resampling", data.audio.resample_ms),
        ("the mel frames", data.audio.mel_ms),
    ];
    let most = parts
        .iter()
        .max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
        .map_or(("", Spread::default()), |part| *part);
    let cv = data.audio.cv();
    let (grade, even) = match cv {
        cv if cv < 0.5 => (Grade::Good, "clips take about the same time"),
        cv if cv < 1.0 => (Grade::Fair, "clips differ, which a buffer bridges"),
        _ if data.is_cached() => (
            Grade::Fair,
            "a few clips take very much longer than the rest (the slowest are listed); the cache has their features",
        ),
        _ => (
            Grade::Bad,
            "a few clips take very much longer than the rest (the slowest are listed): `voxmill prepare` computes them once",
        ),
    };
    let text = format!(
        "{:.2} ms a clip, most of it {} ({}); CV {cv:.2}: {even}",
        whole.mean,
        most.0,
        whole_percent(most.1.mean / whole.mean.max(1e-9))
    );
    (grade, text)
}

fn feeding_verdict(data: &DataSide) -> (Grade, String) {
    let Some(at) = &data.feeding else {
        let text = "no step time is known: give --step-ms, or run `voxmill profile` here once";
        return (Grade::Unknown, text.to_owned());
    };
    let (grade, words) = match at.lost {
        lost if lost < 0.02 => (Grade::Good, "the model would hardly ever wait"),
        lost if lost < 0.20 => (Grade::Fair, "the model would wait at times"),
        _ => (Grade::Bad, "the model would wait most of the time"),
    };
    let advice = match at.enough_workers {
        _ if grade == Grade::Good => String::new(),
        Some(workers) if workers <= at.workers => String::new(),
        Some(workers) => format!("; {} {workers} would keep up", AdvisedSetting::NumWorkers),
        None if data.is_cached() => "; no number of workers that was tried keeps up, with all features from the cache: the disk or the cores are too slow for this step time".to_owned(),
        None => "; no number of workers that was tried keeps up: keep features in the cache (`voxmill prepare`)".to_owned(),
    };
    let text = format!(
        "at {:.0} ms a step and with {}, {} of the time is lost: {words}{advice}",
        at.step_ms,
        counted(at.workers, "worker"),
        percent(at.lost)
    );
    (grade, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(workers: u64, clips_per_second: f64) -> Capacity {
        Capacity {
            workers,
            clips_per_second,
            stages: Vec::new(),
        }
    }

    fn data(at: Option<FeedingAt>) -> DataSide {
        DataSide {
            version: DATA_SIDE_VERSION,
            clips: 100,
            audio_seconds: 300.0,
            cores: 4,
            text: TextTimes {
                ms_per_clip: Spread::of([0.02]),
                total_seconds: 0.01,
            },
            audio: Audio {
                clips: 3,
                read_ms: Spread::of([0.1, 0.1, 0.1]),
                decode_ms: Spread::of([1.0, 1.0, 1.0]),
                mel_ms: Spread::of([2.0, 2.0, 2.0]),
                whole_ms: Spread::of([3.1, 3.1, 3.1]),
                ..Audio::default()
            },
            disk: Disk::default(),
            cold: Vec::new(),
            warm: Vec::new(),
            feeding: at,
            cached: Some(0),
            all_clips: 100,
            other_programs: None,
            verdicts: Vec::new(),
        }
    }

    #[test]
    fn a_cache_that_exists_is_not_advised() {
        let at = FeedingAt {
            step_ms: 10.0,
            from: "--step-ms".to_owned(),
            workers: 1,
            clips_per_batch: 16.0,
            wait_ms: Spread::default(),
            lost: 0.4,
            needed_clips_per_second: 1_600.0,
            enough_workers: None,
        };
        let mut uneven = data(Some(at));
        uneven.text.total_seconds = 20.0;
        uneven.audio.whole_ms = Spread::of([1.0, 1.0, 1.0, 1.0, 40.0]);
        let advice = "voxmill prepare";
        assert!(verdicts(&uneven).iter().all(|v| v.text.contains(advice)));
        uneven.cached = Some(100);
        let cached = verdicts(&uneven);
        assert!(
            !cached.iter().any(|v| v.text.contains(advice)),
            "{cached:?}"
        );
    }

    #[test]
    fn next_to_other_programs_nothing_is_graded() {
        let mut crowded = data(None);
        let mut others = OtherPrograms {
            cores_taken: 1.5,
            cores: 2.0,
            oversubscribed: true,
        };
        crowded.other_programs = Some(others);
        let all = verdicts(&crowded);
        let grades: Vec<Grade> = all.iter().map(|verdict| verdict.grade).collect();
        assert_eq!(grades[..3], [Grade::Unknown; 3]);
        assert!(all[3].text.contains("1.5 of 2.0 cores"), "{}", all[3].text);
        others.oversubscribed = false;
        crowded.other_programs = Some(others);
        assert_eq!(verdicts(&crowded).len(), 3);
    }

    #[test]
    fn the_fewest_workers_that_keep_up_with_some_to_spare() {
        let measured = [capacity(1, 300.0), capacity(2, 550.0), capacity(4, 560.0)];
        assert_eq!(enough_workers(&measured, 200.0), Some(1));
        assert_eq!(enough_workers(&measured, 290.0), Some(2));
        assert_eq!(enough_workers(&measured, 520.0), None);
    }

    #[test]
    fn each_verdict_says_what_to_do() {
        let at = |lost, enough| FeedingAt {
            step_ms: 100.0,
            from: "--step-ms".to_owned(),
            workers: 1,
            clips_per_batch: 16.0,
            wait_ms: Spread::default(),
            lost,
            needed_clips_per_second: 160.0,
            enough_workers: enough,
        };
        let of = |feeding| verdicts(&data(feeding)).remove(2);
        assert_eq!(of(None).grade, Grade::Unknown);
        assert_eq!(of(Some(at(0.001, Some(1)))).grade, Grade::Good);
        assert!(of(Some(at(0.4, Some(3)))).text.contains("`num_workers` 3"));
        assert!(of(Some(at(0.4, None))).text.contains("voxmill prepare"));
        let all = verdicts(&data(None));
        assert!(all[1].text.contains("the mel frames"), "{}", all[1].text);
        assert_eq!((all[0].grade, all[1].grade), (Grade::Good, Grade::Good));
    }
}
