//! The test capability: sequence numbers that go on after the forwarder was killed. It runs only where a test asks for
//! it ([`stoa_warm_restart::probe`]).

use stoa_warm_restart::probe::{Counting, ENTRIES};

use super::capability::{Capability, Start, Verbs};

/// The thread that counts, where a test has asked for it.
pub(super) struct TestSequences {
    counting: Option<Counting>,
}

impl Capability for TestSequences {
    const VERBS: Verbs = Verbs {
        end: |state| drop(state.capabilities.test_sequences.counting.take()),
        ..Verbs::NONE
    };

    fn start(start: &Start<'_>) -> Self {
        let journal = start.journal();
        let opened = journal.and_then(|journal| Some((start.open(ENTRIES)?, journal)));
        let counting = opened.map(|(opened, journal)| Counting::start(opened, journal));
        let counting = counting.transpose().unwrap_or_else(|error| {
            start.fail(error.into());
            None
        });
        Self { counting }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use stoa_api::v1;
    use stoa_api::v1::port::Driver;
    use stoa_ports::{OpenError, PortConfig};
    use stoa_warm_restart::Regions;
    use stoa_warm_restart::probe::{Journal, verify};

    use crate::control::desired::DesiredState;
    use crate::control::{Forwarder, Limits};

    fn state(workers: u32) -> DesiredState {
        let port = v1::Port {
            interface: "a".to_owned(),
            driver: Some(Driver::Null(v1::Null {})),
            ..v1::Port::default()
        };
        let interface = v1::Interface { name: "a".to_owned(), ..v1::Interface::default() };
        let workers = v1::Workers { count: workers, buffers: 4096, ..v1::Workers::default() };
        DesiredState::parse(&v1::Desired {
            workers: Some(workers),
            ports: vec![port],
            interfaces: vec![interface],
            ..v1::Desired::default()
        })
        .unwrap()
    }

    #[test]
    fn a_second_start_in_one_process_goes_on_with_the_numbers() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let journal = Journal::new(file.as_file_mut().try_clone().unwrap());
        let regions = Regions::in_this_process().with_journal(Some(journal));
        let read = || std::fs::read_to_string(file.path()).unwrap();
        // The first two states are refused; with another number of workers, all capabilities start again.
        let opened = AtomicUsize::new(0);
        let open = move |config: &PortConfig, pool| match opened.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(OpenError::Config { field: "port", reason: "refused".to_owned() }),
            _ => stoa_ports::open(config, pool),
        };
        let mut forwarder =
            Forwarder::stepped(Limits::default(), Arc::new(open)).with_regions(regions);
        for workers in [1, 3, 2] {
            let applied = forwarder.apply(state(workers)).is_ok();
            assert_eq!(applied, workers == 2);
            let written = read().len();
            let start = Instant::now();
            while read()[written..].matches("wrote").count() < 10 {
                assert!(start.elapsed() < Duration::from_secs(30), "it counts: {}", read());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(forwarder);
        let summary = verify(&read()).unwrap();
        assert_eq!((summary.lives, summary.torn), (3, 0), "{summary:?}");
    }
}
