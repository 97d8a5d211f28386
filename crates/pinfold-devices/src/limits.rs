//! [`Limits`]: how much plugins may take of the agent, and how long.

use std::time::Duration;

/// How much plugins may take, and how long. Messages are bounded by [`kubelet_api::MAX_MESSAGE`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// Resources at a time, stopped ones included.
    pub resources: usize,
    /// Devices of one resource. A plugin that lists more is treated as stopped.
    pub devices: usize,
    /// Registrations in progress. Further ones are rejected.
    pub registrations: usize,
    /// Connections to the registration socket. Further ones are closed.
    pub connections: usize,
    /// For `GetDevicePluginOptions`.
    pub options_timeout: Duration,
    /// For one `GetPreferredAllocation`, while a pod waits to be admitted.
    pub advice_timeout: Duration,
    /// For all advice of one admission: well below the two seconds that container runtimes wait for a plugin.
    pub admission_timeout: Duration,
    /// For `Allocate`. The kubelet waits forever.
    pub allocate_timeout: Duration,
    /// For `PreStartContainer`: the kubelet's.
    pub pre_start_timeout: Duration,
    /// How long the devices of a stopped plugin stay known, unhealthy: the kubelet's.
    pub grace: Duration,
    /// How often the socket and the grace periods are looked at.
    pub tick: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            resources: 256,
            devices: 16_384,
            registrations: 16,
            connections: 64,
            options_timeout: seconds(10),
            advice_timeout: Duration::from_millis(500),
            admission_timeout: Duration::from_millis(800),
            allocate_timeout: seconds(60),
            pre_start_timeout: seconds(30),
            grace: seconds(5 * 60),
            tick: seconds(1),
        }
    }
}
