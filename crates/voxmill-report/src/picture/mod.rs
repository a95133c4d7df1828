//! Pictures that show at a glance whether a voice is learning: mels, the real one above the spoken one, and
//! which token each frame belongs to.
//!
//! A frame and a channel are drawn as a block of whole pixels and never blended, so that what looks smeared in
//! the picture is smeared in the mel.

mod canvas;
mod colour;
mod letters;

use canvas::Canvas;
use colour::{BACKGROUND, EMPTY_TOKEN, NOT_A_NUMBER, Range, SEPARATOR, shade};

/// Rows of blocks are about this high together, whatever the number of channels or tokens.
const HEIGHT_PIXELS: usize = 320;
const SEPARATOR_PIXELS: usize = 4;

/// A log-mel spectrogram, one frame after the other, as the model sees it.
#[derive(Debug, Clone, Copy)]
pub struct Mel<'a> {
    values: &'a [f32],
    channels: usize,
}

impl<'a> Mel<'a> {
    /// Values beyond the last whole frame are left out.
    pub fn new(values: &'a [f32], channels: usize) -> Self {
        let channels = channels.max(1);
        let whole = values.len() - values.len() % channels;
        Mel {
            values: &values[..whole],
            channels,
        }
    }

    /// How many frames it has.
    pub fn frames(&self) -> usize {
        self.values.len() / self.channels
    }
}

/// A mel as a PNG: time to the right, low frequencies at the bottom, loud is bright.
///
/// The colours span the bulk of the values, so that a few extremes do not wash out the rest. Values that are
/// not finite are green, which no other value is.
pub fn mel_png(mel: Mel<'_>) -> Vec<u8> {
    let frame_width = pixels_per_frame(mel.frames());
    let (width, height) = (
        mel.frames() * frame_width,
        mel.channels * pixels_per_row(mel.channels),
    );
    let mut canvas = Canvas::new(width, height, BACKGROUND);
    draw_mel(&mut canvas, mel, (0, 0), frame_width, Range::of(mel.values));
    canvas.into_png()
}

/// What is written around a mel.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a> {
    pub title: &'a str,
    pub frame_seconds: f64,
}

const LEFT_PIXELS: usize = 5 * letters::ADVANCE;
const LINE_PIXELS: usize = letters::HEIGHT + 6;
const TICK_PIXELS: usize = 4;

/// A mel as in [`mel_png`], with a title above it, seconds below and mel channels at its left.
pub fn labelled_mel_png(mel: Mel<'_>, labels: Labels<'_>) -> Vec<u8> {
    labelled(&[mel], labels)
}

/// The real recording above, what the model speaks below, on one time axis and one colour scale.
///
/// The scale is the recording's, so that pictures of one sentence at many steps can be compared.
pub fn two_mels_png(real: Mel<'_>, spoken: Mel<'_>, labels: Labels<'_>) -> Vec<u8> {
    labelled(&[real, spoken], labels)
}

/// Mels from top to bottom with a line between each two, in the colours of the first.
fn labelled(mels: &[Mel<'_>], labels: Labels<'_>) -> Vec<u8> {
    let frames = mels.iter().map(Mel::frames).max().unwrap_or(0);
    let frame_width = pixels_per_frame(frames);
    let width = frames * frame_width;
    let height = |mel: &Mel<'_>| mel.channels * pixels_per_row(mel.channels);
    let lines = SEPARATOR_PIXELS * mels.len().saturating_sub(1);
    let all_heights = mels.iter().map(height).sum::<usize>() + lines;
    let title_width = labels.title.chars().count() * letters::ADVANCE;
    let whole_width = LEFT_PIXELS + width.max(title_width) + letters::ADVANCE;
    let whole_height = 2 * LINE_PIXELS + all_heights;
    let mut canvas = Canvas::new(whole_width, whole_height, BACKGROUND);
    letters::write(&mut canvas, LEFT_PIXELS, 2, labels.title, SEPARATOR);
    letters::write(&mut canvas, 2, 2, "mel", SEPARATOR);
    let range = Range::of(mels.first().map_or(&[], |mel| mel.values));
    let mut top = LINE_PIXELS;
    for (number, mel) in mels.iter().enumerate() {
        if number > 0 {
            canvas.fill(LEFT_PIXELS, top, width, SEPARATOR_PIXELS, SEPARATOR);
            top += SEPARATOR_PIXELS;
        }
        draw_mel(&mut canvas, *mel, (LEFT_PIXELS, top), frame_width, range);
        top += height(mel);
        draw_channels(&mut canvas, *mel, top);
    }
    let seconds = frames as f64 * labels.frame_seconds;
    letters::write(&mut canvas, 2, top + TICK_PIXELS + 2, "s", SEPARATOR);
    let between = if seconds > 8.0 { 2.0 } else { 0.5 };
    for tick in 0..=(seconds / between) as usize {
        let at = tick as f64 * between;
        let x = LEFT_PIXELS + (at / labels.frame_seconds) as usize * frame_width;
        canvas.fill(x, top, 2, TICK_PIXELS, SEPARATOR);
        let label = format!("{at:.1}");
        letters::write(&mut canvas, x, top + TICK_PIXELS + 2, &label, SEPARATOR);
    }
    canvas.into_png()
}

/// The numbers of some channels at the left of a mel that ends above `below`.
fn draw_channels(canvas: &mut Canvas, mel: Mel<'_>, below: usize) {
    for channel in (0..mel.channels).step_by(20) {
        let y = below - (channel + 1) * pixels_per_row(mel.channels);
        canvas.fill(LEFT_PIXELS - TICK_PIXELS, y, TICK_PIXELS, 2, SEPARATOR);
        let label_top = y.saturating_sub(letters::HEIGHT / 2);
        letters::write(canvas, 2, label_top, &channel.to_string(), SEPARATOR);
    }
}

/// Which token each frame belongs to: frames to the right, tokens upwards, from how many frames each token lasts.
///
/// A sound alignment is a staircase of like steps. One long step is a token that swallowed its neighbours; a red
/// row is a token that was given no frame.
pub fn alignment_png(frames_per_token: &[u32]) -> Vec<u8> {
    let frames: usize = frames_per_token.iter().map(|&frames| frames as usize).sum();
    let frame_width = pixels_per_frame(frames);
    let row_height = pixels_per_row(frames_per_token.len());
    let width = frames * frame_width;
    let height = frames_per_token.len() * row_height;
    let mut canvas = Canvas::new(width, height, shade(0.0));
    let mut x = 0;
    for (token, &frames) in frames_per_token.iter().enumerate() {
        let y = height - (token + 1) * row_height;
        let token_width = frames as usize * frame_width;
        if frames == 0 {
            canvas.fill(0, y, width, row_height, EMPTY_TOKEN);
        }
        // Neighbours differ, so that the border is seen where two steps touch.
        let brightness = if token % 2 == 0 { 0.95 } else { 0.7 };
        canvas.fill(x, y, token_width, row_height, shade(brightness));
        x += token_width;
    }
    canvas.into_png()
}

fn draw_mel(
    canvas: &mut Canvas,
    mel: Mel<'_>,
    (left, top): (usize, usize),
    frame_width: usize,
    range: Range,
) {
    let row_height = pixels_per_row(mel.channels);
    for (frame, values) in mel.values.chunks_exact(mel.channels).enumerate() {
        for (channel, &value) in values.iter().enumerate() {
            let colour = if value.is_finite() {
                shade(range.position(value))
            } else {
                NOT_A_NUMBER
            };
            let row = mel.channels - 1 - channel;
            let (x, y) = (left + frame * frame_width, top + row * row_height);
            canvas.fill(x, y, frame_width, row_height, colour);
        }
    }
}

/// Short clips are drawn wide enough to be seen, long ones narrow enough to fit a screen with little scrolling.
fn pixels_per_frame(frames: usize) -> usize {
    match frames {
        0..=250 => 4,
        251..=1_500 => 2,
        _ => 1,
    }
}

fn pixels_per_row(rows: usize) -> usize {
    (HEIGHT_PIXELS / rows.max(1)).clamp(1, 16)
}

#[cfg(test)]
mod tests;
