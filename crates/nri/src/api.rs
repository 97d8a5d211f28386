//! The messages of NRI (`nri.pkg.api.v1alpha1`, as of NRI 0.12) as plain structs.
//!
//! Names follow the protocol, so that its documentation applies. Three things differ from what a
//! protocol compiler would make of it:
//!
//! - The protocol's `OptionalInt64`, `OptionalString` and so on are `Option<i64>`,
//!   `Option<String>`: `None` means not set, `Some(0)` means zero.
//! - Maps are ordered, so the same value always has the same bytes.
//! - Fields of newer runtimes that this crate does not know are dropped when decoding. Nothing is
//!   lost, because a plugin answers with changes, not with a copy of the request.
//!
//! A field that holds an enumeration is an `i32` (runtimes may send numbers not known here) with
//! a method of the same name that returns the enumeration.

mod adjustment;
mod calls;
mod container;
mod events;
mod owners;
mod pod;
mod process;
mod resources;
mod seccomp;

pub use adjustment::{
    ContainerAdjustment, ContainerEviction, ContainerUpdate, KeyValue, LinuxContainerAdjustment,
    LinuxContainerUpdate, LinuxMemoryPolicy, MpolFlag, MpolMode,
};
pub use calls::{
    ConfigureRequest, ConfigureResponse, CreateContainerRequest, CreateContainerResponse, Empty,
    PluginInstance, RegisterPluginRequest, StateChangeEvent, StopContainerResponse,
    SynchronizeRequest, SynchronizeResponse, UpdateContainerRequest, UpdateContainerResponse,
    UpdateContainersRequest, UpdateContainersResponse, UpdatePodSandboxRequest,
    ValidateContainerAdjustmentRequest, ValidateContainerAdjustmentResponse,
};
pub use calls::{ContainerRequest, PodSandboxRequest};
pub use container::{
    CdiDevice, Container, ContainerState, Hook, Hooks, LinuxContainer, LinuxDevice, LinuxNamespace,
    LinuxNetDevice, Mount, ProfileType, SecurityProfile, User,
};
pub use events::{Event, Events};
pub use owners::{CompoundFieldOwners, Field, FieldOwners, OwningPlugins};
pub use pod::{LinuxPodSandbox, PodSandbox};
pub use process::{
    IoPrioClass, LinuxIoPriority, LinuxScheduler, LinuxSchedulerFlag, LinuxSchedulerPolicy,
    PosixRlimit,
};
pub use resources::{
    HugepageLimit, LinuxCpu, LinuxDeviceCgroup, LinuxMemory, LinuxPids, LinuxRdt, LinuxResources,
    OptionalRepeatedString,
};
pub use seccomp::{LinuxSeccomp, LinuxSeccompArg, LinuxSyscall};
