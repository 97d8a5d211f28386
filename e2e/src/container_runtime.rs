//! [`ContainerRuntime`]: what the agent's suite needs of a container runtime.

use std::path::PathBuf;

use crate::containerd::cri::Cri;
use crate::containerd::eventually;

/// A container runtime with folders and sockets of its own.
pub(crate) trait ContainerRuntime: Send + Sync {
    /// A client, for concurrent requests.
    fn connect(&self) -> Result<Cri, String>;

    /// Starts the daemon; the pods of the one before are still there.
    fn start_again(&mut self) -> Result<(), String>;

    /// Stops the daemon, not its pods.
    fn stop(&mut self);

    /// Where plugins connect to.
    fn nri_socket(&self) -> PathBuf;

    /// The control group that everything is below.
    fn cgroup(&self) -> &str;

    /// What the name of a container's control group has before its id.
    fn prefix(&self) -> &'static str;

    /// The control group of a container below that of its pod.
    fn group(&self, pod: &str, container: &str) -> String {
        format!("{pod}/{}{container}", self.prefix())
    }

    /// Its log.
    fn log(&self) -> PathBuf;

    /// Waits until it answers.
    fn wait_for(&self, cri: &Cri) -> Result<(), String> {
        eventually("the container runtime answers", || cri.is_ready())
    }
}
