//! The project's check, as one command. What makes data or records is in `tools`.

mod test;

use anyhow::bail;

const USAGE: &str = "\
The check of the Voxmill project

Usage: cargo xtask test [PARTS]

Without a part named, all of them run: what a change must pass.

  --lints        format and clippy with every GPU backend that can be checked here
  --models       the model checker (loom)
  --cpu          the tests on the CPU
  --gpu          the tests that a GPU can change, with wgpu; installs Mesa's software GPU where no Vulkan driver is
  --tests-only   the same as --cpu --gpu
  --help         this page
";

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args.is_empty()
        || args
            .iter()
            .any(|arg| matches!(*arg, "--help" | "-h" | "help"))
    {
        print(USAGE);
        return Ok(());
    }
    match args.split_first() {
        Some((&"test", parts)) => test::run(test::Parts::parse(parts)?),
        _ => bail!("no such command: {}\n\n{USAGE}", args.join(" ")),
    }
}

#[expect(clippy::print_stdout, reason = "help was asked for")]
fn print(text: &str) {
    print!("{text}");
}
