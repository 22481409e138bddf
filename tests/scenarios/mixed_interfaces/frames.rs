//! Interfaces with any tags and GRE tunnels, and the UDP packets that are sent to and expected from them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};
use stoa_lab::{Address, Configuration, Tag};

/// The keys of the families in the configuration, IPv4 first.
pub const FAMILIES: [&str; 2] = ["ietf-ip:ipv4", "ietf-ip:ipv6"];
/// Marks the frames of these scenarios; followed by their number.
const MARK: [u8; 4] = *b"mix:";
/// The UDP port that they are sent to: discard.
const DISCARD: u16 = 9;
const UDP: u8 = 17;
const GRE: u8 = 47;
/// Bytes of an IPv4 header without options.
const IP4_LENGTH: u16 = 20;
/// The TTL of the outer header of a tunnel.
const OUTER_HOPS: u8 = 64;

/// The ends of a GRE tunnel over IPv4.
#[derive(Clone, Copy, Debug)]
pub struct Tunnel {
    /// An address of the router, on the port below the tunnel.
    pub local: Ipv4Addr,
    /// An address behind the neighbour of that port.
    pub remote: Ipv4Addr,
    /// The network of that port, as in [`Interface::network`].
    pub below: [u8; 2],
}

/// An interface of the router: a port, a sub-interface of it, or a tunnel over it. The router has .1 in its networks,
/// and its static neighbour .2.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The port, which is also the label of the host there.
    pub port: &'static str,
    /// Its tags, outermost first; none for the port itself.
    pub tags: Vec<Tag>,
    /// Its networks 198.B.N.0/24 and 2001:db8:B:N::/64 as `[B, N]`.
    pub network: [u8; 2],
    /// Its ends, if it is a tunnel.
    pub tunnel: Option<Tunnel>,
}

impl Interface {
    pub fn new(port: &'static str, tags: &[Tag], network: [u8; 2]) -> Self {
        Self { port, tags: tags.to_vec(), network, tunnel: None }
    }

    /// A tunnel over a port.
    pub fn tunnel(port: &'static str, tunnel: Tunnel, network: [u8; 2]) -> Self {
        Self { tunnel: Some(tunnel), ..Self::new(port, &[], network) }
    }

    /// Its name in the configuration: `PORT.OUTER.INNER`, with `s` before the number of a service tag; of a tunnel
    /// `gre.B.N`.
    pub fn name(&self) -> String {
        if self.tunnel.is_some() {
            return format!("gre.{}.{}", self.network[0], self.network[1]);
        }
        self.tags.iter().fold(self.port.to_owned(), |name, tag| {
            let kind = if tag.tpid == Tag::service(1).tpid { "s" } else { "" };
            format!("{name}.{kind}{}", tag.vid)
        })
    }

    /// An address in its networks, IPv4 first.
    pub fn addresses(&self, last: u8) -> [IpAddr; 2] {
        let [block, number] = self.network;
        let [high, low] = [block, number].map(u16::from);
        let six = Ipv6Addr::new(0x2001, 0xdb8, high, low, 0, 0, 0, last.into());
        [Ipv4Addr::new(198, block, number, last).into(), six.into()]
    }

    /// The MAC address of its neighbour, or of that of the port below it: unlike that of the host on the link, which
    /// ignores the frames.
    fn neighbor_mac(&self) -> [u8; 6] {
        let tags = self.tags.iter().fold(0, |sum, tag| sum * 31 + tag.vid);
        let [high, low] = tags.to_be_bytes();
        let network = self.tunnel.map_or(self.network, |tunnel| tunnel.below);
        [2, high, low, network[0], network[1], 2]
    }

    /// Adds it to a configuration that has its port.
    pub fn add_to(&self, configuration: Configuration) -> Configuration {
        let name = self.name();
        let mut made = configuration;
        if let [outer, rest @ ..] = self.tags.as_slice() {
            let kind = |one: &Tag| if *one == Tag::service(one.vid) { "s-vlan" } else { "c-vlan" };
            let tag = |one: &Tag| json!({ "tpid": kind(one), "vid": one.vid });
            let mut below = json!({ "parent": self.port, "outer": tag(outer) });
            if let [inner, ..] = rest {
                below["inner"] = tag(inner);
            }
            made = made.port(&name, Value::Null);
            *made.interface(&name) = json!({
                "name": name, "type": "iana-if-type:l2vlan", "stoa-interfaces:sub-interface": below,
            });
        }
        if let Some(Tunnel { local, remote, .. }) = self.tunnel {
            let ends = json!({ "encapsulation": "gre", "local": local, "remote": remote });
            made = made.port(&name, json!({ "tunnel": ends }));
            made.interface(&name)["type"] = json!("iana-if-type:tunnel");
        }
        let [four, six] = self.addresses(1);
        let own = [Address { ip: four, prefix_length: 24 }, Address { ip: six, prefix_length: 64 }];
        made = made.addresses(&name, &own);
        if self.tunnel.is_some() {
            return made;
        }
        let mac = self.neighbor_mac().map(|byte| format!("{byte:02x}")).join(":");
        for (family, ip) in FAMILIES.into_iter().zip(self.addresses(2)) {
            let neighbor = json!({ "ip": ip.to_string(), "link-layer-address": mac });
            made.interface(&name)[family]["neighbor"] = json!([neighbor]);
        }
        made
    }
}

/// An Ethernet frame with a UDP packet, in GRE or not, and the number that follows its mark.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The destination MAC address.
    pub mac: [u8; 6],
    /// Its tags, outermost first.
    pub tags: Vec<Tag>,
    /// Source and destination of the outer header.
    pub outer: Option<[Ipv4Addr; 2]>,
    /// Source and destination, of one family.
    pub addresses: [IpAddr; 2],
    /// The UDP source port.
    pub port: u16,
    /// TTL or hop limit.
    pub hops: u8,
}

impl Frame {
    /// The same packet as the router forwards it by an interface.
    fn forwarded(&self, by: &Interface) -> Self {
        let (mac, tags) = (by.neighbor_mac(), by.tags.clone());
        let outer = by.tunnel.map(|tunnel| [tunnel.local, tunnel.remote]);
        Self { mac, tags, outer, hops: self.hops - 1, ..self.clone() }
    }

    /// Whether these bytes are the packet with this number as the router forwards it by an interface.
    pub fn is_forwarded_as(&self, bytes: &[u8], number: u32, by: &Interface) -> bool {
        let expected = self.forwarded(by).bytes(number);
        // The source MAC address is that of the router's port.
        bytes.len() == expected.len()
            && bytes[..6] == expected[..6]
            && bytes[12..] == expected[12..]
    }

    /// The bytes of the frame without FCS, with the MAC address of no host as source.
    pub fn bytes(&self, number: u32) -> Vec<u8> {
        let mut bytes = self.mac.to_vec();
        bytes.extend([2, 0, 0, 0, 0xfe, 1]);
        for tag in &self.tags {
            bytes.extend(tag.tpid.to_be_bytes());
            bytes.extend(tag.vid.to_be_bytes());
        }
        let (ethertype, packet) = self.packet(number);
        if let Some(ends) = self.outer {
            // The flags of GRE follow, and its protocol, which is the ethertype of the packet.
            let length = u16::try_from(packet.len()).expect("it is short") + 4;
            bytes.extend([8, 0]);
            bytes.extend(ip4_header(ends, (GRE, OUTER_HOPS), length));
            bytes.extend([0, 0]);
        }
        bytes.extend(ethertype);
        bytes.extend(packet);
        bytes
    }

    /// The IP packet, with its ethertype.
    fn packet(&self, number: u32) -> ([u8; 2], Vec<u8>) {
        let udp = self.udp(number);
        let length = u16::try_from(udp.len()).expect("it is short");
        match self.addresses {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                let mut packet = ip4_header([from, to], (UDP, self.hops), length);
                packet.extend(udp);
                ([8, 0], packet)
            }
            [IpAddr::V6(from), IpAddr::V6(to)] => {
                let mut packet = vec![0x60, 0, 0, 0];
                packet.extend(length.to_be_bytes());
                packet.extend([UDP, self.hops]);
                packet.extend(from.octets().into_iter().chain(to.octets()));
                packet.extend(udp);
                ([0x86, 0xdd], packet)
            }
            mixed => panic!("{mixed:?} are of two families"),
        }
    }

    fn udp(&self, number: u32) -> Vec<u8> {
        // Long enough for the shortest Ethernet frame, so that nothing is padded.
        let mut bytes = vec![0; 8 + 16];
        bytes[..2].copy_from_slice(&self.port.to_be_bytes());
        bytes[2..4].copy_from_slice(&DISCARD.to_be_bytes());
        bytes.extend(MARK);
        bytes.extend(number.to_be_bytes());
        let length = u16::try_from(bytes.len()).expect("it is short").to_be_bytes();
        bytes[4..6].copy_from_slice(&length);
        let mut pseudo = Vec::new();
        for address in self.addresses {
            match address {
                IpAddr::V4(four) => pseudo.extend(four.octets()),
                IpAddr::V6(six) => pseudo.extend(six.octets()),
            }
        }
        pseudo.extend([0, UDP]);
        pseudo.extend(length);
        pseudo.extend(&bytes);
        let checksum = checksum(&pseudo);
        bytes[6..8].copy_from_slice(&checksum);
        bytes
    }
}

/// The header of a packet that must not be fragmented.
fn ip4_header([from, to]: [Ipv4Addr; 2], (protocol, hops): (u8, u8), length: u16) -> Vec<u8> {
    let mut head = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, hops, protocol, 0, 0];
    head[2..4].copy_from_slice(&(IP4_LENGTH + length).to_be_bytes());
    head.extend(from.octets().into_iter().chain(to.octets()));
    let checksum = checksum(&head);
    head[10..12].copy_from_slice(&checksum);
    head
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let sum: u32 = words.sum();
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    (!u16::try_from(twice).expect("both carries are added")).to_be_bytes()
}

/// The number of a frame of these scenarios; `None` for other frames.
pub fn number(bytes: &[u8]) -> Option<u32> {
    let (rest, number) = bytes.split_last_chunk::<4>()?;
    rest.ends_with(&MARK).then(|| u32::from_be_bytes(*number))
}
