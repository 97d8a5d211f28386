//! Reads the socket and identity that a runtime passes to plugins that it starts.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use thiserror::Error;

use crate::identity::{Identity, IdentityError};

const SOCKET: &str = "NRI_PLUGIN_SOCKET";
const NAME: &str = "NRI_PLUGIN_NAME";
const INDEX: &str = "NRI_PLUGIN_IDX";

/// Errors of the environment that the runtime set for the plugin.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The variable is not a file descriptor number.
    #[error("{SOCKET} is {value:?}, which is not a file descriptor")]
    Descriptor {
        /// The value of the variable.
        value: String,
    },
    /// The descriptor is not an open unix socket.
    #[error("{SOCKET} is {descriptor}, which is not an open unix socket: {problem}")]
    Socket {
        /// The descriptor.
        descriptor: i32,
        /// The error of the operating system.
        problem: io::Error,
    },
    /// The name or the index is invalid.
    #[error("{NAME} and {INDEX}: {0}")]
    Identity(#[from] IdentityError),
}

/// Socket and identity from the runtime.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) identity: Identity,
    pub(crate) stream: UnixStream,
}

/// Reads the environment; `None` if the plugin was not started by a runtime. Name and index default
/// to the plugin's own.
pub(crate) fn read(
    environment: impl Fn(&str) -> Option<String>,
    own: &Identity,
) -> Result<Option<Launch>, LaunchError> {
    let Some(value) = environment(SOCKET).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let descriptor = match value.parse() {
        Ok(descriptor) if descriptor >= 0 => descriptor,
        _ => return Err(LaunchError::Descriptor { value }),
    };
    let name = environment(NAME).unwrap_or_else(|| own.name().to_owned());
    let index = environment(INDEX).unwrap_or_else(|| own.index());
    Ok(Some(Launch {
        identity: Identity::parse(&name, &index)?,
        stream: inherited(descriptor).map_err(|problem| LaunchError::Socket {
            descriptor,
            problem,
        })?,
    }))
}

/// Duplicates an inherited descriptor.
///
/// Using a bare number as a descriptor is unsafe in Rust, because other code in this process may own
/// it. Duplicating it with `pidfd_getfd` is safe, and fails if the number is not open. The original
/// stays open, which is harmless: closing a trunk shuts the socket down for all its descriptors.
fn inherited(descriptor: i32) -> io::Result<UnixStream> {
    let this = pidfd_open(getpid(), PidfdFlags::empty())?;
    let duplicate = pidfd_getfd(this, descriptor, PidfdGetfdFlags::empty())?;
    let stream = UnixStream::from(duplicate);
    stream.peer_addr()?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    fn own() -> Identity {
        Identity::new("own", 10).unwrap()
    }

    fn environment<'a>(pairs: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |wanted| {
            let found = pairs.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn without_a_socket_variable_the_plugin_was_not_started_by_a_runtime() {
        assert!(read(environment(&[]), &own()).unwrap().is_none());
        let empty = [(SOCKET, ""), (NAME, "x"), (INDEX, "00")];
        assert!(read(environment(&empty), &own()).unwrap().is_none());
    }

    #[test]
    fn the_inherited_socket_is_the_one_of_that_number() {
        let (mut runtime, plugin) = UnixStream::pair().unwrap();
        let number = plugin.as_raw_fd().to_string();
        let pairs = [(SOCKET, number.as_str()), (NAME, "pin"), (INDEX, "07")];
        let launch = read(environment(&pairs), &own()).unwrap().unwrap();
        assert_eq!(launch.identity.to_string(), "07-pin");
        runtime.write_all(b"hello").unwrap();
        let mut bytes = [0; 5];
        (&launch.stream).read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"hello");
    }

    #[test]
    fn a_value_that_is_not_an_open_socket_is_an_error_with_the_value() {
        let file = tempfile::tempfile().unwrap();
        let file = file.as_raw_fd().to_string();
        for value in ["three", "-1", "99999999999", "1000000", &file] {
            let pairs = [(SOCKET, value), (NAME, "pin"), (INDEX, "07")];
            let problem = read(environment(&pairs), &own()).unwrap_err().to_string();
            assert!(problem.contains(value), "{problem}");
        }
    }
}
