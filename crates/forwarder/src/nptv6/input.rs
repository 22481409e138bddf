//! `ip6-nptv6-input`: gives received packets to external addresses their internal destination, from whichever interface
//! they come. One from inside gets its external source, too (hairpin, RFC 6296 section 4.3), so that answers come back
//! through the router.

use std::net::Ipv6Addr;
use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};

use super::rewrite::{DESTINATION, SOURCE, address, exchange, may_be_error, quoted, write};
use super::{INPUT_NODE, Nptv6, Pair, Tally, of_external, of_internal, refuse};
use crate::arcs::{self, IP6_INPUT};
use crate::icmp::IcmpCause;
use crate::shared::Shared;

/// Makes the node of one worker.
pub fn make_input(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP6_INPUT, INPUT_NODE);
    Box::new(Input { shared: shared.clone(), hook, worker })
}

struct Input {
    shared: Arc<Shared>,
    hook: ArcHook,
    worker: usize,
}

impl Node for Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let arc = &self.shared.arcs.ip6_input;
        let mut next = self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        let table = self.shared.nptv6.read(cx.reader);
        let mut tally = Tally::new(self.worker, false);
        let (mut interface, mut vrf, mut pairs) = (u32::MAX, 0, &[][..]);
        for lane in 0..lanes {
            if vector.rx_if[lane] != interface {
                interface = vector.rx_if[lane];
                vrf = self.shared.attributes.vrf_of(interface);
                pairs = table.of_vrf(vrf);
            }
            let destination = address(vector.bytes(lane), DESTINATION);
            let Some(pair) = of_external(pairs, destination) else { continue };
            if pair.has_own && self.is_own((vrf, cx.reader), destination) {
                continue;
            }
            match translate((vector, lane), (table, pair), destination) {
                Ok(()) => tally.add(pair, vector.length[lane]),
                Err(cause) => next = refuse(vector, (lane, cause), next),
            }
        }
        if tally.count() {
            vector.forget_flow();
        }
        next
    }
}

impl Input {
    /// Whether an address is one of the router.
    #[cold]
    fn is_own(&self, at: (u32, &Reader), address: u128) -> bool {
        self.shared.is_local6(at, Ipv6Addr::from_bits(address))
    }
}

/// Gives a packet to an external address its internal one. An error is about an address without a counterpart.
#[inline(always)]
fn translate(
    (vector, lane): (&mut Vector, usize),
    (table, pair): (&Nptv6, &Pair),
    destination: u128,
) -> Result<(), IcmpCause> {
    let inside = pair.inward(destination).ok_or_else(|| pair.refusal(DESTINATION))?;
    let source = address(vector.bytes(lane), SOURCE);
    let is_hairpin = vector.rx_if[lane] != pair.interface;
    let of_source = match is_hairpin {
        true => of_internal(table.of_interface(pair.interface), source),
        false => None,
    };
    let outside =
        of_source.map(|it| it.outward(source).ok_or_else(|| it.refusal(SOURCE))).transpose()?;
    vector.flags[lane] |= flags::TRANSLATED;
    let bytes = vector.bytes_mut(lane);
    write(bytes, DESTINATION, inside);
    if let Some(outside) = outside {
        write(bytes, SOURCE, outside);
    }
    if may_be_error(bytes)
        && let Some(at) = quoted(bytes)
        && let Some(inner) = bytes.get_mut(at..)
    {
        // What it quotes has the external source with which it was sent.
        exchange(inner, SOURCE, |it| pair.external.contains(it).then(|| pair.inward(it))?);
        if let Some(of_source) = of_source {
            let of = |it| of_source.internal.contains(it).then(|| of_source.outward(it))?;
            exchange(inner, DESTINATION, of);
        }
    }
    Ok(())
}
