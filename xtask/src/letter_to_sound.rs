//! placeholder

#[derive(Debug, clap::Args)]
pub(crate) struct LetterToSoundArgs {}

pub(crate) fn run(_args: LetterToSoundArgs) -> anyhow::Result<()> {
    anyhow::bail!("not there yet")
}
