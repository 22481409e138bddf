//! memif control messages: 128 bytes each, in the order of the host, as memif 2.0
//! lays them out. Whatever bytes come in, decoding answers with a message or an error.

/// Bytes of every message.
pub const SIZE: usize = 128;
/// The protocol's version, 2.0.
pub const VERSION: u16 = 0x0200;
/// Bytes of a secret.
pub const SECRET: usize = 24;
/// Bytes of a name.
const NAME: usize = 32;
/// Bytes of the reason of a disconnect.
const REASON: usize = 96;

/// A control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The last message was understood.
    Ack,
    /// The master greets.
    Hello(Hello),
    /// The slave identifies itself.
    Init(Init),
    /// The slave shares memory; the file comes with the message.
    AddRegion {
        /// Number of the region, from 0.
        index: u16,
        /// Bytes.
        size: u64,
    },
    /// The slave describes a ring; its eventfd comes with the message.
    AddRing(AddRing),
    /// The slave is done.
    Connect {
        /// The slave's name for its interface.
        name: String,
    },
    /// The master uses the rings from now on.
    Connected {
        /// The master's name for its interface.
        name: String,
    },
    /// The link ends.
    Disconnect {
        /// A number of the peer's own.
        code: u32,
        /// Why.
        reason: String,
    },
}

/// What a master can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The program.
    pub name: String,
    /// Oldest version it supports.
    pub version_min: u16,
    /// Newest version it supports.
    pub version_max: u16,
    /// Highest region number.
    pub region_max: u16,
    /// Highest number of a ring from master to slave.
    pub m2s_max: u16,
    /// Highest number of a ring from slave to master.
    pub s2m_max: u16,
    /// Logarithm of the most descriptors of a ring.
    pub log2_size_max: u8,
}

/// The slave's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// The version it supports.
    pub version: u16,
    /// The id of the requested link.
    pub id: u32,
    /// 0 Ethernet, 1 IP, 2 punt and inject.
    pub mode: u8,
    /// The shared secret, filled with zeros.
    pub secret: [u8; SECRET],
    /// The program.
    pub name: String,
}

/// A ring in a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddRing {
    /// From slave to master; else from master to slave.
    pub s2m: bool,
    /// Number of the ring in its direction, from 0.
    pub index: u16,
    /// The region that it lies in.
    pub region: u16,
    /// Bytes from the start of the region.
    pub offset: u32,
    /// Logarithm of the descriptors.
    pub log2_size: u8,
    /// Bytes of private header, which we do not use.
    pub private_header: u16,
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A message has another size.
    #[error("a control message of {0} bytes in place of 128")]
    Size(usize),
    /// A type that memif 2.0 does not have.
    #[error("a control message of unknown type {0}")]
    Type(u16),
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// Another size than 128 bytes, or an unknown type.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let bytes: &[u8; SIZE] = bytes.try_into().map_err(|_| MessageError::Size(bytes.len()))?;
        let mut from = Reader { bytes, at: 0 };
        Ok(match from.u16() {
            1 => Self::Ack,
            2 => Self::Hello(Hello {
                name: from.text::<NAME>(),
                version_min: from.u16(),
                version_max: from.u16(),
                region_max: from.u16(),
                m2s_max: from.u16(),
                s2m_max: from.u16(),
                log2_size_max: from.u8(),
            }),
            3 => Self::Init(Init {
                version: from.u16(),
                id: from.u32(),
                mode: from.u8(),
                secret: from.take(),
                name: from.text::<NAME>(),
            }),
            4 => Self::AddRegion { index: from.u16(), size: u64::from_ne_bytes(from.take()) },
            5 => Self::AddRing(AddRing {
                s2m: from.u16() & 1 != 0,
                index: from.u16(),
                region: from.u16(),
                offset: from.u32(),
                log2_size: from.u8(),
                private_header: from.u16(),
            }),
            6 => Self::Connect { name: from.text::<NAME>() },
            7 => Self::Connected { name: from.text::<NAME>() },
            8 => Self::Disconnect { code: from.u32(), reason: from.text::<REASON>() },
            other => return Err(MessageError::Type(other)),
        })
    }

    /// Writes the message. Texts that are too long are cut; unused bytes are zero.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut to = Writer { bytes: [0; SIZE], at: 0 };
        match self {
            Self::Ack => to.u16(1),
            Self::Hello(hello) => {
                to.u16(2);
                to.text::<NAME>(&hello.name);
                to.u16(hello.version_min);
                to.u16(hello.version_max);
                to.u16(hello.region_max);
                to.u16(hello.m2s_max);
                to.u16(hello.s2m_max);
                to.put(&[hello.log2_size_max]);
            }
            Self::Init(init) => {
                to.u16(3);
                to.u16(init.version);
                to.u32(init.id);
                to.put(&[init.mode]);
                to.put(&init.secret);
                to.text::<NAME>(&init.name);
            }
            Self::AddRegion { index, size } => {
                to.u16(4);
                to.u16(*index);
                to.put(&size.to_ne_bytes());
            }
            Self::AddRing(ring) => {
                to.u16(5);
                to.u16(ring.s2m.into());
                to.u16(ring.index);
                to.u16(ring.region);
                to.u32(ring.offset);
                to.put(&[ring.log2_size]);
                to.u16(ring.private_header);
            }
            Self::Connect { name } => {
                to.u16(6);
                to.text::<NAME>(name);
            }
            Self::Connected { name } => {
                to.u16(7);
                to.text::<NAME>(name);
            }
            Self::Disconnect { code, reason } => {
                to.u16(8);
                to.u32(*code);
                to.text::<REASON>(reason);
            }
        }
        to.bytes
    }
}

/// Reads fields one after the other. The fields of every message end before byte
/// 128; beyond it there would be zeros.
struct Reader<'a> {
    bytes: &'a [u8; SIZE],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let field = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk());
        self.at += N;
        field.copied().unwrap_or([0; N])
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    /// Text up to the first zero. It goes to people: what cannot be printed becomes `?`.
    fn text<const N: usize>(&mut self) -> String {
        let field = self.take::<N>();
        let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
        let printable = |byte: &u8| matches!(byte, b' '..=b'~');
        text.iter().map(|byte| if printable(byte) { char::from(*byte) } else { '?' }).collect()
    }
}

struct Writer {
    bytes: [u8; SIZE],
    at: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_ne_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_ne_bytes());
    }

    /// Text and at least one zero.
    fn text<const N: usize>(&mut self, text: &str) {
        let bytes = &text.as_bytes()[..text.len().min(N - 1)];
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += N;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring() -> AddRing {
        AddRing {
            s2m: true,
            index: 3,
            region: 1,
            offset: 0x1234_5678,
            log2_size: 10,
            private_header: 0,
        }
    }

    fn every() -> Vec<Message> {
        let name = String::from("stoa");
        vec![
            Message::Ack,
            Message::Hello(Hello {
                name: name.clone(),
                version_min: VERSION,
                version_max: VERSION,
                region_max: 255,
                m2s_max: 3,
                s2m_max: 4,
                log2_size_max: 14,
            }),
            Message::Init(Init {
                version: VERSION,
                id: 7,
                mode: 0,
                secret: [9; SECRET],
                name: name.clone(),
            }),
            Message::AddRegion { index: 1, size: 1 << 33 },
            Message::AddRing(ring()),
            Message::Connect { name: name.clone() },
            Message::Connected { name },
            Message::Disconnect { code: 5, reason: "because".into() },
        ]
    }

    #[test]
    fn all_messages_survive_the_way() {
        for message in every() {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn fields_lie_where_memif_2_0_has_them() {
        let bytes = Message::AddRing(ring()).encode();
        assert_eq!(bytes[..2], 5_u16.to_ne_bytes());
        assert_eq!(bytes[4..6], 3_u16.to_ne_bytes());
        assert_eq!(bytes[8..12], 0x1234_5678_u32.to_ne_bytes());
        assert_eq!(bytes[12], 10);
        let bytes = every()[1].encode();
        assert_eq!(bytes[34..36], VERSION.to_ne_bytes());
        assert_eq!(bytes[44], 14);
        let bytes = every()[2].encode();
        assert_eq!((bytes[8], bytes[9], bytes[33]), (0, 9, b's'));
    }

    #[test]
    fn long_and_odd_texts_are_tamed() {
        let reason = "\u{1b}[31m".to_string() + &"x".repeat(200);
        let message = Message::decode(&Message::Disconnect { code: 1, reason }.encode());
        let Ok(Message::Disconnect { reason, .. }) = message else { panic!("{message:?}") };
        assert_eq!(reason.len(), REASON - 1);
        assert!(reason.starts_with("?[31mx"));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(Message::decode(&[0; 127]), Err(MessageError::Size(127)));
        assert_eq!(Message::decode(&[0; 128]), Err(MessageError::Type(0)));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), SIZE), kind in 0..10_u16) {
            let mut bytes = bytes;
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            if let Ok(message) = Message::decode(&bytes) {
                // A text may lose its last byte to the closing zero, but only once.
                let once = Message::decode(&message.encode()).unwrap();
                prop_assert_eq!(Message::decode(&once.encode()), Ok(once));
            }
        }
    }
}
