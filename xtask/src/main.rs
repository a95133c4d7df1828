//! The project's check, as one command. What makes data or records is in `tools`.

mod fuzz;
mod test;
mod torture;

use anyhow::bail;

const USAGE: &str = "\
The check of the Voxmill project

Usage: cargo xtask test [PARTS]
       cargo xtask fuzz [TARGETS] [--seconds N] [--seed N] [--jobs N] [--input FILE]
       cargo xtask torture [--minutes N] [--seed N] [--round N] [--only DISTURBANCE] [--program FILE]

test: without a part named, all but --tuned run: what a change must pass.

  --lints        format and clippy with every GPU backend that can be checked here
  --models       the model checker (loom)
  --cpu          the tests on the CPU
  --gpu          the tests that a GPU can change, with wgpu; installs Mesa's software GPU where no Vulkan driver is
  --vulkan       training with `vulkan`, whose kernels are fused and compiled in another way; not tuned here
  --tuned        the same with kernels tuned, as `vulkan` is shipped (20 minutes)
  --page         the report in a real browser; installs Debian's chromium and its driver where they are not
  --tests-only   the same as --cpu --gpu
  --fuzz         ten seconds of changed inputs for each kind of file that is read
  --torture      two minutes of kills, full disks, damaged files and the like

fuzz: changed inputs for the targets named, or for all of them, 60 seconds each with another seed each time.

torture: disturbs `prepare` and `train` at random for some minutes (2), and compares what comes out with an undisturbed
run. What was drawn for a round depends on --seed (1) and the round's number alone.
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
        Some((&"fuzz", args)) => fuzz::run(args),
        Some((&"torture", args)) => torture::run(&torture::Asked::parse(args)?, &test::BUILD),
        _ => bail!("no such command: {}\n\n{USAGE}", args.join(" ")),
    }
}

#[expect(clippy::print_stdout, reason = "help was asked for")]
fn print(text: &str) {
    print!("{text}");
}
