//! Who may ask for mappings of a policy by PCP and NAT-PMP.

use stoa_api::nat::{HOST_LEASES, LEASE_LEAST_S, LEASE_MOST_S};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::config::model::{MappingType, NatPolicy, PortControl};

/// The requests that a policy answers; `None`: none.
pub(super) fn port_control(
    given: &NatPolicy,
    path: &str,
    errors: &mut ValidationErrors,
) -> Option<v1::NatPortControl> {
    let control = &given.port_control;
    let path = format!("{path}/stoa-nat:port-control");
    if control.interface.is_empty() {
        if *control != PortControl::default() {
            errors.add(
                format!("{path}/interface"),
                "the policy answers requests for mappings at no interface",
                "Name the interfaces of the hosts that may ask, or remove port-control.",
            );
        }
        return None;
    }
    if given.mapping_type == Some(MappingType::Edm) {
        errors.add(
            &path,
            "with mapping-type edm, an external port belongs to one connection: no host can hold it",
            "Set mapping-type to eim, or remove port-control.",
        );
    }
    let outside = given.external_realm.external_interface.as_ref();
    if let Some(interface) = outside.filter(|it| control.interface.contains(it)) {
        errors.add_about(
            format!("{path}/interface[.='{interface}']"),
            format!("\"{interface}\" is the external interface: anybody outside could open ports"),
            "Name inside interfaces alone.",
            &[&interface],
        );
    }
    let least = control.min_lifetime.unwrap_or(LEASE_LEAST_S);
    let most = control.max_lifetime.unwrap_or(LEASE_MOST_S.max(least));
    if most < least {
        errors.add(
            format!("{path}/max-lifetime"),
            format!("{most} seconds are less than the minimum of {least}"),
            format!("Set it to {least} or more, or set min-lifetime to {most} or less."),
        );
    }
    Some(v1::NatPortControl {
        interfaces: control.interface.clone(),
        no_nat_pmp: control.nat_pmp == Some(false),
        third_party: control.third_party == Some(true),
        min_lifetime_s: least,
        max_lifetime_s: most,
        host_leases: control.max_mappings_per_host.unwrap_or(HOST_LEASES),
    })
}
