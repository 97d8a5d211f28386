//! [`FieldRef`]: a value of a manifest with its path, and typed accessors.
//!
//! An accessor that finds an invalid value adds an error to the report and returns `None`; reading continues, so that
//! one run shows all errors. As in Kubernetes, `null` is the same as a missing value.

use std::time::Duration;

use pinfold_core::quantity::Quantity;

use super::value::{LocatedValue, ManifestMember, ManifestValue};
use crate::diagnostic::{
    DiagnosticKind, DiagnosticPosition, DiagnosticReport, MAX_DIAGNOSTICS, Position,
};
use crate::go::parse;
use crate::go::record::same_letters;
use crate::json_value::JsonValue;
use crate::suggest;

/// A value and its path in the object.
#[derive(Clone, Debug)]
pub struct FieldRef<'n> {
    node: &'n LocatedValue,
    path: String,
    /// The position in the file of the annotation that contains this value, if any.
    text_at: Option<Option<Position>>,
}

impl<'n> FieldRef<'n> {
    pub(crate) fn new(node: &'n LocatedValue, path: String) -> Self {
        Self {
            node,
            path,
            text_at: None,
        }
    }

    /// The root value of an annotation's JSON.
    pub(crate) fn in_text(node: &'n LocatedValue, path: String, text_at: Option<Position>) -> Self {
        Self {
            node,
            path,
            text_at: Some(text_at),
        }
    }

    pub(crate) fn at(&self) -> Option<Position> {
        self.text_at.unwrap_or(self.node.at)
    }

    fn position(&self) -> DiagnosticPosition {
        DiagnosticPosition {
            at: self.at(),
            within: self.text_at.and(self.node.at),
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Adds an error: another value is expected here.
    pub fn unexpected(&self, expected: &str, report: &mut DiagnosticReport) {
        self.unexpected_with(expected, None, report);
    }

    /// As [`FieldRef::unexpected`], with a hint.
    pub fn unexpected_with(
        &self,
        expected: &str,
        hint: Option<String>,
        report: &mut DiagnosticReport,
    ) {
        let problem = DiagnosticKind::Unexpected {
            expected: expected.to_owned(),
            found: self.node.described(),
        };
        report.error(self.position(), &self.path, problem, hint);
    }

    /// Adds an error with Kubernetes' message about the value.
    pub(crate) fn rejected(&self, message: impl Into<String>, report: &mut DiagnosticReport) {
        report.error(
            self.position(),
            &self.path,
            DiagnosticKind::Rejected(message.into()),
            None,
        );
    }

    /// Adds a warning about the value.
    pub(crate) fn warn(
        &self,
        problem: DiagnosticKind,
        hint: Option<String>,
        report: &mut DiagnosticReport,
    ) {
        report.warning(self.position(), &self.path, problem, hint);
    }

    /// The value, if it is text.
    pub(crate) fn as_text(&self) -> Option<&'n str> {
        match &self.node.value {
            ManifestValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is exactly this text.
    pub(crate) fn is_text(&self, text: &str) -> bool {
        self.as_text() == Some(text)
    }

    /// The value of a member; `None` if it is missing or `null`, or this is not a mapping.
    pub fn get(&self, key: &str) -> Option<FieldRef<'n>> {
        let member = self.member_list().iter().find(|member| member.key == key)?;
        (member.node.value != ManifestValue::Null).then(|| self.child(member))
    }

    /// All members that are not `null`.
    pub fn members(&self) -> impl Iterator<Item = (&'n str, FieldRef<'n>)> {
        self.member_list()
            .iter()
            .filter(|member| member.node.value != ManifestValue::Null)
            .map(|member| (member.key.as_str(), self.child(member)))
    }

    fn member_list(&self) -> &'n [ManifestMember] {
        match &self.node.value {
            ManifestValue::Map(members) => members,
            _ => &[],
        }
    }

    fn child(&self, member: &'n ManifestMember) -> FieldRef<'n> {
        let key = &member.key;
        let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let path = match (self.path.is_empty(), is_plain) {
            (true, _) => key.clone(),
            (false, true) => format!("{}.{key}", self.path),
            (false, false) => format!("{}[{key}]", self.path),
        };
        self.below(&member.node, path)
    }

    fn below(&self, node: &'n LocatedValue, path: String) -> FieldRef<'n> {
        FieldRef {
            node,
            path,
            text_at: self.text_at,
        }
    }

    /// This value, if it is a mapping.
    pub fn map(&self, what: &str, report: &mut DiagnosticReport) -> Option<Self> {
        match self.node.value {
            ManifestValue::Map(_) => Some(self.clone()),
            _ => {
                self.unexpected(what, report);
                None
            }
        }
    }

    /// The mapping under `key`.
    pub fn get_map(
        &self,
        key: &str,
        what: &str,
        report: &mut DiagnosticReport,
    ) -> Option<FieldRef<'n>> {
        self.get(key)?.map(what, report)
    }

    /// The items of the list under `key`; empty if it is missing.
    pub(crate) fn get_list(
        &self,
        key: &str,
        what: &str,
        report: &mut DiagnosticReport,
    ) -> Vec<FieldRef<'n>> {
        self.get(key)
            .map(|list| list.items(what, report))
            .unwrap_or_default()
    }

    /// The items of this list.
    pub fn items(&self, what: &str, report: &mut DiagnosticReport) -> Vec<FieldRef<'n>> {
        self.list_items().unwrap_or_else(|| {
            self.unexpected(what, report);
            Vec::new()
        })
    }

    /// The member with this name in any letter case, the last one if there are several, as Go decodes JSON.
    pub(crate) fn get_as_go(&self, key: &str) -> Option<FieldRef<'n>> {
        let named = |member: &&ManifestMember| same_letters(key, &member.key);
        let member = self.member_list().iter().rev().find(named)?;
        (member.node.value != ManifestValue::Null).then(|| self.child(member))
    }

    /// The items, if this is a list.
    pub(crate) fn list_items(&self) -> Option<Vec<FieldRef<'n>>> {
        match &self.node.value {
            ManifestValue::List(items) => {
                let item = |(i, node)| self.below(node, format!("{}[{i}]", self.path));
                Some(items.iter().enumerate().map(item).collect())
            }
            _ => None,
        }
    }

    /// The text, if this is one.
    pub(crate) fn plain_text(&self) -> Option<&'n str> {
        match &self.node.value {
            ManifestValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    pub(crate) fn plain_bool(&self) -> Option<bool> {
        match self.node.value {
            ManifestValue::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The value as the JSON library's type.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::to_value(self.content()).unwrap_or_default()
    }

    /// Whether it is `null`.
    pub(crate) fn is_null(&self) -> bool {
        self.node.value == ManifestValue::Null
    }

    /// The value as JSON.
    pub(crate) fn content(&self) -> JsonValue {
        JsonValue::from(self.node)
    }

    /// The members that are not in `known`, in order.
    pub(crate) fn rest(&self, known: &[&str]) -> Vec<(String, JsonValue)> {
        let members = self.member_list().iter();
        members
            .filter(|member| !known.contains(&member.key.as_str()))
            .map(|member| (member.key.clone(), JsonValue::from(&member.node)))
            .collect()
    }

    /// The value as text.
    pub fn text(&self, what: &str, report: &mut DiagnosticReport) -> Option<&'n str> {
        match &self.node.value {
            ManifestValue::Text(text) => return Some(text),
            ManifestValue::Number(text) => {
                let hint = format!("put it in quotes: \"{text}\"");
                self.unexpected_with(what, Some(hint), report);
            }
            ManifestValue::Bool(value) => {
                let hint = format!("put it in quotes: \"{value}\"");
                self.unexpected_with(what, Some(hint), report);
            }
            _ => self.unexpected(what, report),
        }
        None
    }

    /// The text under `key`.
    pub(crate) fn get_text(
        &self,
        key: &str,
        what: &str,
        report: &mut DiagnosticReport,
    ) -> Option<&'n str> {
        self.get(key)?.text(what, report)
    }

    /// The required text under `key`, which must not be empty.
    pub(crate) fn required_text(
        &self,
        key: &str,
        what: &str,
        report: &mut DiagnosticReport,
    ) -> Option<String> {
        match self.get(key) {
            Some(field) => match field.text(what, report) {
                Some("") => {
                    field.unexpected(what, report);
                    None
                }
                text => text.map(str::to_owned),
            },
            None => {
                self.missing(key, what, report);
                None
            }
        }
    }

    /// Adds an error about the missing member `key`, with a hint if there is a similar one.
    pub(crate) fn missing(&self, key: &str, what: &str, report: &mut DiagnosticReport) {
        let keys = self.member_list().iter().map(|member| member.key.as_str());
        let similar = keys
            .filter(|other| suggest::nearest(other, [key]).is_some())
            .find(|other| *other != key);
        let hint = match similar {
            Some(other) => format!("rename {other:?} to {key:?}"),
            None => format!("add the field {key:?}"),
        };
        let path = match self.path.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", self.path),
        };
        let expected = what.to_owned();
        report.error(
            self.position(),
            &path,
            DiagnosticKind::Missing { expected },
            Some(hint),
        );
    }

    /// The value as an integer.
    pub fn integer(&self, what: &str, report: &mut DiagnosticReport) -> Option<i64> {
        let number = match &self.node.value {
            ManifestValue::Number(text) => text.parse().ok(),
            _ => None,
        };
        if number.is_none() {
            self.unexpected(what, report);
        }
        number
    }

    /// The value as a 32-bit integer.
    pub(crate) fn small_integer(&self, what: &str, report: &mut DiagnosticReport) -> Option<i32> {
        let number = self.integer(what, report)?;
        match i32::try_from(number) {
            Ok(number) => Some(number),
            Err(_) => {
                self.unexpected(what, report);
                None
            }
        }
    }

    /// The value as a number.
    pub(crate) fn float(&self, what: &str, report: &mut DiagnosticReport) -> Option<f64> {
        let number = match &self.node.value {
            ManifestValue::Number(text) => {
                text.parse().ok().filter(|number: &f64| number.is_finite())
            }
            _ => None,
        };
        if number.is_none() {
            self.unexpected(what, report);
        }
        number
    }

    /// The value as a boolean.
    pub fn boolean(&self, what: &str, report: &mut DiagnosticReport) -> Option<bool> {
        match self.node.value {
            ManifestValue::Bool(value) => Some(value),
            _ => {
                self.unexpected(what, report);
                None
            }
        }
    }

    /// The value as a duration in Go's format: `10s`, `1m30s`.
    pub fn duration(&self, what: &str, report: &mut DiagnosticReport) -> Option<Duration> {
        let duration = parse::duration(self.text(what, report)?);
        if duration.is_none() {
            self.unexpected(what, report);
        }
        duration
    }

    /// The value as text that must be one of `known`.
    pub fn word(&self, known: &[&str], report: &mut DiagnosticReport) -> Option<&'n str> {
        let what = format!("one of {}", known.join(", "));
        let word = self.text(&what, report)?;
        if known.contains(&word) {
            return Some(word);
        }
        let hint = suggest::nearest(word, known.iter().copied());
        let hint = hint.map(|meant| format!("did you mean {meant:?}?"));
        self.unexpected_with(&what, hint, report);
        None
    }

    /// The value as a quantity, written as a number or as text.
    pub(crate) fn quantity(&self, report: &mut DiagnosticReport) -> Option<Quantity> {
        let amount = match &self.node.value {
            ManifestValue::Number(text) | ManifestValue::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        if amount.is_none() {
            let expected = "a quantity such as 2, 500m or 4Gi";
            self.unexpected_with(expected, self.quantity_hint(), report);
        }
        amount
    }

    /// A hint for text that is almost a quantity.
    fn quantity_hint(&self) -> Option<String> {
        let ManifestValue::Text(text) = &self.node.value else {
            return None;
        };
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let suffix = text.get(digits.len()..)?.trim();
        let meant = match suffix {
            "GB" | "Gb" | "gb" | "g" => "G",
            "GiB" | "Gib" | "gi" | "GI" => "Gi",
            "MB" | "Mb" | "mb" => "M",
            "MiB" | "Mib" | "mi" | "MI" => "Mi",
            "KB" | "kb" | "K" => "k",
            "KiB" | "Kib" | "ki" | "KI" => "Ki",
            _ => return None,
        };
        let amount: Option<Quantity> = format!("{digits}{meant}").parse().ok();
        amount.map(|_| format!("did you mean \"{digits}{meant}\"?"))
    }

    /// The members that are not in `known`, up to the limit of diagnostics.
    pub(crate) fn unknown<'k>(
        &self,
        known: &'k [&'k str],
    ) -> impl Iterator<Item = (&'n str, Option<Position>)> + use<'n, 'k> {
        self.member_list()
            .iter()
            .filter(|member| !known.contains(&member.key.as_str()))
            .map(|member| (member.key.as_str(), member.key_at))
            .take(MAX_DIAGNOSTICS)
    }

    /// Adds an error for each member that is not in `known`.
    pub fn reject_unknown(&self, known: &[&str], report: &mut DiagnosticReport) {
        for (key, at) in self.unknown(known) {
            let hint = Some(suggest::hint(key, known));
            let problem = DiagnosticKind::UnknownField(key.to_owned());
            report.error(at, &self.path, problem, hint);
        }
    }

    /// Adds a warning for each member that is not in `known`.
    pub(crate) fn warn_unknown(&self, known: &[&str], report: &mut DiagnosticReport) {
        for (key, at) in self.unknown(known) {
            let hint = suggest::nearest(key, known.iter().copied());
            let hint = hint.map(|meant| format!("did you mean {meant:?}?"));
            let problem = DiagnosticKind::UnknownField(key.to_owned());
            report.warning(at, &self.path, problem, hint);
        }
    }
}
