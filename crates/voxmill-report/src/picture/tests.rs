use super::*;

/// A decoded picture: size and the colour of each pixel.
struct Seen {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Seen {
    fn of(bytes: &[u8]) -> Self {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut rgb).unwrap();
        Seen {
            width: info.width as usize,
            height: info.height as usize,
            rgb,
        }
    }

    fn at(&self, x: usize, y: usize) -> [u8; 3] {
        let begin = (y * self.width + x) * 3;
        self.rgb[begin..begin + 3].try_into().unwrap()
    }
}

const GREEN: [u8; 3] = [0, 255, 0];
const GREY: [u8; 3] = [0x60, 0x60, 0x60];
const RED: [u8; 3] = [0xd0, 0x10, 0x10];
const DARKEST: [u8; 3] = [0, 0, 4];
const BRIGHTEST: [u8; 3] = [0xfc, 0xfd, 0xbf];

#[test]
fn low_frequencies_are_at_the_bottom_and_time_runs_to_the_right() {
    // Two frames of four channels: first only the lowest sounds, then only the highest.
    let values = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    let seen = Seen::of(&mel_png(Mel::new(&values, 4)));
    assert_eq!((seen.width, seen.height), (2 * 4, 4 * 16));
    assert_eq!(seen.at(0, seen.height - 1), BRIGHTEST);
    assert_eq!(seen.at(0, 0), DARKEST);
    assert_eq!(seen.at(7, seen.height - 1), DARKEST);
    assert_eq!(seen.at(7, 0), BRIGHTEST);
}

#[test]
fn an_ordinary_clip_is_a_picture_that_fits_a_screen() {
    let seen = Seen::of(&mel_png(Mel::new(&vec![0.5; 600 * 80], 80)));
    assert_eq!((seen.width, seen.height), (1_200, 320));
}

#[test]
fn what_is_not_finite_is_green() {
    let seen = Seen::of(&mel_png(Mel::new(&[0.0, f32::NAN, f32::INFINITY, 1.0], 1)));
    let colours = [0, 4, 8, 12].map(|x| seen.at(x, 0));
    assert_eq!(colours, [DARKEST, GREEN, GREEN, BRIGHTEST]);
}

const PLAIN: Labels<'_> = Labels {
    title: "",
    frame_seconds: 0.01,
};

#[test]
fn two_mels_share_time_and_the_recordings_colours() {
    let real = [0.0, 1.0, 0.0];
    let spoken = [0.5, 9.0];
    let seen = Seen::of(&two_mels_png(
        Mel::new(&real, 1),
        Mel::new(&spoken, 1),
        PLAIN,
    ));
    assert_eq!(seen.height, 16 + 4 + 16 + 2 * LINE_PIXELS);
    let at = |x, y| seen.at(LEFT_PIXELS + x, LINE_PIXELS + y);
    assert_eq!(at(4, 0), BRIGHTEST);
    assert_eq!(at(0, 17), [255, 255, 255], "the line between them");
    let half = at(0, 20);
    assert!(half != DARKEST && half != BRIGHTEST, "{half:?}");
    assert_eq!(at(4, 20), BRIGHTEST, "louder than the recording");
    assert_eq!(at(8, 20), GREY, "the model has stopped speaking");
}

#[test]
fn an_alignment_is_a_staircase_and_a_token_without_frames_is_red() {
    let seen = Seen::of(&alignment_png(&[2, 0, 1]));
    assert_eq!((seen.width, seen.height), (3 * 4, 3 * 16));
    let (first, second, third) = (40, 24, 8);
    assert_ne!(seen.at(0, first), DARKEST);
    assert_ne!(seen.at(7, first), DARKEST);
    assert_eq!(seen.at(8, first), DARKEST);
    assert_eq!(seen.at(0, second), RED);
    assert_eq!(seen.at(7, third), DARKEST);
    assert_ne!(seen.at(8, third), DARKEST);
}

#[test]
fn nothing_is_a_picture_too() {
    for bytes in [
        mel_png(Mel::new(&[], 80)),
        mel_png(Mel::new(&[], 0)),
        two_mels_png(Mel::new(&[], 80), Mel::new(&[], 80), PLAIN),
        alignment_png(&[]),
        alignment_png(&[0, 0]),
    ] {
        let seen = Seen::of(&bytes);
        assert!(seen.width >= 1 && seen.height >= 1);
    }
}

#[test]
fn a_labelled_mel_has_a_title_and_two_axes() {
    let values = vec![0.5; 100 * 40];
    let labels = Labels {
        title: "step 500: سلام",
        frame_seconds: 0.01,
    };
    let seen = Seen::of(&labelled_mel_png(Mel::new(&values, 40), labels));
    const WHITE: [u8; 3] = [255, 255, 255];
    let white = |columns: std::ops::Range<usize>, rows: std::ops::Range<usize>| {
        let mut pixels = rows.flat_map(|y| columns.clone().map(move |x| (x, y)));
        pixels.any(|(x, y)| seen.at(x, y) == WHITE)
    };
    let bottom = seen.height - LINE_PIXELS;
    assert!(white(LEFT_PIXELS..seen.width, 0..LINE_PIXELS), "title");
    assert!(white(0..LEFT_PIXELS, LINE_PIXELS..bottom), "channels");
    // Ticks at 0, 0.5 and, at the very end, 1 second.
    for second in [0, 50, 99] {
        let x = LEFT_PIXELS + second * 4;
        assert!(white(x..x + 8, bottom..seen.height), "second {second}");
    }
    assert_eq!(seen.at(LEFT_PIXELS, bottom - 1), DARKEST, "the mel itself");
}
