//! The tests read files back with a reader of their own; `eval/check_tensorboard.py` does so with TensorBoard.

use super::*;
use crate::picture::alignment_png;

/// A field of a message: its number and what it holds.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Varint(u64, u64),
    Double(u64, f64),
    Bytes(u64, Vec<u8>),
    Float(u64, f32),
}

fn take_varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let taken = bytes[..N].try_into().unwrap();
    *bytes = &bytes[N..];
    taken
}

fn fields(mut bytes: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = take_varint(&mut bytes);
        let number = key >> 3;
        fields.push(match key & 7 {
            0 => Field::Varint(number, take_varint(&mut bytes)),
            1 => Field::Double(number, f64::from_le_bytes(take(&mut bytes))),
            2 => {
                let length = take_varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(number, value.to_vec())
            }
            5 => Field::Float(number, f32::from_le_bytes(take(&mut bytes))),
            kind => panic!("wire type {kind}"),
        });
    }
    fields
}

/// The bytes of the one field with this number.
fn inner(bytes: &[u8], wanted: u64) -> Vec<u8> {
    fields(bytes)
        .into_iter()
        .find_map(|field| match field {
            Field::Bytes(number, value) if number == wanted => Some(value),
            _ => None,
        })
        .unwrap()
}

/// The payloads of a file's records, checksums checked.
fn records(path: &Path) -> Vec<Vec<u8>> {
    let file = fs::read(path).unwrap();
    let mut rest = file.as_slice();
    let mut records = Vec::new();
    while !rest.is_empty() {
        let length: [u8; 8] = take(&mut rest);
        let checksum = u32::from_le_bytes(take(&mut rest));
        assert_eq!(checksum, record::masked_checksum(&length));
        let (payload, after) = rest.split_at(u64::from_le_bytes(length) as usize);
        rest = after;
        let checksum = u32::from_le_bytes(take(&mut rest));
        assert_eq!(checksum, record::masked_checksum(payload));
        records.push(payload.to_vec());
    }
    records
}

const START: RunStart<'static> = RunStart {
    wall_seconds: 1_700_000_000.25,
    host: "a host/with.signs",
    process_id: 42,
    first_step: 0,
};

fn at(step: u64) -> Moment {
    Moment {
        wall_seconds: 1_700_000_001.5,
        step,
    }
}

/// The records of a file into which something was written.
fn written(write: impl FnOnce(&mut EventWriter)) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(folder.path(), START).unwrap();
    write(&mut writer);
    writer.flush().unwrap();
    records(writer.path())
}

/// The one value of the first record after the start.
fn only_value(records: &[Vec<u8>]) -> Vec<u8> {
    inner(&inner(&records[2], 5), 1)
}

#[test]
fn the_checksum_is_masked_crc_32c() {
    // CRC-32C of "123456789" is the catalogued check value 0xe3069283.
    let expected = 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8);
    assert_eq!(record::masked_checksum(b"123456789"), expected);
}

#[test]
fn a_file_begins_with_its_version_and_the_step_from_which_it_counts() {
    let folder = tempfile::tempdir().unwrap();
    let start = RunStart {
        first_step: 300,
        ..START
    };
    let writer = EventWriter::create(folder.path(), start).unwrap();
    let records = records(writer.path());
    assert_eq!(
        fields(&records[0]),
        [
            Field::Double(1, 1_700_000_000.25),
            Field::Bytes(3, b"brain.Event:2".to_vec())
        ]
    );
    assert_eq!(fields(&records[1])[1], Field::Varint(2, 300));
    assert_eq!(fields(&inner(&records[1], 7)), [Field::Varint(1, 1)]);
}

#[test]
fn scalars_of_one_moment_are_one_record() {
    let losses = [("loss/total", 1.25), ("loss/mel", f32::NAN)];
    let records = written(|writer| writer.scalars(at(7), &losses).unwrap());
    assert_eq!(records.len(), 3);
    let moment = [Field::Double(1, 1_700_000_001.5), Field::Varint(2, 7)];
    assert_eq!(fields(&records[2])[..2], moment);
    let values = fields(&inner(&records[2], 5));
    let Field::Bytes(1, total) = &values[0] else {
        panic!("{values:?}")
    };
    let tag = Field::Bytes(1, b"loss/total".to_vec());
    assert_eq!(fields(total), [tag, Field::Float(2, 1.25)]);
    assert_eq!(values.len(), 2);
}

#[test]
fn a_picture_has_the_size_of_its_png() {
    let png = alignment_png(&[2, 1, 3]);
    let records = written(|writer| writer.picture(at(1), "alignment", &png).unwrap());
    let value = only_value(&records);
    assert_eq!(inner(&value, 1), b"alignment");
    assert_eq!(
        fields(&inner(&value, 4)),
        [
            Field::Varint(1, 48),
            Field::Varint(2, 24),
            Field::Varint(3, 3),
            Field::Bytes(4, png)
        ]
    );
}

#[test]
fn a_picture_that_is_no_png_is_refused() {
    for bytes in [&b""[..], b"GIF89a", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0"] {
        written(|writer| {
            let error = writer.picture(at(1), "mel", bytes).unwrap_err();
            assert_eq!(error.to_string(), "the picture mel is no PNG");
        });
    }
}

#[test]
fn a_sound_keeps_its_rate_and_bytes() {
    let sound = WavFile {
        wav: b"RIFF...",
        sample_rate_hz: 22_050,
        samples: 300,
    };
    let records = written(|writer| writer.sound(at(1), "sample/0", sound).unwrap());
    assert_eq!(
        fields(&inner(&only_value(&records), 6)),
        [
            Field::Float(1, 22_050.0),
            Field::Varint(2, 1),
            Field::Varint(3, 300),
            Field::Bytes(4, b"RIFF...".to_vec()),
            Field::Bytes(5, b"audio/wav".to_vec())
        ]
    );
}

#[test]
fn each_start_has_a_file_of_its_own_and_names_sort_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let later = RunStart {
        wall_seconds: START.wall_seconds + 1.0,
        process_id: 7,
        ..START
    };
    let names = [START, START, later].map(|start| {
        let writer = EventWriter::create(folder.path(), start).unwrap();
        let name = writer.path().file_name().unwrap();
        name.to_str().unwrap().to_owned()
    });
    assert_eq!(
        names,
        [
            "events.out.tfevents.1700000000.0.ahostwithsigns.42",
            "events.out.tfevents.1700000000.1.ahostwithsigns.42",
            "events.out.tfevents.1700000001.0.ahostwithsigns.7",
        ]
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let occupied = folder.path().join("occupied");
    fs::write(&occupied, "").unwrap();
    let error = EventWriter::create(&occupied, START).unwrap_err();
    assert!(error.to_string().ends_with("occupied"), "{error}");
}

#[test]
fn settings_are_where_the_hparams_page_looks_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(folder.path(), START).unwrap();
    let settings = [("batch_size", "16"), ("size", "tiny")];
    writer.settings(at(0), &settings).unwrap();
    writer.flush().unwrap();
    let event = records(writer.path()).pop().unwrap();
    let value = inner(&inner(&event, 5), 1);
    assert_eq!(inner(&value, 1), b"_hparams_/session_start_info");
    let plugin = inner(&inner(&value, 9), 1);
    assert_eq!(inner(&plugin, 1), b"hparams");
    let start = inner(&inner(&plugin, 2), 3);
    let entries: Vec<_> = (fields(&start).into_iter())
        .filter_map(|field| match field {
            Field::Bytes(1, entry) => Some(entry),
            _ => None,
        })
        .collect();
    assert_eq!(inner(&entries[0], 1), b"batch_size");
    assert_eq!(fields(&inner(&entries[0], 2)), [Field::Double(2, 16.0)]);
    assert_eq!(inner(&inner(&entries[1], 2), 3), b"tiny");
}
