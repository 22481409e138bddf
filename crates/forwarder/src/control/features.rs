//! The features of received packets that the settings of an interface switch on. Those of sent packets are in
//! `output_features`, that of rules in `policy`.

use stoa_api::v1::FamilyOptions;
use stoa_wire::{ipv4, ipv6, tcp};

use super::desired::Interface;
use super::forwarder_state::ForwarderState;
use crate::ip::mss_clamp;
use crate::login;
use crate::plugin;

/// The argument that a feature gets at an interface; 0: it is off there.
type Argument = fn(&Interface) -> u32;

/// Each feature by its node.
const FEATURES: &[(&str, Argument)] = &[
    ("ip4-minimum-ttl", |it| it.ip4.options.minimum_ttl),
    ("ip6-minimum-ttl", |it| it.ip6.options.minimum_ttl),
    ("ip4-reverse-path", |it| it.ip4.reverse_path),
    ("ip6-reverse-path", |it| it.ip6.reverse_path),
    (login::INPUT_NODES[0], |it| it.login.is_some().into()),
    (login::INPUT_NODES[1], |it| it.login.is_some().into()),
    ("ip4-noop", |it| it.noop.into()),
    ("ip6-noop", |it| it.noop.into()),
    ("ip4-flow-hash", |it| it.flow_hash.into()),
    ("ip6-flow-hash", |it| it.flow_hash.into()),
    ("ethernet-noop", |it| it.noop_ethernet.into()),
    ("ip-local-noop", |it| it.noop_local.into()),
    ("cross-connect", |it| it.cross_connect.is_some().into()),
];

impl ForwarderState {
    /// Switches the features of an interface with these MTUs.
    pub(super) fn set_features(&self, index: u32, desired: &Interface, mtu: (u16, u16)) {
        for (node, argument) in FEATURES {
            self.shared.set_feature(index, node, argument(desired));
        }
        let most = segment_sizes(desired, mtu);
        for (node, most) in mss_clamp::INPUT_NODES.into_iter().zip(most) {
            self.shared.set_feature(index, node, most);
        }
        for (node, argument) in plugin::arguments(desired, false) {
            self.shared.set_feature(index, node, argument);
        }
    }
}

/// The largest TCP segments that packets of an interface with these MTUs may announce, IPv4 and IPv6: data in bytes. 0:
/// any.
pub(super) fn segment_sizes(desired: &Interface, (mtu4, mtu6): (u16, u16)) -> [u32; 2] {
    let size = |options: &FamilyOptions, mtu: u16, headers: usize| {
        let of_mtu = usize::from(mtu).saturating_sub(headers + tcp::LENGTH).max(1) as u32;
        match (options.tcp_mss_clamp, options.tcp_mss_clamp_to_mtu) {
            (0, false) => 0,
            (0, true) => of_mtu,
            (most, false) => most,
            (most, true) => most.min(of_mtu),
        }
    };
    let (ip4, ip6) = (&desired.ip4.options, &desired.ip6.options);
    [size(ip4, mtu4, ipv4::LENGTH), size(ip6, mtu6, ipv6::LENGTH)]
}
