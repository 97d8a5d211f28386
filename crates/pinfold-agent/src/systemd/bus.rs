//! One call over a D-Bus bus: connects, authenticates as this process's user, calls, and waits for the answer.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use super::wire::{self, BusError, Call, FIXED_BYTES, MessageKind};

/// Longest line of the authentication.
const MAX_LINE: usize = 1024;
/// Messages that may arrive before the answer: signals to all clients.
const MAX_MESSAGES: usize = 64;

/// Makes `call` on the bus at `socket`. Returns the error of the called program inside the result.
///
/// # Errors
/// If the bus cannot be reached, violates the protocol, or does not answer within `timeout`.
pub(super) fn call(
    socket: &Path,
    call: &Call<'_>,
    timeout: Duration,
) -> io::Result<Result<(), BusError>> {
    let deadline = Instant::now() + timeout;
    let mut connection = Connection {
        stream: connect(socket, deadline)?,
        deadline,
    };
    connection.authenticate()?;
    connection.write(&Call::Hello.encode(1))?;
    if let Err(error) = connection.answer(1)? {
        return Ok(Err(error));
    }
    connection.write(&call.encode(2))?;
    connection.answer(2)
}

/// Connects to a Unix socket. If too many clients wait there already, connecting waits as sending does.
fn connect(path: &Path, deadline: Instant) -> io::Result<UnixStream> {
    let address = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    loop {
        socket.set_write_timeout(Some(time_until(deadline)?))?;
        match socket.connect(&address) {
            Ok(()) => return Ok(OwnedFd::from(socket).into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(in_time(error)),
        }
    }
}

struct Connection {
    stream: UnixStream,
    deadline: Instant,
}

impl Connection {
    fn authenticate(&mut self) -> io::Result<()> {
        let user = rustix::process::geteuid().as_raw().to_string();
        let user: String = user.bytes().map(|byte| format!("{byte:02x}")).collect();
        self.write(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
        let line = self.line()?;
        if !line.starts_with("OK ") {
            let problem = format!("authentication failed: {}", line.escape_debug());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
        self.write(b"BEGIN\r\n")
    }

    /// Reads a line of the authentication. The server sends nothing after it until it gets `BEGIN`.
    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.read(&mut byte)?;
            line.extend(byte);
            if line.len() > MAX_LINE {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Waits for the answer to the call with this serial number.
    fn answer(&mut self, serial: u32) -> io::Result<Result<(), BusError>> {
        for _ in 0..MAX_MESSAGES {
            let mut fixed = [0; FIXED_BYTES];
            self.read(&mut fixed)?;
            let mut message = fixed.to_vec();
            message.resize(FIXED_BYTES + wire::rest_length(&fixed)?, 0);
            self.read(&mut message[FIXED_BYTES..])?;
            let message = wire::decode(&message)?;
            match message.kind {
                MessageKind::Answer if message.answers == Some(serial) => return Ok(Ok(())),
                MessageKind::Error(error) if message.answers == Some(serial) => {
                    return Ok(Err(error));
                }
                _ => {}
            }
        }
        let problem = format!("no answer among the first {MAX_MESSAGES} messages");
        Err(io::Error::new(io::ErrorKind::InvalidData, problem))
    }

    fn read(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_read_timeout(Some(self.time_left()?))?;
            match self.stream.read(bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => bytes = &mut bytes[read..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(in_time(error)),
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(self.time_left()?))?;
        self.stream.write_all(bytes).map_err(in_time)
    }

    fn time_left(&self) -> io::Result<Duration> {
        time_until(self.deadline)
    }
}

fn time_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(timed_out()),
        false => Ok(left),
    }
}

/// The kernel reports an expired socket timeout as an operation that would block.
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => timed_out(),
        _ => error,
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}
