use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread;

use socket2::{Domain, SockAddr, Socket, Type};

use super::wire::BusError;
use super::*;

/// Properties that remove a CPU quota.
fn lift_quota() -> UnitProperties {
    UnitProperties {
        cpu_quota: Some(CpuTimeLimit::UNLIMITED),
        ..UnitProperties::default()
    }
}

/// What a played bus does with the call.
#[derive(Clone)]
enum Behaviour {
    /// Answers after a signal to all clients.
    Answers,
    /// Returns an error of this name.
    Fails(&'static str),
    /// Never answers.
    Silent,
    /// Closes the connection during the authentication.
    Closes,
    /// Sends these bytes as its answer.
    Garbage(Vec<u8>),
}

/// A bus on a socket that serves one connection, and returns the body of the call that it got.
fn played_bus(folder: &Path, behaviour: Behaviour) -> (SystemBus, thread::JoinHandle<Vec<u8>>) {
    let socket = folder.join("bus");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let served = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        serve(&mut client, &behaviour)
    });
    let mut bus = SystemBus::new(&socket);
    // The machine may be busy.
    bus.timeout = Duration::from_secs(60);
    (bus, served)
}

fn serve(client: &mut UnixStream, behaviour: &Behaviour) -> Vec<u8> {
    let auth = read_line(client);
    assert!(auth.starts_with("\0AUTH EXTERNAL 3"), "{auth:?}");
    if matches!(behaviour, Behaviour::Closes) {
        return Vec::new();
    }
    client.write_all(b"OK 0123\r\n").expect("sent");
    assert_eq!(read_line(client), "BEGIN\r\n");
    let hello = read_message(client);
    assert_eq!(serial(&hello), 1);
    let signal = answer(4, None, None);
    client.write_all(&signal).expect("sent");
    client.write_all(&answer(2, Some(1), None)).expect("sent");
    let call = read_message(client);
    assert_eq!(serial(&call), 2);
    let sent = match behaviour {
        Behaviour::Answers => [signal, answer(2, Some(2), None)].concat(),
        Behaviour::Fails(name) => answer(3, Some(2), Some(name)),
        Behaviour::Garbage(bytes) => bytes.clone(),
        Behaviour::Silent | Behaviour::Closes => Vec::new(),
    };
    client.write_all(&sent).expect("sent");
    if matches!(behaviour, Behaviour::Silent) {
        // Until the client gives up.
        let _ = client.read(&mut [0]);
    }
    call
}

fn read_line(client: &mut UnixStream) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("a line");
        line.extend(byte);
    }
    String::from_utf8(line).expect("text")
}

fn read_message(client: &mut UnixStream) -> Vec<u8> {
    let mut fixed = [0; wire::FIXED_BYTES];
    client.read_exact(&mut fixed).expect("a message");
    let mut rest = vec![0; wire::rest_length(&fixed).expect("a length")];
    client.read_exact(&mut rest).expect("a message");
    [fixed.as_slice(), &rest].concat()
}

fn serial(message: &[u8]) -> u32 {
    u32::from_le_bytes(message[8..12].try_into().expect("four bytes"))
}

/// A message of the bus, written by hand: with the serial number that it answers, or an error with the message "why".
fn answer(kind: u8, answers: Option<u32>, error: Option<&str>) -> Vec<u8> {
    let mut fields = Vec::new();
    if let Some(serial) = answers {
        fields.extend([5, 1, b'u', 0]);
        fields.extend(serial.to_le_bytes());
    }
    let mut body = Vec::new();
    if let Some(name) = error {
        fields.extend([4, 1, b's', 0]);
        fields.extend(u32::try_from(name.len()).expect("short").to_le_bytes());
        fields.extend(name.as_bytes());
        fields.push(0);
        fields.resize(fields.len().next_multiple_of(8), 0);
        fields.extend([8, 1, b'g', 0, 1, b's', 0]);
        body.extend([3, 0, 0, 0]);
        body.extend(b"why\0");
    }
    let mut message = vec![b'l', kind, 0, 1];
    message.extend(u32::try_from(body.len()).expect("short").to_le_bytes());
    message.extend(7_u32.to_le_bytes());
    message.extend(u32::try_from(fields.len()).expect("short").to_le_bytes());
    message.extend(fields);
    message.resize(message.len().next_multiple_of(8), 0);
    message.extend(body);
    message
}

#[test]
fn a_call_has_the_unit_and_its_properties_as_systemd_reads_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (bus, served) = played_bus(folder.path(), Behaviour::Answers);
    let properties = UnitProperties {
        allowed_cpus: Some("1,8-9".parse().expect("CPUs")),
        ..lift_quota()
    };
    let set = bus.set_properties("kubepods-pod1.slice", &properties);
    set.expect("an answer");
    let call = served.join().expect("served");
    let fields = u32::from_le_bytes(call[12..16].try_into().expect("four bytes"));
    let body_at = (16 + usize::try_from(fields).expect("short")).next_multiple_of(8);
    let mut expected = vec![19, 0, 0, 0];
    expected.extend(b"kubepods-pod1.slice\0");
    // A boolean, the length of the array, and padding to its first structure.
    expected.extend([1, 0, 0, 0, 72, 0, 0, 0]);
    expected.extend([0; 4].iter().take((8 - expected.len() % 8) % 8));
    let array_at = expected.len();
    expected.extend([11, 0, 0, 0]);
    expected.extend(b"AllowedCPUs\0\x02ay\0");
    expected.extend([0; 4].iter().take((4 - expected.len() % 4) % 4));
    expected.extend([2, 0, 0, 0, 0b10, 0b11]);
    expected.extend([0; 8].iter().take((8 - expected.len() % 8) % 8));
    expected.extend([18, 0, 0, 0]);
    expected.extend(b"CPUQuotaPerSecUSec\0\x01t\0");
    expected.extend([0; 8].iter().take((8 - expected.len() % 8) % 8));
    expected.extend([0xff; 8]);
    assert_eq!(expected.len() - array_at, 72, "the length of the array");
    assert_eq!(&call[body_at..], expected);
    let header = String::from_utf8_lossy(&call[..body_at]).into_owned();
    for word in [
        "org.freedesktop.systemd1.Manager",
        "/org/freedesktop/systemd1",
        "SetUnitProperties",
        "sba(sv)",
    ] {
        assert!(header.contains(word), "{word}: {header:?}");
    }
}

#[test]
fn a_unit_that_ended_is_distinguished_from_other_errors() {
    for (name, ended) in [
        ("org.freedesktop.systemd1.NoSuchUnit", true),
        ("org.freedesktop.DBus.Error.AccessDenied", false),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (bus, served) = played_bus(folder.path(), Behaviour::Fails(name));
        let set = bus.set_properties("a.scope", &lift_quota());
        match (set, ended) {
            (Err(SystemdError::NoSuchUnit(unit)), true) => assert_eq!(unit, "a.scope"),
            (Err(SystemdError::Rejected { error, .. }), false) => {
                assert_eq!(error, format!("{name}: why"));
            }
            (other, _) => panic!("{other:?}"),
        }
        served.join().expect("served");
    }
}

#[test]
fn a_bus_that_is_silent_absent_or_closes_the_connection_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (bus, served) = played_bus(folder.path(), Behaviour::Closes);
    let set = bus.set_properties("a.scope", &lift_quota());
    assert!(matches!(set, Err(SystemdError::Bus { .. })), "{set:?}");
    served.join().expect("served");
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bus, served) = played_bus(folder.path(), Behaviour::Silent);
    bus.timeout = Duration::from_millis(300);
    let set = bus.set_properties("a.scope", &lift_quota());
    assert!(matches!(set, Err(SystemdError::Bus { .. })), "{set:?}");
    // On a busy machine the client gives up before its call.
    let _ = served.join();
    let folder = tempfile::tempdir().expect("a folder");
    let absent = SystemBus::new(&folder.path().join("absent"));
    let set = absent.set_properties("a.scope", &lift_quota());
    let error = set.expect_err("there is no bus").to_string();
    assert!(error.contains("mount the socket's directory"), "{error}");
}

#[test]
fn a_bus_to_which_too_many_clients_connect_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("bus");
    let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
    let address = SockAddr::unix(&socket).expect("an address");
    listener.bind(&address).expect("bound");
    listener.listen(0).expect("listening");
    // It is never accepted, and there is no room for a second one.
    let first = UnixStream::connect(&socket).expect("connected");
    let mut bus = SystemBus::new(&socket);
    bus.timeout = Duration::from_millis(50);
    let (answered, answer) = mpsc::channel();
    thread::spawn(move || answered.send(bus.set_properties("a.scope", &lift_quota())));
    let set = answer.recv_timeout(Duration::from_secs(60));
    let error = set.expect("an answer").expect_err("no bus");
    assert!(error.to_string().contains("no answer in time"), "{error}");
    drop((first, listener));
}

#[test]
fn malformed_answers_are_errors() {
    let good = answer(3, Some(2), Some("a.b"));
    let mut too_long = good.clone();
    too_long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut big_endian = good.clone();
    big_endian[0] = b'B';
    let mut fields_too_long = good.clone();
    fields_too_long[12] = fields_too_long[12].wrapping_add(64);
    for bytes in [too_long, big_endian, fields_too_long, vec![0; 200]] {
        let folder = tempfile::tempdir().expect("a folder");
        let (bus, served) = played_bus(folder.path(), Behaviour::Garbage(bytes));
        let set = bus.set_properties("a.scope", &lift_quota());
        assert!(matches!(set, Err(SystemdError::Bus { .. })), "{set:?}");
        served.join().expect("served");
    }
    // No prefix of a message, and no message with one changed byte, makes the reader panic.
    for end in 0..good.len() {
        let _ = wire::decode(&good[..end]);
        for byte in [0, 1, 0x7f, 0xff] {
            let mut changed = good.clone();
            changed[end] = byte;
            let _ = wire::decode(&changed);
        }
    }
    let read = wire::decode(&good).expect("a message");
    let expected = BusError {
        name: "a.b".to_owned(),
        message: "why".to_owned(),
    };
    assert_eq!(read.kind, wire::MessageKind::Error(expected));
}

#[test]
fn a_quota_is_the_cpu_time_per_second() {
    let limit = |quota, period| CpuTimeLimit { quota, period };
    assert_eq!(micros_per_second(limit(Some(200_000), 100_000)), 2_000_000);
    assert_eq!(micros_per_second(limit(Some(5_000), 20_000)), 250_000);
    assert_eq!(micros_per_second(limit(None, 100_000)), u64::MAX);
}
