//! What the check and the tools share: where the project is, how they talk, a Python with pinned packages.

pub mod python;

use std::path::PathBuf;

pub fn project_root() -> PathBuf {
    // This crate lies one folder below the workspace.
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

#[expect(clippy::print_stderr, reason = "it talks to the person who runs it")]
pub fn tell(line: &str) {
    eprintln!("xtask: {line}");
}
