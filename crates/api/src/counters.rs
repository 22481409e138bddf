//! What capabilities count: a table for each kind of row. A line has all forms of a counter; `stoa show`, the
//! operational state (RESTCONF, gNMI) and the metrics are made of it.

use crate::v1;

/// A counter of rows `T`.
#[derive(Debug)]
pub struct Counter<T> {
    /// The field of the contract, and the key in `stoa show ... --json`.
    pub key: &'static str,
    /// The heading of its column in `stoa show`, in lower case.
    pub column: Option<&'static str>,
    /// Its leaf in the operational state.
    pub leaf: Option<Leaf>,
    /// Its metric.
    pub metric: Option<Metric>,
    /// The value of a row.
    pub of: fn(&T) -> u64,
    /// The value of a row, to change it.
    pub of_mut: fn(&mut T) -> &mut u64,
}

/// A leaf of a YANG module, by its name in RFC 7951 encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A `counter64`.
    Long(&'static str),
    /// A `counter32`, which wraps.
    Short(&'static str),
}

/// A metric, which becomes `stoa_NAME_UNIT_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What it counts, for its readers.
    pub help: &'static str,
}

/// The columns of a table, aligned to the right.
pub fn columns<T>(counters: &'static [Counter<T>]) -> impl Iterator<Item = &'static Counter<T>> {
    counters.iter().filter(|counter| counter.column.is_some())
}

/// Tables of counters: the field, then its column, leaf and metric where it has them.
macro_rules! counters {
    ($($(#[$doc:meta])* $table:ident: $row:ident {
        $($field:ident {
            $(column $column:literal)?
            $(leaf $size:ident $leaf:literal)?
            $(metric $name:literal $unit:literal $help:literal)?
        })*
    })*) => {$(
        $(#[$doc])*
        pub const $table: &[Counter<v1::$row>] = &[$(Counter {
            key: stringify!($field),
            column: counters!(@some $($column)?),
            leaf: counters!(@some $(Leaf::$size($leaf))?),
            metric: counters!(@some $(Metric { name: $name, unit: $unit, help: $help })?),
            of: |row| row.$field,
            of_mut: |row| &mut row.$field,
        }),*];
    )*};
    (@some) => { None };
    (@some $value:expr) => { Some($value) };
}

mod ipsec;

pub use ipsec::SECURITY_ASSOCIATIONS;

counters! {
    /// Workers.
    WORKERS: WorkerState {
        loops { leaf Long "loops" metric "worker_loops" "" "Iterations of the main loop of a worker" }
        sleeps { leaf Long "sleeps" metric "worker_sleeps" "" "Sleeps of a worker" }
        packets {
            leaf Long "packets"
            metric "worker_receive" "packets" "Packets that a worker received"
        }
        handed_out {
            leaf Long "handed-out"
            metric "worker_handed_out" "packets" "Packets sent to other workers"
        }
        handed_in {
            leaf Long "handed-in"
            metric "worker_handed_in" "packets" "Packets received from other workers"
        }
        cross_node {
            leaf Long "cross-node"
            metric "worker_cross_node" "packets" "Packets received from another NUMA node, each with a copy"
        }
    }
    /// Graph nodes, by worker.
    NODES: NodeState {
        calls {
            leaf Long "calls"
            metric "node" "vectors" "Calls of a node, each with a vector of packets"
        }
        packets { leaf Long "packets" metric "node" "packets" "Packets that a node processed" }
        cycles {
            leaf Long "cycles"
            metric "node" "cycles" "Cycles of the time stamp counter that a node used"
        }
    }
    /// Interfaces. Metrics are in the order of their names.
    INTERFACES: InterfaceState {
        rx_packets {
            column "rx packets"
            leaf Long "stoa-interfaces:in-pkts"
            metric "interface_receive" "packets" "Packets received"
        }
        rx_bytes {
            column "rx bytes"
            leaf Long "in-octets"
            metric "interface_receive" "bytes" "Bytes received"
        }
        tx_packets {
            column "tx packets"
            leaf Long "stoa-interfaces:out-pkts"
            metric "interface_transmit" "packets" "Packets sent"
        }
        tx_bytes {
            column "tx bytes"
            leaf Long "out-octets"
            metric "interface_transmit" "bytes" "Bytes sent"
        }
        rx_drops {
            leaf Short "in-discards"
            metric "interface_receive_drops" "packets" "Packets dropped after the interface received them"
        }
        rx_missed {
            leaf Long "stoa-interfaces:in-missed"
            metric "interface_receive_missed" "packets" "Packets dropped by the device or its rings"
        }
        tx_drops {
            leaf Short "out-discards"
            metric "interface_transmit_drops" "packets" "Packets that the port did not accept"
        }
    }
    /// BFD sessions.
    BFD_SESSIONS: BfdSessionState {
        downs { column "downs" leaf Long "session-down-count" }
        rx_packets { leaf Long "receive-packet-count" }
        tx_packets { leaf Long "send-packet-count" }
    }
    /// Virtual routers.
    VIRTUAL_ROUTERS: VirtualRouterState {
        transitions { column "transitions" leaf Short "master-transitions" }
        received { leaf Long "advertisement-rcvd" }
        sent { leaf Long "advertisement-sent" }
        interval_errors { leaf Long "interval-errors" }
        priority_zero_received { leaf Long "priority-zero-pkts-rcvd" }
        priority_zero_sent { leaf Long "priority-zero-pkts-sent" }
        address_errors { leaf Long "address-list-errors" }
    }
    /// Classes of punted packets, of all interfaces together and of each.
    PUNTS: PuntState {
        passed {
            column "passed"
            leaf Long "passed"
            metric "punt_passed" "packets" "Packets that passed the control-plane policer, by class"
        }
        dropped {
            column "dropped"
            leaf Long "dropped"
            metric "punt_dropped" "packets" "Packets that the control-plane policer dropped, by class"
        }
    }
    /// Collectors of IPFIX.
    COLLECTORS: IpfixCollectorState {
        messages {
            column "messages"
            leaf Long "messages"
            metric "ipfix_sent" "messages" "IPFIX messages sent to a collector"
        }
        records {
            column "records"
            leaf Long "records"
            metric "ipfix_sent" "records" "Records sent to a collector"
        }
        bytes { column "bytes" leaf Long "octets" metric "ipfix_sent" "bytes" "Bytes of these messages" }
        lost_messages {
            leaf Long "lost-messages"
            metric "ipfix_lost" "messages" "Messages for which a collector had no room or no connection"
        }
        lost_records {
            column "lost records"
            leaf Long "lost-records"
            metric "ipfix_lost" "records" "Records of these messages"
        }
        connections {
            leaf Long "connections"
            metric "ipfix_connections" "" "TCP connections to a collector"
        }
    }
    /// Export by IPFIX.
    EXPORT: IpfixState {
        flow_records {
            leaf Long "flow-records"
            metric "ipfix_flow" "records" "Records of flows that were made"
        }
        nat_records {
            leaf Long "nat-records"
            metric "ipfix_nat" "records" "Records of address translation that were made"
        }
        denial_records {
            leaf Long "denial-records"
            metric "ipfix_denial" "records" "Records of refused packets that were made"
        }
        other_records {
            leaf Long "other-records"
            metric "ipfix_other" "records" "Records of statistics that were made"
        }
        lost_records {
            leaf Long "lost-records"
            metric "ipfix_unmade" "records" "Flows and events for which workers found no room"
        }
        unreported_flows {
            leaf Long "unreported-flows"
            metric "ipfix_unreported" "flows" "Flows that were not reported before their end"
        }
        suppressed_nat_events {
            leaf Long "suppressed-nat-events"
            metric "ipfix_nat_suppressed" "events" "Events of address translation beyond the limit of a second"
        }
    }
    /// Logins at a partner.
    LOGIN_SYNC: LoginSyncState {
        connections {
            leaf Long "connections"
            metric "login_sync_connections" "" "Connections to a partner that knows the secret"
        }
        refused_connections {
            leaf Long "refused-connections"
            metric "login_sync_refused" "connections" "Connections with another secret, version or address"
        }
        sent_logins {
            leaf Long "sent-logins"
            metric "login_sync_sent" "logins" "Logins sent to the partner, new and again"
        }
        sent_ends {
            leaf Long "sent-ends"
            metric "login_sync_sent" "ends" "Ends of logins sent to the partner"
        }
        received_logins {
            leaf Long "received-logins"
            metric "login_sync_received" "logins" "Logins received from the partner, new and again"
        }
        received_ends {
            leaf Long "received-ends"
            metric "login_sync_received" "ends" "Ends of logins received from the partner"
        }
        added_logins {
            leaf Long "added-logins"
            metric "login_sync_added" "logins" "Standby logins added"
        }
        taken_over_logins {
            leaf Long "taken-over-logins"
            metric "login_sync_taken_over" "logins" "Standby logins whose hosts send here"
        }
        refused_logins {
            leaf Long "refused-logins"
            metric "login_sync_refused" "logins" "Logins of the partner that this router cannot have"
        }
    }
    /// Flows at a partner.
    FLOW_SYNC: FlowSyncState {
        connections {
            leaf Long "connections"
            metric "flow_sync_connections" "" "Connections to a partner that knows the secret"
        }
        refused_connections {
            leaf Long "refused-connections"
            metric "flow_sync_refused" "connections" "Connections with another secret, version or address"
        }
        sent_records {
            leaf Long "sent-records"
            metric "flow_sync_sent" "records" "Records of flows sent to the partner"
        }
        sent_ends {
            leaf Long "sent-ends"
            metric "flow_sync_sent" "ends" "Ends of flows sent to the partner"
        }
        left_out_flows {
            leaf Long "left-out-flows"
            metric "flow_sync_left_out" "flows" "Flows with state beside the table that were not sent"
        }
        queue_full {
            leaf Long "queue-full"
            metric "flow_sync_queue_full" "" "How often sending paused because the partner was slow"
        }
        received_records {
            leaf Long "received-records"
            metric "flow_sync_received" "records" "Records of flows received from the partner"
        }
        received_ends {
            leaf Long "received-ends"
            metric "flow_sync_received" "ends" "Ends of flows received from the partner"
        }
        created_flows {
            leaf Long "created-flows"
            metric "flow_sync_created" "flows" "Standby flows created"
        }
        refreshed_flows {
            leaf Long "refreshed-flows"
            metric "flow_sync_refreshed" "flows" "Standby flows that got a newer state"
        }
        ended_flows {
            leaf Long "ended-flows"
            metric "flow_sync_ended" "flows" "Standby flows that the partner has ended"
        }
        ignored_records {
            leaf Long "ignored-records"
            metric "flow_sync_ignored" "records" "Records of flows that have packets here"
        }
        refused_expired {
            leaf Long "refused-expired"
            metric "flow_sync_refused_expired" "records" "Records of flows whose timeout has passed"
        }
        refused_vrf {
            leaf Long "refused-vrf"
            metric "flow_sync_refused_vrf" "records" "Records of flows of VRFs that this router lacks"
        }
        refused_translation {
            leaf Long "refused-translation"
            metric "flow_sync_refused_translation" "records" "Records of flows that the own configuration does not translate like this"
        }
        refused_room {
            leaf Long "refused-room"
            metric "flow_sync_refused_room" "records" "Records without room, or whose key or external port another flow has"
        }
        refused_damaged {
            leaf Long "refused-damaged"
            metric "flow_sync_refused_damaged" "records" "Records with values that no flow has"
        }
        sent_leases {
            leaf Long "sent-leases"
            metric "flow_sync_sent" "leases" "Leases of hosts sent to the partner"
        }
        received_leases {
            leaf Long "received-leases"
            metric "flow_sync_received" "leases" "Leases of hosts received from the partner"
        }
        created_leases {
            leaf Long "created-leases"
            metric "flow_sync_created" "leases" "Standby leases created"
        }
        ended_leases {
            leaf Long "ended-leases"
            metric "flow_sync_ended" "leases" "Standby leases that the partner has ended"
        }
    }
    /// Drop reasons.
    DROPS: DropState {
        packets {
            column "packets"
            leaf Long "packets"
            metric "drop" "packets" "Packets dropped, by reason"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_all_forms() {
        let [rx_packets, ..] = INTERFACES else { panic!("counters") };
        let row = v1::InterfaceState { rx_packets: 7, ..v1::InterfaceState::default() };
        assert_eq!((rx_packets.key, (rx_packets.of)(&row)), ("rx_packets", 7));
        assert_eq!(rx_packets.leaf, Some(Leaf::Long("stoa-interfaces:in-pkts")));
        let columns: Vec<_> = columns(INTERFACES).filter_map(|counter| counter.column).collect();
        assert_eq!(columns, ["rx packets", "rx bytes", "tx packets", "tx bytes"]);
    }
}
