//! Statistics that can be added up.

use serde::{Deserialize, Serialize};

/// How often which time span occurred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {}
