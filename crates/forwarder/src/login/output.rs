//! `ip4-login-output` and `ip6-login-output`: count what hosts get that have logged in, by the destination MAC address
//! of the adjacency. Unknown hosts get answers of what they may reach, and nothing of others: whoever takes the MAC
//! address of another host as its source, or never logs in, receives nothing under its own.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::adjacency::AdjacencyKind;

use super::admits::{is_local, source};
use super::traffic::Tally;
use super::{LoginInterface, Logins, OUTPUT_NODES, key, send_lane};
use crate::arcs::{self, IP4_OUTPUT, IP6_OUTPUT};
use crate::drops::Drop;
use crate::flow::fields::{of_ip4, of_ip6};
use crate::shared::Shared;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Makes the IPv4 node of one worker.
pub fn make_output4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP4_OUTPUT, OUTPUT_NODES[0]);
    Box::new(Output { shared: shared.clone(), hook, worker, is_ip4: true })
}

/// Makes the IPv6 node of one worker.
pub fn make_output6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP6_OUTPUT, OUTPUT_NODES[1]);
    Box::new(Output { shared: shared.clone(), hook, worker, is_ip4: false })
}

struct Output {
    shared: Arc<Shared>,
    hook: ArcHook,
    worker: usize,
    is_ip4: bool,
}

/// Whom packets with an adjacency are for.
#[derive(Clone, Copy)]
enum Receiver<'a> {
    /// Hosts of the interface need not log in.
    Any,
    /// A host that has logged in.
    Known(u32),
    /// Another one.
    Unknown(&'a LoginInterface, u32),
}

impl Node for Output {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let arcs = &self.shared.arcs;
        let arc = if self.is_ip4 { &arcs.ip4_output } else { &arcs.ip6_output };
        let lanes = vector.len();
        let mut next = self.hook.proceed(arc, &vector.tx_if, lanes, &mut vector.next);
        let table = self.shared.logins.read(cx.reader);
        let mut tally = Tally::new(&self.shared.login_traffic, self.worker, true, cx.now);
        let (mut adjacency, mut receiver) = (None, Receiver::Any);
        for lane in 0..lanes {
            // Packets to one host have one adjacency.
            if adjacency != Some(vector.adjacency[lane]) {
                adjacency = Some(vector.adjacency[lane]);
                receiver = self.receiver(table, vector.adjacency[lane]);
            }
            match receiver {
                Receiver::Any => {}
                Receiver::Known(login) => tally.add(login, vector.length[lane]),
                Receiver::Unknown(of, interface) => {
                    let at = (self.shared.attributes.vrf_of(interface), cx.reader);
                    // Answers of the router to it: redirects and resets have the address of a site.
                    let is_own = vector.flags[lane] & flags::OWN != 0;
                    if !is_own && !self.may_get(at, of, vector.bytes(lane)) {
                        send_lane(&mut next, (vector, lane), Drop::LoginRequired.next());
                    }
                }
            }
        }
        tally.count();
        next
    }
}

impl Output {
    /// Whom packets with an adjacency are for: the neighbour whose MAC address it has.
    fn receiver<'a>(&self, table: &'a Logins, adjacency: u32) -> Receiver<'a> {
        let Some(line) = self.shared.adjacencies.get(adjacency) else { return Receiver::Any };
        let head = line.head();
        let Some(of) = table.of(head.interface()) else { return Receiver::Any };
        if head.kind() != AdjacencyKind::Complete || head.rewrite_len() < ETHERNET {
            return Receiver::Any;
        }
        let bytes = self.shared.adjacencies.rewrite(line);
        let start = bytes.len().checked_sub(head.rewrite_len());
        let mac = start.and_then(|start| bytes.get(start..)?.first_chunk::<6>());
        match mac.and_then(|mac| of.hosts.get(key(mac))) {
            Some(login) => Receiver::Known(login),
            None => Receiver::Unknown(of, head.interface()),
        }
    }

    /// Whether an unknown host may get a packet.
    #[cold]
    fn may_get(&self, at: (u32, &Reader), of: &LoginInterface, bytes: &[u8]) -> bool {
        let packet = if self.is_ip4 { of_ip4(bytes) } else { of_ip6(bytes) };
        let local = |address| is_local(&self.shared, at, address);
        of.admits.is_sender(source(self.is_ip4, &packet), local)
    }
}
