//! Hosts that have logged in: the senders, or the next hops.

use stoa_forwarder::control::ForwarderState;

use super::feature::Feature;
use super::layout::{Layout, Side};
use super::setup::NEXT_HOP_MAC;
use super::workload::Workload;
use crate::forward::BenchError;

/// Logs hosts in where a feature says so. The desired state is in force.
///
/// # Errors
/// There is no room for a login.
pub(super) fn add(
    state: &mut ForwarderState,
    workload: &Workload,
    layout: &Layout,
) -> Result<(), BenchError> {
    let mut hosts = Vec::new();
    if workload.features.contains(&Feature::Login) {
        let macs = state.list_interfaces().into_iter();
        let macs: Vec<_> = macs.map(|it| (it.name, it.mac)).collect();
        for at in 0..layout.interfaces() {
            let name = layout.name(Side::In, at);
            let own = macs.iter().find(|(of, _)| *of == name).map(|(_, mac)| mac.as_slice());
            if let Some(mut mac) = own.and_then(|mac| <[u8; 6]>::try_from(mac).ok()) {
                // As the generator chooses its source.
                mac[5] ^= 1;
                hosts.push((name, mac));
            }
        }
    }
    if workload.features.contains(&Feature::LoginOutput) {
        for vrf in 0..layout.tables() {
            for hop in 0..layout.next_hops {
                let (at, _) = layout.next_hop(vrf, hop);
                let mac = NEXT_HOP_MAC + (vrf * layout.next_hops + hop) as u64;
                let [_, _, mac @ ..] = mac.to_be_bytes();
                hosts.push((layout.name(Side::Out, at), mac));
            }
        }
    }
    for (id, (interface, mac)) in (1..).zip(hosts) {
        if !state.set_login(&interface, mac, Some(id)) {
            return Err(BenchError::Refused("it has no room for a login".to_owned()));
        }
    }
    Ok(())
}
