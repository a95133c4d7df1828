//! From what was asked and what is there to the devices of a run.

use voxmill_format::counted;
use voxmill_telemetry::probes::Roots;
use voxmill_telemetry::probes::topology::{self, GpuFacts, GpuPair, Link, Links};
use voxmill_trainer::device::{Backend, DeviceError, DeviceId, FoundDevice, found};

use super::{DeviceChoice, Identities};
use crate::config::keys::{self, Key};
use crate::config::value::FromValue;
use crate::error::UserError;
use crate::note::Note;

/// The devices of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// One prepares and trains.
    Single(DeviceId),
    /// One prepares what the other trains on. The CPU twice is two lanes, each with threads of its own.
    Pair { data: DeviceId, model: DeviceId },
}

impl Devices {
    /// The one that trains.
    pub fn model(self) -> DeviceId {
        match self {
            Devices::Single(device) => device,
            Devices::Pair { model, .. } => model,
        }
    }

    /// The one that prepares batches.
    pub fn data(self) -> DeviceId {
        match self {
            Devices::Single(device) => device,
            Devices::Pair { data, .. } => data,
        }
    }

    /// Whether these are two.
    pub fn is_pair(self) -> bool {
        matches!(self, Devices::Pair { .. })
    }

    /// One CPU for both, in two lanes.
    pub fn are_lanes(self) -> bool {
        self.is_pair() && self.data().is_cpu() && self.model().is_cpu()
    }
}

/// What was asked for, `auto` left out.
#[derive(Clone, Debug, Default)]
pub(super) struct AskedDevices {
    pub(super) device: Option<DeviceId>,
    pub(super) data_gpu: Option<String>,
    pub(super) model_gpu: Option<String>,
    pub(super) data_device: Option<DeviceChoice>,
    pub(super) model_device: Option<DeviceChoice>,
}

#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) devices: Devices,
    /// Why, where no device is given.
    pub(super) why: &'static str,
    pub(super) notes: Vec<Note>,
}

/// The machine, as far as choosing goes. Tests make their own.
#[derive(Debug, Default)]
pub struct AvailableDevices {
    /// What each backend of this build found, best first, or why nothing.
    pub backends: Vec<(Backend, Result<Vec<FoundDevice>, DeviceError>)>,
    /// The cards as the machine's buses show them, and how they are linked.
    pub cards: Vec<GpuFacts>,
    pub links: Links,
    /// Which card each device is.
    pub identities: Identities,
}

impl AvailableDevices {
    /// Looks at every backend of this build.
    pub fn detect() -> AvailableDevices {
        let compiled = Backend::compiled().filter(|backend| *backend != Backend::Cpu);
        let backends: Vec<_> = compiled.map(|backend| (backend, found(backend))).collect();
        // Cards that no backend of this build can use are of no interest.
        if backends.is_empty() {
            return AvailableDevices::default();
        }
        let roots = Roots::default();
        let cards = topology::gpus(&roots);
        AvailableDevices {
            links: topology::links(&cards, &roots),
            cards,
            backends,
            identities: Identities::default(),
        }
    }

    /// The same, but no device is opened: for a process that does not train, and would take a share of the device
    /// from the one that does.
    pub(crate) fn detect_closed() -> AvailableDevices {
        AvailableDevices {
            identities: Identities::unasked(),
            ..AvailableDevices::detect()
        }
    }

    /// The real GPUs of the best backend that has any.
    pub fn gpus(&self) -> Vec<DeviceId> {
        let of_backend = |(_, found): &(Backend, Result<Vec<FoundDevice>, DeviceError>)| {
            let found = found.as_deref().unwrap_or_default();
            let real = found.iter().filter(|device| !device.is_software);
            real.map(|device| device.id).collect::<Vec<_>>()
        };
        let mut all = self.backends.iter().map(of_backend);
        all.find(|gpus| !gpus.is_empty()).unwrap_or_default()
    }

    /// Software GPUs are listed, and only taken by name.
    fn beside_software(&self) -> String {
        let found = self
            .backends
            .iter()
            .filter_map(|(_, found)| found.as_deref().ok());
        let software = found.map(|all| all.iter().filter(|device| device.is_software).count());
        match software.max().unwrap_or(0) {
            0 => String::new(),
            n => format!(
                " (and {}, which does not count)",
                counted(n as u64, "software GPU")
            ),
        }
    }

    /// The two of them that share the work best, by the places of their cards. Opens them all.
    pub fn best_pair(&self) -> Option<GpuPair> {
        // A card that this backend does not reach is not to choose from.
        let gpus = self.gpus();
        let reached = gpus.iter().filter_map(|gpu| self.place(*gpu).ok());
        let reached: Vec<usize> = reached.collect();
        let cards = reached.iter().map(|card| self.cards[*card].clone());
        let cards: Vec<GpuFacts> = cards.collect();
        let pairs = (0..reached.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let link = |(a, b): (usize, usize)| {
            let link = self.links.between(reached[a], reached[b])?;
            Some(((a, b), link))
        };
        let pair = topology::best_pair(&cards, &pairs.filter_map(link).collect())?;
        Some(GpuPair {
            data: reached[pair.data],
            model: reached[pair.model],
            ..pair
        })
    }

    /// Whether a device is there; if not, what is wrong and what to do.
    pub fn check(&self, called: &str, id: DeviceId) -> Result<(), UserError> {
        if id.is_cpu() {
            return Ok(());
        }
        let mut backends = self.backends.iter();
        let backend = backends.find(|(backend, _)| *backend == id.backend);
        let refused = match backend.map(|(_, found)| found.as_ref().map(Vec::len)) {
            None => DeviceError::NotCompiled(id.backend),
            Some(Err(error)) => error.clone(),
            Some(Ok(found)) if id.index < found => return Ok(()),
            Some(Ok(found)) => DeviceError::NoSuchIndex { id, found },
        };
        let what = format!("{called} {id}: {refused}");
        Err(UserError::new(what, self.hint(&refused)))
    }

    fn hint(&self, refused: &DeviceError) -> String {
        let backend = match refused {
            DeviceError::NotCompiled(backend) => {
                let name = backend.name();
                return format!(
                    "build with it: cargo build --release --features {name}; or leave the device out: {} will be used",
                    self.usual()
                );
            }
            DeviceError::NoDriver { backend, .. } => *backend,
            DeviceError::NoSuchIndex { id, .. } | DeviceError::NotOpened { id, .. } => id.backend,
        };
        let driver = match backend {
            Backend::Cuda => "NVIDIA's driver (nvidia-smi should list the GPU)",
            Backend::Rocm => "AMD's ROCm (rocminfo should list the GPU)",
            Backend::Metal => "macOS on a Mac with a GPU",
            _ => "a Vulkan driver (vulkaninfo should list the GPU)",
        };
        format!(
            "`{}` needs {driver}; or leave the device out: {} will be used",
            backend.name(),
            self.usual()
        )
    }

    /// What is used by default.
    pub fn usual(&self) -> DeviceId {
        self.gpus().first().copied().unwrap_or(DeviceId::CPU)
    }
}

pub(super) fn choose(
    asked: &AskedDevices,
    available: &AvailableDevices,
    called: &dyn Fn(&Key) -> String,
) -> Result<Chosen, UserError> {
    let (data_gpu, model_gpu) = (called(&keys::DATA_GPU), called(&keys::MODEL_GPU));
    let (data_device, model_device) = (called(&keys::DATA_DEVICE), called(&keys::MODEL_DEVICE));
    let gpus = [&keys::DATA_GPU, &keys::MODEL_GPU];
    let gpus = both(&asked.data_gpu, &asked.model_gpu, gpus, called)?;
    let devices = [&keys::DATA_DEVICE, &keys::MODEL_DEVICE];
    let pair = both(&asked.data_device, &asked.model_device, devices, called)?;
    match (gpus, pair) {
        (Some(_), Some(_)) => Err(UserError::new(
            format!("{data_gpu} and {data_device} both say which device prepares batches"),
            "give one pair: --data-gpu and --model-gpu, or --data-device and --model-device",
        )
        .fix(&keys::DATA_GPU, None)
        .fix(&keys::MODEL_GPU, None)),
        (Some((data, model)), None) => two_gpus(data, model, available, &data_gpu, &model_gpu),
        (None, Some((data, model))) => {
            let usual = available.usual();
            let data = data.id().unwrap_or(usual);
            let model = model.id().unwrap_or(usual);
            let neither = |refused: UserError| {
                let refused = refused.fix(&keys::DATA_DEVICE, None);
                refused.fix(&keys::MODEL_DEVICE, None)
            };
            available.check(&data_device, data).map_err(neither)?;
            available.check(&model_device, model).map_err(neither)?;
            Ok(two_devices(data, model))
        }
        (None, None) => {
            if let Some(device) = asked.device {
                let refused = |refused: UserError| refused.fix(&keys::DEVICE, None);
                let called = called(&keys::DEVICE);
                available.check(&called, device).map_err(refused)?;
            }
            Ok(one_device(asked.device, available))
        }
    }
}

fn one_device(asked: Option<DeviceId>, available: &AvailableDevices) -> Chosen {
    let device = asked.unwrap_or_else(|| available.usual());
    let why = match (device.is_cpu(), available.backends.is_empty()) {
        (true, true) => "the only device of this build",
        (true, false) if !available.beside_software().is_empty() => {
            "no GPU but a software one was found"
        }
        (true, false) => "no GPU was found",
        (false, _) => "the best GPU found",
    };
    Chosen {
        devices: Devices::Single(device),
        why,
        notes: Vec::new(),
    }
}

fn two_gpus(
    data: &str,
    model: &str,
    available: &AvailableDevices,
    data_gpu: &str,
    model_gpu: &str,
) -> Result<Chosen, UserError> {
    let gpus = available.gpus();
    let numbers = [data, model].map(|text| text.parse::<usize>().ok());
    let highest = numbers.into_iter().flatten().max().unwrap_or(0);
    // The same GPU twice needs one only.
    let same = numbers[0].is_some() && numbers[0] == numbers[1];
    let least = if same { 1 } else { 2 };
    if gpus.len() < least || highest >= gpus.len() {
        let cpu_only = available.backends.is_empty();
        let hint = match (gpus.len(), cpu_only) {
            (0, true) => "this build has the CPU only (--features vulkan adds GPUs); to try the mode: --data-device cpu --model-device cpu".to_owned(),
            (0, false) => "leave both out to train on the CPU; to try the mode on it: --data-device cpu --model-device cpu".to_owned(),
            (1, _) => format!("leave both out: {0} alone prepares and trains; or --data-device cpu --model-device {0}", gpus[0]),
            (n, _) => format!("GPUs are numbered from 0 to {}", n - 1),
        };
        let what = format!(
            "Insufficient GPUs for Multi-GPU Mode: found {}{}, asked for {data_gpu} {data} and {model_gpu} {model}",
            gpus.len(),
            available.beside_software()
        );
        return Err(UserError::new(what, hint)
            .fix(&keys::DATA_GPU, None)
            .fix(&keys::MODEL_GPU, None));
    }
    let partner = |taken: usize| best_partner(taken, &gpus, available);
    Ok(match numbers {
        [Some(data), Some(model)] => two_devices(gpus[data], gpus[model]),
        [Some(data), None] => two_devices(gpus[data], gpus[partner(data)]),
        [None, Some(model)] => two_devices(gpus[partner(model)], gpus[model]),
        [None, None] => best_pair(&gpus, available),
    })
}

/// The GPU with the best link to another; where nothing is known of links, the first other one.
fn best_partner(taken: usize, gpus: &[DeviceId], available: &AvailableDevices) -> usize {
    let cards = gpus.iter().map(|gpu| available.place(*gpu).ok());
    let cards: Vec<Option<usize>> = cards.collect();
    let link = |other: usize| available.links.between(cards[taken]?, cards[other]?);
    let others = (0..gpus.len()).filter(|other| *other != taken);
    let best = others.min_by_key(|&other| (link(other).is_none(), link(other)));
    best.unwrap_or(usize::from(taken == 0))
}

/// The pair with the best link, the weaker one for data, as far as the machine reports.
fn best_pair(gpus: &[DeviceId], available: &AvailableDevices) -> Chosen {
    let gpu = |card: usize| {
        let mut gpus = gpus.iter();
        gpus.position(|gpu| available.place(*gpu) == Ok(card))
    };
    let pair = available.best_pair();
    let pair = pair.and_then(|pair| Some((gpu(pair.data)?, gpu(pair.model)?, pair.why)));
    let unknown = || (1, 0, "the links between the GPUs are not known".to_owned());
    let (data, model, why) = pair.unwrap_or_else(unknown);
    let mut chosen = two_devices(gpus[data], gpus[model]);
    if available.identities.are_asked() {
        let note = format!("{} prepares and {} trains: {why}", gpus[data], gpus[model]);
        chosen.notes.push(note.into());
    }
    chosen
}

fn two_devices(data: DeviceId, model: DeviceId) -> Chosen {
    let mut notes = Vec::new();
    let devices = if data == model && !model.is_cpu() {
        notes.push(Note::warning(format!(
            "{model} would both prepare and train: single-device mode is used, with batches ready ahead"
        )));
        Devices::Single(model)
    } else {
        Devices::Pair { data, model }
    };
    Chosen {
        devices,
        why: "chosen with the pair",
        notes,
    }
}

/// Both settings of a pair or none; one alone is an error.
fn both<'a, T: FromValue>(
    data: &'a Option<T>,
    model: &'a Option<T>,
    [data_key, model_key]: [&'static Key; 2],
    called: &dyn Fn(&Key) -> String,
) -> Result<Option<(&'a T, &'a T)>, UserError> {
    let (given, value, missing) = match (data, model) {
        (None, None) => return Ok(None),
        (Some(data), Some(model)) => return Ok(Some((data, model))),
        (Some(value), None) => (data_key, value.show(), model_key.flag()),
        (None, Some(value)) => (model_key, value.show(), data_key.flag()),
    };
    let what = format!("{} {value} is given without {missing}", called(given));
    let hint = "two devices need both; leave it out for one device";
    Err(UserError::new(what, hint).fix(given, None))
}

/// How two devices of a run are linked, where that is known.
pub(super) fn link(devices: Devices, available: &AvailableDevices) -> Option<Link> {
    let Devices::Pair { data, model } = devices else {
        return None;
    };
    if data.is_cpu() || model.is_cpu() {
        return None;
    }
    if data.backend == model.backend && data.index == model.index {
        return Some(Link::Same);
    }
    let (data, model) = (available.place(data).ok()?, available.place(model).ok()?);
    available.links.between(data, model)
}
