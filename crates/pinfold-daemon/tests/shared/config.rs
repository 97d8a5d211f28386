//! The rules that the configuration of every daemon keeps.

use std::fmt::Debug;

use pinfold_daemon::config::ConfigField;
use serde::Serialize;

/// Checks a configuration: `read` parses it, `fields` documents it, `everything` changes every field and `empty_section`
/// is a section without fields.
pub(crate) fn check<C: Default + PartialEq + Debug + Serialize>(
    read: fn(&str) -> Result<C, String>,
    fields: &[ConfigField],
    everything: &str,
    empty_section: &str,
) {
    for text in ["", "\n# nothing\n", "{}", empty_section] {
        assert_eq!(read(text), Ok(C::default()), "{text:?}");
    }
    let whole = read(everything).expect("a configuration");
    let changed = serde_json::to_value(&whole).expect("JSON");
    let default = serde_json::to_value(C::default()).expect("JSON");
    for field in fields {
        let (section, name) = field.name.split_once('.').unwrap_or(("", field.name));
        let text = match section {
            "" => format!("{name}: {}", field.default),
            _ => format!("{section}: {{{name}: {}}}", field.default),
        };
        assert_eq!(
            read(&text),
            Ok(C::default()),
            "the documented default: {text}"
        );
        let path = format!("/{}", field.name.replace('.', "/"));
        let found = changed.pointer(&path);
        assert!(found.is_some(), "{}", field.name);
        assert_ne!(found, default.pointer(&path), "{} is read", field.name);
    }
    for config in [whole, C::default()] {
        // JSON is YAML.
        let written = serde_json::to_string(&config).expect("JSON");
        assert_eq!(read(&written), Ok(config), "{written}");
    }
}
