//! The documented aliases of Koordinator's keys.
//!
//! Sound mode reads all aliases: the current key has precedence, and an alias gives a warning. Exact mode reads the
//! current key only.

use pinfold_cluster::koordinator::KoordinatorDefects;
use pinfold_core::fidelity::Fidelity;

use crate::diagnostic::{DiagnosticKind, DiagnosticReport};
use crate::meta::{ObjectMeta, TextKind};

/// A key and its former or misspelt names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAlias {
    /// The current key.
    pub current: &'static str,
    /// Keys with the same meaning.
    pub aliases: &'static [&'static str],
}

/// The keys that have aliases.
pub const KEY_ALIASES: [KeyAlias; 3] = [
    KeyAlias {
        current: "node.koordinator.sh/cpu-bind-policy",
        aliases: &["node.koordator.sh/cpubind-policy"],
    },
    KeyAlias {
        current: "node.koordinator.sh/numa-topology-policy",
        aliases: &["node.koordinator.sh/numa-topology-alignment-policy"],
    },
    KeyAlias {
        current: "kubelet.koordinator.sh/cpu-manager-policy",
        aliases: &[
            "kubelet.koordinator.sh/cpu-manger-policy",
            "kubelet.koartiator.sh/cpu-manager-policy",
        ],
    },
];

/// The key under which `meta` has the label or annotation `current`.
pub(super) fn find<'m>(
    meta: &'m ObjectMeta,
    kind: TextKind,
    current: &'static str,
    fidelity: Fidelity,
    report: &mut DiagnosticReport,
) -> Option<&'m str> {
    let texts = meta.texts(kind);
    let mut found = texts.get_key_value(current).map(|(key, _)| key.as_str());
    if fidelity.reads_one_spelling() {
        return found;
    }
    let spelling = KEY_ALIASES
        .iter()
        .find(|spelling| spelling.current == current);
    for aliases in spelling.map_or(&[][..], |spelling| spelling.aliases) {
        let Some((key, _)) = texts.get_key_value(*aliases) else {
            continue;
        };
        let (at, path) = meta.position_of(kind, key);
        let (problem, hint) = match found {
            Some(winner) => (
                DiagnosticKind::NoEffect(format!("{key:?} beside {winner:?}")),
                format!("remove {key:?}"),
            ),
            None => (
                DiagnosticKind::OldSpelling {
                    found: format!("{key:?}"),
                    read_as: format!("{current:?}"),
                },
                format!("rename it to {current:?}"),
            ),
        };
        report.warning(at, &path, problem, Some(hint));
        found = found.or(Some(key));
    }
    found
}

/// The text of the label `current`, which may be under an alias.
pub(super) fn label<'m>(
    meta: &'m ObjectMeta,
    current: &'static str,
    fidelity: Fidelity,
    report: &mut DiagnosticReport,
) -> Option<(&'m str, &'m str)> {
    let key = find(meta, TextKind::Label, current, fidelity, report)?;
    Some((key, meta.labels.get(key)?))
}
