//! A builder of learned-route messages.

use std::net::IpAddr;

use stoa_api::{text, v1};

/// The message under construction.
#[derive(Clone, Debug, Default)]
pub struct LearnedMessage(pub v1::LearnedRoutes);

/// A path: interface, gateway ("" on the link).
pub type Via<'a> = (&'a str, &'a str);

fn paths(vias: &[Via]) -> v1::Paths {
    let path = |(interface, gateway): &Via| v1::Path {
        interface: (*interface).to_owned(),
        next_hop: gateway.parse().map(text::ip_bytes).unwrap_or_default(),
        weight: 1,
    };
    v1::Paths { paths: vias.iter().map(path).collect() }
}

impl LearnedMessage {
    /// The first message of a session.
    pub fn first() -> Self {
        Self(v1::LearnedRoutes { begins: true, ..Default::default() })
    }

    /// A later message.
    pub fn more() -> Self {
        Self::default()
    }

    pub fn number(mut self, number: u64) -> Self {
        self.0.number = number;
        self
    }

    pub fn hop(self, id: u32, vias: &[Via]) -> Self {
        self.backed(id, vias, &[])
    }

    pub fn backed(mut self, id: u32, vias: &[Via], backup: &[Via]) -> Self {
        let action = Some(v1::learned_hop::Action::Paths(paths(vias)));
        let (protocol, backup) = (v1::Protocol::Bgp.into(), Some(paths(backup)));
        self.0.hops.push(v1::LearnedHop { id, protocol, action, backup });
        self
    }

    pub fn special(mut self, id: u32, special: v1::Special) -> Self {
        let action = Some(v1::learned_hop::Action::Special(special.into()));
        let protocol = v1::Protocol::Ospf.into();
        self.0.hops.push(v1::LearnedHop { id, protocol, action, backup: None });
        self
    }

    /// Prefixes on a hop; hop 0 withdraws them.
    pub fn run(self, hop: u32, prefixes: &[&str]) -> Self {
        self.run_in("", hop, prefixes)
    }

    pub fn run_in(mut self, vrf: &str, hop: u32, prefixes: &[&str]) -> Self {
        let mut run = v1::RouteRun { vrf: vrf.to_owned(), hop, ..Default::default() };
        for prefix in prefixes {
            let (address, length) = prefix.split_once('/').unwrap();
            let address: IpAddr = address.parse().unwrap();
            let packed = if address.is_ipv4() { &mut run.ip4 } else { &mut run.ip6 };
            packed.extend(text::ip_bytes(address));
            packed.push(length.parse().unwrap());
        }
        self.0.runs.push(run);
        self
    }

    /// `count` prefixes /24 starting at 100.0.0.0, on a hop.
    pub fn many(mut self, hop: u32, from: u32, count: u32) -> Self {
        let ip4 = (from..from + count).flat_map(|at| {
            let [a, b, c, d] = (0x6400_0000 + (at << 8)).to_be_bytes();
            [a, b, c, d, 24]
        });
        let ip4 = ip4.collect();
        self.0.runs.push(v1::RouteRun { hop, ip4, ..Default::default() });
        self
    }

    pub fn forget(mut self, id: u32) -> Self {
        self.0.forgotten.push(id);
        self
    }

    pub fn completes(mut self) -> Self {
        self.0.completes = true;
        self
    }
}
