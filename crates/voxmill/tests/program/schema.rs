//! Holds JSON output against the published schemas: as much of JSON Schema as they use.

use serde_json::Value;

/// Panics with the place where the value is not as the schema says.
pub(crate) fn assert_fits(value: &Value, verb: &str) {
    let path = format!(
        "{}/../../docs/schemas/{verb}.schema.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    if let Err(problem) = fits(value, &schema, &schema, verb) {
        panic!("{problem}");
    }
}

fn fits(value: &Value, schema: &Value, root: &Value, place: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("{place} {why}: {value}"));
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.trim_start_matches("#/$defs/");
        return fits(value, &root["$defs"][name], root, place);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let mut tried = choices
            .iter()
            .map(|choice| fits(value, choice, root, place));
        return match tried.any(|outcome| outcome.is_ok()) {
            true => Ok(()),
            false => wrong("fits none of its forms"),
        };
    }
    if !schema["const"].is_null() && *value != schema["const"] {
        return wrong("is another constant");
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return wrong("is not among its words");
    }
    let right_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => true,
    };
    if !right_type {
        return wrong("is of another type");
    }
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        fits(item, &schema["items"], root, &format!("{place}[{number}]"))?;
    }
    let empty = serde_json::Map::new();
    let object = value.as_object().unwrap_or(&empty);
    for name in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(name.as_str().unwrap_or_default()) {
            return wrong(&format!("lacks {name}"));
        }
    }
    for (name, inner) in object {
        let place = format!("{place}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            // Readers are to pass over what they do not know; a test is to find it.
            (Value::Null, Value::Null) if schema["properties"].is_object() => {
                return Err(format!("{place} is not in the schema"));
            }
            (Value::Null, other) => fits(inner, other, root, &place)?,
            (known, _) => fits(inner, known, root, &place)?,
        }
    }
    Ok(())
}
