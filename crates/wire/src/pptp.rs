//! Control messages of PPTP (RFC 2637 section 2) as far as an application level gateway has to read them, and to write
//! them anew: the call IDs that both ends choose, which enhanced GRE (section 4.1) has in place of ports.
//!
//! A call has one ID of each end, and packets to an end have the one that this end has chosen. Messages name it as
//! their sender's or as that of the *peer*, their receiver.

/// PPP in GRE (RFC 2637 section 4.1), an ethertype.
const PPP: u16 = 0x880b;
/// Bytes of the shortest and of the longest message.
const SHORTEST: usize = 16;
const LONGEST: usize = 220;
/// Bytes of the header that all control messages have.
const HEADER: usize = 12;
/// The header behind the length: a control message, and the magic cookie.
const MARK: [u8; 6] = [0, 1, 0x1a, 0x2b, 0x3c, 0x4d];
/// Where messages have a call ID, and where those with two have the second one.
const FIRST_ID: usize = HEADER;
const SECOND_ID: usize = HEADER + 2;
/// Where replies have their result, and that of a call that goes on.
const RESULT: usize = HEADER + 4;
const ACCEPTED: u8 = 1;
/// Bytes of enhanced GRE up to the call ID, and where that is.
const GRE_LENGTH: usize = 8;
const GRE_ID: usize = 6;

causes! {
    /// Why a control message is not read.
    PptpError {
        Split = "pptp-split", "the control message does not end in its segment";
        Malformed = "pptp-malformed", "the segment does not begin with a control message, or its length is wrong";
    }
}

/// What a control message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Of the control connection: begins it, or confirms its beginning or its end.
    Connection,
    /// Stop-Control-Connection-Request: all calls end.
    Stop,
    /// Echo-Request or Echo-Reply: the control connection is alive.
    Echo,
    /// Outgoing-Call-Request or Incoming-Call-Request: a call begins.
    Request,
    /// Outgoing-Call-Reply or Incoming-Call-Reply.
    Reply {
        /// Whether the call goes on.
        is_accepted: bool,
    },
    /// Incoming-Call-Connected, WAN-Error-Notify or Set-Link-Info: about a call that goes on.
    Link,
    /// Call-Clear-Request or Call-Disconnect-Notify: a call ends.
    End,
}

/// A call ID in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId {
    /// Where it is in the message, in bytes.
    pub at: usize,
    /// The ID.
    pub id: u16,
}

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is about.
    pub kind: Kind,
    /// Its bytes.
    pub length: usize,
    /// The ID that its sender has chosen.
    pub own: Option<CallId>,
    /// The one that its receiver has chosen.
    pub peer: Option<CallId>,
}

/// What the types of control messages are, with their length, and whose call IDs they have.
fn format(number: u16) -> Option<(Kind, usize, [Option<usize>; 2])> {
    const NONE: [Option<usize>; 2] = [None, None];
    const OWN: [Option<usize>; 2] = [Some(FIRST_ID), None];
    const PEER: [Option<usize>; 2] = [None, Some(FIRST_ID)];
    const BOTH: [Option<usize>; 2] = [Some(FIRST_ID), Some(SECOND_ID)];
    let reply = Kind::Reply { is_accepted: false };
    Some(match number {
        1 | 2 => (Kind::Connection, 156, NONE),
        3 => (Kind::Stop, 16, NONE),
        4 => (Kind::Connection, 16, NONE),
        5 => (Kind::Echo, 16, NONE),
        6 => (Kind::Echo, 20, NONE),
        7 => (Kind::Request, 168, OWN),
        8 => (reply, 32, BOTH),
        9 => (Kind::Request, 220, OWN),
        10 => (reply, 24, BOTH),
        11 => (Kind::Link, 28, PEER),
        12 => (Kind::End, 16, OWN),
        13 => (Kind::End, 148, OWN),
        14 => (Kind::Link, 40, PEER),
        15 => (Kind::Link, 24, PEER),
        _ => return None,
    })
}

fn word(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// The control message with which the data of a segment begins.
///
/// # Errors
/// There is none, or not all of it: see [`PptpError`].
pub fn message(data: &[u8]) -> Result<Message, PptpError> {
    let mark = data.iter().skip(2).zip(&MARK);
    if mark.into_iter().any(|(byte, of_mark)| byte != of_mark) {
        return Err(PptpError::Malformed);
    }
    let number = word(data, 2 + MARK.len()).ok_or(PptpError::Split)?;
    let (kind, length, at) = format(number).ok_or(PptpError::Malformed)?;
    if word(data, 0).map(usize::from) != Some(length) {
        return Err(PptpError::Malformed);
    }
    let bytes = data.get(..length).ok_or(PptpError::Split)?;
    let [own, peer] = at.map(|at| at.and_then(|at| Some(CallId { at, id: word(bytes, at)? })));
    let is_accepted = bytes.get(RESULT) == Some(&ACCEPTED);
    let kind = if matches!(kind, Kind::Reply { .. }) { Kind::Reply { is_accepted } } else { kind };
    Ok(Message { kind, length, own, peer })
}

/// The length of the message that begins with these bytes, of which the rest is missing.
pub fn length_of_split(data: &[u8]) -> Option<usize> {
    let is_split = message(data) == Err(PptpError::Split);
    word(data, 0).map(usize::from).filter(|it| is_split && (SHORTEST..=LONGEST).contains(it))
}

/// The call ID of a packet of enhanced GRE with PPP: of the end to which it goes. `None`: it is another packet. The
/// first 8 bytes are enough.
#[inline]
pub fn call_id(packet: &[u8]) -> Option<u16> {
    let [first, second, protocol @ .., high, low] = packet.first_chunk::<GRE_LENGTH>()?;
    // A key, perhaps with a sequence number; version 1, perhaps with an acknowledgement.
    let is_enhanced = first & !0x10 == 0x20 && second & !0x80 == 1;
    let has_ppp = protocol.starts_with(&PPP.to_be_bytes());
    (is_enhanced && has_ppp).then(|| u16::from_be_bytes([*high, *low]))
}

/// Gives a packet that has a call ID another one. There is no checksum (RFC 2637 section 4.1).
#[inline]
pub fn set_call_id(packet: &mut [u8], id: u16) {
    if call_id(packet).is_some()
        && let Some(field) = packet.get_mut(GRE_ID..GRE_LENGTH)
    {
        field.copy_from_slice(&id.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message of a type with these call IDs and this result.
    fn bytes(number: u16, length: u16, ids: [u16; 2], result: u8) -> Vec<u8> {
        let mut bytes = [length.to_be_bytes().as_slice(), &MARK, &number.to_be_bytes()].concat();
        bytes.extend([0, 0]);
        bytes.extend(ids.iter().flat_map(|id| id.to_be_bytes()));
        bytes.push(result);
        bytes.resize(length.into(), 0);
        bytes
    }

    const LENGTHS: [(u16, u16); 15] = [
        (1, 156),
        (2, 156),
        (3, 16),
        (4, 16),
        (5, 16),
        (6, 20),
        (7, 168),
        (8, 32),
        (9, 220),
        (10, 24),
        (11, 28),
        (12, 16),
        (13, 148),
        (14, 40),
        (15, 24),
    ];

    #[test]
    fn messages_have_the_call_ids_of_their_ends() {
        let of = |number: u16| {
            let (_, length) = LENGTHS[usize::from(number) - 1];
            let read = message(&bytes(number, length, [7, 9], 1)).unwrap();
            assert_eq!(read.length, usize::from(length));
            (read.kind, read.own.map(|it| it.id), read.peer.map(|it| it.id))
        };
        let accepted = Kind::Reply { is_accepted: true };
        for (number, expected) in [
            (1, (Kind::Connection, None, None)),
            (3, (Kind::Stop, None, None)),
            (5, (Kind::Echo, None, None)),
            (7, (Kind::Request, Some(7), None)),
            (8, (accepted, Some(7), Some(9))),
            (9, (Kind::Request, Some(7), None)),
            (10, (accepted, Some(7), Some(9))),
            (11, (Kind::Link, None, Some(7))),
            (12, (Kind::End, Some(7), None)),
            (13, (Kind::End, Some(7), None)),
            (14, (Kind::Link, None, Some(7))),
            (15, (Kind::Link, None, Some(7))),
        ] {
            assert_eq!(of(number), expected, "{number}");
        }
        let refused = message(&bytes(8, 32, [7, 9], 4)).unwrap();
        assert_eq!(refused.kind, Kind::Reply { is_accepted: false });
    }

    #[test]
    fn what_is_no_message_is_malformed() {
        let whole = bytes(7, 168, [7, 0], 0);
        for (at, wrong) in [(1, 167), (3, 2), (4, 0), (7, 0), (9, 16)] {
            let mut bytes = whole.clone();
            bytes[at] = wrong;
            assert_eq!(message(&bytes), Err(PptpError::Malformed), "{at}");
        }
        assert_eq!(message(b"GET / HTTP/1.1\r\n\r\n"), Err(PptpError::Malformed));
    }

    #[test]
    fn only_enhanced_gre_with_ppp_has_a_call() {
        let packet = [0x30, 0x81, 0x88, 0x0b, 0, 4, 0x12, 0x34, 0, 0, 0, 1];
        assert_eq!(call_id(&packet), Some(0x1234));
        assert_eq!(call_id(&packet[..8]), Some(0x1234));
        assert_eq!(call_id(&packet[..7]), None);
        // A checksum, no key, routing, version 0, another protocol.
        for (at, wrong) in [(0, 0xb0), (0, 0x10), (0, 0x70), (1, 0x80), (3, 0x0c)] {
            let mut packet = packet;
            packet[at] = wrong;
            assert_eq!(call_id(&packet), None, "{at}");
            let before = packet;
            set_call_id(&mut packet, 5);
            assert_eq!(packet, before);
        }
        let mut other = packet;
        set_call_id(&mut other, 0xabcd);
        assert_eq!(call_id(&other), Some(0xabcd));
        assert_eq!((&other[..6], &other[8..]), (&packet[..6], &packet[8..]));
    }

    proptest! {
        #[test]
        fn a_message_that_is_cut_is_split(
            (number, length) in prop::sample::select(LENGTHS.to_vec()),
            ids: [u16; 2],
            result: u8,
            cut in any::<prop::sample::Index>(),
            behind in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let whole = bytes(number, length, ids, result);
            let read = message(&whole).unwrap();
            prop_assert_eq!(message(&[whole.as_slice(), &behind].concat()), Ok(read));
            prop_assert_eq!(length_of_split(&whole), None);
            for id in read.own.iter().chain(&read.peer) {
                prop_assert_eq!(word(&whole, id.at), Some(id.id));
            }
            let cut = cut.index(whole.len());
            prop_assert_eq!(message(&whole[..cut]), Err(PptpError::Split));
            let known = (cut >= 2).then_some(usize::from(length));
            prop_assert_eq!(length_of_split(&whole[..cut]), known);
        }

        #[test]
        fn hostile_bytes_do_not_panic(
            mut data in prop::collection::vec(any::<u8>(), 0..300),
            (number, length) in (0_u16..17, any::<u16>()),
            is_marked: bool,
        ) {
            if is_marked {
                data = [bytes(number, 16, [0; 2], 0), data].concat();
                data[..2].copy_from_slice(&length.to_be_bytes());
            }
            if let Ok(read) = message(&data) {
                prop_assert!(read.length >= 16 && read.length <= data.len());
                let mut ids = read.own.iter().chain(&read.peer);
                prop_assert!(ids.all(|it| it.at + 2 <= read.length));
            }
            let _ = (length_of_split(&data), call_id(&data));
            set_call_id(&mut data, 1);
        }
    }
}
