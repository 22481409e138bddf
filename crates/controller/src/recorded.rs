//! One made-up state of counters, and what metrics and operational state make of it: recorded in `recorded/`, so that
//! names, order and values stay as they are. To record again: `STOA_UPDATE=1 cargo test`, and read the difference.

use std::path::Path;

use stoa_api::v1;

use crate::operational_state::OperationalState;

/// A state in which each counter has a value of its own.
pub(crate) fn sample() -> OperationalState {
    let session = v1::BfdSessionState {
        address: vec![192, 0, 2, 9],
        state: "up".into(),
        remote_state: "up".into(),
        downs: 21,
        rx_packets: 22,
        tx_packets: 23,
        changed_unix_s: 951_782_400,
        ..v1::BfdSessionState::default()
    };
    let router = v1::VirtualRouterState {
        vrid: 51,
        state: "master".into(),
        event: "vrrp-event-master-timeout".into(),
        created_unix_s: 951_782_400,
        transitions: (1 << 32) + 31,
        received: 32,
        sent: 33,
        interval_errors: 34,
        priority_zero_received: 35,
        priority_zero_sent: 36,
        address_errors: 37,
        ..v1::VirtualRouterState::default()
    };
    let interface = v1::InterfaceState {
        name: "wan".into(),
        driver: "null".into(),
        rx_packets: u64::MAX,
        rx_bytes: 12,
        tx_packets: 13,
        tx_bytes: 14,
        rx_drops: (1 << 32) + 15,
        rx_missed: 16,
        tx_drops: 17,
        created_unix_s: 951_782_400,
        bfd: vec![session],
        virtual_routers: vec![router],
        ..v1::InterfaceState::default()
    };
    let punt = |interface: &str, passed, dropped| v1::PuntState {
        class: "arp".into(),
        description: "ARP requests".into(),
        interface: interface.into(),
        passed,
        dropped,
        rate: 100,
        burst: 10,
        urgent: true,
    };
    let drop = |reason: &str, packets| v1::DropState {
        reason: reason.into(),
        description: "packets that".into(),
        packets,
    };
    OperationalState {
        interfaces: vec![interface],
        drops: vec![drop("no-route", 61), drop("vrrp-unknown", 0)],
        punts: vec![punt("", 41, 42), punt("wan", 43, 44)],
        ..OperationalState::default()
    }
}

/// Compares a text with the recorded one.
///
/// # Panics
/// If they differ.
pub(crate) fn compare(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/recorded").join(file);
    if std::env::var_os("STOA_UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, recorded, "{file}: left is now, right was recorded");
}
