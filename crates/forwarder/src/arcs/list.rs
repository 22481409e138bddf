//! All arcs of this tree with their features, in the order in which packets meet them.

use std::sync::Arc;

use stoa_engine::arc::ArcSpec;

use super::feature::{
    Feature, access_lists, does_nothing, passive, translated_fragment, translation,
};
use super::{
    ETHERNET_INPUT, IP_LOCAL, IP4_INPUT, IP4_ORIGIN, IP4_OUTPUT, IP6_INPUT, IP6_ORIGIN, IP6_OUTPUT,
    PORT_OUTPUT,
};
use crate::ethernet::cross_connect;
use crate::ip::{flow_hash, minimum_ttl, mss_clamp, policy, redirect, reverse_path};
use crate::nodes::node;
use crate::output::interface_output;
use crate::shared::Shared;
use crate::{acl, login, nat, nat64, noop, nptv6, siit};

/// All arcs, with the features of this tree.
pub(super) const ARCS: &[ArcSpec<Arc<Shared>>] = &[
    ArcSpec {
        name: ETHERNET_INPUT,
        description: "received frames once their interface is known, from the Ethernet header on",
        starts: &["ethernet-input"],
        features: &[
            passive(
                ("ethernet-noop", "does nothing: measures the cost of a feature"),
                noop::make_ethernet,
                &["cross-connect"],
            ),
            Feature {
                node: node(
                    "cross-connect",
                    "sends frames unchanged to the cross-connected interface",
                    cross_connect::EDGES,
                    cross_connect::make,
                ),
                after: &[],
                before: &[],
            },
        ],
        end: "ethernet-dispatch",
    },
    ArcSpec {
        name: IP4_INPUT,
        description: "received IPv4 packets, before the lookup",
        starts: &["ip4-input"],
        features: &[
            passive(
                (
                    "ip4-minimum-ttl",
                    "drops IPv4 packets whose TTL is below the minimum of their interface",
                ),
                minimum_ttl::make4,
                &["ip4-reverse-path"],
            ),
            passive(
                ("ip4-reverse-path", "drops IPv4 packets that fail the reverse path check (uRPF)"),
                reverse_path::make4,
                &["ip4-policy"],
            ),
            // Behind the reverse path check, so that forged senders cause no answers.
            Feature {
                node: node(
                    login::INPUT_NODES[0],
                    "lets hosts reach little more than a portal until they have logged in (IPv4)",
                    login::EDGES4,
                    login::make_input4,
                ),
                after: &["ip4-reverse-path"],
                before: &["ip4-acl-input"],
            },
            // Before lists, whose SYN cookies promise the segment size that they see.
            passive(
                (
                    mss_clamp::INPUT_NODES[0],
                    "lowers the maximum segment size in TCP SYNs of received IPv4 packets",
                ),
                mss_clamp::make_input4,
                &["ip4-acl-input"],
            ),
            // Behind the reverse path check, so that forged senders cause no answers.
            access_lists(
                ("ip4-acl-input", "applies access lists to received IPv4 packets"),
                (acl::INPUT_EDGES4, acl::make_input4),
                (&["ip4-reverse-path"], &["ip4-nat44-input"]),
            ),
            // Behind access lists, which see packets as they are on the wire.
            translation(
                (
                    siit::INPUT4_NODE,
                    "makes IPv6 packets of received IPv4 packets to mapped addresses, without state",
                ),
                (siit::EDGES4, siit::make_input4),
                (&["ip4-acl-input"], &[nat::INPUT_NODE]),
            ),
            // Behind access lists, which see packets as they are on the wire, and before routes.
            Feature {
                node: node(
                    nat::INPUT_NODE,
                    "translates destinations of received IPv4 packets",
                    nat::EDGES,
                    nat::make_input,
                ),
                after: &[],
                before: &[nat64::INPUT4_NODE],
            },
            translation(
                (
                    nat64::INPUT4_NODE,
                    "makes IPv6 packets of translated IPv4 packets whose destination is an IPv6 host",
                ),
                (nat64::EDGES4, nat64::make_input4),
                (&[], &[nat::VRF_NODE]),
            ),
            translation(
                (
                    nat::VRF_NODE,
                    "routes translated IPv4 packets whose destination is in another VRF",
                ),
                (nat::vrfs::EDGES, nat::vrfs::make),
                (&[], &["ip4-policy"]),
            ),
            does_nothing("ip4-noop", noop::make_ip4),
            passive(
                ("ip4-flow-hash", "asks for the flow of each packet: measures the cost"),
                flow_hash::make4,
                &[],
            ),
            Feature {
                node: node(
                    "ip4-policy",
                    "applies policy routing rules to IPv4 packets",
                    policy::EDGES4,
                    policy::make4,
                ),
                after: &["ip4-flow-hash"],
                before: &[],
            },
        ],
        end: "ip4-lookup",
    },
    ArcSpec {
        name: IP6_INPUT,
        description: "received IPv6 packets, before the lookup",
        starts: &["ip6-input"],
        features: &[
            passive(
                (
                    "ip6-minimum-ttl",
                    "drops IPv6 packets whose hop limit is below the minimum of their interface",
                ),
                minimum_ttl::make6,
                &["ip6-reverse-path"],
            ),
            passive(
                ("ip6-reverse-path", "drops IPv6 packets that fail the reverse path check (uRPF)"),
                reverse_path::make6,
                &["ip6-policy"],
            ),
            // Behind the reverse path check, so that forged senders cause no answers.
            Feature {
                node: node(
                    login::INPUT_NODES[1],
                    "lets hosts reach little more than a portal until they have logged in (IPv6)",
                    login::EDGES6,
                    login::make_input6,
                ),
                after: &["ip6-reverse-path"],
                before: &["ip6-acl-input"],
            },
            // Before lists, whose SYN cookies promise the segment size that they see.
            passive(
                (
                    mss_clamp::INPUT_NODES[1],
                    "lowers the maximum segment size in TCP SYNs of received IPv6 packets",
                ),
                mss_clamp::make_input6,
                &["ip6-acl-input"],
            ),
            // Before access lists, which know internal addresses alone. Flows have one key so.
            Feature {
                node: node(
                    nptv6::INPUT_NODE,
                    "translates the prefixes of destinations of received IPv6 packets",
                    nptv6::EDGES,
                    nptv6::make_input,
                ),
                after: &["ip6-reverse-path"],
                before: &["ip6-acl-input", "ip6-policy"],
            },
            // Behind the reverse path check, so that forged senders cause no answers.
            access_lists(
                ("ip6-acl-input", "applies access lists to received IPv6 packets"),
                (acl::INPUT_EDGES6, acl::make_input6),
                (&["ip6-reverse-path"], &["ip6-policy"]),
            ),
            // Behind access lists, which see IPv6 packets.
            translation(
                (
                    nat64::INPUT6_NODE,
                    "makes IPv4 packets of received IPv6 packets to the prefix of NAT64",
                ),
                (nat64::EDGES6, nat64::make_input6),
                (&["ip6-acl-input"], &["ip6-policy"]),
            ),
            translation(
                (
                    siit::INPUT6_NODE,
                    "makes IPv4 packets of received IPv6 packets to the prefix of SIIT, without state",
                ),
                (siit::EDGES6, siit::make_input6),
                (&["ip6-acl-input"], &["ip6-policy"]),
            ),
            does_nothing("ip6-noop", noop::make_ip6),
            passive(
                ("ip6-flow-hash", "asks for the flow of each packet: measures the cost"),
                flow_hash::make6,
                &[],
            ),
            Feature {
                node: node(
                    "ip6-policy",
                    "applies policy routing rules to IPv6 packets",
                    policy::EDGES6,
                    policy::make6,
                ),
                after: &["ip6-flow-hash"],
                before: &[],
            },
        ],
        end: "ip6-lookup",
    },
    ArcSpec {
        name: IP_LOCAL,
        description: "validated packets for local addresses, reassembled unless they are for Linux",
        starts: &["ip4-local", "ip6-local"],
        features: &[
            access_lists(
                (
                    "ip4-zone-local",
                    "applies the access lists between a zone and the router to IPv4 packets",
                ),
                (acl::EDGES4, acl::zones::make_local4),
                (&[], &[]),
            ),
            access_lists(
                (
                    "ip6-zone-local",
                    "applies the access lists between a zone and the router to IPv6 packets",
                ),
                (acl::EDGES6, acl::zones::make_local6),
                (&[], &[]),
            ),
            does_nothing("ip-local-noop", noop::make_local),
        ],
        end: "ip-demux",
    },
    ArcSpec {
        name: IP4_ORIGIN,
        description: "IPv4 packets that the router itself sends, before the lookup; of the whole router",
        starts: &["ip4-origin"],
        features: &[does_nothing("ip4-origin-noop", noop::make_origin4)],
        end: "ip4-lookup",
    },
    ArcSpec {
        name: IP6_ORIGIN,
        description: "IPv6 packets that the router itself sends, before the lookup; of the whole router",
        starts: &["ip6-origin"],
        features: &[does_nothing("ip6-origin-noop", noop::make_origin6)],
        end: "ip6-lookup",
    },
    ArcSpec {
        name: IP4_OUTPUT,
        description: "IPv4 packets whose sending interface is known, before TTL and link-layer header",
        starts: &["ip4-rewrite"],
        features: &[
            // Before redirects, which would advise the sender about a packet that does not pass.
            access_lists(
                (
                    "ip4-zone-output",
                    "applies the access lists between the zones of interfaces to IPv4 packets",
                ),
                (acl::EDGES4, acl::zones::make_output4),
                (&[], &["ip4-nat44-output"]),
            ),
            // Behind zones, which see inside addresses, and before lists, which see packets as they are on the wire.
            Feature {
                node: node(
                    nat::OUTPUT_NODE,
                    "translates sources of IPv4 packets that are forwarded",
                    nat::EDGES,
                    nat::make_output,
                ),
                after: &[],
                before: &["ip4-acl-output"],
            },
            access_lists(
                ("ip4-acl-output", "applies access lists to IPv4 packets that are forwarded"),
                (acl::EDGES4, acl::make_output4),
                (&[], &["ip4-redirect"]),
            ),
            passive(
                (
                    "ip4-redirect",
                    "detects IPv4 packets that leave by their receiving interface, for ICMP redirects",
                ),
                redirect::make4,
                &[],
            ),
            passive(
                (
                    mss_clamp::OUTPUT_NODES[0],
                    "lowers the maximum segment size in TCP SYNs of IPv4 packets that are about to be sent",
                ),
                mss_clamp::make_output4,
                &[],
            ),
            passive(
                (
                    login::OUTPUT_NODES[0],
                    "counts IPv4 packets to hosts that have logged in, and drops others to unknown ones",
                ),
                login::make_output4,
                &[],
            ),
            does_nothing("ip4-output-noop", noop::make_output4),
        ],
        end: "ip4-output-rewrite",
    },
    ArcSpec {
        name: IP6_OUTPUT,
        description: "IPv6 packets whose sending interface is known, before hop limit and link-layer header",
        starts: &["ip6-rewrite"],
        features: &[
            // Before redirects, which would advise the sender about a packet that does not pass.
            access_lists(
                (
                    "ip6-zone-output",
                    "applies the access lists between the zones of interfaces to IPv6 packets",
                ),
                (acl::EDGES6, acl::zones::make_output6),
                (&[], &["ip6-acl-output"]),
            ),
            access_lists(
                ("ip6-acl-output", "applies access lists to IPv6 packets that are forwarded"),
                (acl::EDGES6, acl::make_output6),
                (&[], &["ip6-redirect"]),
            ),
            passive(
                (
                    "ip6-redirect",
                    "detects IPv6 packets that leave by their receiving interface, for ICMPv6 redirects",
                ),
                redirect::make6,
                &[],
            ),
            passive(
                (
                    mss_clamp::OUTPUT_NODES[1],
                    "lowers the maximum segment size in TCP SYNs of IPv6 packets that are about to be sent",
                ),
                mss_clamp::make_output6,
                &[],
            ),
            // Behind redirects, which quote what the sender knows.
            Feature {
                node: node(
                    nptv6::OUTPUT_NODE,
                    "translates the prefixes of sources of IPv6 packets that are forwarded",
                    nptv6::EDGES,
                    nptv6::make_output,
                ),
                after: &["ip6-acl-output", "ip6-redirect"],
                before: &[],
            },
            passive(
                (
                    login::OUTPUT_NODES[1],
                    "counts IPv6 packets to hosts that have logged in, and drops others to unknown ones",
                ),
                login::make_output6,
                &[],
            ),
            does_nothing("ip6-output-noop", noop::make_output6),
            translated_fragment(),
        ],
        end: "ip6-output-rewrite",
    },
    ArcSpec {
        name: PORT_OUTPUT,
        description: "frames that are about to be sent",
        starts: &[interface_output::NAME],
        features: &[does_nothing("port-output-noop", noop::make_port)],
        end: "port-output",
    },
];
