//! Interfaces with any tags, and the UDP packets that are sent to and expected from them.

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

/// An interface of the router: a port, or a sub-interface of it. The router has .1 in its networks, and its static
/// neighbour .2.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The port, which is also the label of the host there.
    pub port: &'static str,
    /// Its tags, outermost first; none for the port itself.
    pub tags: Vec<Tag>,
    /// Its networks 198.B.N.0/24 and 2001:db8:B:N::/64 as `[B, N]`.
    pub network: [u8; 2],
}

impl Interface {
    pub fn new(port: &'static str, tags: &[Tag], network: [u8; 2]) -> Self {
        Self { port, tags: tags.to_vec(), network }
    }

    /// Its name in the configuration: `PORT.OUTER.INNER`, with `s` before the number of a service tag.
    pub fn name(&self) -> String {
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

    /// The MAC address of its neighbour: unlike that of the host on the link, which ignores the frames.
    fn neighbor_mac(&self) -> [u8; 6] {
        let tags = self.tags.iter().fold(0, |sum, tag| sum * 31 + tag.vid);
        let [high, low] = tags.to_be_bytes();
        [2, high, low, self.network[0], self.network[1], 2]
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
        let [four, six] = self.addresses(1);
        let own = [Address { ip: four, prefix_length: 24 }, Address { ip: six, prefix_length: 64 }];
        made = made.addresses(&name, &own);
        let mac = self.neighbor_mac().map(|byte| format!("{byte:02x}")).join(":");
        for (family, ip) in FAMILIES.into_iter().zip(self.addresses(2)) {
            let neighbor = json!({ "ip": ip.to_string(), "link-layer-address": mac });
            made.interface(&name)[family]["neighbor"] = json!([neighbor]);
        }
        made
    }
}

/// An Ethernet frame with a UDP packet, and the number that follows its mark.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The destination MAC address.
    pub mac: [u8; 6],
    /// Its tags, outermost first.
    pub tags: Vec<Tag>,
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
        Self { mac, tags, hops: self.hops - 1, ..self.clone() }
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
        let udp = self.udp(number);
        let length = u16::try_from(udp.len()).expect("it is short");
        match self.addresses {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                bytes.extend([8, 0]);
                // Don't fragment.
                let mut head = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, self.hops, UDP, 0, 0];
                head[2..4].copy_from_slice(&(length + 20).to_be_bytes());
                head.extend(from.octets().into_iter().chain(to.octets()));
                let checksum = checksum(&head);
                head[10..12].copy_from_slice(&checksum);
                bytes.extend(head);
            }
            [IpAddr::V6(from), IpAddr::V6(to)] => {
                bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                bytes.extend(length.to_be_bytes());
                bytes.extend([UDP, self.hops]);
                bytes.extend(from.octets().into_iter().chain(to.octets()));
            }
            mixed => panic!("{mixed:?} are of two families"),
        }
        bytes.extend(udp);
        bytes
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
