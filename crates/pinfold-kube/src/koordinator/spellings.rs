//! Every spelling of a key that was ever documented, and the one of today.
//!
//! Sound mode reads them all: today's key wins, an old one is reported. Exact mode knows today's only.

use pinfold_core::fidelity::Fidelity;

use crate::finding::{Problem, Report};
use crate::meta::{ObjectMeta, TextKind};

/// A key and what it was called before, or by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spelling {
    /// Today's key.
    pub today: &'static str,
    /// Keys that mean the same.
    pub old: &'static [&'static str],
}

/// The keys that have more than one spelling.
pub const SPELLINGS: [Spelling; 3] = [
    Spelling {
        today: "node.koordinator.sh/cpu-bind-policy",
        old: &["node.koordator.sh/cpubind-policy"],
    },
    Spelling {
        today: "node.koordinator.sh/numa-topology-policy",
        old: &["node.koordinator.sh/numa-topology-alignment-policy"],
    },
    Spelling {
        today: "kubelet.koordinator.sh/cpu-manager-policy",
        old: &[
            "kubelet.koordinator.sh/cpu-manger-policy",
            "kubelet.koartiator.sh/cpu-manager-policy",
        ],
    },
];

/// The key under which `meta` has what today is called `today`.
pub(super) fn find<'m>(
    meta: &'m ObjectMeta,
    kind: TextKind,
    today: &'static str,
    fidelity: Fidelity,
    report: &mut Report,
) -> Option<&'m str> {
    let texts = meta.texts(kind);
    let mut found = texts.get_key_value(today).map(|(key, _)| key.as_str());
    if fidelity.reads_one_spelling() {
        return found;
    }
    let spelling = SPELLINGS.iter().find(|spelling| spelling.today == today);
    for old in spelling.map_or(&[][..], |spelling| spelling.old) {
        let Some((key, _)) = texts.get_key_value(*old) else {
            continue;
        };
        let (at, path) = meta.place_of(kind, key);
        let (problem, hint) = match found {
            Some(winner) => (
                Problem::NoEffect(format!("{key:?} beside {winner:?}")),
                format!("remove {key:?}"),
            ),
            None => (
                Problem::OldSpelling {
                    found: format!("{key:?}"),
                    read_as: format!("{today:?}"),
                },
                format!("rename it to {today:?}"),
            ),
        };
        report.warning(at, &path, problem, Some(hint));
        found = found.or(Some(key));
    }
    found
}

/// The text of a label that today is called `today`.
pub(super) fn label<'m>(
    meta: &'m ObjectMeta,
    today: &'static str,
    fidelity: Fidelity,
    report: &mut Report,
) -> Option<(&'m str, &'m str)> {
    let key = find(meta, TextKind::Label, today, fidelity, report)?;
    Some((key, meta.labels.get(key)?))
}
