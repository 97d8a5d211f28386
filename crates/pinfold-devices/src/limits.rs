//! [`PluginLimits`]: bounds on the resources and time that plugins may use.

use std::time::Duration;

/// Bounds on what plugins may use. Messages are bounded by [`kubelet_api::MAX_MESSAGE`].
#[derive(Clone, Debug)]
pub struct PluginLimits {
    /// Registered resources, stopped ones included.
    pub resources: usize,
    /// Devices of one resource. A plugin that lists more is treated as stopped.
    pub devices: usize,
    /// Registrations in progress. Further ones are rejected.
    pub registrations: usize,
    /// Connections to the registration socket. Further ones are closed.
    pub connections: usize,
    /// Timeout of `GetDevicePluginOptions`.
    pub options_timeout: Duration,
    /// Timeout of one `GetPreferredAllocation`, while a pod waits for admission.
    pub preferred_allocation_timeout: Duration,
    /// Timeout of all `GetPreferredAllocation` calls of one admission: well below the two seconds that container
    /// runtimes wait for an NRI plugin.
    pub admission_timeout: Duration,
    /// Timeout of `Allocate`. The kubelet has none.
    pub allocate_timeout: Duration,
    /// Timeout of `PreStartContainer`: the kubelet's.
    pub pre_start_timeout: Duration,
    /// How long the devices of a stopped plugin stay known as unhealthy: the kubelet's grace period.
    pub grace: Duration,
    /// Interval of the checks of the registration socket and of grace periods.
    pub tick: Duration,
}

impl Default for PluginLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            resources: 256,
            devices: 16_384,
            registrations: 16,
            connections: 64,
            options_timeout: seconds(10),
            preferred_allocation_timeout: Duration::from_millis(500),
            admission_timeout: Duration::from_millis(800),
            allocate_timeout: seconds(60),
            pre_start_timeout: seconds(30),
            grace: seconds(5 * 60),
            tick: seconds(1),
        }
    }
}
