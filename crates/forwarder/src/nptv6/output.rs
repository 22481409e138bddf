//! `ip6-nptv6-output`: gives packets that leave by an external interface their external source. Packets of the router
//! itself are no exception: nobody outside could answer their internal source.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};

use super::rewrite::{DESTINATION, SOURCE, address, exchange, may_be_error, quoted, write};
use super::{OUTPUT_NODE, Pair, Tally, of_external, of_internal, refuse};
use crate::arcs::{self, IP6_OUTPUT};
use crate::shared::Shared;

/// Makes the node of one worker.
pub fn make_output(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP6_OUTPUT, OUTPUT_NODE);
    Box::new(Output { shared: shared.clone(), hook, worker })
}

struct Output {
    shared: Arc<Shared>,
    hook: ArcHook,
    worker: usize,
}

impl Node for Output {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let arc = &self.shared.arcs.ip6_output;
        let mut next = self.hook.proceed(arc, &vector.tx_if, lanes, &mut vector.next);
        let table = self.shared.nptv6.read(cx.reader);
        let mut tally = Tally::new(self.worker, true);
        let (mut interface, mut pairs) = (u32::MAX, &[][..]);
        let mut is_any = false;
        for lane in 0..lanes {
            if vector.tx_if[lane] != interface {
                interface = vector.tx_if[lane];
                pairs = table.of_interface(interface);
            }
            let source = address(vector.bytes(lane), SOURCE);
            match of_internal(pairs, source) {
                Some(pair) => match pair.outward(source) {
                    Some(outside) => {
                        write(vector.bytes_mut(lane), SOURCE, outside);
                        vector.flags[lane] |= flags::TRANSLATED;
                        tally.add(pair, vector.length[lane]);
                    }
                    None => {
                        next = refuse(vector, (lane, pair.refusal(SOURCE)), next);
                        continue;
                    }
                },
                // It has its external source since it waited for a neighbour.
                None if of_external(pairs, source).is_some() => continue,
                None => {}
            }
            // A router inside may have an address of another prefix.
            if may_be_error(vector.bytes(lane)) && !pairs.is_empty() {
                is_any |= translate_quoted(vector.bytes_mut(lane), pairs);
            }
        }
        if tally.count() || is_any {
            vector.forget_flow();
        }
        next
    }
}

/// A host inside has got the quoted packet with its internal address, and the sender knows the external one.
fn translate_quoted(bytes: &mut [u8], pairs: &[Pair]) -> bool {
    let Some(inner) = quoted(bytes).and_then(|at| bytes.get_mut(at..)) else { return false };
    exchange(inner, DESTINATION, |it| of_internal(pairs, it)?.outward(it))
}
