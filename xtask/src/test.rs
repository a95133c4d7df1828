//! The README's test command: everything that must hold before a change lands.
//!
//! All tests run from one build, the one with wgpu: they choose their device when they run, so the CPU and the GPU
//! need no build each. Only `vulkan` has one of its own. Clippy checks the types of the backends that cannot be run here.
//!
//! Tests leave cores idle, compilers do not. So clippy and the model checker, which compile for themselves, run at
//! low priority next to the build and the tests ([`background`]), and take what those leave. So do fuzzing and torture,
//! once there is a build.

mod background;
mod clock;
mod vulkan;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use xtask::{project_root, python, tell};

use crate::torture::{self, Asked};
use background::Background;
use clock::Clock;
use vulkan::Kernels;

/// Which parts of the check to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    format: bool,
    clippy: bool,
    models: bool,
    cpu: bool,
    gpu: bool,
    vulkan: bool,
    tuned: bool,
    page: bool,
    fuzz: bool,
    torture: bool,
    /// Everything but the tests next to the tests.
    background: bool,
}

impl Parts {
    pub(crate) fn parse(args: &[&str]) -> anyhow::Result<Parts> {
        let all = args.is_empty();
        let mut parts = Parts {
            format: all,
            clippy: false,
            models: false,
            cpu: all,
            gpu: all,
            vulkan: all,
            // Twenty minutes, half of them one thread that compiles and tunes kernels: only when asked for.
            tuned: false,
            page: all,
            fuzz: false,
            torture: false,
            background: all,
        };
        for arg in args {
            match *arg {
                "--lints" => (parts.format, parts.clippy) = (true, true),
                "--models" => parts.models = true,
                "--cpu" => parts.cpu = true,
                "--gpu" => parts.gpu = true,
                "--vulkan" => parts.vulkan = true,
                "--tuned" => parts.tuned = true,
                "--page" => parts.page = true,
                "--fuzz" => parts.fuzz = true,
                "--torture" => parts.torture = true,
                "--tests-only" => (parts.cpu, parts.gpu) = (true, true),
                other => bail!(
                    "no such part of the check: {other}\n\nhint: `cargo xtask --help` lists them"
                ),
            }
        }
        Ok(parts)
    }
}

/// The features of the build that all tests run from. The whole workspace each time: another choice of packages or
/// features would have cargo build the dependencies once more.
pub(crate) const BUILD: [&str; 4] = [
    "--workspace",
    "--locked",
    "--features",
    "voxmill/wgpu,voxmill-trainer/wgpu",
];

/// The tests that a GPU can change: those of a module `on_gpu`, and those that go through every device there is.
const GPU_TESTS: [&str; 2] = ["on_gpu", "on_every_device"];

/// For each target, two of them at a time.
const FUZZ_SECONDS: u64 = 10;

const TORTURE_MINUTES: &str = "2";

pub(crate) fn run(parts: Parts) -> anyhow::Result<()> {
    let mut check = Check {
        root: project_root(),
        clock: Clock::default(),
    };
    let result = check.run(parts);
    // Also after a failure: the minutes are spent either way.
    check.clock.report();
    result
}

/// Both failures, where both failed.
fn both(first: anyhow::Result<()>, second: anyhow::Result<()>) -> anyhow::Result<()> {
    match (first, second) {
        (Err(first), Err(second)) => Err(first.context(format!("{second:#}; and"))),
        (first, second) => first.and(second),
    }
}

struct Check {
    root: PathBuf,
    clock: Clock,
}

impl Check {
    fn run(&mut self, parts: Parts) -> anyhow::Result<()> {
        if parts.format {
            self.cargo("format", &["fmt", "--all", "--check"], &[])?;
        }
        if !parts.background {
            return self.run_here(parts);
        }
        let background = Background::start(&self.root, &["--lints", "--models"])?;
        let tests = self.run_here(parts);
        let checks = (self.clock).time("waiting for lints and models", || background.finish());
        both(tests, checks)
    }

    /// The tests, with everything next to them that runs from the same build.
    fn run_tests(&mut self, parts: Parts) -> anyhow::Result<()> {
        let background = parts.background.then_some(&["--fuzz", "--torture"][..]);
        let background = background.map(|parts| Background::start(&self.root, parts));
        let background = background.transpose()?;
        let mut tests = Ok(());
        if parts.cpu {
            tests = self.cpu_tests();
        }
        if parts.gpu && tests.is_ok() {
            tests = self.gpu_tests();
        }
        let Some(background) = background else {
            return tests;
        };
        let disturbed = (self.clock).time("waiting for fuzz and torture", || background.finish());
        both(tests, disturbed)
    }

    fn run_here(&mut self, parts: Parts) -> anyhow::Result<()> {
        if parts.clippy {
            self.clippy()?;
            self.deny()?;
        }
        if parts.models {
            self.model_checker()?;
        }
        if parts.gpu || parts.vulkan || parts.tuned {
            self.clock.time("Vulkan driver", install_vulkan_driver)?;
        }
        if parts.cpu || parts.gpu {
            let args = [&["test"], &BUILD[..], &["--no-run"]].concat();
            self.cargo("build of the tests", &args, &[])?;
            self.run_tests(parts)?;
        }
        if parts.page {
            self.page_tests()?;
        }
        // After all that runs the program of the other build: both lie in one place.
        if parts.vulkan {
            self.vulkan_tests(Kernels::Chosen)?;
        }
        if parts.tuned {
            self.vulkan_tests(Kernels::Tuned)?;
        }
        if parts.fuzz {
            let seconds = FUZZ_SECONDS.to_string();
            let more = ["--", "--seconds", &seconds, "--jobs", "2"];
            let args = [&["test"], &BUILD[..], &["--test", "fuzz"], &more].concat();
            self.cargo("fuzz", &args, &[])?;
        }
        if parts.torture {
            let asked = Asked::parse(&["--minutes", TORTURE_MINUTES])?;
            (self.clock).time("torture", || torture::run(&asked, &BUILD))?;
        }
        Ok(())
    }

    fn clippy(&mut self) -> anyhow::Result<()> {
        // With wgpu and CUDA: what cannot be run here, or not even linked, must at least be right by its types.
        let all = [
            "--workspace",
            "--all-targets",
            "--features",
            "voxmill/wgpu,voxmill-trainer/wgpu,voxmill/cuda,voxmill-trainer/cuda",
        ];
        // And with no GPU at all, as the program is built by default.
        let default = ["--package", "voxmill", "--package", "voxmill-trainer"];
        // A folder of its own: cargo lets only one command at a time compile in one.
        let folder = self.target_folder("lints")?;
        let env = [
            // CUDA's build script then does without the compiler that it would fetch.
            ("DOCS_RS", "1"),
            ("CARGO_TARGET_DIR", &folder),
        ];
        for (part, what) in [
            ("clippy, wgpu and CUDA", &all[..]),
            ("clippy, CPU alone", &default),
        ] {
            let args = [&["clippy", "--locked"], what, &["--", "-D", "warnings"]].concat();
            self.cargo(part, &args, &env)?;
        }
        Ok(())
    }

    /// Known vulnerabilities. Licences and sources are checked by a test of `tools` on every machine.
    fn deny(&mut self) -> anyhow::Result<()> {
        let runs = |args: &[&str]| {
            let output = cargo_command(&self.root, args).output();
            output.is_ok_and(|output| output.status.success())
        };
        if !runs(&["deny", "--version"]) {
            tell(
                "cargo-deny is not installed: dependencies are NOT checked for known vulnerabilities",
            );
            return Ok(());
        }
        if !runs(&["deny", "fetch", "db"]) {
            tell(
                "the advisory database is out of reach: dependencies are NOT checked for known vulnerabilities",
            );
            return self.cargo(
                "cargo deny, without advisories",
                &[
                    "deny",
                    "--workspace",
                    "check",
                    "licenses",
                    "bans",
                    "sources",
                ],
                &[],
            );
        }
        self.cargo("cargo deny", &["deny", "--workspace", "check"], &[])
    }

    fn cpu_tests(&mut self) -> anyhow::Result<()> {
        // The tests read the cache back with pyarrow; without it they fail rather than pass by silence.
        let root = &self.root;
        let python = self.clock.time("Python packages", || {
            python::environment(root, "test-python", "xtask/python/requirements.txt")
        })?;
        let python = python
            .to_str()
            .context("the target folder's name is not UTF-8")?;
        let env = [
            ("VOXMILL_TEST_PYTHON", python),
            ("VOXMILL_TEST_DEVICE", "cpu"),
            // The program chooses a real GPU by itself where it finds one; here it is to find none.
            ("VK_LOADER_DRIVERS_DISABLE", "*"),
        ];
        let more = ["--no-fail-fast", "--", "--skip", "on_gpu"];
        let args = [&["test"], &BUILD[..], &more].concat();
        self.cargo("tests on the CPU", &args, &env)
    }

    /// The model checker takes the place of locks and threads, so it needs a build of its own.
    fn model_checker(&mut self) -> anyhow::Result<()> {
        let args = ["test", "-p", "voxmill-sync", "--test", "loom", "--locked"];
        // Its own folder: other flags would have cargo build everything there once more.
        let folder = self.target_folder("loom")?;
        let env = [("RUSTFLAGS", "--cfg loom"), ("CARGO_TARGET_DIR", &folder)];
        self.cargo("model checker (loom)", &args, &env)
    }

    fn target_folder(&self, name: &str) -> anyhow::Result<String> {
        let folder = python::target_dir(&self.root).join(name);
        let folder = folder.to_str().map(str::to_owned);
        folder.context("the target folder's name is not UTF-8")
    }

    /// The same code as on the CPU, on a GPU. It fails where there is none: tests on nothing prove nothing.
    fn gpu_tests(&mut self) -> anyhow::Result<()> {
        // One test at a time: they share one GPU, and a software one has no cores of its own.
        let only = [&["--"], &GPU_TESTS[..], &["--test-threads=1"]].concat();
        let lib = [&["test"], &BUILD[..], &["--lib"], &only].concat();
        self.cargo("trainer on the GPU", &lib, &[])?;
        let program = [&["test"], &BUILD[..], &["--test", "program"], &only].concat();
        self.cargo("program on the GPU", &program, &[])
    }

    /// The report in a real browser. It fails where there is none: tests on nothing prove nothing.
    fn page_tests(&mut self) -> anyhow::Result<()> {
        self.clock.time("browser", install_browser)?;
        let only = ["--test", "browser", "--", "--include-ignored"];
        let args = [&["test"], &BUILD[..], &only, &["--test-threads=1"]].concat();
        self.cargo("page in a browser", &args, &[])
    }

    /// Fused kernels in SPIR-V, which `wgpu` does without.
    fn vulkan_tests(&mut self, kernels: Kernels) -> anyhow::Result<()> {
        let compiler = vulkan::mended_compiler(&self.root)?;
        let instead = format!("paths=[{compiler:?}]");
        let build = [&["test"], &kernels.build()[..], &["--config", &instead]].concat();
        let tests = [&build[..], &["--test", "program"]].concat();
        let name = kernels.name();
        let no_run = [&tests[..], &["--no-run"]].concat();
        self.cargo(&format!("build for {name}"), &no_run, &[])?;
        // How fast a kernel is does not matter here.
        let env = [("CUBECL_AUTOTUNE_LEVEL", "minimal")];
        let only = [&tests[..], &["on_vulkan", "--", "--test-threads=1"]].concat();
        self.cargo(&format!("program on {name}"), &only, &env)
    }

    fn cargo(&mut self, part: &str, args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<()> {
        let mut command = cargo_command(&self.root, args);
        command.envs(env.iter().copied());
        let line = format!("cargo {}", args.join(" "));
        tell(&line);
        self.clock.time(part, || {
            let status = command.status().context("cannot start cargo")?;
            ensure!(status.success(), "`{line}` failed");
            Ok(())
        })
    }
}

fn cargo_command(root: &Path, args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root);
    command
}

/// Where the drivers say that they are there.
const VULKAN_DRIVERS: &str = "/usr/share/vulkan/icd.d";

fn install_vulkan_driver() -> anyhow::Result<()> {
    let has_driver = Path::new(VULKAN_DRIVERS)
        .read_dir()
        .is_ok_and(|mut drivers| drivers.next().is_some());
    if has_driver {
        return Ok(());
    }
    install(&["mesa-vulkan-drivers"])
}

fn install_browser() -> anyhow::Result<()> {
    let runs = |program: &str| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    match runs("chromium") && runs("chromedriver") {
        true => Ok(()),
        false => install(&["chromium", "chromium-driver"]),
    }
}

/// Debian's packages.
fn install(packages: &[&str]) -> anyhow::Result<()> {
    let names = packages.join(" ");
    tell(&format!("apt-get install {names}"));
    for args in [&["update"][..], &[&["install", "-y"], packages].concat()] {
        let status = Command::new("apt-get").args(args).status();
        let status =
            status.with_context(|| format!("cannot start apt-get; install {names} by hand"))?;
        ensure!(status.success(), "`apt-get {}` failed", args.join(" "));
    }
    Ok(())
}
