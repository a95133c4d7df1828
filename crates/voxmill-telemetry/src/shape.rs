//! What batches are padded to: the one type for it, from the batch plan to the log and its readers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What every batch of a bucket is padded to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Shape {
    pub frames: u32,
    pub tokens: u32,
    pub rows: u32,
}

impl Shape {
    /// Of all rows, padding included.
    pub fn padded_frames(self) -> u64 {
        u64::from(self.rows) * u64::from(self.frames)
    }
}

/// What a step computed on. In a log it is short, as there are many steps: `16x640x96` are rows,
/// frames and tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepShape {
    Batch(Shape),
    /// Gradients of several batches: hardly two steps have the same shapes.
    Batches(u64),
}

impl From<Shape> for StepShape {
    fn from(shape: Shape) -> StepShape {
        StepShape::Batch(shape)
    }
}

impl fmt::Display for StepShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepShape::Batch(Shape {
                frames,
                tokens,
                rows,
            }) => write!(f, "{rows}x{frames}x{tokens}"),
            StepShape::Batches(count) => write!(f, "{count} batches"),
        }
    }
}

/// What is no shape as a log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the shape of a step")]
pub struct NotAShape;

impl FromStr for StepShape {
    type Err = NotAShape;

    fn from_str(text: &str) -> Result<StepShape, NotAShape> {
        if let Some(count) = text.strip_suffix(" batches") {
            return count.parse().map(StepShape::Batches).or(Err(NotAShape));
        }
        let numbers: Option<Vec<u32>> = text.split('x').map(|n| n.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[rows, frames, tokens]) => Ok(StepShape::Batch(Shape {
                frames,
                tokens,
                rows,
            })),
            _ => Err(NotAShape),
        }
    }
}

impl Serialize for StepShape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A later version may have other shapes: to this one such a step has none.
pub(crate) fn known<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<StepShape>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_as_it_is_written() {
        let shape = Shape {
            frames: 640,
            tokens: 96,
            rows: 16,
        };
        for (shape, text) in [
            (StepShape::Batch(shape), "16x640x96"),
            (StepShape::Batches(3), "3 batches"),
        ] {
            assert_eq!(shape.to_string(), text);
            assert_eq!(text.parse(), Ok(shape));
        }
        for text in ["", "16x640", "16x640x96x2", "16x-1x96", "many batches"] {
            assert_eq!(text.parse::<StepShape>(), Err(NotAShape), "{text}");
        }
    }
}
