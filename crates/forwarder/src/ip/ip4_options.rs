//! `ip4-options`: processes the record-route and timestamp options of transit packets; other options
//! pass unchanged (RFC 791 3.1, RFC 1812 4.2.2.1 and 5.3.13). Its next node is `ip4-rewrite`.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::lpm::Ip4LpmReader;
use stoa_tables::next_hop::Resolved;
use stoa_wire::ipv4_options::{self, Recorder};
use stoa_wire::{checksum, ipv4};

use crate::icmp::IcmpCause;
use crate::shared::{Shared, SpecialNextHop};

/// Next nodes; the packets already have an adjacency.
pub const EDGES: &[&str] = &["ip4-rewrite", "icmp4-error"];
const REWRITE: u16 = 0;
const ERROR: u16 = 1;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip4Options { shared: shared.clone() })
}

struct Ip4Options {
    shared: Arc<Shared>,
}

impl Node for Ip4Options {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let addresses = self.shared.addresses.read(cx.reader);
        let time = since_midnight();
        for lane in 0..vector.len() {
            let line = self.shared.adjacencies.get(vector.adjacency[lane]);
            let leaves_by = line.map_or(0, |line| line.head().interface());
            let vrf = self.shared.attributes.vrf_of(vector.rx_if[lane]);
            let table = self.shared.ip4_table(vrf, cx.reader);
            let address = addresses.source4(leaves_by).unwrap_or(Ipv4Addr::UNSPECIFIED);
            let is_own = vector.flags[lane] & flags::OWN != 0;
            let bytes = vector.bytes_mut(lane);
            // An ICMP time exceeded quotes the packet as received; locally generated packets are
            // complete.
            let passes = is_own || bytes.get(8).is_none_or(|ttl| *ttl <= 1);
            let done =
                if passes { Ok(()) } else { record(&self.shared, table, (address, time), bytes) };
            vector.next[lane] = match done {
                Ok(()) => REWRITE,
                Err(pointer) => {
                    vector.arg[lane] = IcmpCause::Header(pointer).code();
                    ERROR
                }
            };
        }
        Next::Lanes
    }
}

/// Writes the address of the outgoing interface into the options of a packet and updates the
/// checksum; the error is the offset of the invalid byte.
fn record(
    shared: &Shared,
    table: Option<&Ip4LpmReader>,
    (address, time): (Ipv4Addr, u32),
    bytes: &mut [u8],
) -> Result<(), u16> {
    let is_own = |ip: Ipv4Addr| {
        let value = table.map_or(0, |table| table.lookup(ip.into()));
        matches!(shared.next_hops.resolve(value, 0),
            Resolved::Special { code, .. } if SpecialNextHop::of(code) == SpecialNextHop::Local)
    };
    let header = usize::from(bytes.first().copied().unwrap_or(0) & 0xf) * 4;
    let Some(options) = bytes.get_mut(ipv4::LENGTH..header) else { return Ok(()) };
    let done = ipv4_options::record(options, &Recorder { address, time, is_own });
    // Also after an error: the ICMP error quotes the packet with the options written so far.
    bytes[10..12].fill(0);
    let sum = checksum::ones_complement(&bytes[..header]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    done.map_err(|at| (ipv4::LENGTH + at) as u16)
}

/// Milliseconds since midnight UTC (RFC 791 3.1). Reading the clock takes no system call (vDSO).
pub(crate) fn since_midnight() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_millis() % 86_400_000) as u32
}

/// The error in the options of a received packet: a wrong length or a source route (RFC 7126 4.3,
/// RFC 1812 5.3.13.4).
#[cold]
pub(super) fn fault(bytes: &[u8]) -> Option<IcmpCause> {
    let header = usize::from(bytes.first().copied().unwrap_or(0) & 0xf) * 4;
    let options = bytes.get(ipv4::LENGTH..header)?;
    if let Some(at) = ipv4_options::fault(options) {
        return Some(IcmpCause::Header((ipv4::LENGTH + at) as u16));
    }
    let seen = ipv4_options::inspect(options).ok()?;
    seen.source_route.then_some(IcmpCause::SourceRoute)
}

/// The edge of a routed packet: this node if the packet has options.
#[inline(always)]
pub(super) fn through_options(next: u16, bytes: &[u8]) -> u16 {
    let has_options = bytes.first().is_some_and(|byte| *byte != 0x45);
    if next == super::REWRITE && has_options { super::OPTIONS } else { next }
}
