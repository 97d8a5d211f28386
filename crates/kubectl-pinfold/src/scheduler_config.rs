//! The scheduler's configuration.

use std::path::Path;

use pinfold_core::koordinator::plugin::KoordinatorArgs as PluginArgs;
use pinfold_kube::diagnostic::Diagnostics;
use pinfold_kube::{koordinator, manifest, volcano};
use pinfold_terminal::{Failure, Source};

use crate::args::Dialect;

/// What a scheduler is configured with: Koordinator's plugin, or the weight of Volcano's.
pub(crate) fn scheduler(path: &Path, dialect: Dialect) -> Result<(PluginArgs, i64), Failure> {
    let source = Source::open(path)?;
    let failure = |findings: Diagnostics| source.failure(&findings);
    match dialect {
        Dialect::Kubelet => Err(Failure::BadInput(
            "--scheduler-config belongs to --dialect koordinator or volcano: a kubelet has none"
                .to_owned(),
        )),
        Dialect::Volcano => {
            let read = volcano::scheduler_weight(&source.name, &source.bytes).map_err(failure)?;
            source.warn(&read.warnings);
            let weight = read.value.ok_or_else(|| {
                Failure::BadInput(format!(
                    "{}: expected the plugin numa-aware among the tiers, found none of that name",
                    source.name
                ))
            })?;
            Ok((PluginArgs::default(), weight))
        }
        Dialect::Koordinator => {
            let documents = manifest::read(&source.name, &source.bytes).map_err(failure)?;
            let Some(document) = documents.first() else {
                return Err(Failure::BadInput(format!(
                    "{}: expected a KubeSchedulerConfiguration, found nothing",
                    source.name
                )));
            };
            let read = koordinator::scheduler_args(document).map_err(failure)?;
            source.warn(&read.warnings);
            Ok((read.value, 1))
        }
    }
}
