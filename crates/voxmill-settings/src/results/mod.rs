//! What the libraries found, as the results that are printed: `voxmill_report` knows neither data nor devices.

pub mod devices;
pub mod prepare;
