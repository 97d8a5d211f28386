//! [`SchedulerConfig`]: the file of `--scheduler-config`.

use std::path::Path;
use std::sync::Arc;

use pinfold_cluster::koordinator::plugin::KoordinatorArgs;
use pinfold_cluster::node_topology::args::TopologyMatchArgs;
use pinfold_kube::decider::Decider;
use pinfold_kube::diagnostic::Diagnostics;
use pinfold_kube::manifest::{self, Document};
use pinfold_kube::{koordinator, topology_match, volcano};

use crate::exit::Failure;
use crate::source::Source;

/// The configuration of the schedulers' plugins.
#[derive(Clone, Debug)]
pub struct SchedulerConfig {
    /// Koordinator's NodeNUMAResource.
    pub koordinator: Arc<KoordinatorArgs>,
    /// scheduler-plugins' NodeResourceTopologyMatch.
    pub topology_match: Arc<TopologyMatchArgs>,
    /// The weight of Volcano's numa-aware.
    pub volcano_weight: i64,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            koordinator: Arc::default(),
            topology_match: Arc::default(),
            volcano_weight: 1,
        }
    }
}

impl SchedulerConfig {
    /// Reads the configuration of the scheduler that decides. Pinfold's agent takes the defaults of Koordinator's plugin.
    ///
    /// # Errors
    /// If the file cannot be read, or a kubelet decides.
    pub fn read(path: &Path, decider: Decider) -> Result<Self, Failure> {
        let source = Source::open(path)?;
        let failure = |findings: Diagnostics| source.failure(&findings);
        let mut config = Self::default();
        match decider {
            Decider::Kubelet(_) => {
                return Err(Failure::BadInput(
                    "--scheduler-config needs --as koordinator, volcano or scheduler-plugins: a kubelet has no \
                     scheduler configuration"
                        .to_owned(),
                ));
            }
            Decider::Volcano => {
                let read =
                    volcano::scheduler_weight(&source.name, &source.bytes).map_err(failure)?;
                source.warn(&read.warnings);
                config.volcano_weight = read.value.ok_or_else(|| {
                    Failure::BadInput(format!(
                        "{}: expected the plugin numa-aware among the tiers, found none of that name",
                        source.name
                    ))
                })?;
            }
            Decider::Koordinator | Decider::Pinfold => {
                let document = scheduler_configuration(&source)?;
                let read = koordinator::scheduler_args(&document).map_err(failure)?;
                source.warn(&read.warnings);
                config.koordinator = read.value.into();
            }
            Decider::SchedulerPlugins => {
                let document = scheduler_configuration(&source)?;
                let read = topology_match::scheduler_args(&document).map_err(failure)?;
                source.warn(&read.warnings);
                config.topology_match = read.value.into();
            }
        }
        Ok(config)
    }
}

/// The first document of a file.
fn scheduler_configuration(source: &Source) -> Result<Document, Failure> {
    let documents = manifest::read(&source.name, &source.bytes)
        .map_err(|findings| source.failure(&findings))?;
    documents.into_iter().next().ok_or_else(|| {
        Failure::BadInput(format!(
            "{}: expected a KubeSchedulerConfiguration, found nothing",
            source.name
        ))
    })
}
