//! Kinds of associations, and the other end of a tunnel: the library's engine.

use super::*;

/// One kind of association.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) algorithm: Algorithm,
    pub(super) outer_is_ip4: bool,
    pub(super) is_extended: bool,
    pub(super) is_implicit: bool,
    pub(super) is_udp: bool,
    /// Which of several associations of a tunnel: each has another SPI and other keys.
    pub(super) number: u8,
}

impl Case {
    pub(super) const USUAL: Self = Self {
        algorithm: Algorithm::Aes128Gcm,
        outer_is_ip4: true,
        is_extended: false,
        is_implicit: false,
        is_udp: false,
        number: 0,
    };

    /// All algorithms, each over both families, with and without ESN, in UDP or not, with an implicit IV where there is
    /// one.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for algorithm in Algorithm::ALL {
            let options = if algorithm.can_have_implicit_iv() { 16 } else { 8 };
            for bits in 0..options {
                let has = |bit: u32| bits >> bit & 1 == 1;
                all.push(Self {
                    algorithm,
                    outer_is_ip4: has(0),
                    is_extended: has(1),
                    is_udp: has(2),
                    is_implicit: has(3),
                    number: 0,
                });
            }
        }
        all
    }

    pub(super) fn settings(self, spi: u32) -> Settings {
        let udp = self.is_udp.then_some(UdpPorts { source: 4500, destination: 4501 });
        let Self { algorithm, is_extended, is_implicit, .. } = self;
        let salt = if algorithm.salt_bytes() > 0 { SALT.into() } else { Salt::default() };
        Settings { spi, algorithm, salt, is_extended, is_implicit, udp }
    }

    pub(super) fn shape(self) -> Shape {
        self.settings(OUT).shape()
    }

    /// A router with the tunnel "tun", its associations, and routes to the far networks.
    pub(super) fn lab(self) -> Lab {
        let far4 = (IpAddr::V4([198, 51, 100, 0].into()), 24);
        let far6 = (IpAddr::V6([0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 0].into()), 64);
        let setup =
            Setup::three_ports().tunnel("tun", 4, ends(self.outer_is_ip4), Encapsulation::Esp);
        let setup = setup.paths(far4, &[("tun", None, 1)]);
        let mut lab = Lab::new(&setup.paths(far6, &[("tun", Some(host6(4).into()), 1)]));
        self.associate(&mut lab, "tun");
        lab
    }

    /// The same, with this MTU of the tunnel, and ports that take larger packets.
    pub(super) fn wide_lab(self, mtu: u32) -> Lab {
        let far4 = (IpAddr::V4([198, 51, 100, 0].into()), 24);
        let ends = ends(self.outer_is_ip4);
        let mut setup = Setup::three_ports().tunnel("tun", 4, ends, Encapsulation::Esp);
        let Some(PortConfig::Tunnel(tunnel)) = setup.0.ports.get_mut("tun") else { panic!() };
        tunnel.mtu = mtu;
        let setup = setup.paths(far4, &[("tun", None, 1)]);
        let mut lab = Lab::with(&setup, LIMITS, |_| {
            let wire = Wire::new(1, 8);
            wire.mtu.store(MTU_MAX, Ordering::SeqCst);
            wire
        });
        self.associate(&mut lab, "tun");
        lab
    }

    pub(super) fn associate(self, lab: &mut Lab, tunnel: &str) {
        self.send_by(lab, tunnel);
        let (encryption, integrity) = self.keys();
        let keys = Keys { encryption: &encryption, integrity: &integrity };
        lab.state().add_inbound_association(tunnel, (&self.settings(IN), keys), 64).unwrap();
    }

    /// Sends the packets of a tunnel by this association from now on.
    pub(super) fn send_by(self, lab: &mut Lab, tunnel: &str) {
        let (encryption, integrity) = self.keys();
        let keys = Keys { encryption: &encryption, integrity: &integrity };
        let (how, settings) = ((DontFragment::Copy, None), self.settings(self.out()));
        lab.state().set_outbound_association(tunnel, (&settings, keys), how, 0).unwrap();
    }

    /// The SPI of what the router sends.
    pub(super) fn out(self) -> u32 {
        OUT + u32::from(self.number)
    }

    pub(super) fn keys(self) -> (Vec<u8>, Vec<u8>) {
        let of = |first: u8, bytes: usize| vec![first.wrapping_add(self.number); bytes];
        (of(0x4b, self.algorithm.key_bytes()), of(0x69, self.algorithm.integrity_key_bytes()))
    }

    /// Runs the other end's engine on an ESP packet. `None`: it is not authentic.
    fn run(self, is_seal: bool, sequence: u64, mut packet: Vec<u8>) -> Option<Vec<u8>> {
        static ORACLE: OnceLock<Engines> = OnceLock::new();
        let engines = ORACLE.get_or_init(|| Engines::start(&["aws-lc"]).unwrap());
        let (encryption, integrity) = self.keys();
        let key = engines.key(self.algorithm, &encryption, &integrity).unwrap();
        let shape = self.shape();
        let spi: [u8; 4] = packet[..4].try_into().unwrap();
        let high = ((sequence >> 32) as u32).to_be_bytes();
        let low = (sequence as u32).to_be_bytes();
        let authenticated = match (self.algorithm.authentication(), self.is_extended) {
            (Authentication::Hmac, true) => high.to_vec(),
            (Authentication::Hmac, false) => Vec::new(),
            (_, true) => [spi, high, low].concat(),
            (_, false) => [spi, low].concat(),
        };
        let mut aad = [0; 16];
        aad[..authenticated.len()].copy_from_slice(&authenticated);
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&SALT);
        nonce[4..].copy_from_slice(&match shape.iv {
            0 => sequence.to_be_bytes(),
            _ => packet[8..16].try_into().unwrap(),
        });
        let (text_offset, aad_length) = (shape.front, authenticated.len() as u8);
        let lane = Lane { key: &key, packet: &mut packet, text_offset, nonce, aad, aad_length };
        let done = if is_seal { engines.seal(&mut [lane]) } else { engines.open(&mut [lane]) };
        done.has(0).then_some(packet)
    }

    /// An ESP packet of the other end with this text behind the IV.
    pub(super) fn sealed(self, sequence: u64, text: &[u8]) -> Vec<u8> {
        let shape = self.shape();
        let mut packet = [IN, sequence as u32].map(u32::to_be_bytes).concat();
        // IVs of the other end are its own affair.
        packet.resize(shape.front.into(), 0x17);
        packet.extend(text);
        packet.extend(vec![0; shape.tag.into()]);
        self.run(true, sequence, packet).unwrap()
    }

    /// The text of an inner packet: with padding and trailer.
    pub(super) fn text(self, inner: &[u8], next_header: u8) -> Vec<u8> {
        let padding = esp::pad_length(inner.len(), self.shape().block.into());
        let mut text = [inner, &vec![0; padding + esp::TRAILER]].concat();
        esp::build_trailer(&mut text[inner.len()..], next_header).unwrap();
        text
    }

    /// An inner packet as the other end sends it.
    pub(super) fn encapsulated(self, sequence: u64, inner: &[u8]) -> Vec<u8> {
        let next_header = if inner[0] >> 4 == 4 { protocol::IP4 } else { protocol::IP6 };
        self.outer(&self.sealed(sequence, &self.text(inner, next_header)), 0)
    }

    /// The packet of the other end around ESP.
    pub(super) fn outer(self, packet: &[u8], class: u8) -> Vec<u8> {
        let mut carried = packet.to_vec();
        if self.is_udp {
            let length = (udp::LENGTH + packet.len()) as u16;
            let header = [4501_u16, 4500, length, 0].map(u16::to_be_bytes).concat();
            carried = [header, carried].concat();
        }
        let number = if self.is_udp { protocol::UDP } else { protocol::ESP };
        match ends(self.outer_is_ip4) {
            (IpAddr::V4(us), IpAddr::V4(them)) => ip4(
                &ipv4::Builder { dscp_ecn: class, ..ipv4::Builder::new(them, us, number) },
                &carried,
            ),
            (IpAddr::V6(us), IpAddr::V6(them)) => ip6(
                &ipv6::Builder { traffic_class: class, ..ipv6::Builder::new(them, us, number) },
                &carried,
            ),
            _ => panic!("ends of two families"),
        }
    }

    /// Checks the UDP header in front of an ESP packet: with a checksum over IPv6 (RFC 8200 section 8.1).
    fn check_udp(self, datagram: &[u8]) {
        let view = match ends(self.outer_is_ip4) {
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                udp::check(datagram, &Pseudo::Ip6 { source, destination })
            }
            _ => udp::parse(datagram),
        };
        let view = view.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        assert_eq!((view.source_port(), view.destination_port()), (4500, 4501), "{self:?}");
        assert_eq!(view.datagram().len(), datagram.len(), "{self:?}");
        assert_eq!(view.header().checksum.get() == 0, self.outer_is_ip4, "{self:?}");
    }

    /// The inner packet of a frame that the router has sent with this number.
    pub(super) fn opened(self, frame: &[u8], sequence: u64) -> Vec<u8> {
        let number = if self.is_udp { protocol::UDP } else { protocol::ESP };
        let (found, addresses): (_, (IpAddr, IpAddr)) = if self.outer_is_ip4 {
            let view = ipv4::check(&frame[14..]).unwrap();
            (view.header().protocol, (view.source().into(), view.destination().into()))
        } else {
            let view = ipv6::check(&frame[14..]).unwrap();
            (view.header().next_header, (view.source().into(), view.destination().into()))
        };
        assert_eq!((found, addresses), (number, ends(self.outer_is_ip4)), "{self:?}");
        let behind = 14 + if self.outer_is_ip4 { 20 } else { 40 };
        let mut packet = frame[behind..].to_vec();
        if self.is_udp {
            self.check_udp(&packet);
            packet.drain(..udp::LENGTH);
        }
        let header = esp::check(&packet, 0).unwrap();
        assert_eq!(
            (header.spi.get(), header.sequence.get()),
            (self.out(), sequence as u32),
            "{self:?}"
        );
        let shape = self.shape();
        let opened =
            self.run(false, sequence, packet).unwrap_or_else(|| panic!("{self:?}: forged"));
        let text = &opened[shape.front.into()..opened.len() - usize::from(shape.tag)];
        assert_eq!(text.len() % usize::from(shape.block), 0, "{self:?}");
        let (payload, next_header) = esp::check_trailer(text).unwrap();
        assert_eq!(next_header, if payload[0] >> 4 == 4 { 4 } else { 41 }, "{self:?}");
        payload.to_vec()
    }
}
