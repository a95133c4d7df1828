//! Which frame belongs to which token: monotonic alignment search.
//!
//! The search runs on the host, because it is a dynamic program that a GPU is no help with. It
//! wants the scores frame after frame, the tokens of a frame side by side: the inner loop then
//! goes over tokens, none of which waits for another, and vectorises.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use pulp::Arch;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// How many frames each token of each row lasts. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    /// rows × tokens; zero for padding.
    frames: Arc<[u32]>,
    tokens: usize,
}

impl Durations {
    /// `frames` is rows × `tokens`.
    pub fn new(frames: Vec<u32>, tokens: usize) -> Self {
        let is_whole = tokens > 0 && frames.len().is_multiple_of(tokens);
        assert!(is_whole, "whole rows");
        Self {
            frames: frames.into(),
            tokens,
        }
    }

    /// How many clips it is of, masked rows included.
    pub fn rows(&self) -> usize {
        self.frames.len() / self.tokens
    }

    /// How many tokens a row has, padding included.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// One row's, padding included.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.frames[row * self.tokens..][..self.tokens]
    }

    pub(crate) fn of_rows(&self, rows: Range<usize>) -> Self {
        Self {
            frames: self.frames[rows.start * self.tokens..rows.end * self.tokens].into(),
            tokens: self.tokens,
        }
    }

    /// All rows, one after another.
    pub fn all(&self) -> &[u32] {
        &self.frames
    }

    /// The natural logarithm of each duration, and 1 where there is one to learn from.
    pub(crate) fn logs_and_mask(&self) -> (Vec<f32>, Vec<f32>) {
        let logs = self.frames.iter().map(|&n| (n.max(1) as f32).ln());
        let mask = self.frames.iter().map(|&n| f32::from(u8::from(n > 0)));
        (logs.collect(), mask.collect())
    }

    /// The token of each frame, rows × `frames`; 0 beyond a row's end.
    pub(crate) fn token_of_frame(&self, frames: usize) -> Vec<i32> {
        let mut tokens = vec![0; self.rows() * frames];
        for (row, tokens) in tokens.chunks_exact_mut(frames).enumerate() {
            for (to, token) in tokens.iter_mut().zip(self.tokens_of_frames(row)) {
                *to = token as i32;
            }
        }
        tokens
    }

    /// For tokens and frames of all rows one after another: the token of each frame, −1 beyond a row's end; and the first
    /// frame of each token with the one after its last.
    #[cfg(feature = "gpu")]
    pub(crate) fn rows_of_frames(&self, frames: usize) -> (Vec<i32>, Vec<i32>) {
        let mut of_frame = vec![-1; self.rows() * frames];
        let mut of_token = Vec::with_capacity(2 * self.frames.len());
        for row in 0..self.rows() {
            let (first, end) = (row * frames, (row + 1) * frames);
            let mut begin = first;
            for (token, &lasts) in self.row(row).iter().enumerate() {
                let after = (begin + lasts as usize).min(end);
                of_frame[begin..after].fill((row * self.tokens + token) as i32);
                of_token.extend([begin as i32, after as i32]);
                begin = after;
            }
        }
        (of_frame, of_token)
    }

    /// The token of each frame of a row, in order.
    pub(crate) fn tokens_of_frames(&self, row: usize) -> impl Iterator<Item = usize> {
        let lasting = self.row(row).iter().enumerate();
        lasting.flat_map(|(token, &n)| std::iter::repeat_n(token, n as usize))
    }

    /// Where each frame lies in its token, rows × `frames` × [`PLACES`]; zeros beyond a row's end.
    pub(crate) fn places(&self, frames: usize) -> Vec<f32> {
        let mut places = vec![0.0; self.rows() * frames * PLACES];
        for (row, places) in places.chunks_exact_mut(frames * PLACES).enumerate() {
            let mut to = places.chunks_exact_mut(PLACES);
            for &lasts in self.row(row) {
                let half_log = 0.5 * (lasts.max(1) as f32).ln();
                for since in 0..lasts {
                    let Some(to) = to.next() else { break };
                    let share = (since as f32 + 0.5) / lasts as f32;
                    let since = since.min(20) as f32 / 10.0;
                    to.copy_from_slice(&[share, 1.0 - share, half_log, since]);
                }
            }
        }
        places
    }
}

/// How many numbers describe where a frame lies in its token.
pub(crate) const PLACES: usize = 4;

/// One row to align.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    pub(crate) tokens: usize,
    pub(crate) frames: usize,
}

/// The threads that search where the model is on a GPU: all cores, for the few milliseconds that it takes. The
/// threads that a model on the CPU computes with are one then.
pub(crate) fn pool() -> &'static ThreadPool {
    static POOL: LazyLock<ThreadPool> = LazyLock::new(|| {
        let named = ThreadPoolBuilder::new().thread_name(|n| format!("align-{n}"));
        named.build().expect("threads can be started")
    });
    &POOL
}

/// Finds the best monotonic path of every row. `scores` is rows × `time` × `tokens` and is
/// overwritten; `prior_weight` draws the path towards the diagonal.
pub(crate) fn search(
    scores: &mut [f32],
    time: usize,
    tokens: usize,
    lengths: &[Lengths],
    prior_weight: f32,
) -> Durations {
    let most = lengths.iter().map(|l| l.frames + l.tokens).max();
    let prior = (prior_weight > 0.0).then(|| Prior::new(most.unwrap_or(0) + 2, prior_weight));
    let mut durations = vec![0; lengths.len() * tokens];
    let arch = Arch::new();
    scores
        .par_chunks_exact_mut(time * tokens)
        .zip(durations.par_chunks_exact_mut(tokens))
        .zip(lengths)
        .for_each(|((scores, durations), &lengths)| {
            if let Some(prior) = &prior {
                prior.add_to(scores, tokens, lengths);
            }
            search_row(scores, tokens, lengths, durations, arch);
        });
    Durations::new(durations, tokens)
}

fn search_row(
    scores: &mut [f32],
    stride: usize,
    Lengths { tokens, frames }: Lengths,
    durations: &mut [u32],
    arch: Arch,
) {
    if tokens == 0 || frames == 0 {
        return;
    }
    if frames < tokens {
        // Too few frames for all tokens (a recording that was cut off): no path exists, and some
        // tokens get none.
        for frame in 0..frames {
            durations[frame * tokens / frames] += 1;
        }
        return;
    }
    // In place: a frame's scores become the best sums of paths that end there.
    scores[1..tokens].fill(f32::NEG_INFINITY);
    arch.dispatch(|| {
        for frame in 1..frames {
            let (before, here) = scores.split_at_mut(frame * stride);
            let before = &before[(frame - 1) * stride..][..tokens];
            let here = &mut here[..tokens];
            here[0] += before[0];
            for ((here, stay), come) in here[1..].iter_mut().zip(&before[1..]).zip(before) {
                *here += stay.max(*come);
            }
        }
    });
    let mut token = tokens - 1;
    for frame in (0..frames).rev() {
        durations[token] += 1;
        if token == 0 || frame == 0 {
            continue;
        }
        let before = &scores[(frame - 1) * stride..];
        // Equal sums: stay. A token that could not have begun earlier (`token == frame`) must move.
        if token == frame || before[token - 1] > before[token] {
            token -= 1;
        }
    }
}

/// The logarithm of a beta-binomial distribution over the tokens for each frame: before the model
/// knows anything, the path should run near the diagonal.
#[derive(Debug)]
struct Prior {
    weight: f32,
    /// `ln n!` for n = 0, 1, …
    log_factorials: Vec<f64>,
}

impl Prior {
    fn new(most: usize, weight: f32) -> Self {
        let mut log_factorials = vec![0.0; 2 * most + 2];
        for n in 1..log_factorials.len() {
            log_factorials[n] = log_factorials[n - 1] + (n as f64).ln();
        }
        Self {
            weight,
            log_factorials,
        }
    }

    /// α = t and β = T + 1 − t for frame t = 1 … T over tokens k = 0 … n.
    fn add_to(&self, scores: &mut [f32], stride: usize, Lengths { tokens, frames }: Lengths) {
        if tokens == 0 {
            return;
        }
        // ln Γ(x) for whole x ≥ 1
        let gamma = |x: usize| self.log_factorials[x - 1];
        let n = tokens - 1;
        let ways: Vec<f64> = (0..tokens)
            .map(|k| gamma(n + 1) - gamma(k + 1) - gamma(n - k + 1))
            .collect();
        for frame in 0..frames {
            let alpha = frame + 1;
            let beta = frames - frame;
            let whole = gamma(alpha + beta) - gamma(n + alpha + beta) - gamma(alpha) - gamma(beta);
            for (k, score) in scores[frame * stride..][..tokens].iter_mut().enumerate() {
                let log = ways[k] + gamma(k + alpha) + gamma(n - k + beta) + whole;
                *score += self.weight * log as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests;
