//! D-Bus messages: writes the two calls that the agent makes, and reads their answers. The format is in the D-Bus
//! specification, section "Message Protocol".

use std::io;

/// A method call.
pub(super) enum Call<'a> {
    /// The first call on a bus.
    Hello,
    /// `SetUnitProperties` of systemd's manager, until the next boot.
    SetUnitProperties {
        unit: &'a str,
        properties: &'a [Property],
    },
}

/// A property of a unit.
pub(super) struct Property {
    pub(super) name: &'static str,
    pub(super) value: PropertyValue,
}

/// The value of a property.
pub(super) enum PropertyValue {
    /// Type `t`.
    Number(u64),
    /// Type `ay`.
    Bytes(Vec<u8>),
}

/// A message from the bus.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: MessageKind,
    /// Serial number of the call that it answers.
    pub(super) answers: Option<u32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    Answer,
    Error(BusError),
    /// A signal or a call, which the agent ignores.
    Other,
}

/// An error that the called program returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BusError {
    pub(super) name: String,
    pub(super) message: String,
}

/// Bytes of a message before its header fields.
pub(super) const FIXED_BYTES: usize = 16;
/// Longest answer that is read. Those that the agent expects have less than 1 KiB.
const MAX_BYTES: usize = 64 << 10;

const LITTLE_ENDIAN: u8 = b'l';
const PROTOCOL: u8 = 1;

mod message_type {
    pub(super) const CALL: u8 = 1;
    pub(super) const ANSWER: u8 = 2;
    pub(super) const ERROR: u8 = 3;
}

mod header_field {
    pub(super) const PATH: u8 = 1;
    pub(super) const INTERFACE: u8 = 2;
    pub(super) const MEMBER: u8 = 3;
    pub(super) const ERROR_NAME: u8 = 4;
    pub(super) const ANSWERED_SERIAL: u8 = 5;
    pub(super) const DESTINATION: u8 = 6;
    pub(super) const SIGNATURE: u8 = 8;
}

impl Call<'_> {
    /// The message of this call.
    pub(super) fn encode(&self, serial: u32) -> Vec<u8> {
        let (destination, path, interface, member, signature) = match self {
            Call::Hello => (
                "org.freedesktop.DBus",
                "/org/freedesktop/DBus",
                "org.freedesktop.DBus",
                "Hello",
                "",
            ),
            Call::SetUnitProperties { .. } => (
                "org.freedesktop.systemd1",
                "/org/freedesktop/systemd1",
                "org.freedesktop.systemd1.Manager",
                "SetUnitProperties",
                "sba(sv)",
            ),
        };
        let mut fields = Encoder::default();
        for (code, kind, text) in [
            (header_field::PATH, "o", path),
            (header_field::INTERFACE, "s", interface),
            (header_field::MEMBER, "s", member),
            (header_field::DESTINATION, "s", destination),
        ] {
            fields.align(8);
            fields.bytes.push(code);
            fields.signature(kind);
            fields.text(text);
        }
        if !signature.is_empty() {
            fields.align(8);
            fields.bytes.push(header_field::SIGNATURE);
            fields.signature("g");
            fields.signature(signature);
        }
        let body = self.body();
        let mut message = Encoder::default();
        let flags = 0;
        message
            .bytes
            .extend([LITTLE_ENDIAN, message_type::CALL, flags, PROTOCOL]);
        message.length(body.len());
        message.number(serial);
        message.length(fields.bytes.len());
        message.bytes.extend(fields.bytes);
        message.align(8);
        message.bytes.extend(body);
        message.bytes
    }

    fn body(&self) -> Vec<u8> {
        let mut body = Encoder::default();
        if let Call::SetUnitProperties { unit, properties } = self {
            body.text(unit);
            let until_next_boot = 1;
            body.number(until_next_boot);
            body.array(8, |array| {
                for property in *properties {
                    array.align(8);
                    array.text(property.name);
                    match &property.value {
                        PropertyValue::Number(number) => {
                            array.signature("t");
                            array.align(8);
                            array.bytes.extend(number.to_le_bytes());
                        }
                        PropertyValue::Bytes(bytes) => {
                            array.signature("ay");
                            array.array(1, |array| array.bytes.extend(bytes));
                        }
                    }
                }
            });
        }
        body.bytes
    }
}

/// Writes values, each aligned to its size from the start of the message or body.
#[derive(Default)]
struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.bytes.extend(number.to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        self.number(u32::try_from(length).unwrap_or(u32::MAX));
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
    }

    fn signature(&mut self, signature: &str) {
        self.bytes.push(u8::try_from(signature.len()).unwrap_or(0));
        self.bytes.extend(signature.as_bytes());
        self.bytes.push(0);
    }

    /// An array: its length does not count the padding before its first element.
    fn array(&mut self, alignment: usize, elements: impl FnOnce(&mut Self)) {
        self.number(0);
        let length_at = self.bytes.len() - 4;
        self.align(alignment);
        let start = self.bytes.len();
        elements(self);
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// Bytes of a message after its fixed part: header fields and body.
///
/// # Errors
/// If it is no message, or too long.
pub(super) fn rest_length(fixed: &[u8; FIXED_BYTES]) -> io::Result<usize> {
    let mut decoder = Decoder {
        bytes: fixed,
        at: 0,
    };
    let found = (|| {
        let is_known = decoder.byte()? == LITTLE_ENDIAN;
        decoder.at = 4;
        let body = decoder.length()?;
        decoder.at = 12;
        let fields = decoder.length()?.next_multiple_of(8);
        let rest = body.checked_add(fields)?;
        (is_known && rest <= MAX_BYTES).then_some(rest)
    })();
    found.ok_or_else(|| malformed("expected a little-endian message of at most 64 KiB"))
}

/// Reads a message.
///
/// # Errors
/// If it is malformed.
pub(super) fn decode(bytes: &[u8]) -> io::Result<Message> {
    Decoder { bytes, at: 0 }
        .message()
        .ok_or_else(|| malformed("a header field or the body ends early or has an unknown type"))
}

fn malformed(problem: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("malformed D-Bus message: {problem}"),
    )
}

/// Reads values; `None` where the bytes end or have another type.
struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u32> {
        self.at = self.at.next_multiple_of(4);
        let bytes = self.take(4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    fn length(&mut self) -> Option<usize> {
        let length = usize::try_from(self.number()?).ok()?;
        (length <= MAX_BYTES).then_some(length)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.length()?;
        let text = self.take(length)?;
        self.take(1)?;
        std::str::from_utf8(text).ok()
    }

    fn signature(&mut self) -> Option<&'a str> {
        let length = usize::from(self.byte()?);
        let text = self.take(length)?;
        self.take(1)?;
        std::str::from_utf8(text).ok()
    }

    fn message(&mut self) -> Option<Message> {
        let kind = *self.bytes.get(1)?;
        self.at = 12;
        let fields_length = self.length()?;
        let fields_end = self.at.checked_add(fields_length)?;
        let (mut answers, mut error_name, mut body_signature) = (None, "", "");
        while self.at < fields_end {
            self.at = self.at.next_multiple_of(8);
            let code = self.byte()?;
            match (code, self.signature()?) {
                (header_field::ANSWERED_SERIAL, "u") => answers = Some(self.number()?),
                (header_field::ERROR_NAME, "s") => error_name = self.text()?,
                (header_field::SIGNATURE, "g") => body_signature = self.signature()?,
                (_, "s" | "o") => drop(self.text()?),
                (_, "g") => drop(self.signature()?),
                (_, "u") => drop(self.number()?),
                _ => return None,
            }
        }
        let kind = match kind {
            message_type::ANSWER => MessageKind::Answer,
            message_type::ERROR => {
                self.at = fields_end.next_multiple_of(8);
                let message = match body_signature.starts_with('s') {
                    true => self.text()?,
                    false => "",
                };
                MessageKind::Error(BusError {
                    name: error_name.to_owned(),
                    message: message.to_owned(),
                })
            }
            _ => MessageKind::Other,
        };
        Some(Message { kind, answers })
    }
}
