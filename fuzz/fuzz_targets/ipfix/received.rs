//! What the collector gets, as NetGauze reads it.

use std::io::ErrorKind;
use std::net::UdpSocket;

use netgauze_flow_pkt::ie::Field;
use netgauze_flow_pkt::ipfix::{DataRecord, DecodingTemplate, IpfixPacket, Set, TemplatesMap};
use netgauze_parse_utils::reader::SliceReader;
use netgauze_parse_utils::traits::ParseFromWithOneInput;
use stoa_forwarder::ipfix::Settings;
use stoa_wire::ipfix::{HEADER, SET_HEADER};

/// The scope and the other fields of a record. Their order is that of the template, which is free.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    scope: Vec<Field>,
    fields: Vec<Field>,
}

impl Decoded {
    pub fn new(scope: Vec<Field>, mut fields: Vec<Field>) -> Self {
        fields.sort();
        Self { scope, fields }
    }

    /// Whether it is the record of a flow: neither an event nor a refused packet has the reason of its end.
    fn is_flow(&self) -> bool {
        self.fields.iter().any(|it| matches!(it, Field::flowEndReason(_)))
    }
}

impl From<DataRecord> for Decoded {
    fn from(record: DataRecord) -> Self {
        let (scope, fields) = record.into_parts();
        Self::new(scope.into(), fields.into())
    }
}

/// A stream of messages.
pub struct Received {
    size: usize,
    domain: u32,
    seconds: u32,
    templates: TemplatesMap,
    /// Messages, records of flows and bytes; and the same of the last message.
    counts: [[u64; 3]; 2],
    pub records: Vec<Decoded>,
}

impl Received {
    pub fn new(settings: &Settings, seconds: u32) -> Self {
        let (size, domain) = (settings.message_size, settings.domain);
        let (templates, records) = (TemplatesMap::new(), Vec::new());
        Self { size, domain, seconds, templates, counts: [[0; 3]; 2], records }
    }

    /// How many templates there are.
    pub fn templates(&self) -> usize {
        self.templates.len()
    }

    /// Messages, records of flows and bytes before the last message.
    pub fn before_last(&self) -> [u64; 3] {
        let [all, last] = self.counts;
        std::array::from_fn(|at| all[at] - last[at])
    }

    /// Reads all messages that have come.
    pub fn take(&mut self, collector: &UdpSocket) {
        let mut bytes = [0; 1 << 16];
        loop {
            match collector.recv(&mut bytes) {
                Ok(length) => self.message(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn message(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.size, "{} bytes", bytes.len());
        let mut reader = SliceReader::new(bytes);
        let packet = IpfixPacket::parse(&mut reader, &mut self.templates).expect("a right message");
        assert!(reader.is_empty(), "{} bytes are left", reader.remaining());
        assert_eq!(packet.observation_domain_id(), self.domain);
        assert_eq!(packet.export_time().timestamp(), i64::from(self.seconds));
        assert_eq!(packet.sequence_number() as usize, self.records.len());
        let before = self.records.len();
        let mut length = HEADER;
        for set in packet.into_sets() {
            let Set::Data { id, records } = set else { continue };
            // NetGauze takes any rest of a set for padding.
            length += SET_HEADER + records.len() * record_length(&self.templates[&id.id()]);
            self.records.extend(records.into_iter().map(Decoded::from));
        }
        let records = self.records.len() - before;
        assert!(records == 0 || length == bytes.len(), "{length} of {} bytes", bytes.len());
        let flows = self.records.iter().skip(before).filter(|it| it.is_flow()).count();
        self.counts[1] = [1, flows as u64, bytes.len() as u64];
        let [all, last] = &mut self.counts;
        all.iter_mut().zip(last).for_each(|(all, last)| *all += *last);
    }
}

fn record_length(template: &DecodingTemplate) -> usize {
    let fields = template.scope_fields_specs.iter().chain(&template.fields_specs);
    fields.map(|it| usize::from(it.length())).sum()
}
