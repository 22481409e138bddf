//! The output features of interfaces. Adjacencies tell workers whether there are any, so that packets to
//! other interfaces pay nothing.

use stoa_tables::adjacency::AdjacencyKind;

use super::capability::{Capability, Start, Verbs};
use super::desired;
use super::features::segment_sizes;
use super::forwarder_state::ForwarderState;
use super::limits::TableFull;
use crate::acl::zones::OUTPUT_NODES;
use crate::arcs::ROUTER;
use crate::ip::ip6_translated_fragment::NODE;
use crate::ip::mss_clamp;
use crate::login;
use crate::nat::OUTPUT_NODE;
use crate::nptv6;
use crate::plugin;

/// Arguments of output features that do not follow from the settings of their interface alone.
struct Arguments {
    /// Of access lists, IPv4 and IPv6.
    acls: (u32, u32),
    zone: u32,
    /// Of address translation.
    nat: u32,
    /// Of prefix translation.
    npt: u32,
    /// The largest TCP segments, IPv4 and IPv6.
    segments: [u32; 2],
}

/// The nodes of output features, and their arguments at an interface; 0: off.
fn output_features(
    desired: &desired::Interface,
    Arguments { acls, zone, nat, npt, segments }: Arguments,
) -> impl Iterator<Item = (&'static str, u32)> {
    let of_this_tree = [
        (OUTPUT_NODES[0], zone),
        (OUTPUT_NODES[1], zone),
        (OUTPUT_NODE, nat),
        (nptv6::OUTPUT_NODE, npt),
        (login::OUTPUT_NODES[0], desired.login.is_some().into()),
        (login::OUTPUT_NODES[1], desired.login.is_some().into()),
        ("ip4-acl-output", acls.0),
        ("ip6-acl-output", acls.1),
        ("ip4-redirect", desired.ip4.options.redirects.into()),
        ("ip6-redirect", desired.ip6.options.redirects.into()),
        (mss_clamp::OUTPUT_NODES[0], segments[0]),
        (mss_clamp::OUTPUT_NODES[1], segments[1]),
        ("ip4-output-noop", desired.noop_output.into()),
        ("ip6-output-noop", desired.noop_output.into()),
        ("port-output-noop", desired.noop_port.into()),
    ];
    of_this_tree.into_iter().chain(plugin::arguments(desired, true))
}

/// The features of packets that this router originates: those of no interface.
#[derive(Default)]
pub(super) struct OriginFeatures {
    has_noop: bool,
}

impl Capability for OriginFeatures {
    const VERBS: Verbs = Verbs {
        apply: |state, step| {
            state.set_origin_features(step.desired().noop_origin);
            Ok(())
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl ForwarderState {
    fn set_origin_features(&mut self, has_noop: bool) {
        let features = &mut self.capabilities.origin_features;
        if std::mem::replace(&mut features.has_noop, has_noop) != has_noop {
            for node in ["ip4-origin-noop", "ip6-origin-noop"] {
                self.shared.set_feature(ROUTER, node, has_noop.into());
            }
        }
    }

    /// Switches the output features of an interface. Its adjacencies follow when they are written: on a
    /// change of its settings, all of them are.
    pub(super) fn set_output_features(
        &self,
        index: u32,
        desired: &desired::Interface,
        mtu: (u16, u16),
    ) {
        let features = output_features(desired, self.arguments(index, desired, mtu));
        self.set_output_arguments((index, &desired.vrf), features);
    }

    /// Gives output features of an interface in a VRF their arguments; 0: off. All that switches any of them does so
    /// here, since [`Self::set_translated_fragment`] follows from the others.
    pub(super) fn set_output_arguments(
        &self,
        (index, vrf): (u32, &str),
        features: impl IntoIterator<Item = (&'static str, u32)>,
    ) {
        for (node, argument) in features {
            self.shared.set_feature(index, node, argument);
        }
        self.set_translated_fragment((index, vrf));
    }

    /// Has other output features of an interface meet long packets that were IPv4 packets as a whole, in a VRF where
    /// such packets come from. By itself this makes no output features: there, packets are cut at once.
    pub(super) fn set_translated_fragment(&self, (index, vrf): (u32, &str)) {
        let has_others = self.shared.arcs.ip6_output.has_others(index, NODE);
        let is_on = has_others && (self.has_siit_in(vrf) || self.has_nat64_in(vrf));
        self.shared.set_feature(index, NODE, is_on.into());
    }

    /// The VRF of an interface by name.
    pub(super) fn vrf_of_interface(&self, index: u32) -> &str {
        self.interface(index).map_or("", |it| it.desired.vrf.as_str())
    }

    /// The arguments of features at an interface with these MTUs.
    fn arguments(&self, index: u32, desired: &desired::Interface, mtu: (u16, u16)) -> Arguments {
        Arguments {
            acls: self.acl_output_arguments(&desired.acls),
            zone: self.zone_argument(&desired.zone),
            nat: self.nat_output_argument(index),
            npt: self.npt_output_argument(index),
            segments: segment_sizes(desired, mtu),
        }
    }

    /// Switches the output features of an interface whose settings stay. Its adjacencies follow.
    pub(super) fn renew_output_features(&mut self, index: u32) -> Result<(), TableFull> {
        let Some(state) = self.interface(index).filter(|state| !state.is_reserved()) else {
            return Ok(());
        };
        let (name, desired) = (state.name.clone(), state.desired.clone());
        self.set_interface(index, &name, &desired)?;
        let mtu = self.mtu_of(index, (&name, &desired));
        self.set_output_features(index, &desired, mtu);
        Ok(())
    }

    /// Whether the adjacencies of an interface tell of the output features that it will have.
    pub(super) fn tells_output_features(&self, index: u32, desired: &desired::Interface) -> bool {
        let arcs = &self.shared.arcs;
        let kind = AdjacencyKind::Complete;
        self.will_have_output_features((index, desired), kind, true) == arcs.has_output4(index)
            && self.will_have_output_features((index, desired), kind, false)
                == arcs.has_output6(index)
    }

    /// [`Self::has_output_features`] once [`Self::set_output_features`] has switched them.
    pub(super) fn will_have_output_features(
        &self,
        (index, desired): (u32, &desired::Interface),
        kind: AdjacencyKind,
        is_ip4: bool,
    ) -> bool {
        let arcs = &self.shared.arcs;
        let of_family = if is_ip4 { &arcs.ip4_output } else { &arcs.ip6_output };
        let meets = |node: &str| {
            [of_family, &arcs.port_output].iter().any(|arc| arc.features().contains(&node))
        };
        is_sent_at_once(kind)
            // Whatever its MTU is.
            && output_features(desired, self.arguments(index, desired, (0, 0)))
                .any(|(node, argument)| argument != 0 && meets(node))
    }

    /// Whether packets meet output features on their way to an adjacency of an interface. One that waits
    /// for its neighbour meets them when it is sent.
    pub(super) fn has_output_features(
        &self,
        index: u32,
        kind: AdjacencyKind,
        is_ip4: bool,
    ) -> bool {
        let arcs = &self.shared.arcs;
        is_sent_at_once(kind)
            && if is_ip4 { arcs.has_output4(index) } else { arcs.has_output6(index) }
    }
}

/// Whether packets to an adjacency of this kind are sent at once.
fn is_sent_at_once(kind: AdjacencyKind) -> bool {
    matches!(kind, AdjacencyKind::Complete | AdjacencyKind::Tunnel)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use stoa_engine::pool::HugePages;
    use stoa_ports::{NullConfig, PortConfig};
    use stoa_tables::adjacency::Adjacency;

    use super::*;
    use crate::control::desired::{DesiredState, Interface, Workers};
    use crate::control::{Forwarder, Limits};

    const NEIGHBOR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    /// A forwarder with the port "one", behind which is a neighbour.
    fn forwarder() -> (Forwarder, Interface) {
        let limits = Limits { adjacencies: 64, ..Limits::default() };
        let mut forwarder = Forwarder::stepped(limits, Arc::new(stoa_ports::open));
        let workers =
            Workers { count: 1, buffers: 512, huge_pages: HugePages::Never, ..Workers::default() };
        let mut desired = DesiredState { workers, ..DesiredState::default() };
        let mut plain = Interface { enabled: true, ..Interface::default() };
        plain.ip4.addresses.push((Ipv4Addr::new(192, 0, 2, 1).into(), 24));
        desired.ports.insert("one".to_owned(), PortConfig::Null(NullConfig::default()));
        desired.interfaces.insert("one".to_owned(), plain.clone());
        desired.neighbors.insert(("one".to_owned(), NEIGHBOR), [2, 0, 0, 0, 0, 2]);
        forwarder.apply(desired).unwrap();
        (forwarder, plain)
    }

    /// Takes all lines of the table of adjacencies.
    fn fill(state: &mut ForwarderState, interface: u32) -> Vec<u32> {
        let other = Adjacency {
            interface,
            mtu: 1500,
            kind: AdjacencyKind::Drop,
            has_output_features: false,
            context: 0,
            rewrite: Vec::new(),
        };
        std::iter::from_fn(|| state.fib.add_replacement(&other).ok()).collect()
    }

    /// The kind of the neighbour's adjacency, and whether it has output features.
    fn of_neighbor(state: &ForwarderState, interface: u32) -> (AdjacencyKind, bool) {
        let entry = state.capabilities.neighbors.cache().get(&(interface, NEIGHBOR)).unwrap();
        let adjacency = state.fib.adjacency(entry.adjacency).unwrap();
        (adjacency.kind, adjacency.has_output_features)
    }

    #[test]
    fn a_refused_change_switches_no_feature() {
        let (mut forwarder, plain) = forwarder();
        let state = forwarder.state().unwrap();
        let index = state.index_of("one").unwrap();
        let mut others = fill(state, index);
        let features = Interface { noop_output: true, noop_port: true, ..plain };
        let has_features = |state: &ForwarderState| {
            let arcs = &state.shared.arcs;
            [arcs.has_output4(index), arcs.has_output6(index)]
        };
        assert!(state.set_interface(index, "one", &features).is_err());
        assert_eq!(has_features(state), [false; 2]);
        // With room for one of the two adjacencies, then for both; that of the neighbour follows in the place
        // of those that were replaced.
        for is_accepted in [false, true] {
            others.pop().into_iter().for_each(|other| state.fib.retire_adjacency(other));
            state.fib.settle();
            assert_eq!(state.set_interface(index, "one", &features).is_ok(), is_accepted);
            assert_eq!(has_features(state), [is_accepted; 2]);
            assert_eq!(of_neighbor(state, index), (AdjacencyKind::Complete, is_accepted));
        }
    }

    #[test]
    fn a_neighbour_whose_adjacency_cannot_change_gets_no_packets() {
        let (mut forwarder, plain) = forwarder();
        let state = forwarder.state().unwrap();
        let index = state.index_of("one").unwrap();
        let mut others = fill(state, index);
        state.set_output_features(index, &Interface { noop_output: true, ..plain }, (0, 0));
        state.refresh_neighbors(index);
        assert_eq!(of_neighbor(state, index), (AdjacencyKind::Drop, false));
        state.tick();
        assert_eq!(of_neighbor(state, index), (AdjacencyKind::Drop, false));
        others.pop().into_iter().for_each(|other| state.fib.retire_adjacency(other));
        state.tick();
        assert_eq!(of_neighbor(state, index), (AdjacencyKind::Complete, true));
        assert!(!state.capabilities.neighbors.has_outdated());
    }
}
