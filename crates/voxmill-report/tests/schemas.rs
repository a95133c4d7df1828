//! The published schemas are those of the types.

use std::path::Path;

use schemars::Schema;
use voxmill_analysis::compare::Comparison;
use voxmill_analysis::data_side::DataSide;
use voxmill_analysis::ledger::LedgerReport;
use voxmill_analysis::plan::Planned;
use voxmill_analysis::profile::Profile;
use voxmill_analysis::scaling::Scaling;
use voxmill_report::results::{
    devices::DevicesResult, prepare::PrepareResult, runs::RunList, schema, selftest::SelfTest,
    synthesize::Synthesized, text::TextResult, train::Trained, validate::ValidateResult,
};

const REWRITE: &str = "VOXMILL_WRITE_SCHEMAS=1 cargo test -p voxmill-report --test schemas";

/// A verb and the schema of its result under a title.
type Verb = (&'static str, fn(&str) -> Schema);

#[test]
fn the_schemas_in_docs_are_generated_from_the_types() {
    let schemas: [Verb; 14] = [
        ("analyze", schema::<DataSide>),
        ("compare", schema::<Comparison>),
        ("devices", schema::<DevicesResult>),
        ("ledger", schema::<LedgerReport>),
        ("plan", schema::<Planned>),
        ("prepare", schema::<PrepareResult>),
        ("profile", schema::<Profile>),
        ("runs", schema::<RunList>),
        ("scale", schema::<Scaling>),
        ("selftest", schema::<SelfTest>),
        ("synthesize", schema::<Synthesized>),
        ("text", schema::<TextResult>),
        ("train", schema::<Trained>),
        ("validate", schema::<ValidateResult>),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    for (verb, schema) in schemas {
        let schema = schema(&format!("voxmill {verb} --json"));
        let path = folder.join(format!("{verb}.schema.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("VOXMILL_WRITE_SCHEMAS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            published == text,
            "{} is not the schema of its type; write it anew: {REWRITE}",
            path.display()
        );
    }
}
