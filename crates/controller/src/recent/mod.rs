//! What happened recently, for a client that was not there: the traffic of the last hour, and log messages.

mod log;
mod series;
mod traffic;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use stoa_api::v1::forwarder_client::ForwarderClient;
use stoa_api::v1::log_client::LogClient;
use stoa_api::{MESSAGE_LIMIT_BYTES, v1};
use tonic::Status;
use tonic::transport::Channel;

pub use log::ProgramMessage;
use series::SAMPLES;
pub use series::{INTERVAL_S, Points, Rates};
use traffic::{Counters, InterfaceSample, Sample, Traffic};

/// The sampler rests this many times as long as a sample took: it takes at most a fiftieth of the forwarder's control
/// thread, however many interfaces there are. Intervals without a sample are gaps.
const REST: u32 = 49;

/// The recent past of a router.
#[derive(Debug)]
pub struct Recent {
    forwarder: ForwarderClient<Channel>,
    forwarder_log: LogClient<Channel>,
    started: Instant,
    traffic: Mutex<Traffic>,
}

/// The traffic of the last hour, or of the time since the controller started.
#[derive(Clone, Debug)]
pub struct TrafficHistory {
    /// Length of the interval of a point, in seconds.
    pub interval_s: u64,
    /// End of the last interval.
    pub end: SystemTime,
    /// The time since then.
    pub age: Duration,
    /// All ports together, if requested.
    pub total: Option<Points>,
    /// The requested interfaces that exist and have a history.
    pub interfaces: Vec<(String, Points)>,
}

impl Recent {
    /// Of the forwarder at the other end of `channel`.
    pub(crate) fn new(channel: Channel) -> Recent {
        let forwarder =
            ForwarderClient::new(channel.clone()).max_decoding_message_size(MESSAGE_LIMIT_BYTES);
        Recent {
            forwarder,
            forwarder_log: LogClient::new(channel),
            started: Instant::now(),
            traffic: Mutex::default(),
        }
    }

    /// Samples the traffic until the controller ends.
    pub(crate) async fn run(&self) {
        loop {
            let passed = self.started.elapsed();
            let interval = Duration::from_secs(INTERVAL_S);
            let part = Duration::from_nanos((passed.as_nanos() % interval.as_nanos()) as u64);
            tokio::time::sleep(interval - part).await;
            let begun = Instant::now();
            if let Ok(sample) = self.sample().await {
                let at = self.started.elapsed();
                // Removed interfaces and new ones of 65,536 take milliseconds, for which no client may wait.
                self.traffic().record(at, sample);
            }
            tokio::time::sleep(begun.elapsed() * REST).await;
        }
    }

    async fn sample(&self) -> Result<Sample, Status> {
        let mut client = self.forwarder.clone();
        let interfaces =
            client.list_interfaces(v1::ListInterfacesRequest::default()).await?.into_inner();
        let all = client.get_conservation(v1::GetConservationRequest {}).await?.into_inner();
        let interfaces = interfaces.interfaces.into_iter().map(|state| InterfaceSample {
            is_port: state.parent.is_empty(),
            created_unix_s: state.created_unix_s,
            counters: Counters {
                in_packets: state.rx_packets,
                out_packets: state.tx_packets,
                in_octets: state.rx_bytes,
                out_octets: state.tx_bytes,
                dropped: state.rx_drops + state.tx_drops + state.rx_missed,
            },
            name: state.name,
        });
        Ok(Sample { interfaces: interfaces.collect(), dropped: all.dropped })
    }

    /// The names of all interfaces at the last sample.
    pub fn interfaces(&self) -> Vec<String> {
        self.traffic().names()
    }

    /// The traffic of the last hour in intervals of about `resolution_s` seconds, a multiple of [`INTERVAL_S`]: of the
    /// named interfaces, and of all ports together if `has_total`.
    pub fn traffic_history(
        &self,
        interfaces: &[String],
        has_total: bool,
        resolution_s: u64,
    ) -> TrafficHistory {
        let samples = resolution_s.div_ceil(INTERVAL_S).clamp(1, SAMPLES as u64) as usize;
        let (now, at) = (SystemTime::now(), self.started.elapsed());
        let traffic = self.traffic();
        let age = at.saturating_sub(Duration::from_secs(traffic.newest() * INTERVAL_S));
        let named = interfaces
            .iter()
            .filter_map(|name| Some((name.clone(), traffic.interface(name, samples)?)));
        TrafficHistory {
            interval_s: samples as u64 * INTERVAL_S,
            end: now.checked_sub(age).unwrap_or(now),
            age,
            total: has_total.then(|| traffic.total(samples)),
            interfaces: named.collect(),
        }
    }

    /// The last messages of controller and forwarder, newest first: at most `limit`, at most as detailed as `level`.
    pub async fn log_messages(&self, limit: usize, level: &str) -> Vec<ProgramMessage> {
        let mut client = self.forwarder_log.clone();
        let reply = client.list_messages(v1::ListMessagesRequest {}).await;
        let forwarder = reply.map(|reply| reply.into_inner().messages).unwrap_or_default();
        log::merged(stoa_log::recent(), forwarder, limit, level)
    }

    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
