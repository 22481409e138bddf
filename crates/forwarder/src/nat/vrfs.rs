//! `ip4-nat44-vrf`: looks up packets whose destination is now that of another VRF in the table of that one, for example
//! replies to hosts of a VRF whose packets leave by an external interface of the default one. They meet no policy
//! rules: these are of the VRF that has received them.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags::TRANSLATED;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::flow_table::{FlowKey, FlowReader, Match};

use super::{Nat, VRF_NODE};
use crate::acl::flow_vrf;
use crate::arcs::{self, IP4_INPUT};
use crate::flow::tracker::Side;
use crate::ip::lookup::Address;
use crate::ip::policy::follow_route4;
use crate::ip::reverse_path::is_via;
use crate::shared::Shared;

/// Next nodes of packets besides those of the arc: the first edges of `ip4-input`.
pub const EDGES: &[&str] = crate::ip::policy::EDGES4;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP4_INPUT, VRF_NODE);
    Box::new(BetweenVrfs { shared: shared.clone(), hook })
}

struct BetweenVrfs {
    shared: Arc<Shared>,
    hook: ArcHook,
}

impl Node for BetweenVrfs {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let arc = &self.shared.arcs.ip4_input;
        let next = self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        let all = vector.flags[..lanes].iter().fold(0, |all, flags| all | flags);
        if all & TRANSLATED == 0 {
            return next;
        }
        if let Next::All(edge) = next {
            vector.next[..lanes].fill(edge);
        }
        self.cross(cx.reader, vector);
        Next::Lanes
    }
}

impl BetweenVrfs {
    /// Routes the lanes whose destination is in another VRF.
    fn cross(&self, reader: &Reader, vector: &mut Vector) {
        let (nat, flows) = (self.shared.nat.read(reader), self.shared.flows.reader(true));
        for lane in 0..vector.len() {
            if vector.flags[lane] & TRANSLATED == 0 {
                continue;
            }
            let Some(fields) = vector.known_fields() else { continue };
            let (found, destination) =
                (Match::of_word(fields.flow[lane]), fields.destination[0][lane]);
            let own = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
            let other = vrf_behind(flows, found).filter(|other| *other != own);
            // One that was deleted has no flows soon.
            let Some(vrf) = other.and_then(|other| nat.vrf(other)) else { continue };
            let table = <u32 as Address>::table(&self.shared, vrf, reader);
            let mut value = [0];
            if let Some(table) = table {
                table.lookup_batch(&[destination], &mut value);
            }
            vector.next[lane] = follow_route4(&self.shared, vector, lane, value[0]);
        }
    }
}

/// The VRF, as in keys, at the other side of a translated flow.
#[inline]
fn vrf_behind(flows: &FlowReader, found: Match) -> Option<u16> {
    let flow = flows.entry(found.id()?);
    let is_second = found.is_second_key();
    flow.has_second().then(|| if is_second { flow.key().vrf } else { flow.reply_key().vrf })
}

/// Remembers the flow of a lane that was translated from this VRF to another one, for [`BetweenVrfs`].
#[cold]
#[inline(never)]
pub(super) fn remember(
    flows: &FlowReader,
    (vector, lane): (&mut Vector, usize),
    (found, vrf): (Match, u16),
) {
    if vrf_behind(flows, found).is_some_and(|other| other != vrf)
        && let Some(fields) = vector.known_fields_mut()
    {
        fields.flow[lane] = found.word();
    }
}

/// The same for the first packet of a flow with this key.
#[inline(never)]
pub(super) fn remember_first(
    (nat, side): (&Nat, &Side),
    lane: (&mut Vector, usize),
    key: &FlowKey,
) {
    if !nat.vrfs.is_empty()
        && let Some(found) = side.find(key)
    {
        remember(side.reader(), lane, (found, key.vrf));
    }
}

impl Nat {
    /// Whether a route of a VRF, as in keys, to an address leaves by an interface.
    #[cold]
    pub(crate) fn leaves_by(
        &self,
        (shared, reader): (&Shared, &Reader),
        (vrf, address): (u16, u32),
        interface: u32,
    ) -> bool {
        let table = self.vrf(vrf).and_then(|vrf| <u32 as Address>::table(shared, vrf, reader));
        let mut value = [0];
        table.is_some_and(|table| {
            table.lookup_batch(&[address], &mut value);
            is_via(shared, value[0], interface)
        })
    }

    /// The id of a VRF in keys, if there are several.
    fn vrf(&self, of_key: u16) -> Option<u32> {
        let at = self.vrfs.binary_search_by_key(&of_key, |(it, _)| *it).ok()?;
        self.vrfs.get(at).map(|(_, id)| *id)
    }
}
