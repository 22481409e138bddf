//! What stays of a desired state that was refused.

use super::*;
use stoa_engine::pool::HugePages;

/// A failure after the packet buffers were made does not lose them.
#[test]
fn buffers_are_made_once_for_workers_that_cannot_start() {
    let mut forwarder = Forwarder::new(Limits::default(), Arc::new(stoa_ports::open));
    let workers = |cpus: Vec<usize>| {
        let few = Workers { count: 1, buffers: 512, ..Workers::default() };
        Workers { cpus, huge_pages: HugePages::Never, ..few }
    };
    let desired = |cpus| DesiredState { workers: workers(cpus), ..DesiredState::default() };
    let mut made = Vec::new();
    for _ in 0..2 {
        // There is no such CPU.
        let refused = forwarder.apply(desired(vec![1 << 20])).unwrap_err();
        assert_eq!(refused.errors[0].path, "workers");
        made.push(forwarder.pools.clone());
    }
    forwarder.apply(desired(Vec::new())).unwrap();
    made.push(forwarder.pools.clone());
    let first = made[0][0];
    assert!(made.iter().all(|pools| pools.len() == 1 && std::ptr::eq(pools[0], first)));
    assert!(std::ptr::eq(forwarder.state().unwrap().pool(), first));
}
