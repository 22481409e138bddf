//! `ip4-login` and `ip6-login`: let packets of hosts pass that have logged in, and decide about those of others. They
//! are behind the reverse path check, so that forged senders cause no answers, and before access lists, which concern
//! hosts that have logged in.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_tables::exact_match::ABSENT;

use super::admits::{Treatment, hop_limit, is_local};
use super::shares::Kind;
use super::source::Framing;
use super::traffic::Tally;
use super::{INPUT_NODES, LoginInterface, send_lane};
use crate::acl::argument_of;
use crate::arcs::{self, IP4_INPUT, IP6_INPUT};
use crate::drops::Drop;
use crate::flow::fields::{of_ip4, of_ip6};
use crate::icmp::IcmpCause;
use crate::shared::Shared;

/// Next nodes of IPv4 packets besides those of the arc.
pub const EDGES4: &[&str] = &["icmp4-error", "ip4-login-redirect"];
/// Next nodes of IPv6 packets besides those of the arc.
pub const EDGES6: &[&str] = &["icmp6-error", "ip6-login-redirect"];
const ERROR: u16 = 0;
const REDIRECT: u16 = 1;

/// Makes the IPv4 node of one worker.
pub fn make_input4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    Input::boxed((shared, worker), arcs::hook(IP4_INPUT, INPUT_NODES[0]), true)
}

/// Makes the IPv6 node of one worker.
pub fn make_input6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    Input::boxed((shared, worker), arcs::hook(IP6_INPUT, INPUT_NODES[1]), false)
}

struct Input {
    shared: Arc<Shared>,
    hook: ArcHook,
    worker: usize,
    is_ip4: bool,
    /// The sender of each lane.
    keys: Box<[u64; VECTOR]>,
    /// The login of each lane; [`ABSENT`]: none.
    logins: Box<[u32; VECTOR]>,
}

impl Node for Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let Self { shared, hook, worker, is_ip4, keys, logins } = self;
        let (shared, lanes) = (&**shared, vector.len());
        let arc = if *is_ip4 { &shared.arcs.ip4_input } else { &shared.arcs.ip6_input };
        let mut next = hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        let table = shared.logins.read(cx.reader);
        let mut tally = Tally::new(&shared.login_traffic, *worker, false, cx.now);
        let mut start = 0;
        while start < lanes {
            let interface = vector.rx_if[start];
            let same = vector.rx_if[start..lanes].iter().take_while(|it| **it == interface);
            let end = start + same.count();
            if argument_of(*hook, arc, interface) != 0 {
                let of = table.of(interface);
                let (keys, logins) = (&mut keys[start..end], &mut logins[start..end]);
                find(shared, (vector, start), of, keys, logins);
                for (lane, login) in (start..end).zip(logins) {
                    match *login {
                        ABSENT => {
                            let host = (of, keys[lane - start]);
                            let decided = decide(shared, cx, (vector, lane), host, *is_ip4);
                            if let Some(edge) = decided {
                                send_lane(&mut next, (vector, lane), edge);
                            }
                        }
                        login => tally.add(login, vector.length[lane]),
                    }
                }
            }
            start = end;
        }
        tally.count();
        next
    }
}

impl Input {
    fn boxed(
        (shared, worker): (&Arc<Shared>, usize),
        hook: ArcHook,
        is_ip4: bool,
    ) -> Box<dyn Node> {
        let (keys, logins) = (Box::new([0; VECTOR]), Box::new([ABSENT; VECTOR]));
        Box::new(Self { shared: shared.clone(), hook, worker, is_ip4, keys, logins })
    }
}

/// Finds the logins of lanes from one on, which one interface has received.
#[inline]
fn find(
    shared: &Shared,
    (vector, start): (&mut Vector, usize),
    of: Option<&LoginInterface>,
    keys: &mut [u64],
    logins: &mut [u32],
) {
    let Some(of) = of else { return logins.fill(ABSENT) };
    let framing = Framing::of(shared, vector.rx_if[start], of);
    for (lane, key) in (start..).zip(keys.iter_mut()) {
        *key = framing.key(vector, lane);
    }
    of.hosts.lookup_batch(keys, logins);
    // One that is moved at this moment is not absent.
    for (key, login) in keys.iter().zip(logins) {
        if *login == ABSENT {
            *login = of.hosts.get(*key).unwrap_or(ABSENT);
        }
    }
}

/// Where a packet of an unknown host goes, which has a key; `None`: it passes.
#[cold]
fn decide(
    shared: &Shared,
    cx: &Context<'_>,
    (vector, lane): (&mut Vector, usize),
    (of, key): (Option<&LoginInterface>, u64),
    is_ip4: bool,
) -> Option<u16> {
    let Some(of) = of else { return Some(Drop::LoginRequired.next()) };
    let treatment = treatment(shared, cx.reader, (vector, lane), of, is_ip4);
    let share = match treatment {
        Treatment::Pass => return None,
        Treatment::Drop => return Some(Drop::LoginRequired.next()),
        Treatment::Query => Kind::Query,
        Treatment::Redirect | Treatment::Reset => Kind::Answer,
    };
    if !has_share(shared, share, (of, vector.rx_if[lane], key), cx.now) {
        return Some(Drop::LoginShare.next());
    }
    match treatment {
        Treatment::Redirect => Some(REDIRECT),
        Treatment::Reset => {
            vector.arg[lane] = IcmpCause::Login.code();
            Some(ERROR)
        }
        _ => None,
    }
}

/// Whether a host of an interface has not caused too much yet; one packet more counts. Hosts without an address have a
/// share together.
pub(super) fn has_share(
    shared: &Shared,
    kind: Kind,
    (of, interface, key): (&LoginInterface, u32, u64),
    now: u64,
) -> bool {
    let host = shared.identifications.hash((interface, key));
    shared.login_shares.take(kind, &of.rates, (host, shared.policers.time(now)))
}

/// What becomes of a packet of an unknown host.
fn treatment(
    shared: &Shared,
    reader: &Reader,
    (vector, lane): (&Vector, usize),
    of: &LoginInterface,
    is_ip4: bool,
) -> Treatment {
    let bytes = vector.bytes(lane);
    let packet = if is_ip4 { of_ip4(bytes) } else { of_ip6(bytes) };
    let at = (shared.attributes.vrf_of(vector.rx_if[lane]), reader);
    let local = |address| is_local(shared, at, address);
    of.admits.treatment(is_ip4, &packet, hop_limit(is_ip4, bytes), local)
}
