//! A grid of palette colours that becomes a PNG.

use super::colour::{Colour, palette};

/// Browsers and viewers refuse larger pictures; ours come near it only through a fault upstream.
const MOST_PIXELS_A_SIDE: usize = 32_000;

#[derive(Debug)]
pub(super) struct Canvas {
    width: usize,
    pixels: Vec<Colour>,
}

impl Canvas {
    /// At least one pixel, because a PNG has no empty pictures.
    pub(super) fn new(width: usize, height: usize, background: Colour) -> Self {
        let width = width.clamp(1, MOST_PIXELS_A_SIDE);
        let height = height.clamp(1, MOST_PIXELS_A_SIDE);
        Canvas {
            width,
            pixels: vec![background; width * height],
        }
    }

    /// What lies outside of the canvas is left out.
    pub(super) fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Colour) {
        let columns = x.min(self.width)..(x + width).min(self.width);
        let rows = self.pixels.chunks_exact_mut(self.width);
        for row in rows.skip(y).take(height) {
            row[columns.clone()].fill(colour);
        }
    }

    /// One byte a pixel: a third of what true colour takes before compression.
    pub(super) fn into_png(self) -> Vec<u8> {
        let height = self.pixels.len() / self.width;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width as u32, height as u32);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_palette(palette());
        let indices: Vec<u8> = self.pixels.iter().map(|colour| colour.0).collect();
        encoder
            .write_header()
            .and_then(|mut writer| writer.write_image_data(&indices))
            .expect("writing to memory cannot fail, and the canvas has as many pixels as its header says");
        bytes
    }
}
