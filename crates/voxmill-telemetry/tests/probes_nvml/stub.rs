//! A stand-in for NVIDIA's management library, compiled by the test to a library of its own.
//!
//! It has two cards. The first answers everything. The second is an old one: it does not know its
//! utilisation and power, and it falls off the bus when its temperature is asked for the third time.
//! `--cfg init="…"` makes the library fail to initialise.

#![allow(non_snake_case)]

use std::ffi::{c_char, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

type Return = c_uint;
const SUCCESS: Return = 0;
const INVALID_ARGUMENT: Return = 2;
const NOT_SUPPORTED: Return = 3;
const DRIVER_NOT_LOADED: Return = 9;
const GPU_IS_LOST: Return = 15;
const UNKNOWN: Return = 999;

/// A handle is the card's number and one, so that it is never null.
type Device = *mut c_void;

fn is_old(device: Device) -> bool {
    device as usize == 2
}

#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
pub struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_sub_system_id: c_uint,
    bus_id: [c_char; 32],
}

fn put<T>(place: *mut T, value: T) -> Return {
    unsafe { place.write(value) };
    SUCCESS
}

fn put_unless_old<T>(device: Device, place: *mut T, value: T) -> Return {
    if is_old(device) { NOT_SUPPORTED } else { put(place, value) }
}

fn put_text(place: *mut c_char, text: &str) -> Return {
    for (index, byte) in text.bytes().chain([0]).enumerate() {
        unsafe { place.add(index).write(byte as c_char) };
    }
    SUCCESS
}

/// Exports functions as the library does.
macro_rules! library {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) $body:block)+) => {
        $($(#[$doc])* #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> Return $body)+
    };
}

library! {
    fn nvmlInit_v2() {
        if cfg!(init = "no_driver") {
            DRIVER_NOT_LOADED
        } else if cfg!(init = "fails") {
            UNKNOWN
        } else {
            SUCCESS
        }
    }

    fn nvmlShutdown() {
        SUCCESS
    }

    fn nvmlDeviceGetCount_v2(count: *mut c_uint) {
        put(count, 2)
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Device) {
        put(device, (index as usize + 1) as Device)
    }

    fn nvmlDeviceGetName(device: Device, name: *mut c_char, _size: c_uint) {
        put_text(name, if is_old(device) { "Quadro K600" } else { "NVIDIA GeForce RTX 4090" })
    }

    fn nvmlDeviceGetUUID(device: Device, uuid: *mut c_char, _size: c_uint) {
        if is_old(device) { NOT_SUPPORTED } else { put_text(uuid, "GPU-5a1b7c2e") }
    }

    fn nvmlDeviceGetPciInfo_v3(device: Device, info: *mut PciInfo) {
        let text = if is_old(device) { "00000000:0A:00.0" } else { "00000000:01:00.0" };
        put_text(unsafe { (&raw mut (*info).bus_id).cast() }, text)
    }

    fn nvmlDeviceGetMaxPcieLinkGeneration(device: Device, value: *mut c_uint) {
        put_unless_old(device, value, 4)
    }

    fn nvmlDeviceGetMaxPcieLinkWidth(_device: Device, value: *mut c_uint) {
        put(value, 16)
    }

    fn nvmlDeviceGetUtilizationRates(device: Device, rates: *mut Utilization) {
        put_unless_old(device, rates, Utilization { gpu: 93, memory: 41 })
    }

    fn nvmlDeviceGetMemoryInfo_v2(device: Device, memory: *mut MemoryV2) {
        let version = unsafe { (*memory).version };
        if version as usize != size_of::<MemoryV2>() | (2 << 24) {
            return INVALID_ARGUMENT;
        }
        let gigabytes = if is_old(device) { 1 } else { 24 };
        let (total, reserved, free) = (gigabytes << 30, 1 << 20, 1 << 29);
        let used = total - free - reserved;
        put(memory, MemoryV2 { version, total, reserved, free, used })
    }

    fn nvmlDeviceGetPowerUsage(device: Device, milliwatts: *mut c_uint) {
        put_unless_old(device, milliwatts, 412_500)
    }

    fn nvmlDeviceGetTemperature(device: Device, _sensor: c_uint, celsius: *mut c_uint) {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        if is_old(device) && ASKED.fetch_add(1, SeqCst) >= 2 {
            return GPU_IS_LOST;
        }
        put(celsius, 71)
    }

    fn nvmlDeviceGetClockInfo(_device: Device, clock: c_uint, mhz: *mut c_uint) {
        match clock {
            0 => put(mhz, 2520),
            2 => put(mhz, 10_501),
            _ => INVALID_ARGUMENT,
        }
    }

    /// The old card fails in a way that nobody expects.
    fn nvmlDeviceGetPcieThroughput(device: Device, counter: c_uint, kilobytes: *mut c_uint) {
        match counter {
            _ if is_old(device) => UNKNOWN,
            0 => put(kilobytes, 150_000),
            1 => put(kilobytes, 9_000_000),
            _ => INVALID_ARGUMENT,
        }
    }
}
