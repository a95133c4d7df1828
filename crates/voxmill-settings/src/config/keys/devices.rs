//! Which devices prepare and train, where frames are made, and how much memory they may take.

use super::{Verbs, key, number, settings, switch, whole};
use crate::config::value::Kind;

const PREPARE_PLACES: &[&str] = &["auto", "host", "data", "model"];

settings! { DEVICES: Data, "Devices", Verbs::MODEL;
    DEVICE = key("device", Kind::Device, "auto, cpu, wgpu, vulkan, metal, cuda or rocm, a GPU with or without its number (vulkan:0)")
        .auto("auto").note(", the best GPU that this build finds, else the CPU").example("cpu").common();
    DATA_GPU = key("data_gpu", Kind::DeviceIndex, "The GPU that prepares batches, or auto; needs --model-gpu")
        .absent("none").example("0").common();
    MODEL_GPU = key("model_gpu", Kind::DeviceIndex, "The GPU that trains, or auto; needs --data-gpu")
        .absent("none").example("1").common();
    DATA_DEVICE = key("data_device", Kind::Device, "The device that prepares batches; needs --model-device")
        .absent("the same").example("vulkan:0").common();
    MODEL_DEVICE = key("model_device", Kind::Device, "The device that trains; needs --data-device")
        .absent("the same").example("vulkan:1").common();
    PREPARE_ON = key("prepare_on", Kind::OneOf(PREPARE_PLACES), "Where sound becomes log-mel frames: host (the workers and the cache), data or model (on that device), or auto, which is host with one device and measured with two")
        .value("WHERE").is("auto");
    AUGMENT_GAIN_DB = key("augment_gain_db", number(0.0, 40.0), "Play references louder or softer by up to this much")
        .value("DB").is("0");
    AUGMENT_NOISE_DB = key("augment_noise_db", number(0.0, 100.0), "Add noise to references, at least this far below the voice")
        .value("DB").absent("none").example("20");
    AUGMENT_MASKS = key("augment_masks", whole(0, 10), "Blank this many spans of time and of channels in references")
        .is("0");
    DATA_GPU_MEMORY = key("data_gpu_memory", Kind::Bytes, "Memory to use of the GPU that prepares batches; needs --enable-memory-isolation")
        .absent("as much as it has").example("8GB");
    MODEL_GPU_MEMORY = key("model_gpu_memory", Kind::Bytes, "Memory to use of the GPU that trains; needs --enable-memory-isolation")
        .absent("as much as it has").example("16GB");
    ENABLE_MEMORY_ISOLATION = switch("enable_memory_isolation", "Hold both GPUs to their memory limits");
    MIXED_PRECISION = switch("mixed_precision", "Compute in bf16 or f16 with 32-bit weights, on a GPU that has either").common();
}
