//! placeholder

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {}

pub(crate) fn run(_args: DemoArgs) -> anyhow::Result<()> {
    anyhow::bail!("not there yet")
}
