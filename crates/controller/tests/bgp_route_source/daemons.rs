//! Configurations of the daemons, and their routes.

use std::collections::BTreeMap;

use stoa_lab::{Bird, Frr, Tool};

/// BIRD with two providers and Stoa; the part for Stoa is that of docs/guide/bgp-session.md.
pub const BIRD: &str = "
router id 198.51.100.1;
protocol device { }
template bgp provider {
  local as 65000;
  ipv4 { import all; export none; };
}
protocol bgp p1 from provider { neighbor 10.1.0.2 as 65101; passive; }
protocol bgp p2 from provider { neighbor 10.2.0.2 as 65102; passive; }

protocol bgp stoa {
  local 127.0.0.1 as 65000;
  neighbor 127.0.0.1 port 1790 as 65000;
  rr client;
  connect delay time 1;
  connect retry time 2;
  error wait time 1, 5;
  ipv4 { import none; export all; add paths tx; };
  ipv6 { import none; export all; add paths tx; };
}
";

/// Configuration and options of zebra.
pub fn zebra() -> (&'static str, &'static [&'static str]) {
    ("interface lo\n ip address 198.51.100.1/32\n", &[])
}

/// staticd adds a route to 127.0.0.1, without which bgpd does not connect there.
pub const STATICD: (Tool, &str) =
    (Tool { program: "staticd", package: "frr", group: "test" }, "ip route 127.0.0.1/32 lo\n");

/// bgpd with two providers and Stoa; the part for Stoa is that of docs/guide/bgp-session.md.
pub fn bgpd() -> String {
    let family = |name: &str| {
        format!(
            " address-family {name} unicast\n  \
             neighbor 127.0.0.1 activate\n  \
             neighbor 127.0.0.1 route-reflector-client\n  \
             neighbor 127.0.0.1 addpath-tx-all-paths\n \
             exit-address-family\n"
        )
    };
    format!(
        "router bgp 65000\n \
         bgp router-id 198.51.100.1\n \
         no bgp ebgp-requires-policy\n \
         neighbor 10.1.0.2 remote-as 65101\n \
         neighbor 10.2.0.2 remote-as 65102\n \
         neighbor 127.0.0.1 remote-as 65000\n \
         neighbor 127.0.0.1 port 1790\n \
         neighbor 127.0.0.1 update-source lo\n \
         neighbor 127.0.0.1 timers connect 1\n{}{}",
        family("ipv4"),
        family("ipv6"),
    )
}

/// Next hops by prefix in the output of `birdc show route`: one line per path, followed by its next hop.
fn parse_birdc(received_messages: &str) -> BTreeMap<String, Vec<String>> {
    let mut paths = BTreeMap::<String, Vec<String>>::new();
    let mut prefix = String::new();
    for line in received_messages.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [first, ..] if first.contains('/') => prefix = (*first).to_owned(),
            ["via", hop, ..] => paths.entry(prefix.clone()).or_default().push((*hop).to_owned()),
            _ => {}
        }
    }
    paths
}

/// BIRD's best paths.
pub fn best_of_bird(bird: &Bird) -> BTreeMap<String, String> {
    let paths = parse_birdc(&bird.query("show route primary table master4").unwrap());
    paths.into_iter().map(|(prefix, hops)| (prefix, hops[0].clone())).collect()
}

/// All paths of BIRD.
pub fn paths_of_bird(bird: &Bird) -> BTreeMap<String, Vec<String>> {
    parse_birdc(&bird.query("show route table master4").unwrap())
}

/// Next hops by prefix, and whether each is bgpd's best path.
fn parse_vtysh(frr: &Frr) -> BTreeMap<String, Vec<(String, bool)>> {
    let received_messages = frr.query("show bgp ipv4 unicast json").unwrap();
    let json: serde_json::Value = serde_json::from_str(&received_messages).unwrap();
    let routes = json["routes"].as_object().unwrap();
    let path = |path: &serde_json::Value| {
        let hop = path["nexthops"][0]["ip"].as_str().unwrap().to_owned();
        (hop, path["bestpath"].as_bool().unwrap_or(false))
    };
    let of = |paths: &serde_json::Value| paths.as_array().unwrap().iter().map(path).collect();
    routes.iter().map(|(prefix, paths)| (prefix.clone(), of(paths))).collect()
}

/// bgpd's best paths.
pub fn best_of_frr(frr: &Frr) -> BTreeMap<String, String> {
    let best = |(prefix, paths): (String, Vec<(String, bool)>)| {
        Some((prefix, paths.into_iter().find(|(_, is_best)| *is_best)?.0))
    };
    parse_vtysh(frr).into_iter().filter_map(best).collect()
}

/// All paths of bgpd.
pub fn paths_of_frr(frr: &Frr) -> BTreeMap<String, Vec<String>> {
    let hops = |paths: Vec<(String, bool)>| paths.into_iter().map(|(hop, _)| hop).collect();
    parse_vtysh(frr).into_iter().map(|(prefix, paths)| (prefix, hops(paths))).collect()
}
