//! Information elements (RFC 7012, RFC 8158 and the registry of IANA) that the exporter uses.

/// The enterprise number of the reverse direction of a flow (RFC 5103 section 6.1).
const REVERSE: u32 = 29_305;

/// An element, with a fixed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its number, below 2^15.
    pub id: u16,
    /// Bytes.
    pub length: u16,
    /// The enterprise that has defined it; 0: IANA.
    pub enterprise: u32,
}

impl Element {
    const fn of(id: u16, length: u16) -> Self {
        Self { id, length, enterprise: 0 }
    }

    /// The same of the other direction (RFC 5103).
    #[must_use]
    pub const fn reverse(self) -> Self {
        Self { enterprise: REVERSE, ..self }
    }
}

/// Declares elements.
macro_rules! elements {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $length:literal;)*) => {
        $($(#[$doc])* pub const $name: Element = Element::of($id, $length);)*
    };
}

elements! {
    /// octetDeltaCount.
    OCTETS = 1, 8;
    /// packetDeltaCount.
    PACKETS = 2, 8;
    /// protocolIdentifier.
    PROTOCOL = 4, 1;
    /// tcpControlBits.
    TCP_CONTROL_BITS = 6, 2;
    /// sourceTransportPort.
    SOURCE_PORT = 7, 2;
    /// sourceIPv4Address.
    SOURCE_IP4 = 8, 4;
    /// ingressInterface.
    INGRESS_INTERFACE = 10, 4;
    /// destinationTransportPort.
    DESTINATION_PORT = 11, 2;
    /// destinationIPv4Address.
    DESTINATION_IP4 = 12, 4;
    /// egressInterface.
    EGRESS_INTERFACE = 14, 4;
    /// sourceIPv6Address.
    SOURCE_IP6 = 27, 16;
    /// destinationIPv6Address.
    DESTINATION_IP6 = 28, 16;
    /// icmpTypeCodeIPv4.
    ICMP4_TYPE_CODE = 32, 2;
    /// exportedOctetTotalCount.
    EXPORTED_OCTETS = 40, 8;
    /// exportedMessageTotalCount.
    EXPORTED_MESSAGES = 41, 8;
    /// exportedFlowRecordTotalCount.
    EXPORTED_FLOW_RECORDS = 42, 8;
    /// flowEndReason.
    END_REASON = 136, 1;
    /// icmpTypeCodeIPv6.
    ICMP6_TYPE_CODE = 139, 2;
    /// meteringProcessId.
    METERING_PROCESS = 143, 4;
    /// exportingProcessId.
    EXPORTING_PROCESS = 144, 4;
    /// observationDomainId.
    OBSERVATION_DOMAIN = 149, 4;
    /// flowStartMilliseconds.
    START_MS = 152, 8;
    /// flowEndMilliseconds.
    END_MS = 153, 8;
    /// notSentFlowTotalCount.
    NOT_SENT_FLOWS = 166, 8;
    /// postNATSourceIPv4Address.
    POST_NAT_SOURCE_IP4 = 225, 4;
    /// postNATDestinationIPv4Address.
    POST_NAT_DESTINATION_IP4 = 226, 4;
    /// postNAPTSourceTransportPort.
    POST_NAPT_SOURCE_PORT = 227, 2;
    /// postNAPTDestinationTransportPort.
    POST_NAPT_DESTINATION_PORT = 228, 2;
    /// natEvent.
    NAT_EVENT = 230, 1;
    /// firewallEvent.
    FIREWALL_EVENT = 233, 1;
    /// ingressVRFID.
    INGRESS_VRF = 234, 4;
    /// egressVRFID.
    EGRESS_VRF = 235, 4;
    /// postNATSourceIPv6Address.
    POST_NAT_SOURCE_IP6 = 281, 16;
    /// postNATDestinationIPv6Address.
    POST_NAT_DESTINATION_IP6 = 282, 16;
    /// natPoolId.
    NAT_POOL = 283, 4;
    /// samplingProbability, a float.
    SAMPLING_PROBABILITY = 311, 8;
    /// observationTimeMilliseconds.
    TIME_MS = 323, 8;
    /// portRangeStart.
    PORT_RANGE_START = 361, 2;
    /// portRangeEnd.
    PORT_RANGE_END = 362, 2;
    /// flowSelectorAlgorithm.
    FLOW_SELECTOR = 390, 2;
    /// natInstanceID.
    NAT_INSTANCE = 463, 4;
    /// natQuotaExceededEvent.
    NAT_QUOTA_EVENT = 466, 4;
}

/// Values of natEvent (RFC 8158 section 4.3).
pub mod nat_event {
    /// No external address of the pool is free.
    pub const ADDRESSES_EXHAUSTED: u8 = 3;
    /// A session has begun.
    pub const SESSION_CREATE: u8 = 4;
    /// A session has ended.
    pub const SESSION_DELETE: u8 = 5;
    /// A session of NAT64 has begun.
    pub const NAT64_SESSION_CREATE: u8 = 6;
    /// A session of NAT64 has ended.
    pub const NAT64_SESSION_DELETE: u8 = 7;
    /// No external port is free.
    pub const PORTS_EXHAUSTED: u8 = 12;
    /// A limit was reached: natQuotaExceededEvent says which.
    pub const QUOTA_EXCEEDED: u8 = 13;
    /// A subscriber has got a block of ports.
    pub const PORT_BLOCK_ALLOCATED: u8 = 16;
    /// A subscriber has given it back.
    pub const PORT_BLOCK_RELEASED: u8 = 17;
}

/// The value of firewallEvent for a flow that was denied.
pub const DENIED: u8 = 3;

/// The value of flowSelectorAlgorithm for flows that are chosen with equal probability (RFC 7014 section 8.2.1).
pub const UNIFORM_PROBABILISTIC: u16 = 4;
