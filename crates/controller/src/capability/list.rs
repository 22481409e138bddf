//! The list of capabilities. What several of them stand on (ports, interfaces, addresses, routes) is in `config`,
//! `state` and `metrics`.

use std::sync::OnceLock;

use stoa_yang::Valid;
use stoa_yang::error::{ValidationError, ValidationErrors};

use super::{Capability, Start, StartFailure};
use crate::config::addresses::Addressing;
use crate::config::others::Others;
use crate::config::settings::Settings;
use crate::config::{self, Translated};
use crate::{
    acl, bfd, cross_connects, flow_sync, host_interfaces, ipfix, ipsec, logging, login, management,
    nat, policy, punts, route_sources, router_advertisement, test_sequences, tunnels, vrrp,
    workers,
};

/// The capabilities of this tree.
static CAPABILITIES: &[&dyn Capability] = &[
    &host_interfaces::HostInterfaces,
    &tunnels::Tunnels,
    &ipsec::Ipsec,
    &route_sources::RouteSources,
    &management::ManagementAccess,
    &logging::Logging,
    &workers::WorkerThreads,
    &punts::Punts,
    &cross_connects::CrossConnects,
    &bfd::Bfd,
    &policy::PolicyRouting,
    &acl::AccessLists,
    &nat::Translation,
    &ipfix::Export,
    &flow_sync::FlowsAtPartner,
    &vrrp::Vrrp,
    &router_advertisement::RouterAdvertisements,
    // Behind advertisements, which name its portal.
    &login::HostLogin,
    &test_sequences::TEST_SEQUENCES,
];

/// Those of plugins.
static ADDED: OnceLock<Vec<Box<dyn Capability>>> = OnceLock::new();

/// Adds the capabilities of plugins: once, before a configuration is read.
///
/// # Panics
/// If it is too late: an error of the program.
pub fn add(capabilities: Vec<Box<dyn Capability>>) {
    assert!(ADDED.set(capabilities).is_ok(), "capabilities are added once, before their use");
}

/// All capabilities.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn Capability> {
    let added = ADDED.get_or_init(Vec::new).iter().map(Box::as_ref);
    CAPABILITIES.iter().copied().chain(added)
}

/// Starts all capabilities: once, before their use in the controller.
///
/// # Errors
/// That of the first one that does not start.
pub(crate) fn start(start: &mut Start<'_>) -> Result<(), StartFailure> {
    all().try_for_each(|capability| capability.start(start))
}

/// Translates a configuration, and adds what is wrong with it to `errors`.
///
/// # Errors
/// When the model does not fit the YANG modules, which is a bug.
pub(crate) fn translate(
    valid: &Valid<'_>,
    errors: &mut ValidationErrors,
) -> Result<Translated, Vec<ValidationError>> {
    translate_among(valid, (&Others::default(), Addressing::default()), errors)
}

/// As [`translate`], where `others` are not in the configuration, with their addresses.
pub(crate) fn translate_among(
    valid: &Valid,
    others: (&Others<'_>, Addressing),
    errors: &mut ValidationErrors,
) -> Result<Translated, Vec<ValidationError>> {
    let (others, addressing) = others;
    let settings = Settings::of(valid, others)?;
    let mut translated = config::translate(&settings, &valid.given, addressing, errors);
    all().for_each(|capability| capability.translate(&settings, &mut translated, errors));
    Ok(translated)
}
