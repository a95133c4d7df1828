//! The probes of sysfs and procfs on trees of small files; `trees/README.md` has their sources.

#![expect(clippy::unwrap_used, reason = "test code outside of test functions")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use voxmill_telemetry::event::{DeviceSample, Event, HostSample, Nanos};
use voxmill_telemetry::probes::{Probes, Roots, Sampler};

const NO_NOTES: [&str; 0] = [];

/// Samples a tree into a channel.
fn sampler(tree: &Tree, interval: Duration) -> (Sampler, mpsc::Receiver<Event>) {
    let (events, received) = mpsc::channel();
    let deliver = move |event| events.send(event).unwrap();
    let sampler = Sampler::start(tree.probes(), interval, || seconds(0), deliver);
    (sampler.unwrap(), received)
}

/// A copy of a tree, to be changed.
struct Tree(TempDir);

impl Tree {
    fn copy(name: &str) -> Tree {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees");
        let tree = Tree(tempfile::tempdir().unwrap());
        copy(&from.join(name), tree.0.path());
        tree
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        assert!(self.path(path).is_file(), "{path}");
        fs::write(self.path(path), text).unwrap();
    }

    fn probes(&self) -> Probes {
        Probes::find(&Roots {
            proc: self.path("proc"),
            sys: self.path("sys"),
            nvml_library: Some(self.path("no-library")),
        })
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn seconds(seconds: u64) -> Nanos {
    Duration::from_secs(seconds).into()
}

fn devices(events: Vec<Event>) -> Vec<DeviceSample> {
    let device = |event| match event {
        Event::DeviceSample(sample) => Some(sample),
        _ => None,
    };
    events.into_iter().filter_map(device).collect()
}

fn host(events: Vec<Event>) -> HostSample {
    match &events[..] {
        [Event::HostSample(sample)] => sample.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn amd_cards_are_counted_in_the_order_of_their_numbers() {
    let probes = Tree::copy("amd").probes();
    let expected = [
        ("amd0", "AMD GPU 1002:687f, 0000:03:00.0"),
        ("amd1", "AMD GPU 1002:744c, 0000:0a:00.0"),
        ("amd2", "AMD GPU 1002:15bf, 0000:c4:00.0"),
    ];
    let expected = expected.map(|(id, name)| (id.to_owned(), name.to_owned()));
    let why = "card2 is NVIDIA's and card10 comes after card1";
    assert_eq!(probes.facts(), expected.into(), "{why}");
    assert_eq!(probes.notes(), NO_NOTES);
}

#[test]
fn an_amd_card_reports_all_and_a_gpu_within_a_cpu_less() {
    let tree = Tree::copy("amd");
    let samples = devices(tree.probes().sample(seconds(0)));
    let card = DeviceSample {
        device: "amd1".into(),
        utilisation_percent: Some(97.0),
        memory_used: Some(21_474_836_480),
        memory_total: Some(25_753_026_560),
        power_watts: Some(303.0),
        temperature_celsius: Some(58.0),
        clock_mhz: Some(2482.0),
        memory_clock_mhz: Some(1249.0),
        pcie_receive: None,
        pcie_send: None,
    };
    let within_cpu = DeviceSample {
        device: "amd2".into(),
        utilisation_percent: Some(3.0),
        memory_used: Some(104_857_600),
        memory_total: Some(536_870_912),
        power_watts: Some(9.012),
        temperature_celsius: Some(44.0),
        clock_mhz: Some(800.0),
        ..DeviceSample::default()
    };
    assert_eq!(samples[1..], [card, within_cpu]);
}

/// The driver takes a second to count; samples continue without it and have it when it is there.
#[test]
fn an_amd_cards_pcie_bytes_come_when_they_are_counted() {
    let tree = Tree::copy("amd");
    let mut probes = tree.probes();
    let first = devices(probes.sample(seconds(0))).remove(0);
    assert_eq!(first.pcie_receive, None);
    assert_eq!(first.power_watts, Some(180.0));
    let too_long = Instant::now() + Duration::from_secs(60);
    let counted = loop {
        assert!(Instant::now() < too_long, "it never came");
        let sample = devices(probes.sample(seconds(1))).remove(0);
        if sample.pcie_receive.is_some() {
            break sample;
        }
        std::thread::yield_now();
    };
    assert_eq!(counted.pcie_receive, Some(1_520_384 * 256));
    assert_eq!(counted.pcie_send, Some(88_211 * 256));
}

#[test]
fn a_card_that_sleeps_reports_nothing_and_one_that_is_gone_is_left_out() {
    let tree = Tree::copy("amd");
    let mut probes = tree.probes();
    let card = "sys/class/drm/card1/device";
    for file in "gpu_busy_percent mem_info_vram_used mem_info_vram_total".split(' ') {
        tree.write(&format!("{card}/{file}"), "");
    }
    let hwmon = tree.path(&format!("{card}/hwmon"));
    let aside = tree.path("aside");
    fs::rename(&hwmon, &aside).unwrap();
    assert_eq!(devices(probes.sample(seconds(0))).len(), 2);
    assert_eq!(probes.notes(), NO_NOTES, "it may wake up");
    fs::rename(&aside, &hwmon).unwrap();
    assert_eq!(devices(probes.sample(seconds(1))).len(), 3);

    fs::remove_dir_all(tree.path(card)).unwrap();
    for second in 2..5 {
        let samples = devices(probes.sample(seconds(second)));
        let left: Vec<&str> = samples.iter().map(|s| s.device.as_str()).collect();
        assert_eq!(left, ["amd0", "amd2"]);
    }
    assert_eq!(
        probes.notes(),
        ["amd1 (AMD GPU 1002:744c) is no longer sampled: its driver has let go of it"]
    );
}

/// As sysfs really is: `card1` leads to the PCI device's directory and `device` back to it.
#[cfg(unix)]
#[test]
fn cards_are_found_behind_symbolic_links() {
    use std::os::unix::fs::symlink;

    let tree = Tree::copy("amd");
    let pci = tree.path("sys/devices/pci0000:00/0000:0a:00.0");
    fs::create_dir_all(pci.join("drm/card1")).unwrap();
    let class = tree.path("sys/class/drm/card1");
    for entry in fs::read_dir(class.join("device")).unwrap() {
        let entry = entry.unwrap();
        fs::rename(entry.path(), pci.join(entry.file_name())).unwrap();
    }
    fs::remove_dir_all(&class).unwrap();
    symlink("../../../0000:0a:00.0", pci.join("drm/card1/device")).unwrap();
    let target = "../../devices/pci0000:00/0000:0a:00.0/drm/card1";
    symlink(target, &class).unwrap();
    let samples = devices(tree.probes().sample(seconds(0)));
    assert_eq!(samples[1].device.as_str(), "amd1");
    assert_eq!(samples[1].power_watts, Some(303.0));
}

#[test]
fn an_intel_card_is_as_busy_as_it_did_not_sleep() {
    let tree = Tree::copy("intel");
    let mut probes = tree.probes();
    let named = &probes.facts()["intel2"];
    assert_eq!(named, "Intel GPU 8086:e20b, 0000:07:00.0");
    let first = devices(probes.sample(seconds(10)));
    for sample in &first {
        assert_eq!(sample.utilisation_percent, None, "not at the first sample");
        assert_eq!(sample.power_watts, None, "not at the first sample");
    }
    // Two seconds later.
    for (file, text) in [
        ("card0/power/rc6_residency_ms", "920273\n"),
        ("card1/gt/gt0/rc6_residency_ms", "500500\n"),
        ("card1/device/hwmon/hwmon4/energy1_input", "7380000000\n"),
        (
            "card2/device/tile0/gt0/gtidle/idle_residency_ms",
            "251500\n",
        ),
        ("card2/device/hwmon/hwmon6/energy1_input", "210000000\n"),
    ] {
        tree.write(&format!("sys/class/drm/{file}"), text);
    }
    let then = devices(probes.sample(seconds(12)));
    let old = DeviceSample {
        device: "intel0".into(),
        utilisation_percent: Some(0.0),
        clock_mhz: Some(300.0),
        ..DeviceSample::default()
    };
    let i915 = DeviceSample {
        device: "intel1".into(),
        utilisation_percent: Some(75.0),
        power_watts: Some(190.0),
        temperature_celsius: Some(57.0),
        clock_mhz: Some(2400.0),
        ..DeviceSample::default()
    };
    let xe = DeviceSample {
        device: "intel2".into(),
        utilisation_percent: Some(25.0),
        power_watts: Some(60.0),
        temperature_celsius: Some(52.0),
        clock_mhz: Some(2850.0),
        ..DeviceSample::default()
    };
    assert_eq!(then, [old, i915, xe]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_host_has_levels_at_once_and_rates_from_the_second_sample_on() {
    let page = rustix::param::page_size() as u64;
    let ticks = rustix::param::clock_ticks_per_second();
    let tree = Tree::copy("host");
    let mut probes = tree.probes();
    let levels = HostSample {
        process_memory: Some(250_000 * page),
        memory_available: Some(20_480_000 * 1024),
        memory_total: Some(32_768_000 * 1024),
        swap_used: Some(2_048_000 * 1024),
        ..HostSample::default()
    };
    assert_eq!(host(probes.sample(seconds(100))), levels);

    // Two seconds later: both cores busy half of the time, this process three quarters of one core.
    tree.write("proc/stat", "cpu  10150 0 5050 80150 5050 0 0 0 0 0\n");
    let stat = fs::read_to_string(tree.path("proc/self/stat")).unwrap();
    let used = format!(" {} 400 ", 6000 + ticks * 3 / 2);
    tree.write("proc/self/stat", &stat.replace(" 6000 400 ", &used));
    tree.write("proc/vmstat", "pswpin 1500\npswpout 4500\n");
    let mut disks = fs::read_to_string(tree.path("proc/diskstats")).unwrap();
    // The disks themselves; what stands for the same bytes in other lines grows as well.
    for (disk, from, to) in [
        ("nvme0n1 100000 2000", 8_000_000, 8_040_000),
        ("50000 3000", 4_000_000, 4_001_000),
        ("sda 5000 10", 600_000, 602_000),
        ("nvme0n1p2 99600 2000", 7_970_000, 8_010_000),
        ("dm-0 101600 0", 7_970_000, 8_010_000),
        ("zram0 700 0", 5_600, 95_600),
        ("nvme1c0n1 10 0", 80, 980),
    ] {
        let before = format!("{disk} {from}");
        assert!(disks.contains(&before), "{before}");
        disks = disks.replace(&before, &format!("{disk} {to}"));
    }
    tree.write("proc/diskstats", &disks);
    let rates = HostSample {
        cpu_percent: Some(50.0),
        process_cpu_percent: Some(75.0),
        swap_traffic: Some(2000 * page / 2),
        disk_read: Some(42_000 * 512 / 2),
        disk_write: Some(1000 * 512 / 2),
        ..levels
    };
    assert_eq!(host(probes.sample(seconds(102))), rates);
}

#[test]
fn a_disk_that_comes_or_goes_counts_from_its_second_sample_on() {
    let tree = Tree::copy("host");
    let mut probes = tree.probes();
    let both = fs::read_to_string(tree.path("proc/diskstats")).unwrap();
    let without = both.lines().filter(|line| !line.contains("sda"));
    let without = without.collect::<Vec<_>>().join("\n");
    let more = both.replace("sda 5000 10 600000", "sda 5000 10 600010");
    for (second, disks, read) in [
        (0, &*without, None),
        (1, &both, Some(0)),
        (2, &more, Some(5120)),
        (3, "", None),
    ] {
        tree.write("proc/diskstats", disks);
        let sampled = host(probes.sample(seconds(second)));
        assert_eq!(sampled.disk_read, read, "second {second}");
    }
}

#[test]
fn a_machine_without_any_of_it_gives_nothing_and_does_not_complain() {
    let mut probes = Tree(tempfile::tempdir().unwrap()).probes();
    assert_eq!(probes.sample(seconds(0)), []);
    assert_eq!(probes.sample(seconds(1)), []);
    assert_eq!(probes.notes(), NO_NOTES);
}

/// Whatever this machine has; on Linux at least the host answers.
#[test]
fn the_real_machine_can_be_sampled() {
    let mut probes = Probes::find(&Roots::default());
    let events = probes.sample(seconds(0));
    if cfg!(target_os = "linux") {
        let Some(Event::HostSample(host)) = events.last() else {
            panic!("{events:?}");
        };
        assert!(host.memory_total > host.memory_available);
        assert!(host.process_memory.is_some_and(|bytes| bytes > 0));
    }
}

/// The interval is an hour: only a drop that does not wait for it lets this test end.
#[test]
fn a_sampler_samples_at_once_and_ends_at_once() {
    let tree = Tree::copy("host");
    let (sampler, received) = sampler(&tree, Duration::from_secs(3600));
    assert!(matches!(received.recv(), Ok(Event::HostSample(_))));
    drop(sampler);
    assert!(received.recv().is_err(), "the thread is gone");
}

#[test]
fn a_sampler_continues_and_forwards_notes() {
    let tree = Tree::copy("intel");
    let (sampler, received) = sampler(&tree, Duration::from_millis(1));
    assert_eq!(sampler.notes(), NO_NOTES);
    fs::remove_dir_all(tree.path("sys/class/drm/card0")).unwrap();
    // The other cards' samples continue until the note is there.
    while sampler.notes().is_empty() {
        received.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    assert_eq!(
        sampler.notes(),
        ["intel0 (Intel GPU 8086:5917) is no longer sampled: its driver has let go of it"]
    );
}

#[test]
fn the_cores_that_the_process_may_use_are_counted_apart_from_the_machine() {
    let tree = Tree::copy("host");
    let stat = |first: u64, second: u64| {
        format!(
            "cpu  {0} 0 0 4000 0 0 0 0 0 0\ncpu0 {first} 0 0 1000 0 0 0 0 0 0\n\
             cpu1 0 0 0 1000 0 0 0 0 0 0\ncpu2 {second} 0 0 1000 0 0 0 0 0 0\ncpu10 0 0 0 1000 0 0 0 0 0 0\n",
            first + second
        )
    };
    let status = |text| fs::write(tree.path("proc/self/status"), text).unwrap();
    status("Name:\tvoxmill\nCpus_allowed_list:\t0,2\n");
    tree.write("proc/stat", &stat(100, 100));
    let mut probes = tree.probes();
    assert_eq!(host(probes.sample(seconds(100))).allowed_cpu, None);
    let later = stat(300, 100).replace("cpu2 100 0 0 1000", "cpu2 100 0 0 1200");
    tree.write("proc/stat", &later);
    let allowed = host(probes.sample(seconds(102))).allowed_cpu.unwrap();
    assert_eq!((allowed.percent, allowed.cores), (50.0, 2));
    for damaged in [
        "",
        "Cpus_allowed_list:\t\n",
        "Cpus_allowed_list:\t0-18446744073709551615\n",
    ] {
        status(damaged);
        assert_eq!(host(probes.sample(seconds(104))).allowed_cpu, None);
    }
}
