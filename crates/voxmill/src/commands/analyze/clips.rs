//! Single clips on one thread: their texts, their files, their sound.

use std::fs::File;
use std::io::Read as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rayon::prelude::*;
use rustix::fs::{Advice, fadvise};
use voxmill_analysis::data_side::{Audio, Disk, SlowClip, TextTimes};
use voxmill_analysis::timing::Spread;
use voxmill_data::draw::draw;
use voxmill_data::manifest::Clip;

use voxmill_data::Recipe;
use voxmill_data::featurize::ClipFeaturizer;
use voxmill_settings::error::UserError;

/// Clips whose audio is looked at: enough for a p95, and a matter of a second.
const SAMPLE: usize = 200;

/// How many of the slowest clips are listed.
const SLOWEST: usize = 5;

pub(super) fn text(clips: &[&Clip], recipe: &Recipe) -> anyhow::Result<TextTimes> {
    let read = |clip: &Clip| {
        // What cannot be read is reported by `prepare`; its time counts all the same.
        let _ = recipe
            .front_end
            .features(&clip.text, recipe.language_of(clip));
    };
    let singly = clips.iter().map(|clip| {
        let began = Instant::now();
        read(clip);
        milliseconds(began.elapsed())
    });
    let ms_per_clip = Spread::of(singly);
    // On a pool of its own: nothing else is at work.
    let pool = rayon::ThreadPoolBuilder::new()
        .build()
        .context("cannot start threads")?;
    let began = Instant::now();
    pool.install(|| clips.par_iter().for_each(|clip| read(clip)));
    Ok(TextTimes {
        ms_per_clip,
        total_seconds: began.elapsed().as_secs_f64(),
    })
}

/// Some clips, always the same ones.
pub(super) fn sample<'a>(clips: &[&'a Clip], seed: u64) -> Vec<&'a Clip> {
    let mut all = clips.to_vec();
    all.sort_by_key(|clip| draw(seed, 0, &clip.id, "analyze"));
    all.truncate(SAMPLE);
    all
}

/// Reads the files twice: after asking the system to forget them, and again.
pub(super) fn disk(clips: &[&Clip]) -> anyhow::Result<Disk> {
    let mut forgotten = true;
    for clip in clips {
        let path = clip.audio_path();
        let file =
            File::open(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        forgotten &= fadvise(&file, 0, None, Advice::DontNeed).is_ok();
    }
    let cold = rate(clips)?;
    let warm = rate(clips)?;
    Ok(Disk {
        cold_mb_s: forgotten.then_some(cold),
        warm_mb_s: warm,
    })
}

fn rate(clips: &[&Clip]) -> anyhow::Result<f64> {
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    let began = Instant::now();
    for clip in clips {
        let path = clip.audio_path();
        let cannot = || format!("cannot read `{}`", path.display());
        let mut file = File::open(&path).with_context(cannot)?;
        while let length @ 1.. = file.read(&mut buffer).with_context(cannot)? {
            bytes += length;
        }
    }
    Ok(bytes as f64 / 1e6 / began.elapsed().as_secs_f64().max(1e-9))
}

pub(super) fn audio(clips: &[&Clip], recipe: &Recipe) -> anyhow::Result<Audio> {
    let mut featurizer = ClipFeaturizer::new(&recipe.audio)?;
    let mut parts: [Vec<f64>; 4] = Default::default();
    let mut whole = Vec::new();
    let mut all = Vec::new();
    for clip in clips {
        // Twice, and the faster one counts: a clip is not slow because another program was at work.
        let tries = (0..2).filter_map(|_| {
            // Bad ones are reported by `prepare`.
            let effort = featurizer.try_out(&clip.audio_path()).ok()?;
            Some(
                effort
                    .parts()
                    .map(|(name, took)| (name, milliseconds(took))),
            )
        });
        let sum = |parts: &[(_, f64); 4]| parts.iter().map(|(_, time)| time).sum::<f64>();
        let Some(times) = tries.min_by(|a, b| sum(a).total_cmp(&sum(b))) else {
            continue;
        };
        for (part, (_, time)) in parts.iter_mut().zip(times) {
            part.push(time);
        }
        whole.push(sum(&times));
        let most = times.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        all.push(SlowClip {
            clip: clip.id.to_string(),
            ms: sum(&times),
            part: most.map_or(String::new(), |(name, _)| name.to_string()),
            audio_seconds: clip.header.seconds(),
        });
    }
    all.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    all.truncate(SLOWEST);
    if whole.is_empty() {
        let what = "none of the sampled clips could be decoded";
        let hint = "`voxmill prepare` on the same folder says why";
        return Err(UserError::new(what, hint).into());
    }
    let [read, decode, resample, mel] = parts.map(Spread::of);
    Ok(Audio {
        clips: whole.len() as u64,
        read_ms: read,
        decode_ms: decode,
        resample_ms: resample,
        mel_ms: mel,
        whole_ms: Spread::of(whole),
        slowest: all,
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
