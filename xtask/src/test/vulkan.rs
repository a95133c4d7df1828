//! The tests of the `vulkan` backend, whose kernels are compiled to SPIR-V, on a software driver.
//!
//! On a driver without `VK_KHR_workgroup_memory_explicit_layout`, as the software ones are, the library's compiler
//! exchanges two types, and all kernels that share memory are wrong (docs/decisions/0058). So the tests are built with
//! a copy of that compiler in which they are put right. The copy is made here, from what cargo has downloaded, and stays
//! in the target folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use xtask::python;

use super::cargo_command;

/// Which build is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernels {
    /// By rules: a build that shares most dependencies with that of the other tests.
    Chosen,
    /// By time, as `vulkan` is shipped: minutes on a software driver, and two hundred crates more.
    Tuned,
}

impl Kernels {
    pub(super) fn build(self) -> [&'static str; 4] {
        let features = match self {
            Kernels::Chosen => "voxmill/spirv,voxmill-trainer/spirv",
            Kernels::Tuned => "voxmill/vulkan,voxmill-trainer/vulkan",
        };
        ["--workspace", "--locked", "--features", features]
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kernels::Chosen => "vulkan",
            Kernels::Tuned => "tuned vulkan",
        }
    }
}

const COMPILER: &str = "cubecl-spirv";

/// In `lower_shared_implicit` of the compiler: what it says and what it should.
const MENDS: [[&str; 2]; 2] = [
    [
        "GlobalVariableOp::new(ctx, value_ty, StorageClass::Workgroup, name.clone(), None)",
        "GlobalVariableOp::new(ctx, ty, StorageClass::Workgroup, name.clone(), None)",
    ],
    [
        "AddressOfOp::new(ctx, ty, name)",
        "AddressOfOp::new(ctx, value_ty, name)",
    ],
];

/// A copy of the compiler that can be used in place of the published one.
pub(super) fn mended_compiler(root: &Path) -> anyhow::Result<PathBuf> {
    let published = published_compiler(root)?;
    let name = published.file_name().context("a folder")?;
    let copy = python::target_dir(root).join("mended").join(name);
    // Not a second time: cargo would compile newer files anew.
    if copy.is_dir() {
        return Ok(copy);
    }
    let unfinished = copy.with_file_name("unfinished");
    copy_folder(&published, &unfinished)?;
    let file = unfinished.join("src/ops/memory.rs");
    let mut source = fs::read_to_string(&file)?;
    for [wrong, right] in MENDS {
        ensure!(
            source.matches(wrong).count() == 1,
            "`{wrong}` is not in {}: if the library was mended, this copy is no longer needed",
            file.display()
        );
        source = source.replace(wrong, right);
    }
    fs::write(&file, source)?;
    fs::rename(&unfinished, &copy)?;
    Ok(copy)
}

fn published_compiler(root: &Path) -> anyhow::Result<PathBuf> {
    let args = "metadata --format-version 1 --locked --all-features";
    let args: Vec<&str> = args.split(' ').collect();
    let output = cargo_command(root, &args).output()?;
    ensure!(output.status.success(), "`cargo metadata` failed");
    let text = String::from_utf8(output.stdout)?;
    let paths = text.split("\"manifest_path\":\"").skip(1);
    let manifests = paths.filter_map(|rest| Some(Path::new(rest.split_once('"')?.0)));
    let mut folders = manifests.filter_map(Path::parent);
    let is_compiler = |folder: &&Path| {
        let name = folder.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(COMPILER)
    };
    let found = folders.find(is_compiler);
    Ok(found.context("cargo knows no cubecl-spirv")?.to_owned())
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
