//! What is printed before the first step.

use std::path::Path;
use voxmill_report::format::{counted, given_size, size};

use voxmill_data::Loader;
use voxmill_telemetry::probes::{Roots, usable_memory};
use voxmill_trainer::checkpoint::Progress;
use voxmill_trainer::device::{Backend, DeviceId};

use crate::commands::{note, status, warning};
use crate::session::data::loader_settings;
use crate::session::{RunPlan, Session};
use voxmill_settings as settings;
use voxmill_settings::checks::{self, Level};
use voxmill_settings::config::keys;

/// The lines before the first step.
pub(super) struct Opening<'a> {
    pub(super) session: &'a Session,
    pub(super) plan: &'a RunPlan,
    pub(super) run: &'a Path,
    pub(super) parameters: usize,
    pub(super) validation: Option<&'a Loader>,
    pub(super) progress: &'a Progress,
}

impl Opening<'_> {
    pub(super) fn print(&self) {
        let settings = &self.session.settings;
        let feeding = &settings.feeding;
        let plan = self.plan.loader.plan();
        let begins = match (self.progress.step, settings.start.init_from()) {
            (0, None) => "new".to_owned(),
            (0, Some(_)) => "new, fine-tunes another voice".to_owned(),
            (step, _) => format!("resumes after step {step}"),
        };
        status!("run       {} ({begins})", self.run.display());
        if let Some(path) = settings.start.init_from() {
            let rate = settings.optimization.peak_learning_rate;
            status!("voice     {}; peak learning rate {rate}", path.display());
        }
        for line in self.mode() {
            status!("{line}");
        }
        status!(
            "model     {}, {:.1} million weights",
            settings.model_size.name(),
            self.parameters as f64 / 1e6
        );
        let held_out = self.validation.map_or(0, |feed| feed.plan().clips().len());
        let speakers = self.session.data.train.speakers.len();
        status!(
            "data      {} to train on, {held_out} held out, {}; {} an epoch in {}",
            counted(plan.clips().len() as u64, "clip"),
            counted(speakers as u64, "speaker"),
            counted(plan.batches_per_epoch(), "batch"),
            counted(plan.buckets().len() as u64, "shape"),
        );
        let overlap = match feeding.overlap {
            true => "",
            false => "; one after another (--no-overlap)",
        };
        status!(
            "feeding   {}, {} batches ahead on the host, {} for the device, RAM budget {}{overlap}",
            counted(feeding.workers as u64, "worker"),
            feeding.buffered_batches,
            self.plan.needs.slots_ahead(),
            size(feeding.ram_budget),
        );
        let train = &self.session.data.train;
        let filtered = train.filtered.total() + self.plan.loader.too_long();
        let bad = train.quarantine.len();
        let bad = (bad > 0).then(|| {
            let bad = counted(bad as u64, "bad clip");
            format!("{bad} (quarantine.csv in the run's folder)")
        });
        let filtered = (filtered > 0).then(|| {
            let filtered = counted(filtered as u64, "clip");
            let named = train.filtered_clips.iter().take(3).map(|one| &*one.clip);
            let named = named.collect::<Vec<_>>().join(", ");
            let more = if train.filtered_clips.len() > 3 {
                ", …"
            } else {
                ""
            };
            match named.is_empty() {
                true => format!("{filtered} too long or too short"),
                false => format!("{filtered} too long or too short ({named}{more})"),
            }
        });
        let dropped = self.session.data.dropped.len();
        let dropped = (dropped > 0).then(|| {
            let dropped = counted(dropped as u64, "clip");
            format!("{dropped} noisy or suspicious")
        });
        let left_out: Vec<String> = [bad, filtered, dropped].into_iter().flatten().collect();
        if !left_out.is_empty() {
            status!("left out  {}", left_out.join(", "));
        }
        if self.progress.step > 0 && self.session.settings.stop_at.minutes.is_some() {
            note!(
                "with a limit in time the learning rate follows the clock: the losses are not exactly those of \
                 a run that was never stopped",
            );
        }
        let store = &self.session.store;
        let (found, clips) = (store.found_in_cache(), self.session.data.to_cache(store));
        let cache = match (feeding.caching, found) {
            (false, _) => "off".to_owned(),
            (true, found) if found == clips => format!("warm: all {clips} clips"),
            (true, 0) => {
                let what = store.why_stale().map_or("empty".to_owned(), |why| {
                    format!("has nothing for this run ({why})")
                });
                format!("{what}: the first epoch computes the features as it goes and keeps them")
            }
            (true, found) => {
                format!("{found} of {clips} clips; the rest is computed as it is needed")
            }
        };
        status!("cache     {cache}");
        for warning in self.warnings() {
            warning!("{warning}");
        }
    }

    /// Who prepares, who trains, and what lies between them.
    fn mode(&self) -> Vec<String> {
        let settings = &self.session.settings;
        let devices = settings.devices.devices;
        let threads = counted(settings.compute_threads as u64, "compute thread");
        let precision = self.session.precision.describe();
        let (data, model) = (devices.data(), devices.model());
        if !devices.is_pair() {
            let mut lines = vec![format!(
                "mode      single device, buffered: {model}, {threads}, {precision}"
            )];
            lines.extend(self.session.placement.clone());
            lines.extend(self.memory());
            return lines;
        }
        let lane = counted(settings.feeding.lane_threads as u64, "thread");
        let prepares = match data.is_cpu() {
            true => format!("{data} ({lane})"),
            false => data.to_string(),
        };
        let path = match (data.is_cpu(), model.is_cpu()) {
            (true, true) => "a copy in memory",
            (true, false) => "from host memory",
            (false, true) => "to host memory",
            // The library moves tensors between two devices of one backend by itself where it can;
            // wgpu has no way to.
            (false, false) if data.backend == model.backend && !is_wgpu(model) => {
                "from GPU to GPU where the driver can, else through host memory"
            }
            (false, false) => "through host memory",
        };
        let link = settings.devices.link.map_or(String::new(), |link| {
            format!("; they are linked {}", link.describe())
        });
        let slots = self.plan.needs.slots_ahead();
        let mut lines = vec![
            format!(
                "mode      two devices: {prepares} prepares, {model} trains ({threads}), {precision}"
            ),
            format!("between   {slots} slots, transfers {path}{link}"),
        ];
        lines.extend(self.session.placement.clone());
        lines.extend(self.memory());
        lines
    }

    /// What the run will take of the devices, and what it may.
    fn memory(&self) -> Option<String> {
        let settings = &self.session.settings;
        let devices = settings.devices.devices;
        if devices.model().is_cpu() && !devices.is_pair() {
            return None;
        }
        let on = |device: DeviceId, needs: u64, limit: Option<u64>| {
            let limit = limit.map(|limit| format!(" of at most {}", given_size(limit)));
            let needs = size(needs);
            format!("{needs} on {device}{}", limit.unwrap_or_default())
        };
        let (limits, needs) = (settings.devices.limits, &self.plan.needs);
        let mut line = String::from("memory    ");
        line += &on(devices.model(), needs.on_model(), limits.model);
        if devices.is_pair() {
            line += ", ";
            line += &on(devices.data(), needs.data, limits.data);
        }
        line += ", by calculation";
        if devices.are_lanes() {
            line += "; the CPU reports no pools to watch";
        }
        Some(line)
    }

    /// What is plainly off, by the checks of `validate`: from headers and the plan, without the disk.
    fn warnings(&self) -> Vec<String> {
        let settings = &self.session.settings;
        let plan = self.plan.loader.plan();
        let facts = checks::Facts {
            settings,
            file: false,
            cores: settings::cores(),
            memory: usable_memory(&Roots::default()),
            cards: &[],
            model_card: None,
            data_card: None,
            data: Some(checks::DataFacts {
                plan,
                rows: self.session.data.rows,
                bad: self.session.data.train.quarantine.len(),
                filtered: self.session.data.train.filtered,
                lengths: None,
                sources: self.session.data.train.source_formats(),
                held_out: self.validation.map_or(0, |feed| feed.plan().clips().len()),
                audio_seconds: self.plan.loader.audio_seconds(),
                making: self.plan.loader.most_bytes(),
                batch_budget: loader_settings(settings).ram_budget,
                needs: self.plan.needs.clone(),
            }),
            disk: None,
        };
        let found = checks::check(&facts).into_iter();
        // How many clips are left out has a line of its own.
        let has_a_line = |check: &checks::Check| check.key == Some(&keys::TRAIN_DATA);
        found
            .filter(|check| check.level <= Level::Warning && !has_a_line(check))
            .map(|check| check.line())
            .collect()
    }
}

fn is_wgpu(id: DeviceId) -> bool {
    matches!(id.backend, Backend::Wgpu | Backend::Vulkan | Backend::Metal)
}
