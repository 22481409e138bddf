//! A collector of flow records for machines without nfdump: it receives IPFIX (RFC 7011) over UDP and reads translated
//! IPv4 flows.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// Lengths of the headers of a message, a set and a template.
const MESSAGE: usize = 16;
const SET: usize = 4;
const TEMPLATE: usize = 4;
/// The set with templates; data sets have the number of their template.
const TEMPLATES: u16 = 2;
const FIRST_DATA: u16 = 256;
/// The length of a field whose length stands before it.
const VARIABLE: u16 = u16::MAX;
/// The bit of an element that an enterprise has numbered, and the number of those of replies (RFC 5103).
const ENTERPRISE: u16 = 0x8000;
const REVERSE: u32 = 29_305;

/// A translated flow as its collector has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowRecord {
    /// Address and port of the host that has begun it, inside.
    pub inside: (Ipv4Addr, u16),
    /// The same outside.
    pub outside: (Ipv4Addr, u16),
    /// Address and port of the other end.
    pub remote: (Ipv4Addr, u16),
    /// Packets of both directions.
    pub packets: u64,
    /// Bytes of both directions.
    pub bytes: u64,
}

/// Templates by their number: element, number of the enterprise (0: none) and length of each field.
type Templates = BTreeMap<u16, Vec<(u16, u32, u16)>>;

/// Takes what has come to a socket, until nothing comes for a moment, and reads the records of translated flows.
pub(crate) fn receive(socket: &UdpSocket) -> std::io::Result<Vec<FlowRecord>> {
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let (mut templates, mut records, mut buffer) = (Templates::new(), Vec::new(), [0; 65_535]);
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                read_message(&buffer[..length], &mut templates, &mut records);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(records),
            Err(error) => return Err(error),
        }
    }
}

/// Reads a message as far as it is well-formed.
fn read_message(
    message: &[u8],
    templates: &mut Templates,
    records: &mut Vec<FlowRecord>,
) -> Option<()> {
    let mut rest = message.get(MESSAGE..)?;
    while rest.len() >= SET {
        let (id, length) = (number(rest, 0, 2)? as u16, number(rest, 2, 2)? as usize);
        let set = rest.get(SET..length)?;
        if id == TEMPLATES {
            read_templates(set, templates);
        } else if id >= FIRST_DATA
            && let Some(fields) = templates.get(&id)
        {
            let mut set = set;
            while let Some((values, after)) = read_fields(set, fields)
                && after.len() < set.len()
            {
                records.extend(record(&values));
                set = after;
            }
        }
        rest = rest.get(length..)?;
    }
    Some(())
}

fn read_templates(mut set: &[u8], templates: &mut Templates) -> Option<()> {
    while set.len() >= TEMPLATE {
        let (id, count) = (number(set, 0, 2)? as u16, number(set, 2, 2)?);
        set = set.get(TEMPLATE..)?;
        let mut fields = Vec::new();
        for _ in 0..count {
            let (element, length) = (number(set, 0, 2)? as u16, number(set, 2, 2)? as u16);
            let has_enterprise = element & ENTERPRISE != 0;
            let enterprise = if has_enterprise { number(set, 4, 4)? as u32 } else { 0 };
            fields.push((element & !ENTERPRISE, enterprise, length));
            set = set.get(if has_enterprise { 8 } else { 4 }..)?;
        }
        templates.insert(id, fields);
    }
    Some(())
}

/// The numbers of a record, by element and enterprise.
type Values = BTreeMap<(u16, u32), u64>;

/// The fields of a record, and what comes behind it. `None`: only padding is left.
fn read_fields<'a>(mut set: &'a [u8], fields: &[(u16, u32, u16)]) -> Option<(Values, &'a [u8])> {
    let mut values = BTreeMap::new();
    if fields.is_empty() {
        return None;
    }
    for &(element, enterprise, length) in fields {
        let (skipped, length) = match (length, set.first()) {
            (VARIABLE, Some(&u8::MAX)) => (3, number(set, 1, 2)? as usize),
            (VARIABLE, Some(&short)) => (1, usize::from(short)),
            (length, _) => (0, usize::from(length)),
        };
        let value = set.get(skipped..skipped + length)?;
        if length <= 8 {
            values.insert((element, enterprise), number(value, 0, length)?);
        }
        set = set.get(skipped + length..)?;
    }
    Some((values, set))
}

/// A number of so many bytes, the most significant first.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + length)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// A record of a translated flow; the numbers are those of IANA's registry of IPFIX elements.
fn record(values: &BTreeMap<(u16, u32), u64>) -> Option<FlowRecord> {
    let of = |element: u16| values.get(&(element, 0)).copied();
    let end = |address: u16, port: u16| {
        Some((Ipv4Addr::from(of(address)? as u32), of(port).unwrap_or(0) as u16))
    };
    let both =
        |element: u16| Some(of(element)? + values.get(&(element, REVERSE)).copied().unwrap_or(0));
    Some(FlowRecord {
        inside: end(8, 7)?,
        outside: end(225, 227)?,
        remote: end(12, 11)?,
        packets: both(2)?,
        bytes: both(1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set with its header.
    fn set(id: u16, content: &[u8]) -> Vec<u8> {
        let length = (SET + content.len()) as u16;
        [&id.to_be_bytes()[..], &length.to_be_bytes(), content].concat()
    }

    fn words(all: &[u16]) -> Vec<u8> {
        all.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn records_are_read_by_their_template() {
        let mut template = words(&[300, 11, 8, 4, 7, 2, 12, 4, 11, 2, 225, 4, 227, 2, 2, 8, 1, 8]);
        template.extend(words(&[82, VARIABLE, ENTERPRISE | 2, 4]));
        template.extend(REVERSE.to_be_bytes());
        template.extend(words(&[ENTERPRISE | 1, 4]));
        template.extend(REVERSE.to_be_bytes());
        let mut data = [&[10, 0, 0, 7][..], &5_000_u16.to_be_bytes(), &[192, 0, 2, 1]].concat();
        data.extend(
            [&443_u16.to_be_bytes()[..], &[203, 0, 113, 9], &6_000_u16.to_be_bytes()].concat(),
        );
        data.extend([&3_u64.to_be_bytes()[..], &300_u64.to_be_bytes(), b"\x03wan"].concat());
        data.extend([2_u32.to_be_bytes(), 200_u32.to_be_bytes()].concat());
        // Two bytes of padding.
        let twice = [&data[..], &data, &[0, 0]].concat();
        let message = [vec![0; MESSAGE], set(TEMPLATES, &template), set(300, &twice)].concat();
        let (mut templates, mut records) = (Templates::new(), Vec::new());
        assert_eq!(read_message(&message, &mut templates, &mut records), Some(()));
        let expected = FlowRecord {
            inside: (Ipv4Addr::new(10, 0, 0, 7), 5_000),
            outside: (Ipv4Addr::new(203, 0, 113, 9), 6_000),
            remote: (Ipv4Addr::new(192, 0, 2, 1), 443),
            packets: 5,
            bytes: 500,
        };
        assert_eq!(records, [expected, expected]);
        // What is cut, and data without a template, is no record, and no harm.
        for length in 0..message.len() {
            records.clear();
            read_message(&message[..length], &mut Templates::new(), &mut records);
            assert!(records.is_empty(), "{length}: {records:?}");
        }
    }
}
