//! Who may ask for mappings by PCP and NAT-PMP, and for which ones.

use stoa_api::nat::{HOST_LEASES, LEASE_LEAST_S, LEASE_MOST_S};
use stoa_api::v1;

use super::Wrong;

/// The mappings of a policy that hosts may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortControl {
    /// The interfaces of these hosts; one at least.
    pub interfaces: Vec<String>,
    /// Whether NAT-PMP is answered as well.
    pub has_nat_pmp: bool,
    /// Whether a host may ask for others (RFC 6887 section 13.1).
    pub allows_third_party: bool,
    /// Seconds of a lease, at least and at most.
    pub lifetimes_s: (u32, u32),
    /// Leases of a host, at most.
    pub host_leases: u32,
}

impl Default for PortControl {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            has_nat_pmp: true,
            allows_third_party: false,
            lifetimes_s: (LEASE_LEAST_S, LEASE_MOST_S),
            host_leases: HOST_LEASES,
        }
    }
}

pub(super) fn checked(given: &v1::NatPortControl) -> Result<PortControl, Wrong> {
    let or = |value: u32, default| if value == 0 { default } else { value };
    let least = or(given.min_lifetime_s, LEASE_LEAST_S);
    let most = or(given.max_lifetime_s, LEASE_MOST_S.max(least));
    if least > most {
        let cause = format!("has leases of {least} seconds at least and of {most} at most");
        return Err((cause, "Use a maximum that is not below the minimum."));
    }
    if given.interfaces.is_empty() {
        let cause = "answers requests for mappings at no interface".to_owned();
        return Err((cause, "Name the interfaces of the hosts that may ask."));
    }
    Ok(PortControl {
        interfaces: given.interfaces.clone(),
        has_nat_pmp: !given.no_nat_pmp,
        allows_third_party: given.third_party,
        lifetimes_s: (least, most),
        host_leases: or(given.host_leases, HOST_LEASES),
    })
}

pub(super) fn message(it: &PortControl) -> v1::NatPortControl {
    v1::NatPortControl {
        interfaces: it.interfaces.clone(),
        no_nat_pmp: !it.has_nat_pmp,
        third_party: it.allows_third_party,
        min_lifetime_s: it.lifetimes_s.0,
        max_lifetime_s: it.lifetimes_s.1,
        host_leases: it.host_leases,
    }
}
