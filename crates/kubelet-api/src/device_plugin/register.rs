//! Messages of `Register`.

/// An empty message.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// The optional calls that a plugin implements.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DevicePluginOptions {
    /// Whether `PreStartContainer` must be called before a container starts.
    #[prost(bool, tag = "1")]
    pub pre_start_required: bool,
    /// Whether `GetPreferredAllocation` may be called.
    #[prost(bool, tag = "2")]
    pub get_preferred_allocation_available: bool,
}

/// The registration of a plugin for one resource.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegisterRequest {
    /// The API version of the plugin.
    #[prost(string, tag = "1")]
    pub version: String,
    /// The name of the plugin's socket in the kubelet's plugin directory.
    #[prost(string, tag = "2")]
    pub endpoint: String,
    /// The resource, such as `vendor.com/gpu`.
    #[prost(string, tag = "3")]
    pub resource_name: String,
    /// The options. The kubelet ignores them here and calls `GetDevicePluginOptions`.
    #[prost(message, optional, tag = "4")]
    pub options: Option<DevicePluginOptions>,
}
