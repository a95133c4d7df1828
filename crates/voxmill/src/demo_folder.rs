//! Where the built-in corpus is unpacked: once per person and version, in their cache folder.

use std::path::PathBuf;

use voxmill_data::demo;

use voxmill_settings::error::UserError;

pub(crate) fn unpack() -> anyhow::Result<PathBuf> {
    let home = cache_home().ok_or_else(|| {
        UserError::new(
            "there is no place for the built-in corpus: neither XDG_CACHE_HOME nor HOME is set",
            "set XDG_CACHE_HOME to a folder of yours, or give a dataset with --train-data",
        )
    })?;
    let folder = home.join("voxmill").join(format!("demo-{}", demo::VERSION));
    let corpus = demo::unpack(&folder).map_err(|error| {
        UserError::new(
            format!(
                "cannot unpack the built-in corpus into `{}`",
                folder.display()
            ),
            "set XDG_CACHE_HOME to a folder that can be written",
        )
        .because(error)
    })?;
    Ok(corpus.dir)
}

fn cache_home() -> Option<PathBuf> {
    let given = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    given("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| Some(given("HOME")?.join(".cache")))
}
