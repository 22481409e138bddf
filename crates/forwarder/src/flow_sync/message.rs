//! The items of a frame: flows, ends of flows, and what numbers mean.
//!
//! ```text
//! 0  alive
//! 1  names     1 or 0: whether the router that sends lacks flows that the other one has in standby; hashes of VRFs,
//!              zones and profiles by their numbers: for records behind it
//! 2  complete  the bulk was sent
//! 3  end       key
//! 4  flow      key, 1 or 0: whether a key of the replies follows, and what it uses;
//!              class, flags, zone, owner, standby (1 each), seconds since the first and the last packet (4 each),
//!              state of TCP (24), or of other protocols (4)
//! 5  known     key of a flow that is not sent in the bulk, but is there
//! 6  again     another bulk is asked for
//! 7  lease     lease key, 1 or 0: whether a nonce (12) follows, who has asked (hash of the interface 8, VRF 2, address
//!              4), external end (VRF 2, address 4, port 2), standby (1), seconds left and since the last request (4
//!              each), how many remote ends (1), and these (address 4, length 1, port 2); 0 seconds left: ended here
//! 8  end       lease key, of a lease
//! 9  known     lease key, of a lease that is not sent in the bulk, but is there
//!
//! key          4, 6 or 64, protocol, VRF (2), ports (2 each), addresses (4 each, or 16)
//! uses         number of the policy or mapping (4), bits (1)
//! lease key    number of the policy (4), VRF (2), address (4), protocol, port (2), 1 or 0: whether the remote end of
//!              PEER follows (address 4, port 2)
//! ```
//!
//! The first frame of each end has one item, alive: it proves that the end knows the secret. Integers are big-endian. A
//! flow of TCP takes 55 bytes, translated 76, IPv6 79, of NAT64 100. Counters are not sent: each router counts what it
//! has forwarded.
//!
//! A flow of NAT64 has a key of the family 64, that of packets of its IPv6 host ([`SentKey`]), and one of IPv4.

mod key;
mod lease;

use stoa_tables::flow_table::{FlowKey, FormerFlow, Past, TCP_WORDS};
use stoa_wire::protocol;

use crate::flow::adoption::head::Names;
use crate::flow::time::ticks;
use crate::flow::tracker::Uses;
use crate::nat64::keys::is_of_both_families;
use crate::pcp::lease::Key;
pub use key::SentKey;
pub(super) use key::{key_bytes, key_of};
pub use lease::{LEASE_MIN, Lease, put_known_lease, put_lease, put_lease_end};

const ALIVE: u8 = 0;
const NAMES: u8 = 1;
const COMPLETE: u8 = 2;
const END: u8 = 3;
const FLOW: u8 = 4;
const KNOWN: u8 = 5;
const AGAIN: u8 = 6;
const LEASE: u8 = 7;
const LEASE_END: u8 = 8;
const KNOWN_LEASE: u8 = 9;
/// Bits of what a flow uses.
const MAPPING: u8 = 1;
const BLOCK: u8 = 2;
const INBOUND: u8 = 4;
/// The most seconds since a packet.
const SECONDS_MAX: u32 = 1 << 30;

/// What the partner sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// It is there.
    Alive,
    /// Whether it lacks flows that this router has in standby, and what its numbers mean.
    Names(bool, Box<Names>),
    /// The bulk was sent.
    Complete,
    /// A flow has ended.
    End(SentKey),
    /// A flow.
    Flow(Record),
    /// It has a flow that its bulk does not send.
    Known(SentKey),
    /// It asks for another bulk.
    Again,
    /// A lease of a host.
    Lease(Box<Lease>),
    /// One has ended.
    LeaseEnd(Key),
    /// It has a lease that its bulk does not send.
    KnownLease(Key),
}

/// A flow at a moment, with times in ticks of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The flow. Its counters are 0. Of NAT64, its keys are of two families, that of IPv6 as in [`SentKey`].
    pub flow: FormerFlow,
    /// The router that sends it has no packets of it either.
    pub is_standby: bool,
}

impl Record {
    /// The key of its flow.
    pub fn key(&self) -> SentKey {
        let key = self.flow.key;
        SentKey { key, is_nat64: key.is_ip6() && is_of_both_families(&self.flow) }
    }
}

/// The fewest bytes of an item that a worker gets.
pub const ITEM_MIN: usize = 17;

/// The frame has something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the partner sends what is no record")]
pub struct Malformed;

/// Appends that this end is there.
pub fn put_alive(to: &mut Vec<u8>) {
    to.push(ALIVE);
}

/// Appends that the bulk was sent.
pub fn put_complete(to: &mut Vec<u8>) {
    to.push(COMPLETE);
}

/// Appends that another bulk is asked for.
pub fn put_again(to: &mut Vec<u8>) {
    to.push(AGAIN);
}

/// Appends what numbers mean here, and whether this router lacks flows that the other one has in standby.
pub fn put_names(lacks_flows: bool, names: &Names, to: &mut Vec<u8>) {
    to.extend_from_slice(&[NAMES, lacks_flows.into()]);
    names.words().for_each(|word| to.extend_from_slice(&word.to_be_bytes()));
}

/// Appends the end of a flow.
pub fn put_end(key: &SentKey, to: &mut Vec<u8>) {
    to.push(END);
    key.put(to);
}

/// Appends that there is a flow which the bulk does not send.
pub fn put_known(key: &SentKey, to: &mut Vec<u8>) {
    to.push(KNOWN);
    key.put(to);
}

/// Appends a flow at tick `now`.
pub fn put_flow(record: &Record, now: u32, to: &mut Vec<u8>) {
    let Record { flow, is_standby } = record;
    to.push(FLOW);
    record.key().put(to);
    to.push(flow.reply_key.is_some().into());
    if let Some(key) = flow.reply_key {
        // Of IPv4 alone, unless it is that of a host of NAT64.
        SentKey { key, is_nat64: key.is_ip6() }.put(to);
        let uses = Uses::of_words(flow.spare);
        to.extend_from_slice(&uses.number.to_be_bytes());
        let bits = [
            (uses.mapping.is_some(), MAPPING),
            (uses.block.is_some(), BLOCK),
            (uses.is_inbound, INBOUND),
        ];
        to.push(bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum());
    }
    let zone = (flow.zone_pair >> 8) as u8;
    to.extend_from_slice(&[flow.class, flow.flags, zone, flow.owner, (*is_standby).into()]);
    let seen = ticks(flow.past.seen, now).min(SECONDS_MAX - 1);
    let start = ticks(flow.past.start, now).clamp(seen, SECONDS_MAX - 1);
    [start, seen].iter().for_each(|it| to.extend_from_slice(&it.to_be_bytes()));
    let words = state_words(&flow.key);
    flow.tcp.iter().take(words).for_each(|it| to.extend_from_slice(&it.to_be_bytes()));
}

/// How many words the state of a flow has.
fn state_words(key: &FlowKey) -> usize {
    if key.protocol() == protocol::TCP { TCP_WORDS } else { 1 }
}

/// Takes bytes from the front.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.take().map(|[it]| it)
    }

    fn word(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }

    fn port(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn flow(&mut self, now: u32) -> Result<Record, Malformed> {
        let SentKey { key, is_nat64 } = self.key()?;
        let (mut reply_key, mut spare) = (None, [0; 2]);
        let is_translated = self.flag()?;
        if is_nat64 && !is_translated {
            return Err(Malformed);
        }
        if is_translated {
            let SentKey { key: reply, is_nat64: is_back } = self.key()?;
            let (number, bits) = (self.word()?, self.byte()?);
            let is_twice = reply == key || reply == key.reversed();
            // A flow that has a mapping holds no block itself.
            let is_used = bits & !(MAPPING | BLOCK | INBOUND) == 0 && bits & 3 != MAPPING | BLOCK;
            // Hosts of NAT64 reach each other by addresses that only their router knows.
            let is_hairpin = is_nat64 && is_back;
            let is_ip6 = key.is_ip6() != is_nat64 || reply.is_ip6() != is_back;
            if is_hairpin || is_ip6 || is_twice || !is_used {
                return Err(Malformed);
            }
            let id = |bit: u8| (bits & bit != 0).then_some(0);
            let (mapping, block) = (id(MAPPING), id(BLOCK));
            let is_inbound = bits & INBOUND != 0;
            reply_key = Some(reply);
            spare = Uses { number, mapping, block, is_inbound }.words();
        }
        let [class, flags, zone, owner] = self.take()?;
        let is_standby = self.flag()?;
        let (start, seen) = (self.word()?, self.word()?);
        if start >= SECONDS_MAX || seen > start {
            return Err(Malformed);
        }
        let mut tcp = [0; TCP_WORDS];
        for word in tcp.iter_mut().take(state_words(&key)) {
            *word = self.word()?;
        }
        let [start, seen] = [start, seen].map(|ago| now.wrapping_sub(ago));
        let past = Past { start, seen, ..Past::default() };
        let zone_pair = u16::from(zone) << 8;
        let flow = FormerFlow { key, reply_key, class, flags, owner, zone_pair, tcp, past, spare };
        Ok(Record { flow, is_standby })
    }

    fn item(&mut self, now: u32) -> Result<Item, Malformed> {
        Ok(match self.byte()? {
            ALIVE => Item::Alive,
            NAMES => {
                let lacks_flows = self.flag()?;
                let mut names = Box::<Names>::default();
                for word in names.words_mut() {
                    *word = self.take().map(u64::from_be_bytes)?;
                }
                Item::Names(lacks_flows, names)
            }
            COMPLETE => Item::Complete,
            END => Item::End(self.key()?),
            FLOW => Item::Flow(self.flow(now)?),
            KNOWN => Item::Known(self.key()?),
            AGAIN => Item::Again,
            LEASE => Item::Lease(Box::new(self.lease(now)?)),
            LEASE_END => Item::LeaseEnd(self.lease_key()?),
            KNOWN_LEASE => Item::KnownLease(self.lease_key()?),
            _ => return Err(Malformed),
        })
    }
}

/// Reads the items of a frame at tick `now`.
///
/// # Errors
/// What follows is no item; those in front of it were read.
pub fn read(items: &[u8], now: u32, mut each: impl FnMut(Item)) -> Result<(), Malformed> {
    let mut bytes = Bytes(items);
    while !bytes.0.is_empty() {
        each(bytes.item(now)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
