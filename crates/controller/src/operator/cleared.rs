//! `clear counters`: counters of interfaces as operators see them, since they were cleared.
//!
//! The counters themselves go on: metrics, gNMI and RESTCONF need them monotonic. This module keeps their values at the
//! time of the clear and subtracts them from what the command line shows.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use stoa_api::counters::INTERFACES;
use stoa_api::v1;
use stoa_api::v1::InterfaceState;
use stoa_api::v1::forwarder_client::ForwarderClient;
use tonic::Status;
use tonic::transport::Channel;

use crate::call_error::failed;

/// The counters of an interface at the time when an operator cleared them.
#[derive(Debug)]
struct Baseline {
    /// Start of the counters. Another start means new counters, to which the baseline does not apply.
    created_unix_s: u64,
    index: u32,
    /// Of the table [`INTERFACES`].
    counters: Vec<u64>,
    cleared_unix_s: u64,
}

/// The cleared interfaces by name.
#[derive(Debug, Default)]
pub struct Cleared(Mutex<BTreeMap<String, Baseline>>);

impl Cleared {
    /// Clears the counters of the interface with this name, or of all if the name is empty. Returns their number.
    pub fn clear(&self, name: &str, interfaces: &[InterfaceState]) -> u32 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut baselines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Bounded by the number of interfaces.
        baselines.retain(|known, _| interfaces.iter().any(|it| it.name == *known));
        let mut cleared = 0;
        for interface in interfaces.iter().filter(|it| name.is_empty() || it.name == name) {
            let counters = INTERFACES.iter().map(|counter| (counter.of)(interface)).collect();
            let InterfaceState { created_unix_s, index, .. } = *interface;
            let baseline = Baseline { created_unix_s, index, counters, cleared_unix_s: now };
            baselines.insert(interface.name.clone(), baseline);
            cleared += 1;
        }
        cleared
    }

    /// Asks the forwarder for the counters and clears those of the interface with this name, or of all.
    ///
    /// # Errors
    /// When there is no such interface, or the forwarder does not answer.
    pub async fn clear_listed(
        &self,
        mut client: ForwarderClient<Channel>,
        name: &str,
    ) -> Result<v1::ClearCountersReply, Status> {
        let listed = client.list_interfaces(v1::ListInterfacesRequest::default()).await;
        let interfaces = self.clear(name, &listed.map_err(failed)?.into_inner().interfaces);
        if interfaces == 0 && !name.is_empty() {
            return Err(Status::not_found(format!(
                "there is no interface {name:?}: `show interfaces` lists them"
            )));
        }
        Ok(v1::ClearCountersReply { interfaces })
    }

    /// Makes the counters of interfaces relative to their last clear.
    pub fn subtract(&self, interfaces: &mut [InterfaceState]) {
        let baselines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if baselines.is_empty() {
            return;
        }
        for interface in interfaces {
            let Some(baseline) = baselines.get(&interface.name) else { continue };
            let counters = || INTERFACES.iter().zip(&baseline.counters);
            let is_same = baseline.index == interface.index
                && baseline.created_unix_s == interface.created_unix_s
                && counters().all(|(counter, then)| (counter.of)(interface) >= *then);
            if is_same {
                interface.cleared_unix_s = baseline.cleared_unix_s;
                for (counter, then) in counters() {
                    *(counter.of_mut)(interface) -= then;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, packets: u64) -> InterfaceState {
        InterfaceState {
            name: name.into(),
            created_unix_s: 7,
            rx_packets: packets,
            tx_drops: 2 * packets,
            ..InterfaceState::default()
        }
    }

    fn seen(cleared: &Cleared, mut one: InterfaceState) -> [u64; 3] {
        cleared.subtract(std::slice::from_mut(&mut one));
        [one.rx_packets, one.tx_drops, u64::from(one.cleared_unix_s > 0)]
    }

    #[test]
    fn counters_are_relative_to_the_last_clear_of_the_same_counters() {
        let cleared = Cleared::default();
        let all = [interface("eth0", 10), interface("eth1", 5)];
        assert_eq!(cleared.clear("eth0", &all), 1);
        assert_eq!(seen(&cleared, interface("eth0", 10)), [0, 0, 1]);
        assert_eq!(seen(&cleared, interface("eth0", 13)), [3, 6, 1]);
        assert_eq!(seen(&cleared, interface("eth1", 5)), [5, 10, 0], "it was not cleared");
        assert_eq!(seen(&cleared, interface("eth0", 4)), [4, 8, 0], "they count from 0 again");
        let again = InterfaceState { created_unix_s: 8, ..interface("eth0", 11) };
        assert_eq!(seen(&cleared, again), [11, 22, 0], "it was made again");
        assert_eq!(cleared.clear("", &all), 2);
        assert_eq!(seen(&cleared, interface("eth1", 6)), [1, 2, 1]);
        assert_eq!(cleared.clear("eth9", &all[1..]), 0);
        assert_eq!(cleared.0.lock().unwrap().len(), 1, "only interfaces that exist are kept");
    }
}
