//! The frame around each event: length, checksum of the length, bytes, checksum of the bytes.

use std::io::{self, Write};

pub(super) fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = (bytes.len() as u64).to_le_bytes();
    to.write_all(&length)?;
    to.write_all(&masked_checksum(&length).to_le_bytes())?;
    to.write_all(bytes)?;
    to.write_all(&masked_checksum(bytes).to_le_bytes())
}

/// CRC-32C, turned and shifted as the format wants it: a checksum over bytes that hold their own checksum is weak.
pub(super) fn masked_checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}
