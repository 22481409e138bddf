//! The entries of IETF lists that have leaves in the table, with the keys of their OpenConfig lists.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::next_hops;

/// An IETF list, and the OpenConfig lists that its entries belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Interfaces of ports and tunnels.
    Interface,
    /// Sub-interfaces, and each interface itself as its sub-interface 0.
    Subinterface,
    /// IPv4 addresses of sub-interfaces.
    Address4,
    /// IPv6 addresses of sub-interfaces.
    Address6,
    /// VRFs with routes.
    Instance,
    /// Route sources that are BGP sessions.
    Protocol,
    /// The daemons of these sessions.
    Neighbor,
    /// IPv4 routes that packets use.
    Entry4,
    /// IPv6 routes that packets use.
    Entry6,
    /// Their next hops together.
    NextHopGroup,
    /// The next hops of each group.
    GroupMember,
    /// All next hops.
    NextHop,
}

/// What is read of the IETF data for a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// `/ietf-interfaces:interfaces`
    Interfaces,
    /// `/ietf-routing:routing/control-plane-protocols`
    Protocols,
    /// `/ietf-routing:routing/ribs`
    Ribs,
}

/// An entry with the keys of its OpenConfig path, from the root on.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Values of the keys.
    pub keys: Vec<String>,
    /// The IETF data.
    pub value: std::borrow::Cow<'a, Value>,
}

fn entry(keys: &[&str], value: &Value) -> Entry<'static> {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Entry { keys, value: std::borrow::Cow::Owned(value.clone()) }
}

impl Source {
    /// The IETF list.
    pub fn ietf(self) -> &'static str {
        match self {
            Source::Interface | Source::Subinterface => "/ietf-interfaces:interfaces/interface",
            Source::Address4 => "/ietf-interfaces:interfaces/interface/ietf-ip:ipv4/address",
            Source::Address6 => "/ietf-interfaces:interfaces/interface/ietf-ip:ipv6/address",
            Source::Instance => "/ietf-routing:routing/ribs/rib",
            Source::Protocol | Source::Neighbor => {
                "/ietf-routing:routing/control-plane-protocols/control-plane-protocol"
            }
            _ => "/ietf-routing:routing/ribs/rib/routes/route",
        }
    }

    /// The part of the data to read.
    pub fn part(self) -> Part {
        match self {
            Source::Interface | Source::Subinterface | Source::Address4 | Source::Address6 => {
                Part::Interfaces
            }
            Source::Protocol | Source::Neighbor => Part::Protocols,
            _ => Part::Ribs,
        }
    }

    /// The entries in the part's data.
    pub fn entries<'a>(self, data: &'a Value) -> Vec<Entry<'a>> {
        match self.part() {
            Part::Interfaces => self.of_interfaces(data),
            Part::Protocols => self.of_protocols(data),
            Part::Ribs => self.of_ribs(data),
        }
    }

    fn of_interfaces<'a>(self, data: &'a Value) -> Vec<Entry<'a>> {
        let mut entries = Vec::new();
        for interface in list(data, "interface") {
            let Some(name) = interface["name"].as_str() else { continue };
            let place = place(interface);
            if self == Source::Interface {
                if place.is_none() {
                    entries.push(borrowed(vec![name.to_owned()], interface));
                }
                continue;
            }
            let (parent, index) = place.unwrap_or((name, 0));
            let keys = vec![parent.to_owned(), index.to_string()];
            let family = match self {
                Source::Address4 => "ietf-ip:ipv4",
                Source::Address6 => "ietf-ip:ipv6",
                _ => {
                    entries.push(borrowed(keys, interface));
                    continue;
                }
            };
            for address in list(&interface[family], "address") {
                let Some(ip) = address["ip"].as_str() else { continue };
                let keys = [&keys[..], &[ip.to_owned()]].concat();
                entries.push(borrowed(keys, address));
            }
        }
        entries
    }

    fn of_protocols<'a>(self, data: &'a Value) -> Vec<Entry<'a>> {
        let all = list(data, "control-plane-protocol");
        let sessions = all.filter(|protocol| protocol["type"] == "stoa-routing:bgp");
        let entry = |protocol: &'a Value| {
            let vrf = protocol["stoa-vrf:vrf"].as_str().unwrap_or("default");
            let mut keys = vec![vrf, "BGP", protocol["name"].as_str()?];
            if self == Source::Neighbor {
                keys.push(protocol["stoa-routing:route-source"]["bgp-address"].as_str()?);
            }
            Some(borrowed(keys.into_iter().map(str::to_owned).collect(), protocol))
        };
        sessions.filter_map(entry).collect()
    }

    fn of_ribs<'a>(self, data: &'a Value) -> Vec<Entry<'a>> {
        let mut entries: Vec<Entry<'a>> = Vec::new();
        let mut seen = BTreeSet::new();
        for rib in list(data, "rib") {
            let name = rib["name"].as_str().unwrap_or_default();
            let Some((family, vrf)) = name.split_once('-') else { continue };
            if self == Source::Instance {
                if seen.insert(vec![vrf.to_owned()]) {
                    entries.push(borrowed(vec![vrf.to_owned()], rib));
                }
                continue;
            }
            let prefix = match (self, family) {
                (Source::Entry4, "ipv6") | (Source::Entry6, "ipv4") => continue,
                (_, "ipv4") => "ietf-ipv4-unicast-routing:destination-prefix",
                _ => "ietf-ipv6-unicast-routing:destination-prefix",
            };
            for route in list(&rib["routes"], "route").filter(|route| !route["active"].is_null()) {
                if matches!(self, Source::Entry4 | Source::Entry6) {
                    let Some(prefix) = route[prefix].as_str() else { continue };
                    entries.push(borrowed(vec![vrf.to_owned(), prefix.to_owned()], route));
                    continue;
                }
                let Some(group) = next_hops::group(&route["next-hop"]) else { continue };
                for new in self.of_group(vrf, &group) {
                    if seen.insert(new.keys.clone()) {
                        entries.push(new);
                    }
                }
            }
        }
        entries
    }

    /// The entries of the next hops of a route.
    fn of_group(self, vrf: &str, group: &next_hops::NextHopGroup) -> Vec<Entry<'static>> {
        let id = group.id.to_string();
        let of_member = |member: &next_hops::Member| {
            let index = member.index.to_string();
            match self {
                Source::GroupMember => entry(&[vrf, &id, &index], &member.value),
                _ => entry(&[vrf, &index], &member.value),
            }
        };
        match self {
            Source::NextHopGroup => vec![entry(&[vrf, &id], &json!({ "next-hop": {} }))],
            _ => group.members.iter().map(of_member).collect(),
        }
    }
}

fn borrowed(keys: Vec<String>, value: &Value) -> Entry<'_> {
    Entry { keys, value: std::borrow::Cow::Borrowed(value) }
}

/// The entries of a list; data that is itself one entry is a list of one.
fn list<'a>(data: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    let all = data.get(name).and_then(Value::as_array);
    let one = all.is_none() && data.get("name").is_some();
    all.into_iter().flatten().chain(one.then_some(data))
}

/// The parent and the index of a sub-interface; `None`: it is none.
///
/// The index is the VLAN identifier; of QinQ that of the outer tag times 4,096, plus that of the inner one. Service
/// tags (0x88a8) add 2^24.
fn place(interface: &Value) -> Option<(&str, u32)> {
    let settings = &interface["stoa-interfaces:sub-interface"];
    let parent = settings["parent"].as_str().or_else(|| interface["lower-layer-if"][0].as_str())?;
    let vid = |tag: &Value| tag["vid"].as_u64().and_then(|vid| u32::try_from(vid).ok());
    let Some(outer) = vid(&settings["outer"]) else {
        // The tags may not be read.
        return Some((parent, u32::try_from(interface["if-index"].as_u64()?).ok()?));
    };
    let service = if settings["outer"]["tpid"] == "s-vlan" { 1 << 24 } else { 0 };
    let index = vid(&settings["inner"]).map_or(outer, |inner| (outer << 12) + inner);
    Some((parent, service + index))
}
