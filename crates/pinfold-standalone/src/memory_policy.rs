//! The memory policy of a process: the NUMA nodes its pages are allocated on. It survives `exec`.
//!
//! No maintained crate has a safe wrapper for this system call, so this module makes it, and nothing else.
#![expect(
    unsafe_code,
    reason = "set_mempolicy(2) takes a pointer to a mask that the call reads and does not keep"
)]

use std::io;

use pinfold_core::node_set::NodeSet;

use crate::error::StandaloneError;

/// Binds the memory of this process and of its children to `nodes`.
pub(crate) fn bind_this(nodes: NodeSet) -> Result<(), StandaloneError> {
    let mask: u64 = nodes.bits();
    // The kernel reads one bit less than the count it is given.
    let bits = libc::c_ulong::from(u64::BITS) + 1;
    // SAFETY: the mask is 64 bits, as announced, and lives until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            libc::c_long::from(libc::MPOL_BIND),
            std::ptr::from_ref(&mask),
            bits,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(StandaloneError::System {
            action: format!("bind memory to NUMA nodes {nodes}"),
            error: io::Error::last_os_error(),
        }),
    }
}
