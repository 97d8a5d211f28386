//! The fields of a configuration as a table: names, defaults, and what each is for.

/// One field of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, with the section before a dot.
    pub name: &'static str,
    /// What it is if the file does not say, as YAML.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// A table of fields: `"name" = "default": "what it is for",`.
#[macro_export]
macro_rules! fields {
    ($($name:literal = $default:literal: $about:literal,)*) => {
        &[$($crate::config::Field { name: $name, default: $default, about: $about }),*]
    };
}

/// The names of the members of a section; of the file itself for an empty name.
#[must_use]
pub fn members(table: &[Field], section: &str) -> Vec<&'static str> {
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
