//! What the verbs print with `--json`, for those whose results are not types of the analysis. The same values are
//! shown as text by [`crate::terminal`], so that the two cannot differ. The schemas in `docs/schemas` are generated
//! from these types.

pub mod devices;
pub mod prepare;
pub mod runs;
pub mod selftest;
pub mod synthesize;
pub mod text;
pub mod train;
pub mod validate;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// The schema of what a type is written as: what is always written is required. Readers have to ignore fields that
/// they do not know, so others are allowed.
pub fn schema<T: JsonSchema>(title: &str) -> schemars::Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema
}
