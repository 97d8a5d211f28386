//! [`KindCounts`]: how many objects without pods a file has, by kind.

use std::collections::BTreeMap;
use std::fmt;

/// Objects without pods, counted by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindCounts(BTreeMap<String, usize>);

/// The most kinds that are named; further ones are counted.
const NAMED: usize = 12;

impl KindCounts {
    /// Counts one object.
    pub fn add(&mut self, kind: &str) {
        match self.0.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.0.insert(kind.to_owned(), 1)),
        }
    }

    /// Adds the counts of another file.
    pub fn append(&mut self, others: KindCounts) {
        for (kind, count) in others.0 {
            *self.0.entry(kind).or_default() += count;
        }
    }

    /// The objects of all kinds.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }
}

/// `7 objects without pod templates: 3 Service, 2 ConfigMap, 2 Secret`, the most frequent kind first.
impl fmt::Display for KindCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let objects = if total == 1 { "object" } else { "objects" };
        write!(f, "{total} {objects} without pod templates")?;
        let mut kinds: Vec<(&String, &usize)> = self.0.iter().collect();
        kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(**count), *kind));
        for (i, (kind, count)) in kinds.iter().take(NAMED).enumerate() {
            let separator = if i == 0 { ": " } else { ", " };
            write!(f, "{separator}{count} {kind}")?;
        }
        match kinds.len().checked_sub(NAMED) {
            Some(more @ 1..) => write!(f, " and {more} more kinds"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_kind_is_named_first_and_the_list_ends() {
        let mut counts = KindCounts::default();
        for kind in ["ConfigMap", "Service", "Service"] {
            counts.add(kind);
        }
        assert_eq!(
            counts.to_string(),
            "3 objects without pod templates: 2 Service, 1 ConfigMap"
        );
        for i in 0..12 {
            counts.add(&format!("Kind{i:02}"));
        }
        assert!(counts.to_string().ends_with("1 Kind09 and 2 more kinds"));
    }
}
