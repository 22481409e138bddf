//! Events of address translation, and refused packets.

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use netgauze_flow_pkt::ie::{Field, firewallEvent, natEvent, natQuotaExceededEvent};
use stoa_forwarder::ipfix::{Denial, NatEvent, NatEventKind};

use super::received::Decoded;
use super::{Lab, VRF, ends, ip4, ports, time};

#[derive(Arbitrary, Debug)]
enum What {
    AddressesExhausted,
    PortsExhausted,
    QuotaExceeded,
    PortBlock { is_allocated: bool, external: u32, ports: (u16, u16) },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Subscriber {
    Ip4(u32),
    /// A host of NAT64.
    Ip6(u8),
}

#[derive(Arbitrary, Debug)]
pub struct Event {
    what: What,
    instance: u32,
    subscriber: Subscriber,
    protocol: u8,
    vrf: u16,
}

impl Event {
    pub fn record(&self, lab: &Lab) -> NatEvent {
        let kind = match self.what {
            What::AddressesExhausted => NatEventKind::AddressesExhausted,
            What::PortsExhausted => NatEventKind::PortsExhausted,
            What::QuotaExceeded => NatEventKind::QuotaExceeded,
            What::PortBlock { is_allocated, external, ports } => {
                NatEventKind::PortBlock { is_allocated, external: ip4(external).to_bits(), ports }
            }
        };
        let subscriber = self.subscriber4(lab).to_bits();
        let Self { instance, protocol, vrf, .. } = *self;
        NatEvent { kind, instance, subscriber, protocol, vrf }
    }

    /// Its IPv4 address, or its stand-in.
    fn subscriber4(&self, lab: &Lab) -> Ipv4Addr {
        match self.subscriber {
            Subscriber::Ip4(bits) => ip4(bits),
            Subscriber::Ip6(host) => Ipv4Addr::from_bits(lab.known(host).0),
        }
    }

    pub fn expected(&self, lab: &Lab, now_ms: u64) -> Decoded {
        let subscriber = match self.subscriber {
            Subscriber::Ip4(bits) => Field::sourceIPv4Address(ip4(bits)),
            Subscriber::Ip6(host) => Field::sourceIPv6Address(lab.known(host).1),
        };
        let protocol = Field::protocolIdentifier(self.protocol.into());
        let (event, mut fields) = match self.what {
            What::AddressesExhausted => {
                (natEvent::NATAddressesexhausted, vec![subscriber, protocol])
            }
            What::PortsExhausted => (natEvent::NATportsexhausted, vec![subscriber, protocol]),
            What::QuotaExceeded => {
                let quota = natQuotaExceededEvent::Maximumentriesperuser;
                let fields = vec![subscriber, Field::natQuotaExceededEvent(quota)];
                (natEvent::QuotaExceeded, fields)
            }
            What::PortBlock { is_allocated, external, ports: (first, last) } => {
                let event = match is_allocated {
                    true => natEvent::Portblockallocation,
                    false => natEvent::Portblockdeallocation,
                };
                let external = Field::postNATSourceIPv4Address(ip4(external));
                let range = [Field::portRangeStart(first), Field::portRangeEnd(last)];
                (event, [subscriber, external].into_iter().chain(range).collect())
            }
        };
        fields.extend([
            Field::observationTimeMilliseconds(time(now_ms)),
            Field::natEvent(event),
            Field::natInstanceID(self.instance),
            Field::ingressVRFID((self.vrf & VRF).into()),
        ]);
        Decoded::new(Vec::new(), fields)
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Addresses {
    Ip4([u32; 2]),
    Ip6([u128; 2]),
}

/// A packet that a rule has refused.
#[derive(Arbitrary, Debug)]
pub struct Denied {
    addresses: Addresses,
    ports: [u16; 2],
    protocol: u8,
    icmp: u16,
    interfaces: [u32; 2],
    length: u16,
}

impl Denied {
    fn ends(&self) -> [IpAddr; 2] {
        match self.addresses {
            Addresses::Ip4(bits) => bits.map(|it| IpAddr::V4(it.into())),
            Addresses::Ip6(bits) => bits.map(|it| IpAddr::V6(it.into())),
        }
    }

    pub fn record(&self) -> Denial {
        let Self { ports, protocol, icmp, interfaces, length, .. } = *self;
        Denial { ends: self.ends(), ports, protocol, icmp, interfaces, length }
    }

    pub fn expected(&self, now_ms: u64) -> Decoded {
        let of_packet = ends(self.ends(), false).into_iter().chain(ports(self.ports, false));
        let mut fields: Vec<_> = of_packet.collect();
        let [received, sent] = self.interfaces;
        fields.extend([
            Field::flowStartMilliseconds(time(now_ms)),
            Field::flowEndMilliseconds(time(now_ms)),
            Field::firewallEvent(firewallEvent::FlowDenied),
            Field::protocolIdentifier(self.protocol.into()),
            match self.addresses {
                Addresses::Ip4(_) => Field::icmpTypeCodeIPv4(self.icmp),
                Addresses::Ip6(_) => Field::icmpTypeCodeIPv6(self.icmp),
            },
            Field::ingressInterface(received),
            Field::egressInterface(sent),
            Field::packetDeltaCount(1),
            Field::octetDeltaCount(self.length.into()),
        ]);
        Decoded::new(Vec::new(), fields)
    }
}
