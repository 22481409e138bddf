//! What other routers and tools call a command or a node, and what it is here.

/// Commands of the shell and of operational mode.
const COMMANDS: &[(&str, &str)] = &[
    ("show ndp", "show neighbors"),
    ("show mac", "show interfaces"),
    ("show mac-address", "show interfaces"),
    ("show mac-address-table", "show neighbors"),
    ("show vlan", "show interfaces"),
    ("show vlans", "show interfaces"),
    ("show addresses", "show interfaces"),
    ("show hardware-interfaces", "show interfaces"),
    ("show fib", "show routes"),
    ("show rib", "show routes"),
    ("show bgp", "show route-sources"),
    ("show ip bgp", "show route-sources"),
    ("show ip ospf", "show route-sources"),
    ("show ip protocols", "show route-sources"),
    ("show isis", "show route-sources"),
    ("show ospf", "show route-sources"),
    ("show protocols", "show route-sources"),
    ("show runtime", "show nodes"),
    ("show errors", "show drops"),
    ("show counters", "show interfaces"),
    ("show buffers", "show limits"),
    ("show memory", "show limits"),
    ("show cpu", "show workers"),
    ("show processes", "status"),
    ("show threads", "show workers"),
    ("show policers", "show punts"),
    ("show copp", "show punts"),
    ("show sessions", "show flows"),
    ("show session", "show flows"),
    ("show connections", "show flows"),
    ("show conn", "show flows"),
    ("show conntrack", "show flows"),
    ("show flow session", "show flows"),
    ("show security flow session", "show flows"),
    ("show ip nat translations", "show nat mappings"),
    ("show ip nat statistics", "show nat"),
    ("show ip nat", "show nat"),
    ("show nat translations", "show nat mappings"),
    ("show nat translation", "show nat mappings"),
    ("show nat sessions", "show flows"),
    ("show nat statistics", "show nat"),
    ("show nat44", "show nat"),
    ("show security nat", "show nat"),
    ("show flow exporter", "show ipfix"),
    ("show flow export", "show ipfix"),
    ("show ip flow export", "show ipfix"),
    ("show netflow", "show ipfix"),
    ("show sflow", "show ipfix"),
    ("show conntrackd", "show flow-sync"),
    ("show crypto ipsec sa", "show ipsec sas"),
    ("show security ipsec security-associations", "show ipsec sas"),
    ("show xfrm state", "show ipsec sas"),
    ("show ipsec sa", "show ipsec sas"),
    ("show vpn ipsec sa", "show ipsec sas"),
    ("show crypto engines", "show ipsec engines"),
    ("show conntrack-sync", "show flow-sync"),
    ("show chassis cluster", "show flow-sync"),
    ("show failover", "show flow-sync"),
    ("show xlate", "show nat mappings"),
    ("show masquerade", "show nat"),
    ("ip nat", "show nat"),
    ("masquerade", "show nat"),
    ("clear ip nat translation", "clear flows"),
    ("clear nat", "clear flows"),
    ("clear xlate", "clear flows"),
    ("show access-lists", "show acl"),
    ("show ip access-lists", "show acl"),
    ("show ip access-list", "show acl"),
    ("show ipv6 access-list", "show acl"),
    ("show access-list", "show acl"),
    ("show acls", "show acl"),
    ("show firewall", "show acl"),
    ("show filter", "show acl"),
    ("show security zones", "show zones"),
    ("show zone-pair", "show zones"),
    ("monitor", "show TOPIC --watch"),
    ("clear access-list", "clear acl"),
    ("clear sessions", "clear flows"),
    ("clear session", "clear flows"),
    ("clear connections", "clear flows"),
    ("clear conn", "clear flows"),
    ("clear conntrack", "clear flows"),
    ("conntrack", "show flows"),
    ("clear firewall", "clear acl"),
    ("access-list", "show acl"),
    ("access-lists", "show acl"),
    ("firewall", "show acl"),
    ("iptables", "show acl"),
    ("nft", "show acl"),
    ("show trace", "trace show"),
    ("show logging", "show log"),
    ("show events", "show log"),
    ("show users", "user list"),
    ("show status", "status"),
    ("show uptime", "status"),
    ("show system", "status"),
    ("show hardware", "doctor"),
    ("show tech-support", "doctor"),
    ("show commits", "show history"),
    ("show startup", "show configuration --startup"),
    ("show startup-config", "show configuration --startup"),
    ("show vrf", "show routes summary"),
    ("show vrfs", "show routes summary"),
    ("show tunnels", "show interfaces"),
    ("show pbr", "show rules"),
    ("show policy", "show rules"),
    ("show standby", "show vrrp"),
    ("show candidate", "show configuration --candidate"),
    ("write", "commit"),
    ("apply", "commit"),
    ("diff", "compare"),
    ("restart", "upgrade"),
    ("reboot", "upgrade"),
    ("enable", "configure"),
    ("edit", "configure"),
    ("tcpdump", "capture"),
    ("no", "delete"),
    ("undo", "delete"),
    ("abort", "discard"),
];

/// Commands of configuration mode.
const CONFIGURATION: &[(&str, &str)] = &[
    ("no", "delete"),
    ("undo", "delete"),
    ("remove", "delete"),
    ("unset", "delete"),
    ("add", "set"),
    ("create", "set"),
    ("do", "run"),
    ("apply", "commit"),
    ("write", "commit"),
    ("abort", "discard"),
    ("revert", "discard"),
    ("clear", "discard"),
    ("diff", "compare"),
    ("validate", "commit check"),
    ("check", "commit check"),
    ("move", "rename"),
    ("username", "user add NAME"),
    ("interface", "edit interfaces interface NAME"),
    ("ip", "set routing"),
    ("router", "edit routing"),
    ("vrf", "edit vrfs vrf NAME"),
    ("nat", "edit nat instances instance NUMBER"),
    ("masquerade", "edit nat instances instance NUMBER policy NUMBER"),
    ("zone", "edit acls zones zone NAME"),
    ("zone-pair", "edit acls zone-pairs zone-pair FROM TO"),
    ("access-list", "edit acls acl NAME"),
    ("firewall", "edit acls acl NAME"),
    ("ping", "run ping"),
    ("traceroute", "run traceroute"),
];

/// Nodes of the configuration.
const NODES: &[(&str, &str)] = &[
    ("ethernet", "interface NAME"),
    ("ip", "ipv4"),
    ("inet", "ipv4"),
    ("inet6", "ipv6"),
    ("address", "ipv4 address ADDRESS/LENGTH"),
    ("shutdown", "enabled false"),
    ("disable", "enabled false"),
    ("vlan", "sub-interface outer vid NUMBER"),
    ("vlans", "interfaces interface NAME"),
    ("vif", "sub-interface outer vid NUMBER"),
    ("encapsulation", "sub-interface outer vid NUMBER"),
    ("protocols", "routing"),
    ("routing-options", "routing"),
    ("routing-instances", "vrfs"),
    ("router", "routing"),
    ("bgp", "routing control-plane-protocols"),
    ("ospf", "routing control-plane-protocols"),
    ("access-list", "acls acl NAME"),
    ("access-lists", "acls acl NAME"),
    ("firewall", "acls acl NAME"),
    ("filter", "acls acl NAME"),
    ("access-group", "acls attachment-points interface NAME"),
    ("zone", "acls zones zone NAME"),
    ("zones", "acls zones zone NAME"),
    ("zone-pair", "acls zone-pairs zone-pair FROM TO"),
    ("security-zone", "acls zones zone NAME"),
    ("nat44", "nat instances instance NUMBER"),
    ("masquerade", "nat instances instance NUMBER policy NUMBER"),
    ("snat", "nat instances instance NUMBER policy NUMBER"),
    ("source-nat", "nat instances instance NUMBER policy NUMBER"),
    ("dnat", "nat instances instance NUMBER mapping-table mapping-entry NUMBER"),
    ("destination-nat", "nat instances instance NUMBER mapping-table mapping-entry NUMBER"),
    ("port-forward", "nat instances instance NUMBER mapping-table mapping-entry NUMBER"),
    ("static-nat", "nat instances instance NUMBER mapping-table mapping-entry NUMBER"),
    ("netflow", "ipfix collector NAME"),
    ("conntrack-sync", "flow-sync"),
    ("flow-export", "ipfix collector NAME"),
    ("flow-exporter", "ipfix collector NAME"),
    ("login", "management user"),
    ("users", "management user"),
    ("username", "management user"),
    ("https", "management https"),
    ("syslog", "logging"),
    ("mtu", "port mtu"),
    ("prefix", "destination-prefix"),
    ("gateway", "next-hop next-hop-address"),
    ("via", "next-hop next-hop-address"),
    ("dev", "next-hop outgoing-interface"),
];

/// Containers of the configuration, by the ends of their data paths, that somebody may want to have without anything
/// in them, and what says that.
const ALONE: &[(&str, &str)] = &[
    ("/matches/tcp", "`matches ipv4 protocol 6` or `matches ipv6 protocol 6` for all of TCP"),
    ("/matches/udp", "`matches ipv4 protocol 17` or `matches ipv6 protocol 17` for all of UDP"),
    ("/matches/icmp", "`matches ipv4 protocol 1` or `matches ipv6 protocol 58` for all of ICMP"),
];

/// What to use instead of a container alone.
pub(crate) fn alone(path: &str) -> Option<&'static str> {
    ALONE.iter().find(|(end, _)| path.ends_with(end)).map(|(_, here)| *here)
}

/// The command of the shell for these words, with a fix.
pub fn command(words: &[String]) -> Option<&'static str> {
    let line = words.join(" ").to_lowercase();
    let is_it = |usual: &str| {
        line.strip_prefix(usual).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    COMMANDS.iter().find(|(usual, _)| is_it(usual)).map(|(_, here)| *here)
}

/// The command of configuration mode for a word.
pub fn configuration(word: &str) -> Option<&'static str> {
    CONFIGURATION.iter().find(|(usual, _)| *usual == word).map(|(_, here)| *here)
}

/// The node of the configuration for a word.
pub fn node(word: &str) -> Option<&'static str> {
    NODES.iter().find(|(usual, _)| *usual == word).map(|(_, here)| *here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::split;
    use crate::words::parse;

    #[test]
    fn a_command_is_found_by_its_first_words() {
        let of = |line: &str| command(&split(line).unwrap());
        assert_eq!(of("show ndp"), Some("show neighbors"));
        assert_eq!(of("show bgp summary"), Some("show route-sources"));
        assert_eq!(of("show ndpx"), None);
        assert_eq!(
            (of("show conntrack"), of("clear sessions")),
            (Some("show flows"), Some("clear flows"))
        );
        assert_eq!(
            (of("show sessions"), of("show access-lists")),
            (Some("show flows"), Some("show acl"))
        );
        assert_eq!((of("firewall"), of("show firewall x")), (Some("show acl"), Some("show acl")));
        assert_eq!((configuration("no"), node("inet")), (Some("delete"), Some("ipv4")));
    }

    #[test]
    fn the_nodes_exist() {
        let places = [
            "",
            "interfaces",
            "interfaces interface x",
            "routing control-plane-protocols control-plane-protocol static s static-routes ipv4",
            "routing control-plane-protocols control-plane-protocol static s static-routes ipv4 route 0.0.0.0/0",
            "routing control-plane-protocols control-plane-protocol static s static-routes ipv4 route 0.0.0.0/0 \
             next-hop",
        ];
        for (usual, here) in NODES {
            let exists = |place: &&str| {
                let shown = format!(
                    "{place} {}",
                    here.replace("ADDRESS/LENGTH", "10.0.0.1").replace("NUMBER", "5")
                );
                parse(&split(&shown).unwrap()).is_ok()
            };
            assert!(places.iter().any(exists), "{usual}: {here}");
        }
    }
}
