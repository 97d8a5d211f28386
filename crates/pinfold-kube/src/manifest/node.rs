//! [`Node`]: a YAML value with the place it was read from.

use crate::content::{self, Content};
use crate::finding::Position;

/// A value and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Option<Position>,
    pub(crate) value: Value,
}

/// A YAML value by the types of JSON, which is what Kubernetes makes of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// A number in decimal notation.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// Members in order; no key comes twice.
    Map(Vec<Member>),
}

/// One member of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) key_at: Option<Position>,
    pub(crate) node: Node,
}

impl Node {
    /// The value for people: kind and, if short, content.
    pub(crate) fn described(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("the boolean {value}"),
            Value::Number(text) => format!("the number {text}"),
            Value::Text(text) if text.chars().count() <= 60 => format!("{text:?}"),
            Value::Text(text) => {
                let start: String = text.chars().take(50).collect();
                format!("{start:?}…")
            }
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

impl From<&Node> for Content {
    fn from(node: &Node) -> Self {
        match &node.value {
            Value::Null => Content::Null,
            Value::Bool(value) => Content::Bool(*value),
            Value::Number(text) => content::number(text),
            Value::Text(text) => Content::Text(text.clone()),
            Value::List(items) => Content::List(items.iter().map(Content::from).collect()),
            Value::Map(members) => Content::Map(
                members
                    .iter()
                    .map(|member| (member.key.clone(), Content::from(&member.node)))
                    .collect(),
            ),
        }
    }
}
