//! [`ConfigField`]: a row of the table that documents a configuration file.

/// One field of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigField {
    /// The name, after its section and a dot: `metrics.listen`.
    pub name: &'static str,
    /// The default value, as YAML.
    pub default: &'static str,
    /// The description.
    pub about: &'static str,
}

/// Builds a table of fields from rows `"name" = "default": "description",`.
#[macro_export]
macro_rules! fields {
    ($($name:literal = $default:literal: $about:literal,)*) => {
        &[$($crate::config::ConfigField { name: $name, default: $default, about: $about }),*]
    };
}

/// The names of the fields of a section; for an empty name those at the top level of the file.
#[must_use]
pub fn section_fields(table: &[ConfigField], section: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for field in table {
        let name = match section {
            "" => field.name.split('.').next(),
            _ => field
                .name
                .strip_prefix(section)
                .and_then(|rest| rest.strip_prefix('.')),
        };
        if let Some(name) = name.filter(|name| !names.contains(name)) {
            names.push(name);
        }
    }
    names
}
