//! The classes whose packets go to the controller, in one list, and what each may cost. The policer of a class and an
//! interface limits what workers punt; the budgets here limit what crosses to the controller and back.

use super::Class;

/// A class of the punt stream.
pub struct Streamed {
    /// The class.
    pub class: Class,
    /// What it may cost.
    pub budget: Budget,
    /// Is not listed while unused.
    pub is_hidden: bool,
}

/// What a class may cost. Rates are packets per second, bursts packets.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Rate to the controller, of all interfaces together.
    pub rate: u32,
    /// Burst to the controller.
    pub burst: u32,
    /// Most bytes that wait for the controller: [`super::stream_queues::cost`].
    pub queue_bytes: usize,
    /// Rate from the controller.
    pub inject_rate: u32,
    /// Burst from the controller.
    pub inject_burst: u32,
}

/// A budget for tests: more than their packets need.
const TEST: Budget =
    Budget { rate: 1000, burst: 500, queue_bytes: 64 << 10, inject_rate: 1000, inject_burst: 500 };

/// Answers to echo requests of `ping` and `traceroute`: a few series at a time, the fastest with 100 requests per
/// second.
const PROBE: Budget =
    Budget { rate: 2000, burst: 500, queue_bytes: 256 << 10, inject_rate: 2000, inject_burst: 500 };

/// All classes. To add one, add its line here and its class to [`Class`].
pub const STREAMED: &[Streamed] = &[
    Streamed { class: Class::Test, budget: TEST, is_hidden: true },
    Streamed { class: Class::TestLink, budget: TEST, is_hidden: true },
    Streamed { class: Class::Probe, budget: PROBE, is_hidden: false },
];

/// The index of a class in [`STREAMED`]; `None`: its packets stay in the forwarder.
pub fn index_of(class: Class) -> Option<usize> {
    STREAMED.iter().position(|streamed| streamed.class == class)
}

/// Whether the class has no place in lists of policers: it is for tests.
pub fn is_hidden(class: Class) -> bool {
    STREAMED.iter().any(|streamed| streamed.class == class && streamed.is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_listed_once_with_a_budget() {
        for (at, streamed) in STREAMED.iter().enumerate() {
            assert_eq!(index_of(streamed.class), Some(at));
            let Budget { rate, burst, queue_bytes, inject_rate, inject_burst } = streamed.budget;
            assert!([rate, burst, inject_rate, inject_burst].iter().all(|limit| *limit > 0));
            // A jumbo frame, and packets that wait for a controller that restarts.
            assert!(queue_bytes >= 32 << 10, "{:?}", streamed.class);
        }
        assert_eq!(index_of(Class::Host), None);
    }
}
