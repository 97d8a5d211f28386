//! KubeSchedulerConfiguration: the arguments of one plugin.

use crate::diagnostic::DiagnosticReport;
use crate::manifest::Document;
use crate::manifest::field::FieldRef;

const VERSIONS: &[&str] = &[
    "kubescheduler.config.k8s.io/v1",
    "kubescheduler.config.k8s.io/v1beta3",
    "kubescheduler.config.k8s.io/v1beta2",
];

/// The plugin's `args` in the first profile that has them. `Some(None)` if no profile configures the plugin, `None` if
/// the document is no KubeSchedulerConfiguration.
pub(crate) fn plugin_args<'d>(
    document: &'d Document,
    plugin: &str,
    report: &mut DiagnosticReport,
) -> Option<Option<FieldRef<'d>>> {
    let object = document.expect_kind("KubeSchedulerConfiguration", VERSIONS, report)?;
    for profile in object.get_list("profiles", "a list of profiles", report) {
        for config in profile.get_list("pluginConfig", "a list of plugins", report) {
            let is_it = config.get("name").is_some_and(|name| name.is_text(plugin));
            let args = config.get_map("args", "the plugin's arguments", report);
            if let (true, Some(args)) = (is_it, args) {
                return Some(Some(args));
            }
        }
    }
    Some(None)
}
