//! ICMPv6 errors that the router itself is about to send.

use stoa_engine::Vector;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags;

use super::rewrite::{DESTINATION, SOURCE, address, write};
use super::{Pair, of_external};
use crate::shared::Shared;

/// Gives a translated lane the addresses with which it was received, so that an ICMPv6 error reaches its sender and
/// quotes what that has sent.
#[cold]
#[inline(never)]
pub fn restore(shared: &Shared, reader: &Reader, vector: &mut Vector, lane: usize) {
    if vector.flags[lane] & flags::TRANSLATED == 0 {
        return;
    }
    let table = shared.nptv6.read(reader);
    let [source, destination] = [SOURCE, DESTINATION].map(|at| address(vector.bytes(lane), at));
    let (rx, tx) = (vector.rx_if[lane], vector.tx_if[lane]);
    let of_source = of_external(table.of_interface(tx), source)
        .or_else(|| of_external(table.of_vrf(shared.attributes.vrf_of(rx)), source));
    let inside = of_source.and_then(|it| it.inward(source));
    // Several pairs can have an internal prefix: that of the receiving interface comes first.
    let of_destination = |pairs: &[Pair]| {
        let pair = pairs.iter().find(|it| it.internal.contains(destination))?;
        pair.outward(destination)
    };
    let was_inbound = of_source.is_none_or(|it| it.interface != tx);
    let outside = was_inbound.then(|| {
        let of_rx = of_destination(table.of_interface(rx));
        of_rx.or_else(|| of_destination(table.of_vrf(shared.attributes.vrf_of(rx))))
    });
    let bytes = vector.bytes_mut(lane);
    if let Some(inside) = inside {
        write(bytes, SOURCE, inside);
    }
    if let Some(outside) = outside.flatten() {
        write(bytes, DESTINATION, outside);
    }
    vector.flags[lane] &= !flags::TRANSLATED;
    vector.forget_flow();
}
