//! Protocols in the controller: their packets come from the forwarder by one call for all of them, and go back by it.
//!
//! ```text
//! forwarder ─ Punts ─► stream (one task) ─ channel of a class ─► capability
//! forwarder ◄─ Punts ─ stream (one task) ◄────── injections ◄─── capability
//! ```
//! A slow capability fills its own queue in the forwarder and nothing else: the forwarder sends as many packets of a
//! class as its channel has places for.

mod channel;
mod echo;
mod stream;

use std::sync::{Arc, Mutex, PoisonError};

use stoa_api::punts::{Key, test};
use stoa_api::v1::punt_stream_client::PuntStreamClient;
use tokio::sync::{Notify, mpsc};
use tonic::transport::Channel;

use self::channel::Request;
pub use self::channel::{PuntChannel, PuntSender, Refused};
use self::stream::Task;

/// Switches the capabilities for tests on.
pub const TEST_ENVIRONMENT: &str = "STOA_TEST_PUNTS";

/// Requests of channels that may wait for the task.
const REQUESTS: usize = 64;

/// A capability that runs as long as the controller.
struct Capability {
    /// Its class in the forwarder.
    class: &'static str,
    keys: &'static [Key],
    is_on: fn() -> bool,
    start: fn(PuntChannel),
}

/// All of them. Capabilities that depend on the configuration open their channels themselves: [`Punts::open`].
const CAPABILITIES: &[Capability] = &[
    Capability { class: test::CLASS, keys: &[test::KEY], is_on: is_tested, start: echo::start },
    Capability {
        class: test::LINK_CLASS,
        keys: &[test::LINK_KEY],
        is_on: is_tested,
        start: echo::start,
    },
];

fn is_tested() -> bool {
    std::env::var_os(TEST_ENVIRONMENT).is_some()
}

/// The punt stream of one forwarder.
#[derive(Debug)]
pub struct Punts {
    requests: mpsc::Sender<Request>,
    /// Wakes the task.
    changed: Arc<Notify>,
    /// Until the task runs.
    task: Mutex<Option<(PuntStreamClient<Channel>, mpsc::Receiver<Request>)>>,
}

impl Punts {
    /// The stream of the forwarder behind `channel`.
    pub fn new(channel: Channel) -> Punts {
        let (requests, received) = mpsc::channel(REQUESTS);
        let task = Mutex::new(Some((PuntStreamClient::new(channel), received)));
        Punts { requests, changed: Arc::default(), task }
    }

    /// Receives the packets of a class with these keys until the channel is dropped. A class has one channel: a newer
    /// one replaces the former, which ends.
    pub async fn open(&self, class: &'static str, keys: Vec<Key>) -> PuntChannel {
        let (class, channel) =
            channel::open(class, keys, (self.requests.clone(), Arc::clone(&self.changed)));
        // The task ends with the controller.
        let _ = self.requests.send(Request::Open(class)).await;
        channel
    }

    /// Starts the capabilities for tests, as [`TEST_ENVIRONMENT`] does.
    pub async fn start_tests(&self) {
        self.start(|capability| [test::CLASS, test::LINK_CLASS].contains(&capability.class)).await;
    }

    async fn start(&self, is_on: impl Fn(&Capability) -> bool) {
        for capability in CAPABILITIES.iter().filter(|capability| is_on(capability)) {
            (capability.start)(self.open(capability.class, capability.keys.to_vec()).await);
        }
    }

    /// Runs the capabilities of the list and the stream, forever.
    pub async fn run(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((client, requests)) = task {
            self.start(|capability| (capability.is_on)()).await;
            Task::new(client, requests, Arc::clone(&self.changed)).run().await;
        }
        // Must not complete: that would stop the controller.
        std::future::pending::<()>().await;
    }
}
