//! [`ServiceManager`]: notifies systemd of the state of a daemon (`sd_notify`): one datagram per message.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

/// The service manager that started this process.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    watchdog: Option<Duration>,
}

/// The variables that the service manager sets for this process.
#[derive(Clone, Debug, Default)]
pub struct NotifyEnvironment {
    /// `NOTIFY_SOCKET`: an absolute path, or `@` and the name of an abstract socket.
    pub socket: Option<OsString>,
    /// `WATCHDOG_USEC`: the longest time between two watchdog messages, in microseconds.
    pub watchdog: Option<OsString>,
    /// `WATCHDOG_PID`: the process that sends them; unset for any.
    pub watchdog_pid: Option<OsString>,
}

impl NotifyEnvironment {
    /// The variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self {
            socket: std::env::var_os("NOTIFY_SOCKET"),
            watchdog: std::env::var_os("WATCHDOG_USEC"),
            watchdog_pid: std::env::var_os("WATCHDOG_PID"),
        }
    }

    fn watchdog_time(&self) -> Option<Duration> {
        let number = |text: &OsString| text.to_str()?.parse::<u64>().ok();
        let is_own = match &self.watchdog_pid {
            Some(pid) => number(pid) == Some(u64::from(std::process::id())),
            None => true,
        };
        let time = number(self.watchdog.as_ref()?).filter(|&time| is_own && time > 0)?;
        Some(Duration::from_micros(time))
    }
}

impl ServiceManager {
    /// Connects to the service manager's socket; `None` if the process was not started by one that expects messages.
    ///
    /// # Errors
    /// If there is no such socket.
    pub fn connect(environment: &NotifyEnvironment) -> io::Result<Option<Self>> {
        let Some(address) = environment.socket.as_deref().filter(|at| !at.is_empty()) else {
            return Ok(None);
        };
        let socket = UnixDatagram::unbound()?;
        // A message must never delay the daemon: one that the socket cannot take is dropped.
        socket.set_nonblocking(true)?;
        socket.connect_addr(&socket_address(address)?)?;
        Ok(Some(Self {
            socket,
            watchdog: environment.watchdog_time(),
        }))
    }

    /// The longest time between two calls of [`ServiceManager::alive`]; `None` if the service manager does not watch.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The daemon has started. Returns whether the message was sent: without it the service manager ends the daemon.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.send("READY=1")
    }

    /// The daemon stops.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// The daemon works.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            self.send("WATCHDOG=1");
        }
    }

    /// What the daemon does, in one line for `systemctl status`.
    pub fn status(&self, status: &str) {
        let line = status.replace(['\n', '\r'], "; ");
        self.send(&format!("STATUS={line}"));
    }

    fn send(&self, message: &str) -> bool {
        let sent = self.socket.send(message.as_bytes());
        if let Err(error) = &sent {
            tracing::debug!(%error, message, "message to the service manager failed");
        }
        sent.is_ok()
    }
}

fn socket_address(address: &OsStr) -> io::Result<SocketAddr> {
    match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(Path::new(address)),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "expected an absolute path, or @ and the name of an abstract socket",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 1024];
        let length = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    fn environment(socket: &str, watchdog: Option<&str>, pid: Option<&str>) -> NotifyEnvironment {
        NotifyEnvironment {
            socket: Some(socket.into()),
            watchdog: watchdog.map(Into::into),
            watchdog_pid: pid.map(Into::into),
        }
    }

    #[test]
    fn every_message_is_one_datagram_to_a_path_or_an_abstract_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("pinfold-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).expect("a name");
        for (listener, address) in [
            (UnixDatagram::bind(&path), path.display().to_string()),
            (
                UnixDatagram::bind_addr(&abstract_address),
                format!("@{name}"),
            ),
        ] {
            let listener = listener.expect("a socket");
            let environment = environment(&address, Some("2000000"), None);
            let manager = ServiceManager::connect(&environment).expect("connected");
            let manager = manager.expect("a service manager");
            assert_eq!(manager.watchdog(), Some(Duration::from_secs(2)));
            assert!(manager.ready());
            manager.status("not ready:\nno runtime");
            manager.alive();
            manager.stopping();
            let messages = [(); 4].map(|()| received(&listener));
            assert_eq!(
                messages,
                [
                    "READY=1",
                    "STATUS=not ready:; no runtime",
                    "WATCHDOG=1",
                    "STOPPING=1"
                ]
            );
        }
    }

    #[test]
    fn without_a_socket_there_is_no_service_manager_and_a_wrong_one_is_an_error() {
        let none = ServiceManager::connect(&NotifyEnvironment::default());
        assert!(none.expect("no error").is_none());
        for wrong in ["relative/path", "/nowhere/notify", "@"] {
            let wrong = ServiceManager::connect(&environment(wrong, None, None));
            assert!(wrong.is_err());
        }
    }

    #[test]
    fn the_watchdog_is_off_for_another_process_or_a_malformed_time() {
        let own = std::process::id().to_string();
        for (time, pid, expected) in [
            (Some("1000000"), Some(own.as_str()), true),
            (Some("1000000"), Some("1"), false),
            (Some("0"), None, false),
            (Some("soon"), None, false),
            (None, None, false),
        ] {
            let found = environment("/x", time, pid).watchdog_time();
            assert_eq!(found.is_some(), expected, "{time:?} {pid:?}");
        }
    }
}
