//! Session descriptions (SDP, RFC 8866): addresses and ports of media, with the ports of RTCP (RFC 3550 section 11, RFC
//! 3605).

use core::net::IpAddr;

use super::{Part, SipError};

/// Media of a session that are read.
pub const MEDIA: usize = 4;

/// A medium: where its sender listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// The address; `None`: a name, or none.
    pub address: Option<IpAddr>,
    /// The port; 0: the medium is not used, or not over UDP.
    pub port: u16,
    /// The port of RTCP, if it is RTP.
    pub rtcp: Option<u16>,
}

/// The beginning of a line with a port of RTCP.
const RTCP: &[u8] = b"a=rtcp:";

/// What a line is, and where in it that is what matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// `c=` or `o=`, with its address.
    Address {
        is_connection: bool,
        text: Part,
    },
    /// `m=`, with its port.
    Media(Part),
    /// `a=rtcp:`, with its port, and with its address, which may be empty.
    Rtcp(Part, Part),
    Other,
}

/// Where the field of a line is that has this number; fields are between blanks.
fn field(line: &[u8], number: usize) -> Part {
    let mut start = 0;
    for (at, text) in line.split(|byte| *byte == b' ').enumerate() {
        if at == number {
            return start..start + text.trim_ascii_end().len();
        }
        start += text.len() + 1;
    }
    line.len()..line.len()
}

impl Line {
    /// Reads a line.
    pub(super) fn of(line: &[u8]) -> Self {
        match line {
            [b'c', b'=', ..] => Self::Address { is_connection: true, text: field(line, 2) },
            [b'o', b'=', ..] => Self::Address { is_connection: false, text: field(line, 5) },
            [b'm', b'=', ..] => Self::Media(field(line, 1)),
            _ if line.starts_with(RTCP) => {
                Self::Rtcp(RTCP.len()..field(line, 0).end, field(line, 3))
            }
            _ => Self::Other,
        }
    }
}

/// The lines of a description, with their ends.
pub(super) fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split_inclusive(|byte| *byte == b'\n')
}

/// An address as text; that of a multicast group has a TTL behind it.
pub(super) fn address(text: &[u8]) -> Option<IpAddr> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

fn port(text: &[u8]) -> Option<u16> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// The protocols of a medium: whether it is over UDP, and whether it is RTP.
fn protocol(line: &[u8]) -> (bool, bool) {
    let name = line.get(field(line, 2)).unwrap_or(&[]);
    let has = |text: &[u8]| {
        let mut parts = name.split(|byte| *byte == b'/');
        parts.any(|part| part.eq_ignore_ascii_case(text))
    };
    let is_tcp = has(b"TCP");
    let is_rtp = !is_tcp && ["RTP", "SRTP"].iter().any(|it| has(it.as_bytes()));
    (is_rtp || !is_tcp && (has(b"UDP") || has(b"udptl")), is_rtp)
}

/// The media of a session description, in their order.
///
/// # Errors
/// There are more than [`MEDIA`], or a port is malformed.
pub fn media(body: &[u8]) -> Result<[Option<Media>; MEDIA], SipError> {
    let (mut all, mut count, mut session) = ([None; MEDIA], 0_usize, None);
    for line in lines(body) {
        let text = |part: Part| line.get(part).unwrap_or(&[]);
        match Line::of(line) {
            Line::Address { is_connection: true, text: part } => {
                match all.get_mut(count.wrapping_sub(1)) {
                    Some(Some(Media { address: of, .. })) => *of = address(text(part)),
                    _ => session = address(text(part)),
                }
            }
            Line::Media(part) => {
                let port = port(text(part)).ok_or(SipError::Malformed)?;
                let (is_udp, is_rtp) = protocol(line);
                let port = if is_udp { port } else { 0 };
                let rtcp = port.checked_add(1).filter(|_| is_rtp && port != 0);
                let slot = all.get_mut(count).ok_or(SipError::TooLong)?;
                *slot = Some(Media { address: session, port, rtcp });
                count += 1;
            }
            Line::Rtcp(part, _) => {
                if let Some(Some(Media { rtcp: Some(rtcp), .. })) =
                    all.get_mut(count.wrapping_sub(1))
                {
                    *rtcp = port(text(part)).filter(|it| *it != 0).ok_or(SipError::Malformed)?;
                }
            }
            Line::Address { .. } | Line::Other => {}
        }
    }
    Ok(all)
}
