//! Names the state of the text tables, so that the cache knows when one of them changed.
//!
//! The tables are many and belong to several modules; hashing the folders catches a row added to
//! any of them without anybody remembering to count a version up.

use std::path::PathBuf;
use std::{env, fs, io};

const TEXT_TABLES: [&str; 5] = [
    "data/english",
    "data/persian",
    "data/languages",
    "data/symbols",
    "data/pronunciation",
];

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    for table in TEXT_TABLES {
        println!("cargo::rerun-if-changed={table}");
        for entry in fs::read_dir(table)? {
            files.push(entry?.path());
        }
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for file in files {
        hash = fnv1a(hash, file.to_string_lossy().as_bytes());
        hash = fnv1a(hash, &fs::read(&file)?);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(out.join("text_tables_hash.txt"), format!("{hash:016x}"))
}

fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    let length = (bytes.len() as u64).to_le_bytes();
    length.iter().chain(bytes).fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
