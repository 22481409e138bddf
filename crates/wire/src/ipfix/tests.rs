//! Messages, read back by a decoder of their own.

use proptest::prelude::*;

use super::decoder::Collector;
use super::*;

const ONE: Template = Template {
    id: 256,
    scope: 0,
    elements: &[element::SOURCE_IP4, element::OCTETS, element::OCTETS.reverse(), element::PROTOCOL],
};
const OTHER: Template = Template {
    id: 300,
    scope: 1,
    elements: &[element::EXPORTING_PROCESS, element::NOT_SENT_FLOWS],
};

#[test]
fn a_message_is_laid_out_as_rfc_7011_says() {
    let mut message = Message::new(LEAST);
    assert!(message.is_empty());
    assert!(message.template(&ONE));
    assert!(message.record(&ONE, |fields| {
        fields.bytes([192, 0, 2, 1]);
        fields.u64(1_000);
        fields.u64(2);
        fields.u8(6);
    }));
    let bytes = message.finish(0x0102_0304, 7, 9).to_vec();
    let expected: [&[u8]; 9] = [
        &[0, 10, 0, 69, 1, 2, 3, 4, 0, 0, 0, 7, 0, 0, 0, 9],
        &[0, 2, 0, 28, 1, 0, 0, 4],
        &[0, 8, 0, 4, 0, 1, 0, 8, 0x80, 1, 0, 8, 0, 0, 0x72, 0x79, 0, 4, 0, 1],
        &[1, 0, 0, 25],
        &[192, 0, 2, 1],
        &[0, 0, 0, 0, 0, 0, 3, 232],
        &[0, 0, 0, 0, 0, 0, 0, 2],
        &[6],
        &[],
    ];
    assert_eq!(bytes, expected.concat());
    assert_eq!((ONE.length(), ONE.record_length()), (24, 21));
    message.clear();
    assert!(message.is_empty() && message.records() == 0);
}

#[test]
fn a_full_message_takes_no_more() {
    let mut message = Message::new(LEAST);
    let write = |fields: &mut Fields<'_>| {
        fields.u32(1);
        fields.u64(2);
    };
    let mut records = 0;
    while message.record(&OTHER, write) {
        records += 1;
    }
    assert_eq!(records, (LEAST - HEADER - SET_HEADER) / OTHER.record_length());
    assert!(!message.template(&ONE));
    assert_eq!(message.records() as usize, records);
    assert!(message.finish(0, 0, 0).len() <= LEAST);
}

proptest! {
    /// What is written is what an independent decoder reads, whatever sets follow each other.
    #[test]
    fn messages_are_decoded(
        values in prop::collection::vec((any::<bool>(), any::<u32>(), any::<u64>()), 0..80),
        size in LEAST..4_000,
        (time, sequence, domain) in any::<(u32, u32, u32)>(),
    ) {
        let (mut message, mut collector) = (Message::new(size), Collector::default());
        prop_assert!(message.template(&ONE) && message.template(&OTHER));
        let decoded = collector.decode(message.finish(time, sequence, domain));
        prop_assert_eq!(&decoded.templates, &[256, 300]);
        message.clear();
        let mut written = Vec::new();
        for (is_one, word, long) in values {
            let is_written = match is_one {
                true => message.record(&ONE, |fields| {
                    fields.u32(word);
                    fields.u64(long);
                    fields.u64(!long);
                    fields.u8(word as u8);
                }),
                false => message.record(&OTHER, |fields| {
                    fields.u32(word);
                    fields.u64(long);
                }),
            };
            if is_written {
                written.push((is_one, word, long));
            }
        }
        let records = message.records();
        let mut bytes = message.finish(time, sequence, domain).to_vec();
        prop_assert!(bytes.len() <= size);
        set_sequence(&mut bytes, !sequence);
        let decoded = collector.decode(&bytes);
        let header = (decoded.time, decoded.sequence, decoded.domain);
        prop_assert_eq!(header, (time, !sequence, domain));
        prop_assert_eq!(decoded.records.len(), records as usize);
        for ((id, values), (is_one, word, long)) in decoded.records.iter().zip(written) {
            let of = |enterprise, id| values.get(&(enterprise, id)).cloned().unwrap_or_default();
            if is_one {
                prop_assert_eq!(*id, 256);
                prop_assert_eq!(of(0, 8), word.to_be_bytes());
                prop_assert_eq!(of(0, 1), long.to_be_bytes());
                prop_assert_eq!(of(29_305, 1), (!long).to_be_bytes());
                prop_assert_eq!(of(0, 4), [word as u8]);
            } else {
                prop_assert_eq!(*id, 300);
                prop_assert_eq!(of(0, 144), word.to_be_bytes());
                prop_assert_eq!(of(0, 166), long.to_be_bytes());
            }
        }
    }
}
