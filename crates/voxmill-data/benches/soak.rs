//! Ten million rows through the whole loader while clips go bad, files come and go, workers and buffers are changed
//! all the time and the run is dropped and resumed: every row is accounted for, in order, and memory stays flat.
//!
//! `cargo bench -p voxmill-data --bench soak` prints what is kept in `benches/records/soak.md`; a number after `--`
//! is how many rows.
#![expect(clippy::print_stdout, reason = "a bench reports on stdout")]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use voxmill_audio::wav_bytes;
use voxmill_data::batch_plan::{BatchSettings, Position};
use voxmill_data::draw::draw;
use voxmill_data::featurize::InjectedDelays;
use voxmill_data::manifest::{Limits, Split};
use voxmill_data::{Dataset, FeatureStore, Loader, LoaderSettings, Recipe, Recorder};
use voxmill_pipeline::control::Control;
use voxmill_pipeline::resume::ResumePoint;
use voxmill_pipeline::run::Delivery;

const ROWS: u64 = 10_000_000;
const CLIPS: u64 = 4_000;
/// One clip in this many has its file damaged and restored while the run reads it.
const BROKEN: u64 = 10;
/// How often the run is dropped with everything in flight, and resumed.
const RESTARTS: u64 = 10;
/// Lines of the report.
const LINES: u64 = 20;
/// Enough for the features of about nine clips in ten: the others are decoded each time.
const HELD_BYTES: u64 = CLIPS * 480;
/// Growth from the first tenth of the run to its end that is still flat.
const FLAT: u64 = 24 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    if !std::env::args().any(|arg| arg == "--bench") {
        // Under `cargo test --all-targets` it is enough that this compiles.
        return Ok(());
    }
    let asked = std::env::args().find_map(|arg| arg.parse().ok());
    // In memory where possible: a disk would be what is measured.
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory)?,
        false => tempfile::tempdir()?,
    };
    write_dataset(folder.path())?;
    let limits = Limits {
        min_seconds: 0.0,
        ..Limits::default()
    };
    let dataset = Dataset::open(folder.path(), None, &limits, 0.0)?;
    let (clips, recipe) = (dataset.manifest.clips, Recipe::default());
    let store = FeatureStore::open(clips, recipe, None, HELD_BYTES, Recorder::off());
    let store = Arc::new(store);
    let batches = BatchSettings {
        batch_size: 16.try_into()?,
        reference_frames: 2.try_into()?,
        ..BatchSettings::default()
    };
    let settings = LoaderSettings {
        workers: 2,
        ram_budget: 64 << 20,
        delays: Some(InjectedDelays {
            // One row in 160.
            uneven: Duration::from_micros(20),
            ..InjectedDelays::default()
        }),
        ..LoaderSettings::default()
    };
    let loader = Loader::new(&store, Split::Train, batches, settings)?;
    let per_epoch = loader.plan().clips().len() as u64;
    let epochs = asked.unwrap_or(ROWS).div_ceil(per_epoch);
    let soak = Soak {
        loader: &loader,
        store: &store,
        epochs,
        rows: epochs * per_epoch,
    };
    let disturber = Disturber::start(folder.path().join("wavs"));
    soak.run(&disturber)?;
    disturber.stop();
    Ok(())
}

/// Clips of one to two frames.
fn write_dataset(folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir(folder.join("wavs"))?;
    let mut manifest = String::new();
    for clip in 0..CLIPS {
        manifest.push_str(&format!("c{clip:05}|Number {clip}.|Number {clip}.\n"));
        fs::write(wav(&folder.join("wavs"), clip), sound(clip))?;
    }
    Ok(fs::write(folder.join("metadata.csv"), manifest)?)
}

fn wav(wavs: &Path, clip: u64) -> PathBuf {
    wavs.join(format!("c{clip:05}.wav"))
}

fn sound(clip: u64) -> Vec<u8> {
    let samples = 200 + clip % 200;
    let samples: Vec<f32> = (0..samples)
        .map(|at| (at as f32 * 0.1).sin() / 4.0)
        .collect();
    wav_bytes(&samples, 22_050)
}

struct Soak<'a> {
    loader: &'a Loader,
    store: &'a FeatureStore,
    epochs: u64,
    rows: u64,
}

impl Soak<'_> {
    fn run(&self, disturber: &Disturber) -> Result<(), Box<dyn Error>> {
        let (loader, per_epoch) = (self.loader, self.loader.plan().batches_per_epoch());
        let whole = self.epochs * per_epoch;
        let (mut next, mut clips) = (0, 0);
        let began = Instant::now();
        let mut early = None;
        println!(
            "| batches | rows | clips delivered | files decoded | bad clips | live changes | resident memory | s |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for part in 1..=RESTARTS {
            let end = whole * part / RESTARTS;
            let from = ResumePoint::at(next);
            let running = loader.start(from, Some(self.epochs), Recorder::off())?;
            disturber.change(Some(running.control()));
            for delivery in running {
                let Delivery::Item(batch) = delivery? else {
                    return Err("a batch was lost".into());
                };
                let (batch, receipt) = batch.into_parts();
                let Position {
                    epoch,
                    batch: number,
                } = batch.position;
                assert_eq!(
                    epoch * per_epoch + number,
                    next,
                    "in order, none lost or repeated"
                );
                assert!(batch.sound.rows().iter().all(|value| value.is_finite()));
                clips += batch.clip_count() as u64;
                receipt.done();
                next += 1;
                if next * LINES / whole > (next - 1) * LINES / whole {
                    let memory = resident_bytes()?;
                    let (decoded, bad) = (self.store.files_decoded(), self.store.bad().len());
                    let changes = disturber.changes.load(Ordering::Relaxed);
                    let (rows, megabytes) = (next * self.rows / whole, memory >> 20);
                    let seconds = began.elapsed().as_secs();
                    println!(
                        "| {next} | {rows} | {clips} | {decoded} | {bad} | {changes} | {megabytes} MB | {seconds} |"
                    );
                    // After the first lines everything that is held is held.
                    if next * 10 / whole >= 1 {
                        early.get_or_insert(memory);
                    }
                }
                // What is in flight is dropped with the run, except at the end.
                if next == end && part < RESTARTS {
                    break;
                }
            }
            disturber.change(None);
        }
        assert_eq!(next, whole, "every batch came");
        let bad = self.store.bad().len() as u64;
        let masked = self.rows - clips;
        println!(
            "\n{} rows: {clips} clips and {masked} masked rows; {bad} of {CLIPS} clips went bad; {} files were broken and \
             mended; {RESTARTS} starts",
            self.rows,
            disturber.broken.load(Ordering::Relaxed)
        );
        assert!(masked > 0 && bad > 0, "nothing failed: this shows nothing");
        assert!(bad <= CLIPS / BROKEN, "only those that were broken");
        let growth = resident_bytes()?.saturating_sub(early.unwrap_or(0));
        println!("memory grew by {} kB since the first tenth", growth >> 10);
        assert!(growth <= FLAT, "memory is not flat");
        Ok(())
    }
}

fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let line = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(line.ok_or("no VmRSS")?.trim().parse::<u64>()? << 10)
}

/// Breaks and mends files, and changes what runs.
struct Disturber {
    control: Arc<std::sync::Mutex<Option<Control>>>,
    ended: Arc<AtomicBool>,
    changes: Arc<AtomicU64>,
    broken: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Disturber {
    fn start(wavs: PathBuf) -> Disturber {
        let control: Arc<std::sync::Mutex<Option<Control>>> = Arc::default();
        let ended = Arc::new(AtomicBool::new(false));
        let [changes, broken] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let thread = {
            let (control, ended) = (Arc::clone(&control), Arc::clone(&ended));
            let (changes, broken) = (Arc::clone(&changes), Arc::clone(&broken));
            move || {
                while !ended.load(Ordering::Relaxed) {
                    let number = changes.fetch_add(1, Ordering::Relaxed);
                    if let Some(control) = &*control.lock().expect("nobody panics with it") {
                        let value = number as usize % 4 + 1;
                        // A run that ends meanwhile takes no changes.
                        let _ = control.set_workers("featurize", value);
                        let _ = control.set_capacity("collate", 5 - value);
                    }
                    let clip = draw(number, 0, "clip", "soak") % (CLIPS / BROKEN) * BROKEN;
                    let path = wav(&wavs, clip);
                    let done = match number % 4 {
                        0 => fs::remove_file(&path),
                        1 => fs::write(&path, b"RIFF and no more"),
                        2 => fs::write(&path, &sound(clip)[..100]),
                        _ => fs::write(&path, sound(clip)),
                    };
                    broken.fetch_add(u64::from(done.is_ok()), Ordering::Relaxed);
                    sleep(Duration::from_millis(5));
                }
            }
        };
        Disturber {
            control,
            ended,
            changes,
            broken,
            thread: std::thread::spawn(thread),
        }
    }

    fn change(&self, control: Option<Control>) {
        *self.control.lock().expect("nobody panics with it") = control;
    }

    fn stop(self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic");
    }
}
