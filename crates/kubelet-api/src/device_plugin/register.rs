//! How a plugin makes itself known.

/// Nothing to say.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// Which of the optional calls a plugin wants.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DevicePluginOptions {
    /// `PreStartContainer` must be called before a container starts.
    #[prost(bool, tag = "1")]
    pub pre_start_required: bool,
    /// `GetPreferredAllocation` may be called.
    #[prost(bool, tag = "2")]
    pub get_preferred_allocation_available: bool,
}

/// A plugin and the resource it offers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegisterRequest {
    /// The version of the interface that the plugin speaks.
    #[prost(string, tag = "1")]
    pub version: String,
    /// The name of the plugin's socket in the directory of the kubelet's.
    #[prost(string, tag = "2")]
    pub endpoint: String,
    /// The resource, such as `vendor.com/gpu`.
    #[prost(string, tag = "3")]
    pub resource_name: String,
    /// The options, which the kubelet does not read here: it asks with `GetDevicePluginOptions`.
    #[prost(message, optional, tag = "4")]
    pub options: Option<DevicePluginOptions>,
}
