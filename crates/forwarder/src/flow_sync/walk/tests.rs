//! What is sent of flows, and when.

mod translated;

use std::sync::Arc;
use std::time::Instant;

use stoa_engine::quiescence::Quiescence;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::Tuple;
use stoa_tables::lpm::Kernel;
use stoa_wire::protocol;

use super::due::{REFRESH_PART, REFRESH_S, REPEAT_S};
use super::*;
use crate::flow::flows::{Now, Sizes};
use crate::flow::timeouts::Class;
use crate::flow::tracker::{Admission, FlowTracker};
use crate::flow_sync::message::{Item, read};
use crate::flow_sync::standby::Given;

/// The tick at which flows begin.
const BEGIN: u32 = 1_000;
const ESTABLISHED: u8 = Class::TcpEstablished as u8;
/// The number of the connection.
const NUMBER: u32 = 3;

/// Flows of one worker, and what is read of them.
struct Table {
    flows: Arc<Flows>,
    tracker: FlowTracker,
    walk: Walk,
    timeouts: [u32; 256],
}

fn key(number: u32) -> FlowKey {
    let (source, source_port) = (0x0a00_0000 + number / 16, 4_000 + number as u16 % 16);
    let protocol = protocol::TCP;
    let flow = Flow { source, destination: 9, source_port, destination_port: 80, protocol };
    FlowKey::ip4(flow, 0)
}

fn former(number: u32, class: u8, flags: u8) -> FormerFlow {
    FormerFlow {
        key: key(number),
        reply_key: None,
        class,
        flags,
        owner: 0,
        zone_pair: 0,
        tcp: [0; _],
        past: Past { start: BEGIN, seen: BEGIN, ..Past::default() },
        spare: [0; 2],
    }
}

impl Table {
    fn new(count: u32) -> Self {
        let sizes = Sizes { ip4: count, ip6: 8, translated: 8, mappings: 8 };
        let flows = Flows::new(sizes, Kernel::Bits, 1, &Quiescence::new(1)).unwrap();
        let flows = Arc::new(flows);
        assert!(flows.standby().prepare([true, false].map(|it| flows.capacity(it))));
        let timeouts = flows.profiles().timeouts();
        let tracker = flows.tracker(0).unwrap();
        Self { flows, tracker, walk: Walk::new(Kind::Ip4), timeouts }
    }

    /// A flow of this router; its id.
    fn create(&mut self, number: u32, class: u8) -> u32 {
        self.create_with(number, class, 0)
    }

    fn create_with(&mut self, number: u32, class: u8, flags: u8) -> u32 {
        self.tracker.of(true).adopt(&former(number, class, flags), None, 1).unwrap()
    }

    /// A record of the partner has given it this.
    fn give(&mut self, id: u32, seen: u32, connection: u32) {
        self.give_of(id, seen, connection, true);
    }

    fn give_of(&mut self, id: u32, seen: u32, connection: u32, is_theirs: bool) {
        let flow = self.flows.reader(true).entry(id);
        flow.refresh(seen);
        let (start, class) = (flow.start(), flow.class());
        let given = Given { start, seen, class, connection, is_theirs };
        self.tracker.of(true).set_standby(id, given, 1);
    }

    fn seen(&self, id: u32, tick: u32) {
        self.flows.reader(true).entry(id).refresh(tick);
    }

    /// A rule gives it another profile, and its class with it.
    fn change(&mut self, id: u32, tick: u32) {
        let admission =
            Admission { epoch: 2, rule: 1, profile: 1, is_confirmed: true, received: 0 };
        self.tracker.of(true).judge(id, admission, Now { tick, ms: 0 });
    }

    fn moment(&self, now: u32) -> Moment<'_> {
        Moment {
            now,
            age_s: 5,
            is_bulk: false,
            has_standby: false,
            connection: NUMBER,
            is_swept: false,
            timeouts: &self.timeouts,
        }
    }

    /// What a walk over all flows sends.
    fn walk(&mut self, now: u32, change: impl Fn(&mut Moment<'_>)) -> Vec<Item> {
        let (mut sent, mut items) = (Vec::new(), Vec::new());
        let timeouts = self.timeouts;
        let mut moment = Moment { timeouts: &timeouts, ..self.moment(now) };
        change(&mut moment);
        while !self.walk.turn(&self.flows, moment, |_| true, &mut sent).is_done {}
        read(&sent, now, |item| items.push(item)).unwrap();
        items
    }

    fn sends(&mut self, now: u32) -> Vec<Item> {
        self.walk(now, |_| {})
    }
}

fn is_bulk(moment: &mut Moment<'_>) {
    moment.is_bulk = true;
}

/// The keys of records, whether they are standby.
fn records(items: &[Item]) -> Vec<(FlowKey, bool)> {
    let of = |item: &Item| match item {
        Item::Flow(it) => (it.flow.key, it.is_standby),
        other => panic!("{other:?}"),
    };
    items.iter().map(of).collect()
}

#[test]
fn flows_are_sent_once_when_they_are_old_enough() {
    let mut table = Table::new(64);
    table.create(1, ESTABLISHED);
    table.create(2, Class::TcpOpening as u8);
    table.create(3, Class::TcpTimeWait as u8);
    assert_eq!(table.sends(BEGIN + 4), []);
    assert_eq!(records(&table.sends(BEGIN + 5)), [(key(1), false)]);
    assert_eq!(table.sends(BEGIN + 3_600), []);
}

#[test]
fn packets_are_sent_now_and_then_and_changes_at_once() {
    let mut table = Table::new(64);
    let id = table.create(1, ESTABLISHED);
    assert_eq!(table.sends(BEGIN + 5).len(), 1);
    table.seen(id, BEGIN + 10);
    assert_eq!(table.sends(BEGIN + 5 + REFRESH_S - 1), []);
    assert_eq!(records(&table.sends(BEGIN + 5 + REFRESH_S)), [(key(1), false)]);
    table.change(id, BEGIN + 36);
    assert_eq!(records(&table.sends(BEGIN + 36)), [(key(1), false)]);
    // What has a short timeout is sent more often.
    let id = table.create(2, Class::Icmp as u8);
    assert_eq!(table.sends(BEGIN + 40).len(), 1);
    table.seen(id, BEGIN + 41);
    assert_eq!(table.sends(BEGIN + 54), []);
    assert_eq!(table.sends(BEGIN + 40 + 60 / REFRESH_PART).len(), 1);
}

#[test]
fn ends_are_sent_of_what_was_sent() {
    let mut table = Table::new(64);
    let ids = [table.create(1, ESTABLISHED), table.create(2, Class::TcpTimeWait as u8)];
    assert_eq!(table.sends(BEGIN + 5).len(), 1);
    ids.iter().for_each(|id| table.tracker.of(true).remove(*id));
    assert_eq!(table.sends(BEGIN + 6), [Item::End(key(1).into())]);
    assert_eq!(table.sends(BEGIN + 7), []);
    // Another flow has the key by now.
    let id = table.create(3, ESTABLISHED);
    assert_eq!(table.sends(BEGIN + 8).len(), 1);
    table.tracker.of(true).remove(id);
    table.create(3, Class::TcpOpening as u8);
    assert_eq!(table.sends(BEGIN + 9), []);
}

#[test]
fn a_standby_flow_is_sent_when_it_has_packets() {
    let mut table = Table::new(64);
    let ids = [1, 2, 3].map(|number| table.create(number, ESTABLISHED));
    ids.iter().for_each(|id| table.give(*id, BEGIN + 1, NUMBER));
    assert_eq!(table.sends(BEGIN + 20), []);
    // It closes at once, before it was ever sent: the partner has it.
    table.seen(ids[0], BEGIN + 21);
    table.change(ids[1], BEGIN + 21);
    assert_eq!(records(&table.sends(BEGIN + 21)), [(key(1), false), (key(2), false)]);
    // The partner may have had packets a moment ago: it hears of it once more.
    assert_eq!(table.sends(BEGIN + 20 + REPEAT_S), []);
    let again = records(&table.sends(BEGIN + 21 + REPEAT_S));
    assert_eq!(again, [(key(1), false), (key(2), false)]);
    assert_eq!(table.sends(BEGIN + 90), []);
    // The end of what is standby is that of the partner.
    ids.iter().for_each(|id| table.tracker.of(true).remove(*id));
    assert_eq!(table.sends(BEGIN + 91), [Item::End(key(1).into()), Item::End(key(2).into())]);
    // In between two walks, one has come, and has had packets that have ended it.
    let id = table.create(4, Class::TcpTimeWait as u8);
    table.give(id, BEGIN + 90, NUMBER);
    table.seen(id, BEGIN + 91);
    assert_eq!(records(&table.sends(BEGIN + 91)), [(key(4), false)]);
}

/// Rules judge the first packet, also in the second of the record.
#[test]
fn a_packet_in_the_second_of_the_record_makes_it_a_flow_of_this_router() {
    let mut table = Table::new(64);
    let id = table.create(1, ESTABLISHED);
    table.give(id, BEGIN + 1, NUMBER);
    assert_eq!(table.sends(BEGIN + 1), []);
    let admission = Admission { epoch: 2, rule: 1, profile: 0, is_confirmed: true, received: 0 };
    table.tracker.of(true).judge(id, admission, Now { tick: BEGIN + 1, ms: 0 });
    assert_eq!(records(&table.sends(BEGIN + 1)), [(key(1), false)]);
    table.give(id, BEGIN + 2, NUMBER);
    assert_eq!(table.sends(BEGIN + 2), []);
}

#[test]
fn packets_and_the_end_between_two_walks_are_known() {
    let mut table = Table::new(64);
    let ids = [1, 2].map(|number| table.create(number, ESTABLISHED));
    ids.iter().for_each(|id| table.give(*id, BEGIN + 1, NUMBER));
    assert_eq!(table.sends(BEGIN + 20), []);
    table.seen(ids[0], BEGIN + 21);
    ids.iter().for_each(|id| table.tracker.of(true).remove(*id));
    assert_eq!(table.sends(BEGIN + 22), [Item::End(key(1).into())]);
}

#[test]
fn a_bulk_names_what_the_partner_may_have() {
    let lacks = |moment: &mut Moment<'_>| (moment.is_bulk, moment.has_standby) = (true, true);
    for has_all in [true, false] {
        let mut table = Table::new(64);
        table.create(1, ESTABLISHED);
        table.create(2, Class::TcpTimeWait as u8);
        table.create(3, Class::TcpOpening as u8);
        for (number, connection) in [(4, NUMBER - 1), (5, NUMBER)] {
            let id = table.create(number, ESTABLISHED);
            table.give(id, BEGIN + 1, connection);
        }
        if has_all {
            let items = table.walk(BEGIN + 9, is_bulk);
            assert_eq!(records(&items[..1]), [(key(1), false)]);
            // What has come by this connection with packets, the partner has.
            assert_eq!(items[1..], [2, 3, 4].map(|it| Item::Known(key(it).into())));
        } else {
            let items = table.walk(BEGIN + 9, lacks);
            let standby = [(key(4), true), (key(5), true)];
            assert_eq!(
                (records(&items[..1]), &items[1..3]),
                (vec![(key(1), false)], &[2, 3].map(|it| Item::Known(key(it).into()))[..])
            );
            assert_eq!(records(&items[3..]), standby);
        }
        assert_eq!(table.sends(BEGIN + 9), [], "all is known");
    }
}

/// If the partner has only said that the flow is there, it may be standby at both.
#[test]
fn what_the_partner_has_named_without_packets_is_named_in_turn() {
    let mut table = Table::new(64);
    let ids = [1, 2, 3].map(|number| table.create(number, ESTABLISHED));
    table.give(ids[0], BEGIN + 1, NUMBER - 1);
    table.tracker.of(true).know_standby(&key(1), NUMBER);
    table.give_of(ids[1], BEGIN + 1, NUMBER, false);
    table.give(ids[2], BEGIN + 1, NUMBER);
    assert_eq!(table.walk(BEGIN + 9, is_bulk), [1, 2].map(|it| Item::Known(key(it).into())));
    // It has ended there, and has come again, before another bulk.
    table.tracker.of(true).know_standby(&key(3), NUMBER);
    table.walk.begin_again();
    assert_eq!(table.walk(BEGIN + 9, is_bulk), [1, 2, 3].map(|it| Item::Known(key(it).into())));
}

/// With a greater `minimum-age` than before, the partner has flows that are not sent yet.
#[test]
fn a_bulk_names_young_flows_and_sends_them_when_they_are_old_enough() {
    let mut table = Table::new(64);
    let id = table.create(1, ESTABLISHED);
    assert_eq!(table.walk(BEGIN + 1, is_bulk), [Item::Known(key(1).into())]);
    table.change(id, BEGIN + 2);
    assert_eq!(table.sends(BEGIN + 4), []);
    assert_eq!(records(&table.sends(BEGIN + 5)), [(key(1), false)]);
}

#[test]
fn a_bulk_names_what_it_leaves_out() {
    let mut table = Table::new(64);
    table.create_with(1, ESTABLISHED, SPLICED);
    let id = table.create(2, ESTABLISHED);
    let items = table.walk(BEGIN + 9, is_bulk);
    assert_eq!(items[..1], [Item::Known(key(1).into())]);
    assert_eq!(records(&items[1..]), [(key(2), false)]);
    table.seen(id, BEGIN + 50);
    assert_eq!(records(&table.sends(BEGIN + 50)), [(key(2), false)]);
}

/// A record that takes the memory of a flow may have the same first second.
#[test]
fn the_end_of_a_flow_is_sent_when_one_with_the_same_start_has_its_memory() {
    let mut table = Table::new(64);
    let id = table.create(2, ESTABLISHED);
    assert_eq!(table.sends(BEGIN + 5).len(), 1);
    table.give(id, BEGIN + 1, NUMBER);
    // What it had sent was of another one.
    let (mut of, at) = (Vec::new(), table.walk.sent.iter().position(|it| it.round != 0).unwrap());
    SentKey::from(key(1)).put(&mut of);
    table.walk.keys[at * of.len()..][..of.len()].copy_from_slice(&of);
    assert_eq!(table.sends(BEGIN + 6), [Item::End(key(1).into())]);
    assert_eq!(table.sends(BEGIN + 7), []);
}

#[test]
fn another_bulk_sends_all_again_and_forgets_no_end() {
    let mut table = Table::new(64);
    let ids = [1, 2].map(|number| table.create(number, ESTABLISHED));
    assert_eq!(table.walk(BEGIN + 9, is_bulk).len(), 2);
    for _ in 0..300 {
        table.walk.begin_again();
        assert_eq!(table.walk(BEGIN + 9, is_bulk).len(), 2);
        assert_eq!(table.walk(BEGIN + 9, is_bulk).len(), 0);
    }
    table.walk.begin_again();
    table.tracker.of(true).remove(ids[1]);
    let items = table.walk(BEGIN + 9, is_bulk);
    assert_eq!(records(&items[..1]), [(key(1), false)]);
    assert_eq!(items[1..], [Item::End(key(2).into())]);
}

/// One worker has all of them, and may have started again since.
#[test]
fn only_what_no_connection_has_named_is_swept() {
    let mut table = Table::new(64);
    let ids = [1, 2, 3, 4].map(|number| table.create(number, ESTABLISHED));
    table.give(ids[0], BEGIN + 1, NUMBER - 1);
    table.give(ids[1], BEGIN + 1, NUMBER);
    table.give(ids[2], BEGIN + 1, NUMBER - 1);
    table.seen(ids[2], BEGIN + 2);
    let waiting = |table: &mut Table| {
        let ring = &mut table.tracker.intake().ring;
        std::iter::from_fn(|| ring.pop().ok()).collect::<Vec<_>>()
    };
    table.sends(BEGIN + 9);
    assert_eq!(waiting(&mut table), []);
    table.walk(BEGIN + 9, |it| it.is_swept = true);
    assert_eq!(waiting(&mut table), [Work::Sweep(key(1), NUMBER)]);
    let side = table.tracker.of(true);
    // What has come in the meantime counts: it is named by now, or has packets.
    side.know_standby(&key(1), NUMBER);
    assert_eq!([1, 2, 3, 4].map(|it| side.sweep_standby(&key(it), NUMBER)), [None; 4]);
    assert!(side.sweep_standby(&key(1), NUMBER + 1).is_some());
}

/// `STOA_TEST_FLOWS=1000000 cargo test --release -p stoa-forwarder walks_over_many -- --nocapture` prints the time.
#[test]
fn walks_over_many_flows_end() {
    let count = std::env::var("STOA_TEST_FLOWS").map_or(3_000, |it| it.parse().unwrap());
    let mut table = Table::new(count);
    for number in 0..count {
        table.create(number, ESTABLISHED);
    }
    let mut took = |change: fn(&mut Moment<'_>)| {
        let begin = Instant::now();
        let items = table.walk(BEGIN + 9, change).len();
        (items, begin.elapsed())
    };
    let (sent, first) = took(is_bulk);
    let (none, next) = took(|_| {});
    assert_eq!((sent, none), (count as usize, 0));
    println!("{count} flows: {first:?} with records, {next:?} without");
}
