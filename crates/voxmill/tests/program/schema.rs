//! Compares JSON output with the published schemas.

use serde_json::{Value, json};

/// Panics with the places where the value is not as the schema says.
pub(crate) fn assert_fits(value: &Value, verb: &str) {
    let path = format!(
        "{}/../../docs/schemas/{verb}.schema.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap();
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    allow_no_others(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let problems = validator.iter_errors(value);
    let problems: Vec<String> = problems
        .map(|problem| format!("{}: {problem}", problem.instance_path()))
        .collect();
    assert!(problems.is_empty(), "{verb}: {}", problems.join("\n"));
}

/// Readers are to ignore fields that they do not know; a test is to find them.
fn allow_no_others(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(allow_no_others);
            let has_fields = object.get("properties").is_some_and(Value::is_object);
            if has_fields && object.get("type") == Some(&json!("object")) {
                object
                    .entry("additionalProperties")
                    .or_insert(Value::Bool(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(allow_no_others),
        _ => {}
    }
}
