//! The TCP header (RFC 9293 section 3.1), behind IPv4 or IPv6.

use crate::checksum::{self, Pseudo};
use crate::{BuildError, build_error::prefix_of, protocol};
use core::ops::Range;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header without options.
pub const LENGTH: usize = 20;
/// Bytes of the longest header.
pub const LONGEST: usize = 60;

/// Bits of [`Header::flags`].
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Opens a connection.
    pub const SYN: u8 = 0x02;
    /// Resets a connection.
    pub const RST: u8 = 0x04;
    /// Pushes data to the application.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

causes! {
    /// Why a TCP segment is refused.
    TcpError {
        Truncated = "tcp-truncated", "the segment is shorter than a TCP header";
        BadDataOffset = "tcp-bad-data-offset",
            "the TCP data offset is below 20 bytes or beyond the packet";
        BadChecksum = "tcp-bad-checksum", "the TCP checksum is wrong";
        BadOption = "tcp-bad-option", "a TCP option's length is wrong";
    }
}

/// The TCP header without options, as it lies in the packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Port of the sender.
    pub source_port: U16,
    /// Port of the receiver.
    pub destination_port: U16,
    /// Number of the first byte of data.
    pub sequence: U32,
    /// Number of the next byte that the sender awaits.
    pub acknowledgement: U32,
    /// Header length in 32-bit words (high 4 bits), reserved (low 4 bits).
    pub data_offset: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Bytes that the sender will take, before scaling.
    pub window: U16,
    /// Checksum of pseudo-header, header and data.
    pub checksum: U16,
    /// End of urgent data, counted from the sequence number.
    pub urgent: U16,
}

/// A segment that [`parse`] or [`check`] has accepted.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a Header,
    segment: &'a [u8],
}

impl<'a> View<'a> {
    /// The fixed part of the header.
    pub const fn header(&self) -> &'a Header {
        self.header
    }

    /// Port of the sender.
    pub fn source_port(&self) -> u16 {
        self.header.source_port.get()
    }

    /// Port of the receiver.
    pub fn destination_port(&self) -> u16 {
        self.header.destination_port.get()
    }

    /// Whether all `flags`, bits of [`flag`], are set.
    pub const fn has(&self, flags: u8) -> bool {
        self.header.flags & flags == flags
    }

    /// Header and data.
    pub const fn segment(&self) -> &'a [u8] {
        self.segment
    }

    /// Where the data lies in the segment.
    pub const fn payload_range(&self) -> Range<usize> {
        (self.header.data_offset >> 4) as usize * 4..self.segment.len()
    }

    /// The data.
    pub fn payload(&self) -> &'a [u8] {
        &self.segment[self.payload_range()]
    }

    /// The options, padding included: 0..=40 bytes.
    pub fn option_bytes(&self) -> &'a [u8] {
        &self.segment[LENGTH..self.payload_range().start]
    }

    /// The options one by one.
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.option_bytes() }
    }

    /// The maximum segment size option of a SYN, in bytes, when it is there and well-formed.
    pub fn maximum_segment_size(&self) -> Option<u16> {
        let mut options = self.options().map_while(Result::ok);
        let option = options.find(|option| option.kind == 2)?;
        Some(u16::from_be_bytes(option.data.try_into().ok()?))
    }

    /// Verifies the checksum between the addresses of `pseudo`.
    ///
    /// # Errors
    /// It is wrong.
    #[inline]
    pub fn verify(&self, pseudo: &Pseudo) -> Result<(), TcpError> {
        let sum = checksum::sum(self.segment) + pseudo.sum(protocol::TCP, self.segment.len());
        if checksum::is_valid(sum) { Ok(()) } else { Err(TcpError::BadChecksum) }
    }
}

/// One option; padding is not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOption<'a> {
    /// Kind: 2 maximum segment size, 3 window scale, 4 SACK permitted, 5 SACK, 8 timestamps.
    pub kind: u8,
    /// What follows kind and length.
    pub data: &'a [u8],
}

/// The options one by one; ends after the first that is wrong.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, TcpError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Each iteration takes at least one byte of at most 40.
        while let [kind, behind @ ..] = self.rest {
            match *kind {
                0 => break,
                1 => self.rest = behind,
                kind => {
                    let length = behind.first().map_or(0, |length| usize::from(*length));
                    let Some(data) = self.rest.get(2..length) else {
                        self.rest = &[];
                        return Some(Err(TcpError::BadOption));
                    };
                    self.rest = &self.rest[length..];
                    return Some(Ok(TcpOption { kind, data }));
                }
            }
        }
        self.rest = &[];
        None
    }
}

/// Reads a segment without its checksum, as a transit router does. `bytes` must end where
/// the IP packet ends, because TCP has no length of its own.
///
/// # Errors
/// The header is cut, or the data offset wrong.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<View<'_>, TcpError> {
    let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| TcpError::Truncated)?;
    let length = usize::from(header.data_offset >> 4) * 4;
    if length < LENGTH || length > bytes.len() {
        return Err(TcpError::BadDataOffset);
    }
    Ok(View { header, segment: bytes })
}

/// Checks a segment that has arrived, checksum included.
///
/// # Errors
/// One cause per rule broken: length, data offset, checksum.
#[inline]
pub fn check<'a>(bytes: &'a [u8], pseudo: &Pseudo) -> Result<View<'a>, TcpError> {
    let view = parse(bytes)?;
    view.verify(pseudo)?;
    Ok(view)
}

/// The fields of a header to build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Builder<'a> {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Number of the first byte of data.
    pub sequence: u32,
    /// Number of the next byte that the sender awaits.
    pub acknowledgement: u32,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Bytes that the sender will take, before scaling.
    pub window: u16,
    /// End of urgent data, counted from the sequence number.
    pub urgent: u16,
    /// Options, padded to whole 32-bit words, at most 40 bytes.
    pub options: &'a [u8],
}

impl<'a> Builder<'a> {
    /// The fields of the header of `view`, without its reserved bits.
    pub fn of(view: &View<'a>) -> Self {
        let header = view.header;
        Self {
            source_port: header.source_port.get(),
            destination_port: header.destination_port.get(),
            sequence: header.sequence.get(),
            acknowledgement: header.acknowledgement.get(),
            flags: header.flags,
            window: header.window.get(),
            urgent: header.urgent.get(),
            options: view.option_bytes(),
        }
    }

    /// Writes header, checksum included, and `payload`; returns the segment's length.
    ///
    /// # Errors
    /// The buffer is too short; options that are no whole words; a segment above 65,535 bytes.
    pub fn build(
        &self,
        out: &mut [u8],
        pseudo: &Pseudo,
        payload: &[u8],
    ) -> Result<usize, BuildError> {
        let options = self.options.len();
        if !options.is_multiple_of(4) || options > LONGEST - LENGTH {
            return Err(BuildError::BadOptions { length: options });
        }
        let start = LENGTH + options;
        let length = start + payload.len();
        if length > usize::from(u16::MAX) {
            return Err(BuildError::TooLong { length, limit: u16::MAX.into() });
        }
        let header = Header {
            source_port: U16::new(self.source_port),
            destination_port: U16::new(self.destination_port),
            sequence: U32::new(self.sequence),
            acknowledgement: U32::new(self.acknowledgement),
            data_offset: (start / 4) as u8 * 16,
            flags: self.flags,
            window: U16::new(self.window),
            checksum: U16::ZERO,
            urgent: U16::new(self.urgent),
        };
        let out = prefix_of(out, length)?;
        out[..LENGTH].copy_from_slice(header.as_bytes());
        out[LENGTH..start].copy_from_slice(self.options);
        out[start..].copy_from_slice(payload);
        let sum = checksum::sum(out) + pseudo.sum(protocol::TCP, length);
        out[16..18].copy_from_slice(&checksum::finish(sum).to_be_bytes());
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    const LOCAL: Pseudo =
        Pseudo::Ip4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::LOCALHOST };
    /// A SYN with maximum segment size 1460, SACK permitted, window scale 7 and one data byte.
    const SEGMENT: [u8; 33] = [
        0xc0, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x80, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4, 4,
        2, 1, 3, 3, 7, 0, 0, 0xaa,
    ];

    #[test]
    fn parses_and_builds_real_bytes() {
        let view = parse(&SEGMENT).unwrap();
        assert_eq!((view.source_port(), view.destination_port()), (49_152, 80));
        assert!(view.has(flag::SYN) && !view.has(flag::SYN | flag::ACK));
        assert_eq!(view.maximum_segment_size(), Some(1460));
        let kinds: Vec<_> = view.options().map(|option| option.unwrap().kind).collect();
        assert_eq!(kinds, [2, 4, 3]);
        assert_eq!((view.payload_range(), view.payload()), (32..33, &[0xaa][..]));
        assert_eq!(check(&SEGMENT, &LOCAL).unwrap_err(), TcpError::BadChecksum);
        let mut out = SEGMENT;
        assert_eq!(Builder::of(&view).build(&mut out, &LOCAL, &[0xaa]), Ok(33));
        assert_eq!(out[..16], SEGMENT[..16]);
        assert!(check(&out, &LOCAL).is_ok());
    }

    #[test]
    fn refuses_wrong_lengths() {
        for length in 0..32 {
            let cause = if length < 20 { TcpError::Truncated } else { TcpError::BadDataOffset };
            assert_eq!(parse(&SEGMENT[..length]).unwrap_err(), cause);
        }
        let mut wrong = SEGMENT;
        wrong[12] = 0x40;
        assert_eq!(parse(&wrong).unwrap_err(), TcpError::BadDataOffset);
        wrong = SEGMENT;
        wrong[21] = 1;
        let view = parse(&wrong).unwrap();
        assert_eq!(view.options().collect::<Vec<_>>(), [Err(TcpError::BadOption)]);
        assert_eq!(view.maximum_segment_size(), None);
        let mut builder = Builder::default();
        assert!(builder.build(&mut [0; 19], &LOCAL, &[]).is_err());
        let refused = builder.build(&mut [0; 65_600], &LOCAL, &[0; 65_516]);
        assert_eq!(refused, Err(BuildError::TooLong { length: 65_536, limit: 65_535 }));
        builder.options = &[1; 3];
        assert!(builder.build(&mut [0; 40], &LOCAL, &[]).is_err());
    }

    proptest! {
        #[test]
        fn round_trip_and_oracle(
            addresses: [[u8; 4]; 2], ports: [u16; 2], numbers: [u32; 2], flags: u8, window: u16,
            urgent: u16, words in 0usize..=10, payload in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let options = vec![1; words * 4];
            let pseudo =
                Pseudo::Ip4 { source: addresses[0].into(), destination: addresses[1].into() };
            let builder = Builder {
                source_port: ports[0],
                destination_port: ports[1],
                sequence: numbers[0],
                acknowledgement: numbers[1],
                flags,
                window,
                urgent,
                options: &options,
            };
            let mut out = [0; 128];
            let length = builder.build(&mut out, &pseudo, &payload).unwrap();
            let view = check(&out[..length], &pseudo).unwrap();
            prop_assert_eq!(Builder::of(&view), builder);
            prop_assert_eq!(view.payload(), &payload[..]);
            let oracle = etherparse::TcpHeader::from_slice(&out[..length]).unwrap().0;
            prop_assert_eq!(oracle.header_len(), view.payload_range().start);
            let checksum = oracle.calc_checksum_ipv4_raw(addresses[0], addresses[1], &payload);
            prop_assert_eq!(checksum.unwrap(), view.header().checksum.get());
            for short in 0..view.payload_range().start {
                prop_assert!(parse(&out[..short]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            if let Ok(view) = parse(&bytes) {
                prop_assert!(view.options().count() <= 20);
                prop_assert!(view.payload_range().end <= bytes.len());
            }
        }
    }
}
