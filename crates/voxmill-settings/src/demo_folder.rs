//! Where the built-in corpus is unpacked: once per person and version, in their cache folder.

use std::path::PathBuf;

use voxmill_data::demo;

use crate::error::UserError;

/// Unpacks the corpus where it is not there yet, and says where it is.
pub fn unpack() -> anyhow::Result<PathBuf> {
    let home = cache_home().ok_or_else(|| {
        let what =
            "there is no place for the built-in corpus: neither XDG_CACHE_HOME nor HOME is set";
        let hint = "set XDG_CACHE_HOME to a folder of yours, or give a dataset with --train-data";
        UserError::new(what, hint)
    })?;
    let folder = home.join("voxmill").join(format!("demo-{}", demo::VERSION));
    let corpus = demo::unpack(&folder).map_err(|error| {
        let what = format!(
            "cannot unpack the built-in corpus into `{}`",
            folder.display()
        );
        let hint = "set XDG_CACHE_HOME to a folder that can be written";
        UserError::new(what, hint).because(error)
    })?;
    Ok(corpus.dir)
}

/// Where programs keep what can be made again.
pub fn cache_home() -> Option<PathBuf> {
    let given = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    given("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| Some(given("HOME")?.join(".cache")))
}
