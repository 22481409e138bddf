//! Sessions of packets: on their way through the graph, in copies, and to another worker.

use stoa_engine::pool::HugePages;
use stoa_engine::replicate::CopyTo;
use stoa_engine::vector::LaneSet;
use stoa_engine::worker::Plan;
use stoa_engine::{Context, Next, Node, Pool, Vector};

use crate::bench::*;

/// The session of a packet by its number: one of three has none.
fn expected(bytes: &[u8]) -> u32 {
    let number = u32::from(number(bytes));
    if number.is_multiple_of(3) { 0 } else { number + 1_000_000 }
}

/// Sets the sessions on worker 0, and sends a copy of each packet to port 1; odd packets go on by worker 1.
struct Mark;

impl Node for Mark {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        if cx.worker == 1 {
            return Next::All(0);
        }
        let mut odd = LaneSet::first_of(0);
        for lane in 0..vector.len() {
            let session = expected(vector.bytes(lane));
            if session != 0 {
                vector.sessions_mut()[lane] = session;
            }
            vector.tx_if[lane] = 0;
            vector.next[lane] = 0;
            if number(vector.bytes(lane)) % 2 == 1 {
                odd.insert(lane);
            }
        }
        let lanes = LaneSet::first_of(vector.len());
        cx.replicate(vector, &lanes, &[CopyTo { edge: 0, tx_if: 1, arg: 0 }]);
        cx.hand_over(vector, &odd, 1);
        Next::Lanes
    }
}

/// Checks them.
struct Check;

impl Node for Check {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            assert_eq!(vector.session(lane), expected(vector.bytes(lane)));
        }
        Next::All(0)
    }
}

#[test]
fn a_session_stays_with_its_packet_and_copies() {
    let pool = Pool::leak(4096, HugePages::Never).unwrap();
    let nodes = vec![
        spec("mark", &["check"], |_, _| Box::new(Mark)),
        spec("check", OUT, |_, _| Box::new(Check)),
    ];
    let plan = Plan { count: 2, is_stepped: true, ..Plan::default() };
    let mut bench =
        Bench { worker_pool: start(&plan, &graph(nodes).unwrap(), pool).unwrap(), pool };
    let ports = [bench.port(0, 0), bench.port(0, 1), bench.port(1, 0)];
    for round in 0..3 {
        for n in 0..200_u16 {
            let [high, low] = (round * 200 + n).to_be_bytes();
            bench.inject(0, "sort", &[b'o', 0, high, low]);
        }
        for worker in [0, 1] {
            bench.worker_pool.workers[worker].step();
        }
    }
    let of = |is_odd: u16| (0..600).filter(|n| n % 2 == is_odd).collect::<Vec<_>>();
    assert_eq!(receive(&ports[0], 300), of(0));
    assert_eq!(receive(&ports[1], 600), (0..600).collect::<Vec<_>>());
    assert_eq!(receive(&ports[2], 300), of(1));
    bench.close();
}
