//! TensorBoard's `Event` message, as far as we write it.
//!
//! Encoded by hand: it is five messages with some fields each, whose numbers have not changed since 2016, and
//! writing needs two wire rules. A protobuf crate would bring a code generator and copies of the schemas for it.

use super::{Moment, WavFile};

/// Fields in the order of writing.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn varint(mut self, field: u8, value: u64) -> Self {
        self.0.push(field << 3);
        self.push_varint(value);
        self
    }

    fn double(mut self, field: u8, value: f64) -> Self {
        self.0.push(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn float(mut self, field: u8, value: f32) -> Self {
        self.0.push(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u8, value: &[u8]) -> Self {
        self.0.push(field << 3 | 2);
        self.push_varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn message(self, field: u8, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn push_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// The first record of every file.
pub(super) fn version_event(wall_seconds: f64) -> Message {
    Message::default()
        .double(1, wall_seconds)
        .bytes(3, b"brain.Event:2")
}

/// Makes void what earlier files hold of this step and later ones.
pub(super) fn start_event(at: Moment) -> Message {
    const STATUS_START: u64 = 1;
    let session = Message::default().varint(1, STATUS_START);
    event(at).message(7, &session)
}

pub(super) fn summary_event(at: Moment, values: impl IntoIterator<Item = Message>) -> Message {
    let add = |summary: Message, value: Message| summary.message(1, &value);
    let summary = values.into_iter().fold(Message::default(), add);
    event(at).message(5, &summary)
}

fn event(at: Moment) -> Message {
    Message::default()
        .double(1, at.wall_seconds)
        .varint(2, at.step)
}

fn tagged(tag: &str) -> Message {
    Message::default().bytes(1, tag.as_bytes())
}

pub(super) fn scalar(tag: &str, value: f32) -> Message {
    tagged(tag).float(2, value)
}

pub(super) fn picture(tag: &str, png: &[u8], width: u32, height: u32) -> Message {
    const RGB: u64 = 3;
    let image = Message::default()
        .varint(1, u64::from(height))
        .varint(2, u64::from(width))
        .varint(3, RGB)
        .bytes(4, png);
    tagged(tag).message(4, &image)
}

pub(super) fn sound(tag: &str, sound: WavFile<'_>) -> Message {
    let audio = Message::default()
        .float(1, sound.sample_rate_hz as f32)
        .varint(2, 1)
        .varint(3, sound.samples)
        .bytes(4, sound.wav)
        .bytes(5, b"audio/wav");
    tagged(tag).message(6, &audio)
}

/// Text has no field of its own: it is a tensor of strings, marked for the text page.
pub(super) fn text(tag: &str, text: &str) -> Message {
    const STRINGS: u64 = 7;
    let scalar_shape = Message::default();
    let tensor = Message::default()
        .varint(1, STRINGS)
        .message(2, &scalar_shape)
        .bytes(8, text.as_bytes());
    let plugin = Message::default().bytes(1, b"text");
    let metadata = Message::default().message(1, &plugin);
    tagged(tag).message(8, &tensor).message(9, &metadata)
}

/// The settings of a run, for the hparams page. They are no value of their own: the page reads them from the
/// metadata of an empty one with this very tag.
pub(super) fn settings(wall_seconds: f64, settings: &[(&str, &str)]) -> Message {
    const TAG: &str = "_hparams_/session_start_info";
    const FLOAT: u64 = 1;
    let entry = |(name, value): &(&str, &str)| {
        let value = match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Message::default().double(2, number),
            _ => Message::default().bytes(3, value.as_bytes()),
        };
        let entry = Message::default().bytes(1, name.as_bytes());
        entry.message(2, &value)
    };
    let add = |start: Message, setting| start.message(1, &entry(setting));
    let start = settings.iter().fold(Message::default(), add);
    let start = start.double(5, wall_seconds);
    let content = Message::default().varint(1, 0).message(3, &start);
    let plugin = Message::default().bytes(1, b"hparams");
    let metadata = Message::default().message(1, &plugin.message(2, &content));
    let empty = Message::default().varint(1, FLOAT);
    let empty = empty.message(2, &Message::default());
    tagged(TAG).message(8, &empty).message(9, &metadata)
}
