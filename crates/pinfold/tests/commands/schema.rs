//! A strict validator for the part of JSON Schema that `docs/schema` uses. An unknown keyword is an error, so that no
//! schema promises what is not checked.

use serde_json::{Map, Value};

/// Keywords without an effect on validity.
const NOTES: [&str; 5] = ["$schema", "$id", "title", "description", "$defs"];

/// The first error of `value`; `None` if it is valid.
pub(crate) fn error(schema: &Value, value: &Value) -> Option<String> {
    Validator { root: schema }.check(schema, value, "$").err()
}

struct Validator<'s> {
    root: &'s Value,
}

impl Validator<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let rules = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(rules) => rules,
            _ => return Err(format!("{at}: not allowed")),
        };
        for (keyword, rule) in rules {
            match keyword.as_str() {
                "$ref" => self.check(self.definition(rule)?, value, at)?,
                "type" => check_type(rule, value, at)?,
                "enum" => {
                    let allowed = rule.as_array().ok_or("enum: expected a list")?;
                    if !allowed.contains(value) {
                        return Err(format!("{at}: {value} is none of {rule}"));
                    }
                }
                "anyOf" => self.check_any(rule, value, at)?,
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(rule, item, &format!("{at}[{index}]"))?;
                    }
                }
                "properties" | "additionalProperties" | "required" => {}
                keyword if NOTES.contains(&keyword) => {}
                keyword => return Err(format!("unknown keyword {keyword}")),
            }
        }
        match value {
            Value::Object(members) => self.check_members(rules, members, at),
            _ => Ok(()),
        }
    }

    fn check_any(&self, rule: &Value, value: &Value, at: &str) -> Result<(), String> {
        let mut errors = Vec::new();
        for schema in rule.as_array().ok_or("anyOf: expected a list")? {
            match self.check(schema, value, at) {
                Ok(()) => return Ok(()),
                Err(error) => errors.push(error),
            }
        }
        Err(format!("{at}: no alternative fits: {}", errors.join(" | ")))
    }

    fn check_members(
        &self,
        rules: &Map<String, Value>,
        members: &Map<String, Value>,
        at: &str,
    ) -> Result<(), String> {
        let required = rules.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                return Err(format!("{at}: {name} is missing"));
            }
        }
        let properties = rules.get("properties").and_then(Value::as_object);
        for (name, member) in members {
            let own = properties.and_then(|properties| properties.get(name));
            let rule = own.or_else(|| rules.get("additionalProperties"));
            if let Some(rule) = rule {
                self.check(rule, member, &format!("{at}.{name}"))?;
            }
        }
        Ok(())
    }

    fn definition(&self, reference: &Value) -> Result<&Value, String> {
        let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
        pointer
            .and_then(|pointer| self.root.pointer(pointer))
            .ok_or_else(|| format!("no definition {reference}"))
    }
}

fn check_type(rule: &Value, value: &Value, at: &str) -> Result<(), String> {
    let is = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => false,
    };
    let fits = match rule {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    };
    match fits {
        true => Ok(()),
        false => Err(format!("{at}: expected {rule}, found {value}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::error;

    #[test]
    fn every_keyword_is_checked() {
        let schema = json!({
            "type": "object",
            "required": ["name"],
            "additionalProperties": false,
            "properties": {
                "name": {"type": "string"},
                "cpus": {"type": ["array", "null"], "items": {"$ref": "#/$defs/cpu"}},
                "kind": {"enum": ["a", "b"]},
                "any": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
            },
            "$defs": {"cpu": {"type": "integer"}},
        });
        for (value, expected) in [
            (
                json!({"name": "x", "cpus": [1, 2], "kind": "a", "any": true}),
                None,
            ),
            (json!({"name": "x", "cpus": null}), None),
            (json!({}), Some("$: name is missing")),
            (
                json!({"name": 1}),
                Some("$.name: expected \"string\", found 1"),
            ),
            (
                json!({"name": "x", "other": 1}),
                Some("$.other: not allowed"),
            ),
            (
                json!({"name": "x", "cpus": ["1"]}),
                Some("$.cpus[0]: expected \"integer\", found \"1\""),
            ),
            (
                json!({"name": "x", "kind": "c"}),
                Some("$.kind: \"c\" is none of [\"a\",\"b\"]"),
            ),
        ] {
            assert_eq!(error(&schema, &value).as_deref(), expected, "{value}");
        }
        let wrong = error(&schema, &json!({"name": "x", "any": "x"}));
        assert!(wrong.is_some_and(|error| error.starts_with("$.any: no alternative fits")));
        let unknown = error(&json!({"minimum": 3}), &json!(1));
        assert_eq!(unknown.as_deref(), Some("unknown keyword minimum"));
    }
}
