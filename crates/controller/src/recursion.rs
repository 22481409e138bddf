//! Recursive next hops: gateways that are on no link are resolved through other routes.
//!
//! The longest other static route of the same VRF that covers the gateway resolves it, and its paths are used
//! in their proportions. The default route resolves nothing, because it would hide a missing route to the
//! gateway. A route with an unresolved next hop is listed with the reason and resolved again at each reload.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;

use crate::config::routes::{Key, PATH_LIMIT, StaticNextHop, StaticRoute, StaticRoutes};

/// Maximum levels of recursion.
pub const LEVEL_LIMIT: usize = 8;

/// The resolution of a route with recursive next hops.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// The paths on links; none when nothing is resolved.
    pub paths: Vec<v1::Path>,
    /// The resolution of each configured next hop.
    pub next_hops: Vec<v1::NextHop>,
    /// Why next hops are unresolved; these have no paths.
    pub reasons: Vec<String>,
}

/// Resolves all routes with recursive next hops.
pub fn resolve(statics: &StaticRoutes) -> BTreeMap<Key, Resolved> {
    let table = Table::new(statics);
    let recursive = |(_, route): &(&Key, &StaticRoute)| match route {
        StaticRoute::NextHops(hops) => {
            hops.iter().any(|hop| matches!(hop, StaticNextHop::Recursive { .. }))
        }
        StaticRoute::Special(_) => false,
    };
    let mut waiting: Vec<&Key> = statics.iter().filter(recursive).map(|(key, _)| key).collect();
    let mut work = Resolver { statics, table, done: HashMap::new() };
    // Each round resolves what depends on earlier rounds, so there are as many rounds as levels.
    for level in 1..=LEVEL_LIMIT {
        let (ready, later): (Vec<&Key>, _) = waiting.iter().partition(|key| work.is_ready(key));
        let resolved: Vec<_> = ready.into_iter().map(|key| (key, (level, work.one(key)))).collect();
        work.done.extend(resolved);
        waiting = later;
    }
    let stuck: Vec<_> = waiting.into_iter().map(|key| (key, work.one(key))).collect();
    let done = work.done.into_iter().map(|(key, (_, resolved))| (key, resolved));
    done.chain(stuck).map(|(key, resolved)| (key.clone(), resolved)).collect()
}

/// Prefix lengths of the static routes by VRF, for longest-prefix match.
struct Table<'a> {
    lengths: HashMap<(&'a str, bool), BTreeSet<u8>>,
}

impl<'a> Table<'a> {
    fn new(statics: &'a StaticRoutes) -> Self {
        let mut lengths: HashMap<_, BTreeSet<u8>> = HashMap::new();
        for (vrf, prefix) in statics.keys() {
            let six = prefix.addr().is_ipv6();
            lengths.entry((&**vrf, six)).or_default().insert(prefix.prefix_len());
        }
        Self { lengths }
    }

    /// The longest match for `address` other than `but` and the default route.
    fn longest(&self, statics: &'a StaticRoutes, but: &Key, address: IpAddr) -> Option<&'a Key> {
        let lengths = self.lengths.get(&(&*but.0, address.is_ipv6()))?;
        lengths.iter().rev().filter(|length| **length > 0).find_map(|length| {
            let key = (but.0.clone(), IpNet::new(address, *length).ok()?.trunc());
            statics.get_key_value(&key).map(|(key, _)| key).filter(|key| *key != but)
        })
    }
}

struct Resolver<'a> {
    statics: &'a StaticRoutes,
    table: Table<'a>,
    /// Resolved routes, and their levels.
    done: HashMap<&'a Key, (usize, Resolved)>,
}

impl<'a> Resolver<'a> {
    fn hops(&self, key: &Key) -> &'a [StaticNextHop] {
        match self.statics.get(key) {
            Some(StaticRoute::NextHops(hops)) => hops,
            _ => &[],
        }
    }

    fn is_recursive(&self, key: &Key) -> bool {
        self.hops(key).iter().any(|hop| matches!(hop, StaticNextHop::Recursive { .. }))
    }

    fn resolver(&self, key: &Key, gateway: IpAddr) -> Option<&'a Key> {
        self.table.longest(self.statics, key, gateway)
    }

    /// Whether all routes that this one depends on are resolved.
    fn is_ready(&self, key: &Key) -> bool {
        self.hops(key).iter().all(|hop| match hop {
            StaticNextHop::OnLink(_) => true,
            StaticNextHop::Recursive { gateway, .. } => {
                self.resolver(key, *gateway).is_none_or(|resolver| {
                    !self.is_recursive(resolver) || self.done.contains_key(resolver)
                })
            }
        })
    }

    fn one(&self, key: &Key) -> Resolved {
        let mut resolved = Resolved::default();
        let mut shares: Vec<(u64, Vec<v1::Path>)> = Vec::new();
        for hop in self.hops(key) {
            match hop {
                StaticNextHop::OnLink(path) => {
                    let share = u64::from(path.weight.max(1));
                    shares.push((share, vec![v1::Path { weight: 1, ..path.clone() }]));
                    let paths = vec![path.clone()];
                    let weight = path.weight;
                    resolved.next_hops.push(v1::NextHop { weight, paths, ..Default::default() });
                }
                StaticNextHop::Recursive { gateway, weight } => {
                    let paths = self.behind(key, *gateway).unwrap_or_else(|reason| {
                        resolved.reasons.push(reason);
                        Vec::new()
                    });
                    resolved.next_hops.push(v1::NextHop {
                        gateway: ip_bytes(*gateway),
                        weight: *weight,
                        paths: paths.clone(),
                    });
                    if !paths.is_empty() {
                        shares.push((u64::from((*weight).max(1)), paths));
                    }
                }
            }
        }
        resolved.paths = weigh(shares);
        if resolved.paths.len() > PATH_LIMIT {
            resolved.reasons.push(format!(
                "{} paths exceed the limit of {PATH_LIMIT}: the others are not used",
                resolved.paths.len()
            ));
            resolved.paths.truncate(PATH_LIMIT);
        }
        resolved
    }

    /// The paths to a gateway.
    fn behind(&self, key: &Key, gateway: IpAddr) -> Result<Vec<v1::Path>, String> {
        let Some(resolver) = self.resolver(key, gateway) else {
            return Err(format!(
                "{gateway} is in no connected subnet, and no other route leads there (the default \
                 route does not count)"
            ));
        };
        let by = &resolver.1;
        let paths: Vec<v1::Path> = match self.statics.get(resolver) {
            Some(StaticRoute::Special(special)) => {
                return Err(format!("{gateway} resolves through {by}, which is {special}"));
            }
            _ if self.is_recursive(resolver) => match self.done.get(resolver) {
                Some((_, done)) if done.paths.is_empty() => {
                    return Err(format!(
                        "{gateway} resolves through {by}, which is inactive itself"
                    ));
                }
                Some((level, done)) if *level < LEVEL_LIMIT => done.paths.clone(),
                _ => return Err(self.stuck(key, gateway)),
            },
            _ => {
                let path = |hop: &StaticNextHop| match hop {
                    StaticNextHop::OnLink(path) => Some(path.clone()),
                    StaticNextHop::Recursive { .. } => None,
                };
                self.hops(resolver).iter().filter_map(path).collect()
            }
        };
        // On the resolver's own link, the next hop is the gateway itself.
        let on_link = |path: v1::Path| match path.next_hop.is_empty() {
            true => v1::Path { next_hop: ip_bytes(gateway), ..path },
            false => path,
        };
        Ok(paths.into_iter().map(on_link).collect())
    }

    /// Why a gateway is unresolved after all rounds: a loop, or too many levels.
    fn stuck(&self, key: &Key, gateway: IpAddr) -> String {
        let (mut way, mut at) = (vec![key.1], self.resolver(key, gateway));
        while let Some(resolver) = at.filter(|_| way.len() <= LEVEL_LIMIT) {
            let is_loop = way.contains(&resolver.1);
            way.push(resolver.1);
            if is_loop {
                let way: Vec<String> = way.iter().map(ToString::to_string).collect();
                return format!("{gateway} resolves through itself: {}", way.join(" by "));
            }
            at = self.hops(resolver).iter().find_map(|hop| match hop {
                StaticNextHop::Recursive { gateway, .. } => self
                    .resolver(resolver, *gateway)
                    .filter(|next| self.is_recursive(next) && !self.done.contains_key(next)),
                StaticNextHop::OnLink(_) => None,
            });
        }
        format!("{gateway} needs more than {LEVEL_LIMIT} levels of recursion")
    }
}

/// Combines the paths of several next hops: each next hop has its share, which its paths divide by their
/// weights.
pub(crate) fn weigh(shares: Vec<(u64, Vec<v1::Path>)>) -> Vec<v1::Path> {
    const HEAVIEST: u128 = u16::MAX as u128;
    let sum = |paths: &[v1::Path]| paths.iter().map(|path| u128::from(path.weight.max(1))).sum();
    let sums: Vec<u128> = shares.iter().map(|(_, paths)| sum(paths)).collect();
    let common = sums.iter().fold(1_u128, |common, sum| {
        let sum = (*sum).max(1);
        // Above this the proportions are rounded.
        if common > 1 << 32 { common } else { common / gcd(common, sum) * sum }
    });
    let mut weights: BTreeMap<(String, Vec<u8>), u128> = BTreeMap::new();
    for ((share, paths), sum) in shares.into_iter().zip(sums) {
        for path in paths {
            let weight =
                u128::from(share) * u128::from(path.weight.max(1)) * (common / sum.max(1)).max(1);
            *weights.entry((path.interface, path.next_hop)).or_insert(0) += weight;
        }
    }
    let divisor = weights.values().fold(0, |divisor, weight| gcd(divisor, *weight)).max(1);
    let heaviest = weights.values().max().map_or(1, |weight| weight / divisor);
    let scaled = |weight: u128| {
        let weight = weight / divisor;
        let weight = if heaviest > HEAVIEST { weight * HEAVIEST / heaviest } else { weight };
        u32::try_from(weight.max(1)).unwrap_or(u32::MAX)
    };
    let path =
        |((interface, next_hop), weight)| v1::Path { interface, next_hop, weight: scaled(weight) };
    weights.into_iter().map(path).collect()
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(prefix: &str) -> Key {
        ("".into(), prefix.parse().unwrap())
    }

    fn path(interface: &str, gateway: &str, weight: u32) -> StaticNextHop {
        let next_hop = gateway.parse().map(ip_bytes).unwrap_or_default();
        StaticNextHop::OnLink(v1::Path { interface: interface.to_owned(), next_hop, weight })
    }

    fn via(gateway: &str, weight: u32) -> StaticNextHop {
        StaticNextHop::Recursive { gateway: gateway.parse().unwrap(), weight }
    }

    fn resolved(routes: Vec<(&str, Vec<StaticNextHop>)>) -> BTreeMap<Key, Resolved> {
        let statics = routes.into_iter().map(|(at, hops)| (key(at), StaticRoute::NextHops(hops)));
        resolve(&statics.collect())
    }

    fn texts(resolved: &Resolved) -> Vec<String> {
        resolved.paths.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_are_combined_in_their_proportions() {
        let routes = resolved(vec![
            ("10.9.0.0/16", vec![path("a", "10.1.0.2", 2), path("b", "10.2.0.2", 1)]),
            ("10.8.0.0/16", vec![path("c", "", 1)]),
            ("192.0.2.0/24", vec![via("10.9.0.1", 1), via("10.8.0.7", 3)]),
            ("0.0.0.0/0", vec![path("a", "10.1.0.9", 1)]),
        ]);
        let expected =
            ["via 10.1.0.2 dev a weight 2", "via 10.2.0.2 dev b", "via 10.8.0.7 dev c weight 9"];
        assert_eq!(texts(&routes[&key("192.0.2.0/24")]), expected);
        assert_eq!(routes.len(), 1);
    }

    #[test]
    fn the_longest_other_route_resolves_but_never_the_default() {
        let routes = resolved(vec![
            ("0.0.0.0/0", vec![path("a", "10.1.0.9", 1)]),
            ("10.0.0.0/8", vec![via("10.9.0.1", 1)]),
            ("10.9.0.0/16", vec![path("b", "10.2.0.2", 1)]),
            ("10.9.0.0/24", vec![via("10.9.0.1", 1)]),
            ("192.0.2.0/24", vec![via("172.16.0.1", 1)]),
        ]);
        assert_eq!(texts(&routes[&key("10.0.0.0/8")]), ["via 10.2.0.2 dev b"]);
        assert_eq!(texts(&routes[&key("10.9.0.0/24")]), ["via 10.2.0.2 dev b"]);
        let lost = &routes[&key("192.0.2.0/24")];
        assert!(lost.paths.is_empty() && lost.reasons[0].contains("no other route"), "{lost:?}");
    }

    #[test]
    fn loops_are_reported() {
        let routes = resolved(vec![
            ("10.1.0.0/16", vec![via("10.2.0.1", 1)]),
            ("10.2.0.0/16", vec![via("10.3.0.1", 1), path("a", "10.9.0.2", 1)]),
            ("10.3.0.0/16", vec![via("10.1.0.1", 1)]),
        ]);
        let first = &routes[&key("10.1.0.0/16")];
        assert!(first.paths.is_empty());
        let circle = "10.2.0.1 resolves through itself: \
                      10.1.0.0/16 by 10.2.0.0/16 by 10.3.0.0/16 by 10.1.0.0/16";
        assert_eq!(first.reasons, [circle]);
        // The other next hop is used.
        assert_eq!(texts(&routes[&key("10.2.0.0/16")]), ["via 10.9.0.2 dev a"]);
    }

    #[test]
    fn levels_are_limited() {
        let chain = |length: usize| {
            let mut routes = vec![(format!("10.0.{length}.0/24"), vec![path("a", "10.9.0.2", 1)])];
            for at in 0..length {
                routes
                    .push((format!("10.0.{at}.0/24"), vec![via(&format!("10.0.{}.1", at + 1), 1)]));
            }
            routes.reverse();
            let keyed =
                routes.into_iter().map(|(at, hops)| (key(&at), StaticRoute::NextHops(hops)));
            resolve(&keyed.collect())
        };
        let first = key("10.0.0.0/24");
        assert_eq!(texts(&chain(LEVEL_LIMIT)[&first]), ["via 10.9.0.2 dev a"]);
        let lost = &chain(LEVEL_LIMIT + 1)[&first];
        assert!(lost.paths.is_empty() && lost.reasons[0].contains("more than 8"), "{lost:?}");
        // A chain of thousands does not overflow the stack.
        assert!(chain(200).values().filter(|route| route.paths.is_empty()).count() > 100);
    }

    #[test]
    fn weights_stay_small() {
        let many: Vec<StaticNextHop> =
            (1..=60).map(|n| path("a", &format!("10.1.0.{n}"), 256 - n)).collect();
        let routes = resolved(vec![
            ("10.9.0.0/16", many.clone()),
            ("10.8.0.0/16", many),
            ("192.0.2.0/24", vec![via("10.9.0.1", 255), via("10.8.0.1", 254), path("b", "", 1)]),
        ]);
        let weights = &routes[&key("192.0.2.0/24")].paths;
        assert_eq!(weights.len(), 61);
        assert!(weights.iter().all(|path| (1..=65_535).contains(&path.weight)));
    }
}
