//! A corpus of LJ Speech's size: its real transcripts, and copies of 32 of its clips in turn.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// Lives below the temporary folder and is removed with this value.
pub(super) struct Corpus {
    folder: tempfile::TempDir,
    clips: usize,
}

/// The raw column of the transcripts.
pub(super) fn transcripts(data: &Path) -> anyhow::Result<Vec<String>> {
    let file = data.join("ljspeech-13100-transcripts.csv");
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text
        .lines()
        .filter_map(|line| line.split('|').nth(1))
        .map(str::to_owned)
        .collect())
}

impl Corpus {
    /// Real copies, not links: every clip is read from its own pages, as in a real dataset.
    pub(super) fn make(
        data: &Path,
        transcripts: &[String],
        clips: usize,
    ) -> anyhow::Result<Corpus> {
        let mut sources: Vec<PathBuf> = fs::read_dir(data.join("ljspeech-32/wavs"))?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?;
        sources.sort();
        ensure!(
            !sources.is_empty() && transcripts.len() >= clips,
            "too little data for {clips} clips"
        );
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("wavs"))?;
        let mut manifest = String::new();
        for (number, text) in transcripts.iter().take(clips).enumerate() {
            let id = format!("c{number:05}");
            fs::copy(
                &sources[number % sources.len()],
                folder.path().join("wavs").join(format!("{id}.wav")),
            )?;
            manifest.push_str(&format!("{id}|{text}\n"));
        }
        fs::write(folder.path().join("metadata.csv"), manifest)?;
        Ok(Corpus { folder, clips })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn clips(&self) -> usize {
        self.clips
    }

    pub(super) fn features(&self) -> PathBuf {
        self.path().join("voxmill-cache/features")
    }

    pub(super) fn forget_cache(&self) -> anyhow::Result<()> {
        match fs::remove_dir_all(self.path().join("voxmill-cache")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            done => Ok(done?),
        }
    }
}
