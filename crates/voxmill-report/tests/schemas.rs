//! The published schemas are those of the types.

use std::path::Path;

use voxmill_analysis::compare::Comparison;
use voxmill_analysis::data_side::DataSide;
use voxmill_analysis::profile::Profile;
use voxmill_analysis::scaling::Scaling;
use voxmill_report::results::{
    devices::Devices, prepare::Prepared, schema, synthesize::Synthesized, text::Text,
    train::Trained, validate::Validation,
};

const REWRITE: &str = "VOXMILL_WRITE_SCHEMAS=1 cargo test -p voxmill-report --test schemas";

#[test]
fn the_schemas_in_docs_are_generated_from_the_types() {
    let schemas = [
        ("analyze", schema::<DataSide>("voxmill analyze --json")),
        ("compare", schema::<Comparison>("voxmill compare --json")),
        ("devices", schema::<Devices>("voxmill devices --json")),
        ("prepare", schema::<Prepared>("voxmill prepare --json")),
        ("profile", schema::<Profile>("voxmill profile --json")),
        ("scale", schema::<Scaling>("voxmill scale --json")),
        (
            "synthesize",
            schema::<Synthesized>("voxmill synthesize --json"),
        ),
        ("text", schema::<Text>("voxmill text --json")),
        ("train", schema::<Trained>("voxmill train --json")),
        ("validate", schema::<Validation>("voxmill validate --json")),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    for (verb, schema) in schemas {
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
