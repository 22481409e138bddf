//! The daemon's end of a session: its messages as bytes, written by hand or by the codec crate.

use std::net::Ipv4Addr;
use std::time::Instant;

use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::capabilities::{
    AddPathAddressFamily, AddPathCapability, BgpCapability, FourOctetAsCapability,
    GracefulRestartCapability, MultiProtocolExtensionsCapability,
};
use netgauze_bgp_pkt::open::{BgpOpenMessage, BgpOpenMessageParameter};
use netgauze_iana::address_family::AddressType;
use netgauze_parse_utils::WritablePdu as _;
use stoa_bgp::{Attributes, Family, LocalConfig, Negotiated, Nlri, Session, SessionHandler};

/// Stoa's end in these tests.
pub fn local() -> LocalConfig {
    LocalConfig {
        as_number: 65_000,
        router_id: Ipv4Addr::LOCALHOST,
        hold_time_s: 90,
        restart_time_s: 120,
        add_paths: true,
    }
}

/// A message: header and body.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff; 16];
    bytes.extend(u16::try_from(19 + body.len()).expect("it fits").to_be_bytes());
    bytes.push(kind);
    bytes.extend(body);
    bytes
}

pub fn keepalive() -> Vec<u8> {
    message(4, &[])
}

/// A message of the codec crate as bytes.
pub fn written(message: &BgpMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes).expect("a vector takes it");
    bytes
}

/// The capabilities of a daemon like FRR or BIRD.
pub fn capabilities(as_number: u32, add_paths: bool) -> Vec<BgpCapability> {
    let families = [AddressType::Ipv4Unicast, AddressType::Ipv6Unicast];
    let mut all: Vec<BgpCapability> = families
        .map(|family| {
            BgpCapability::MultiProtocolExtensions(MultiProtocolExtensionsCapability::new(family))
        })
        .to_vec();
    all.push(BgpCapability::FourOctetAs(FourOctetAsCapability::new(as_number)));
    all.push(BgpCapability::RouteRefresh);
    all.push(BgpCapability::GracefulRestartCapability(GracefulRestartCapability::new(
        true,
        false,
        120,
        [],
    )));
    if add_paths {
        let sends = families.map(|family| AddPathAddressFamily::new(family, true, true));
        all.push(BgpCapability::AddPath(AddPathCapability::new(sends)));
    }
    all
}

pub fn open(hold_time_s: u16, capabilities: Vec<BgpCapability>) -> Vec<u8> {
    let parameters = [BgpOpenMessageParameter::new_capabilities(capabilities)];
    let router_id = Ipv4Addr::new(198, 51, 100, 1);
    written(&BgpMessage::Open(BgpOpenMessage::new(65_000, hold_time_s, router_id, parameters)))
}

/// An established session.
pub fn established(add_paths: bool, now: Instant, handler: &mut impl SessionHandler) -> Session {
    let mut session = Session::new(local(), now);
    let mut bytes = open(90, capabilities(65_000, add_paths));
    bytes.extend(keepalive());
    assert_eq!(session.receive(&bytes, now, handler), Ok(bytes.len()));
    assert!(session.is_established());
    session.take_output();
    session
}

/// An UPDATE message.
pub fn update(withdrawn: &[u8], attributes: &[u8], announced: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).expect("it fits").to_be_bytes();
    let parts = [&length(withdrawn)[..], withdrawn, &length(attributes), attributes, announced];
    message(2, &parts.concat())
}

/// Attributes of IPv4 routes: next hop 192.0.2.`hop`, that LOCAL_PREF, an AS path of two.
pub fn attributes(hop: u8, local_preference: u32) -> Vec<u8> {
    let mut bytes = vec![0x40, 1, 1, 0, 0x40, 2, 10, 2, 2, 0, 0, 0xfd, 0xe9, 0, 0, 0xfd, 0xea];
    bytes.extend([0x40, 3, 4, 192, 0, 2, hop, 0x40, 5, 4]);
    bytes.extend(local_preference.to_be_bytes());
    bytes
}

/// A call of [`SessionHandler`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Up(Negotiated),
    Reach4(Attributes, Vec<(u32, u32, u8)>),
    Reach6(Attributes, Vec<(u32, u128, u8)>),
    Unreach4(Vec<(u32, u32, u8)>),
    Unreach6(Vec<(u32, u128, u8)>),
    End(Family),
}

/// Records all calls.
#[derive(Debug, Default)]
pub struct Recorder(pub Vec<Event>);

impl SessionHandler for Recorder {
    fn up(&mut self, negotiated: &Negotiated) {
        self.0.push(Event::Up(*negotiated));
    }
    fn reach4(&mut self, set: &Attributes, prefixes: Nlri<'_, u32>) {
        self.0.push(Event::Reach4(*set, prefixes.collect()));
    }
    fn reach6(&mut self, set: &Attributes, prefixes: Nlri<'_, u128>) {
        self.0.push(Event::Reach6(*set, prefixes.collect()));
    }
    fn unreach4(&mut self, prefixes: Nlri<'_, u32>) {
        self.0.push(Event::Unreach4(prefixes.collect()));
    }
    fn unreach6(&mut self, prefixes: Nlri<'_, u128>) {
        self.0.push(Event::Unreach6(prefixes.collect()));
    }
    fn end_of_rib(&mut self, family: Family) {
        self.0.push(Event::End(family));
    }
}
