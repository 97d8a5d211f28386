//! [`TemplatePath`]: where an object of a kind that is not known has its pod template.

use std::str::FromStr;

use super::expansion::Expansion;
use super::workload::count_of;
use crate::manifest::field::FieldRef;

/// A path from an object to its pod template, such as `.spec.template`. A list on the way stands for all its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplatePath(Vec<String>);

/// Why a text is no [`TemplatePath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the path of a pod template such as .spec.template, found {0:?}")]
pub struct TemplatePathError(String);

/// The most fields of a path; objects are not nested deeper.
const MAX_FIELDS: usize = 16;

impl TemplatePath {
    /// Where most controllers have their pod template.
    pub(super) const USUAL: &str = ".spec.template";

    /// The path [`TemplatePath::USUAL`].
    pub(super) fn usual() -> Self {
        Self(vec!["spec".to_owned(), "template".to_owned()])
    }
}

impl FromStr for TemplatePath {
    type Err = TemplatePathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = text.trim_start_matches('.').replace("[*]", "");
        let fields: Vec<String> = path.split('.').map(str::to_owned).collect();
        let is_field = |field: &String| {
            !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        match fields.len() <= MAX_FIELDS && fields.iter().all(is_field) {
            true => Ok(Self(fields)),
            false => Err(TemplatePathError(text.to_owned())),
        }
    }
}

/// A pod template, the mapping it is in, and the names of the list items on the way to it.
struct Found<'n> {
    template: FieldRef<'n>,
    parent: FieldRef<'n>,
    names: Vec<String>,
}

/// Whether the object has anything at this path.
pub(super) fn has_template(path: &TemplatePath, object: &FieldRef<'_>) -> bool {
    let mut found = Vec::new();
    find(object, &path.0, &[], &mut found);
    !found.is_empty()
}

/// Adds the pods of the templates at this path: as many as `replicas` beside the template says, or one.
pub(super) fn expand(path: &TemplatePath, to: &mut Expansion<'_>) {
    let mut found = Vec::new();
    find(&to.document.root(), &path.0, &[], &mut found);
    for Found {
        template,
        parent,
        names,
    } in &found
    {
        let count = count_of(parent, "replicas", to.report).unwrap_or(1);
        let mut name = to.owner.name.clone();
        for part in names {
            name = format!("{name}-{part}");
        }
        if let Some(model) = to.model(template, &name) {
            to.push_numbered(&model, 0, count);
        }
    }
}

fn find<'n>(at: &FieldRef<'n>, path: &[String], names: &[String], found: &mut Vec<Found<'n>>) {
    let Some((field, rest)) = path.split_first() else {
        return;
    };
    let Some(next) = at.get(field) else {
        return;
    };
    match next.list_items() {
        Some(items) => {
            for (i, item) in items.iter().enumerate() {
                let name = item.get("name").and_then(|name| name.plain_text());
                let mut names = names.to_vec();
                names.push(name.map_or_else(|| i.to_string(), str::to_owned));
                match rest.is_empty() {
                    true => found.push(Found {
                        template: item.clone(),
                        parent: item.clone(),
                        names,
                    }),
                    false => find(item, rest, &names, found),
                }
            }
        }
        None if rest.is_empty() => found.push(Found {
            template: next,
            parent: at.clone(),
            names: names.to_vec(),
        }),
        None => find(&next, rest, names, found),
    }
}

/// The path of the first field of the object that looks like a pod template.
pub(super) fn guess(object: &FieldRef<'_>) -> Option<String> {
    look(object, "", 8)
}

fn look(at: &FieldRef<'_>, path: &str, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    for (key, value) in at.members() {
        let path = format!("{path}.{key}");
        let is_template = key.to_ascii_lowercase().ends_with("template");
        if is_template && has_containers(&value) {
            return Some(path);
        }
        let below = match value.list_items() {
            Some(items) => items.iter().find_map(|item| look(item, &path, depth)),
            None => look(&value, &path, depth),
        };
        if below.is_some() {
            return below;
        }
    }
    None
}

fn has_containers(template: &FieldRef<'_>) -> bool {
    let containers = template
        .get("spec")
        .and_then(|spec| spec.get("containers"))
        .and_then(|containers| containers.list_items());
    containers.is_some_and(|containers| {
        containers
            .iter()
            .any(|container| container.get("name").is_some())
    })
}
