//! Virtual routers (VRRP, RFC 9568) of the contract, checked.

use std::net::IpAddr;

use stoa_api::v1;
use stoa_wire::vrrp::{INTERVAL_MAX_CS, OWNER, Version};

use super::{Prefix, ValidationErrors, address, bits, network};

/// Most addresses of one virtual router: its advertisement fits the IPv6 minimum MTU.
const MAX_ADDRESSES: usize = 64;

/// A virtual router of one interface and family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualRouter {
    /// VRID, from 1.
    pub vrid: u8,
    /// Protocol version.
    pub version: Version,
    /// 1 to 254; [`OWNER`]: the addresses are the interface's own.
    pub priority: u8,
    /// Whether it preempts an active router of lower priority.
    pub preempt: bool,
    /// Preemption delay in milliseconds.
    pub hold_ms: u64,
    /// Accept_Mode: whether packets to the addresses are accepted although they are not the interface's own.
    pub accept: bool,
    /// Advertisement_Interval in centiseconds.
    pub interval_cs: u16,
    /// Its addresses, at least one; the first of IPv6 is link-local.
    pub addresses: Vec<IpAddr>,
    /// Tracked interfaces, and by how much the priority falls while they are down.
    pub tracked: Vec<(String, u8)>,
    /// Tracked prefixes, and by how much the priority falls while no route to exactly this prefix is usable.
    pub networks: Vec<(Prefix, u8)>,
    /// Whether state changes are logged.
    pub is_logged: bool,
}

impl VirtualRouter {
    /// Whether its addresses are the interface's own.
    pub fn is_owner(&self) -> bool {
        self.priority == OWNER
    }
}

fn refuse(errors: &mut ValidationErrors, path: &str, vrid: u32, cause: &str, fix: &str) {
    errors.add(format!("{path} virtual router {vrid}"), cause, fix);
}

/// The virtual routers of one family; invalid ones are reported and skipped.
pub(super) fn virtual_routers(
    config: &[v1::VirtualRouter],
    is_ip4: bool,
    path: &str,
    errors: &mut ValidationErrors,
) -> Vec<VirtualRouter> {
    let mut routers: Vec<VirtualRouter> = Vec::new();
    for config in config {
        let mut wrong = |cause: &str, fix: &str| refuse(errors, path, config.vrid, cause, fix);
        let Some(vrid) = u8::try_from(config.vrid).ok().filter(|vrid| *vrid > 0) else {
            wrong("has an invalid VRID", "Use 1 to 255.");
            continue;
        };
        if routers.iter().any(|other| other.vrid == vrid) {
            wrong("is configured twice", "Give each a unique VRID.");
            continue;
        }
        let version = match config.version {
            2 if is_ip4 => Version::Two,
            3 => Version::Three,
            _ => {
                let cause = format!("has the unsupported version {}", config.version);
                wrong(&cause, "Use 3, or 2 for IPv4.");
                continue;
            }
        };
        let of_family = |bytes: &Vec<u8>| address(bytes).filter(|ip| ip.is_ipv4() == is_ip4);
        let addresses: Vec<IpAddr> = config.addresses.iter().filter_map(of_family).collect();
        if addresses.len() != config.addresses.len()
            || !(1..=MAX_ADDRESSES).contains(&addresses.len())
        {
            let cause = format!(
                "has {} addresses, {} of them of its family",
                config.addresses.len(),
                addresses.len()
            );
            wrong(&cause, "Use 1 to 64 addresses of one family.");
            continue;
        }
        if !matches!(addresses[0], IpAddr::V4(_)) && !is_link_local(addresses[0]) {
            let cause = format!("has the first address {}, which is not link-local", addresses[0]);
            wrong(&cause, "Put an address of fe80::/10 first.");
            continue;
        }
        let whole_seconds = version == Version::Three || config.interval_cs.is_multiple_of(100);
        let max = if version == Version::Three { INTERVAL_MAX_CS.into() } else { 25_400 };
        if !(1..=max).contains(&config.interval_cs) || !whole_seconds {
            let cause =
                format!("has the advertisement interval {} centiseconds", config.interval_cs);
            wrong(&cause, "Use 1 to 4,095 centiseconds; with version 2 whole seconds, up to 254.");
            continue;
        }
        let networks: Vec<_> = config.networks.iter().filter_map(tracked_network).collect();
        if networks.len() != config.networks.len() {
            wrong("tracks an invalid prefix", "Use prefixes without host bits.");
            continue;
        }
        let decrement = |it: &v1::TrackedInterface| it.decrement.min(u8::MAX.into()) as u8;
        routers.push(VirtualRouter {
            vrid,
            version,
            priority: config.priority.clamp(1, OWNER.into()) as u8,
            preempt: config.preempt,
            hold_ms: u64::from(config.hold_s) * 1000,
            accept: config.accept,
            interval_cs: config.interval_cs as u16,
            addresses,
            tracked: config
                .tracked
                .iter()
                .map(|it| (it.interface.clone(), decrement(it)))
                .collect(),
            networks,
            is_logged: config.log,
        });
    }
    routers
}

fn tracked_network(config: &v1::TrackedNetwork) -> Option<(Prefix, u8)> {
    let prefix = config.prefix.as_ref()?;
    let ip = address(&prefix.address)?;
    let length = u8::try_from(prefix.length).ok().filter(|length| *length <= bits(ip))?;
    let decrement = config.decrement.min(u8::MAX.into()) as u8;
    (network(ip, length) == ip).then_some(((ip, length), decrement))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> v1::VirtualRouter {
        v1::VirtualRouter {
            vrid: 7,
            version: 3,
            priority: 100,
            interval_cs: 100,
            addresses: vec![vec![192, 0, 2, 1]],
            ..v1::VirtualRouter::default()
        }
    }

    #[test]
    fn invalid_virtual_routers_are_refused() {
        let check = |config: &[v1::VirtualRouter], is_ip4: bool| {
            let mut errors = ValidationErrors::default();
            let routers = virtual_routers(config, is_ip4, "interface \"a\"", &mut errors);
            (routers.len(), errors.0.into_iter().map(|it| it.cause).collect::<Vec<_>>())
        };
        assert_eq!(check(&[good()], true), (1, vec![]));
        let with = |change: &dyn Fn(&mut v1::VirtualRouter)| {
            let mut config = good();
            change(&mut config);
            check(&[config], true).1.join(";")
        };
        assert!(with(&|it| it.vrid = 0).contains("VRID"));
        assert!(with(&|it| it.vrid = 256).contains("VRID"));
        assert!(with(&|it| it.version = 4).contains("version"));
        assert!(with(&|it| it.addresses.clear()).contains("addresses"));
        assert!(with(&|it| it.addresses = vec![vec![1; 16]]).contains("addresses"));
        assert!(with(&|it| it.interval_cs = 4096).contains("interval"));
        let tracks = |address: &[u8], length| {
            let prefix = Some(v1::Prefix { address: address.to_vec(), length });
            with(&|it| {
                it.networks = vec![v1::TrackedNetwork { prefix: prefix.clone(), decrement: 9 }];
            })
        };
        assert_eq!(tracks(&[0; 4], 0), "");
        assert!(tracks(&[10, 0, 0, 1], 24).contains("invalid prefix"));
        assert!(tracks(&[10, 0, 0, 0], 33).contains("invalid prefix"));
        assert!(with(&|it| (it.version, it.interval_cs) = (2, 150)).contains("interval"));
        assert_eq!(with(&|it| (it.version, it.interval_cs) = (2, 25_400)), "");
        assert!(check(&[good(), good()], true).1[0].contains("twice"));
        let six =
            |octets: [u8; 16]| v1::VirtualRouter { addresses: vec![octets.to_vec()], ..good() };
        let mut local = [0; 16];
        (local[0], local[1]) = (0xfe, 0x80);
        assert_eq!(check(&[six(local)], false), (1, vec![]));
        assert!(check(&[six([0x20; 16])], false).1[0].contains("link-local"));
    }
}
