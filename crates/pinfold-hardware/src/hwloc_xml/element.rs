//! A size-limited XML parser that builds a tree of elements.

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use crate::error::{HardwareError, excerpt};

/// Limit of nested elements; hwloc's objects nest about 20 deep.
const DEEPEST: usize = 256;
/// Limit of elements; 4096 CPUs with caches and infos need about 100,000.
const MOST_ELEMENTS: usize = 1 << 18;
const LARGEST: usize = 64 << 20;

/// One XML element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct XmlElement {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<XmlElement>,
    pub(super) text: String,
}

impl XmlElement {
    /// The value of an attribute.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a numeric attribute.
    pub(super) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.trim().parse().ok()
    }
}

/// Parses a document whose root is `topology`.
pub(super) fn parse(xml: &str) -> Result<XmlElement, HardwareError> {
    limit("bytes of XML", xml.len(), LARGEST)?;
    let mut reader = Reader::from_str(xml);
    let mut open = Vec::<XmlElement>::new();
    let mut count = 0_usize;
    loop {
        let position = reader.buffer_position();
        let wrong = |problem: String| HardwareError::Xml { position, problem };
        let event = reader
            .read_event()
            .map_err(|error| wrong(error.to_string()))?;
        let closed = match event {
            Event::Start(start) => {
                open.push(element(&start).map_err(wrong)?);
                None
            }
            Event::Empty(start) => Some(element(&start).map_err(wrong)?),
            Event::End(_) => open.pop(),
            Event::Text(text) => {
                if let Some(element) = open.last_mut() {
                    element
                        .text
                        .push_str(&text.xml_content(XmlVersion::Implicit1_0));
                }
                None
            }
            Event::Eof => return Err(wrong("the text ends before </topology>".to_owned())),
            _ => None,
        };
        if let Some(element) = closed {
            count += 1;
            match open.last_mut() {
                Some(parent) => parent.children.push(element),
                None if element.name == "topology" => return Ok(element),
                None => {
                    let found = excerpt(&element.name);
                    return Err(wrong(format!("expected <topology>, found <{found}>")));
                }
            }
        }
        limit("levels of nested XML", open.len(), DEEPEST)?;
        limit("XML elements", count, MOST_ELEMENTS)?;
    }
}

fn element(start: &BytesStart<'_>) -> Result<XmlElement, String> {
    let mut element = XmlElement {
        name: start.name().as_ref().to_owned(),
        ..XmlElement::default()
    };
    for attribute in start.attributes().with_checks(false) {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|error| error.to_string())?;
        element
            .attributes
            .push((attribute.key.as_ref().to_owned(), value.into_owned()));
    }
    Ok(element)
}

fn limit(what: &'static str, found: usize, limit: usize) -> Result<(), HardwareError> {
    if found <= limit {
        return Ok(());
    }
    Err(HardwareError::TooMuch {
        what,
        found: found as u64,
        limit: limit as u64,
    })
}
