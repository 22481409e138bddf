//! Tests of what is sent, dropped and counted.

use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::node::Punts;
use crate::pool::{HugePages, PoolCache};
use crate::quiescence::{Quiescence, Reader};

/// Takes `capacity` lanes, of which its device refuses the second.
struct Picky {
    capacity: usize,
    refused: Refused,
}

impl TxQueue for Picky {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        self.refused.add(vector, 1..2);
        self.capacity
    }

    fn refused(&mut self) -> Refused {
        std::mem::take(&mut self.refused)
    }
}

/// Takes all lanes; its device refuses ten frames of earlier bursts with the first one.
struct Late(Refused);

impl TxQueue for Late {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        vector.len()
    }

    fn refused(&mut self) -> Refused {
        std::mem::take(&mut self.0)
    }
}

/// Takes all lanes; of the first burst its device refuses one frame after a while, and keeps
/// two when it goes.
#[derive(Default)]
struct Slow {
    counted: bool,
}

impl TxQueue for Slow {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        vector.len()
    }

    fn refused(&mut self) -> Refused {
        // Right after the burst nothing is known yet.
        match std::mem::replace(&mut self.counted, true) {
            false => Refused::default(),
            true => Refused { packets: 1, bytes: 100 },
        }
    }

    fn close(&mut self) -> Refused {
        Refused { packets: 2, bytes: 500 }
    }
}

/// Takes all lanes and reports their lengths, a list for each burst.
struct Recorder(Sender<Vec<u16>>);

impl TxQueue for Recorder {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        self.0.send(vector.length[..vector.len()].to_vec()).unwrap();
        vector.len()
    }
}

/// Sends six lanes of 100 to 600 bytes each time, by interfaces and their ports, of which 3
/// has the queue.
fn counted(queue: Box<dyn TxQueue>, paths: &[(u32, u32)]) -> WorkerCounters {
    sent(queue, paths).1
}

fn sent(queue: Box<dyn TxQueue>, paths: &[(u32, u32)]) -> (Output, WorkerCounters) {
    let bursts: Vec<_> = paths.iter().map(|(interface, _)| [*interface; 6]).collect();
    sent_mixed(vec![(3, queue)], paths, &bursts)
}

/// Sends six lanes of 100 to 600 bytes for each burst of interfaces.
fn sent_mixed(
    queues: Vec<(u32, Box<dyn TxQueue>)>,
    paths: &[(u32, u32)],
    bursts: &[[u32; 6]],
) -> (Output, WorkerCounters) {
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let counters = WorkerCounters::new(1, drops::ENGINE.len(), 1).unwrap();
    let ((urgent, _urgent), (usual, _usual)) = (rtrb::RingBuffer::new(1), rtrb::RingBuffer::new(1));
    let mut punts = Punts { urgent, usual };
    let quiescence = Quiescence::new(1);
    // SAFETY: nothing is published here.
    let reader = unsafe { Reader::new(&quiescence) };
    let mut trace_capture = crate::trace_capture::TraceCapture::default();
    let mut output = Output::new(pool, 0).unwrap();
    for (base, queue) in queues {
        output.set(base, TxSlot::Own(queue, Refused::default()), &counters);
    }
    for (interface, base) in paths {
        output.map(*interface, *base);
    }
    for interfaces in bursts {
        assert_eq!(cache.fill(&mut vector, 6), 6);
        for (lane, interface) in interfaces.iter().enumerate() {
            vector.length[lane] = 100 * (lane as u16 + 1);
            vector.tx_if[lane] = *interface;
        }
        let mut walk = Walk {
            worker: 0,
            counters: &counters,
            pool: &mut cache,
            punts: &mut punts,
            reader: &reader,
            trace_capture: &mut trace_capture,
        };
        output.send(&mut vector, &mut walk);
        assert!(vector.is_empty());
    }
    let drops = counters.dropped();
    let all = 6 * bursts.len() as u64;
    assert_eq!(counters.ledger.sent.get() + drops, all, "conserved");
    drop((vector, cache));
    (output, counters)
}

/// Packets and bytes sent, packets dropped.
fn of(counters: &WorkerCounters, interface: usize) -> [u64; 3] {
    let counters = &counters.interfaces[interface];
    [&counters.tx_packets, &counters.tx_bytes, &counters.tx_drops].map(|it| it.get())
}

fn dropped_by<const N: usize>(counters: &WorkerCounters, reasons: [Reason; N]) -> [u64; N] {
    reasons.map(|reason| counters.drops[reason.0 as usize].get())
}

#[test]
fn what_is_not_sent_is_dropped_by_name() {
    let queue = Picky { capacity: 4, refused: Refused::default() };
    let counters = counted(Box::new(queue), &[(7, 3), (3, 3), (9, NO_INTERFACE)]);
    // Lanes 0, 2 and 3 of four taken: 100 + 300 + 400 bytes.
    let by = [7, 3, 9].map(|interface| of(&counters, interface));
    assert_eq!(by, [[3, 800, 3], [6, 1600, 6], [0, 0, 6]]);
    let by = dropped_by(&counters, [drops::TX_REFUSED, drops::TX_FULL, drops::TX_NO_PORT]);
    assert_eq!((counters.ledger.sent.get(), by), (6, [2, 4, 6]));
}

#[test]
fn more_refusals_than_a_burst_has_packets_count_with_the_next() {
    let refused = Refused { packets: 10, bytes: 3000 };
    let counters = counted(Box::new(Late(refused)), &[(3, 3), (3, 3), (3, 3)]);
    // 18 packets of 6300 bytes, less the ten.
    assert_eq!(of(&counters, 3), [8, 3300, 10]);
    assert_eq!(dropped_by(&counters, [drops::TX_REFUSED]), [10]);
}

#[test]
fn what_is_refused_late_is_booked_without_another_burst() {
    let (mut output, counters) = sent(Box::new(Slow::default()), &[(3, 3)]);
    assert_eq!(of(&counters, 3), [6, 2100, 0]);
    output.settle(&counters);
    assert_eq!(of(&counters, 3), [5, 2000, 1]);
    assert_eq!(dropped_by(&counters, [drops::TX_REFUSED, drops::TX_NO_PORT]), [1, 0]);
    // And when the port goes, with what it still has.
    output.set(3, TxSlot::Closed, &counters);
    assert_eq!(of(&counters, 3), [2, 1400, 4]);
    assert_eq!(dropped_by(&counters, [drops::TX_REFUSED, drops::TX_NO_PORT]), [2, 2]);
    assert_eq!(counters.ledger.sent.get() + counters.dropped(), 6, "conserved");
    output.settle(&counters);
    assert_eq!(of(&counters, 3), [2, 1400, 4]);
}

#[test]
fn lanes_leave_by_port_in_order_and_count_at_their_interfaces() {
    let ((three, at_three), (four, at_four)) = (channel(), channel());
    let queues: Vec<(u32, Box<dyn TxQueue>)> =
        vec![(3, Box::new(Recorder(three))), (4, Box::new(Recorder(four)))];
    // 7 and 8 are sub-interfaces of 3. The second vector needs one port, the third has two
    // interfaces that are none or have none.
    let paths = [(3, 3), (4, 4), (7, 3), (8, 3), (9, NO_INTERFACE)];
    let beyond = 3 + INTERFACES as u32;
    let bursts = [[7, 4, 3, 8, 4, 7], [8, 7, 8, 7, 3, 8], [9, 9, beyond, 4, 4, 9]];
    let (_, counters) = sent_mixed(queues, &paths, &bursts);
    let lists: Vec<_> = at_three.try_iter().collect();
    assert_eq!(lists, [vec![100, 300, 400, 600], vec![100, 200, 300, 400, 500, 600]]);
    let lists: Vec<_> = at_four.try_iter().collect();
    assert_eq!(lists, [[200, 500], [400, 500]]);
    let by = [3, 4, 7, 8, 9].map(|interface| of(&counters, interface));
    let expected = [[10, 3500, 0], [4, 1600, 0], [4, 1300, 0], [4, 1400, 0], [0, 0, 3]];
    assert_eq!(by, expected);
    assert_eq!(dropped_by(&counters, [drops::TX_NO_PORT]), [4]);
}

#[test]
fn without_sub_interfaces_lanes_leave_by_port_just_so() {
    let (three, at_three) = channel();
    let queues: Vec<(u32, Box<dyn TxQueue>)> = vec![(3, Box::new(Recorder(three)))];
    let paths = [(3, 3), (9, NO_INTERFACE)];
    let (_, counters) = sent_mixed(queues, &paths, &[[3, 9, 3, 5, 3, 3]]);
    assert_eq!(at_three.try_iter().collect::<Vec<_>>(), [[100, 300, 500, 600]]);
    let by = [3, 9, 5].map(|interface| of(&counters, interface));
    assert_eq!(by, [[4, 1500, 0], [0, 0, 1], [0, 0, 1]]);
}

#[test]
fn a_refused_lane_counts_at_its_interface_and_unknown_ones_at_the_port() {
    let queue = Picky { capacity: 4, refused: Refused { packets: 1, bytes: 250 } };
    let queues: Vec<(u32, Box<dyn TxQueue>)> = vec![(3, Box::new(queue))];
    let paths = [(3, 3), (7, 3), (8, 3)];
    let (_, counters) = sent_mixed(queues, &paths, &[[7, 8, 7, 8, 7, 3]]);
    // Four are taken, of which the second is refused, and one more that was sent before.
    let by = [7, 8, 3].map(|interface| of(&counters, interface));
    assert_eq!(by, [[2, 400, 1], [1, 400, 1], [2, 550, 4]]);
    let by = dropped_by(&counters, [drops::TX_REFUSED, drops::TX_FULL]);
    assert_eq!((counters.ledger.sent.get(), by), (2, [2, 2]));
}
