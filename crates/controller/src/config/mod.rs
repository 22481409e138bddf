//! From a valid configuration to the desired state: one file for each capability.
//!
//! `model` has the values as they are in the YANG modules; the other modules check what YANG cannot express and
//! translate to the contract. They know nothing of routes of other origins, of the forwarder's state, nor of who asks:
//! nothing here imports a module of the controller outside this folder, but `prefix` (`tests/guards`).

pub mod addresses;
mod bfd;
mod cross_connects;
mod data_path;
pub mod host_addresses;
pub mod host_bits;
mod host_interfaces;
mod interfaces;
mod logging;
mod mac;
#[allow(missing_docs)] // named and described in the YANG modules
pub mod management;
#[allow(missing_docs)] // named and described in the YANG modules
mod model;
mod policy;
mod ports;
mod punts;
pub mod route_sources;
mod router_advertisement;
pub mod routes;
mod tunnels;
pub mod vrf_name;
mod vrrp;
pub mod workers;

use stoa_api::v1;
use stoa_yang::Valid;
use stoa_yang::error::{ValidationError, ValidationErrors, one};

use addresses::Addressing;
pub use data_path::interface_path;
use management::Management;
use model::{Limits, Model, Vrf};
use route_sources::RouteSourceConfig;
use routes::{FloatingStaticRoutes, StaticRoutes};

/// What a configuration says, capability by capability.
#[derive(Debug)]
pub struct Translated {
    /// The desired state of the forwarder, without its routes.
    pub desired: v1::Desired,
    /// Addresses and subnets of the interfaces.
    pub addressing: Addressing,
    /// Static routes that win over learned ones.
    pub statics: StaticRoutes,
    /// Static routes that compete with learned ones.
    pub floating: FloatingStaticRoutes,
    /// The route sources.
    pub route_sources: Vec<RouteSourceConfig>,
    /// The numbers of the kernel tables of VRFs.
    pub kernel_tables: Vec<(String, u32)>,
    /// Users, access rules and servers of the management.
    pub management: Management,
}

/// Translates a configuration, and adds what is wrong with it to `errors`.
///
/// # Errors
/// When the model does not fit the YANG modules, which is a bug.
pub fn translate(
    valid: &Valid,
    errors: &mut ValidationErrors,
) -> Result<Translated, Vec<ValidationError>> {
    let model: Model = serde_json::from_str(&valid.text).map_err(|error| {
        one(
            "/",
            format!("the validated configuration does not fit the model: {error}"),
            "Report this with the configuration: it is a bug of Stoa.",
        )
    })?;
    stoa_yang::unsupported::check(&valid.given, errors);
    let interfaces::Desired { ports, interfaces, mut addressing } =
        interfaces::desired(&model.interfaces.interface, errors);
    let (statics, floating) = routes::desired(&model.routing, &addressing, errors);
    let vrf = |vrf: &Vrf| v1::Vrf { name: vrf.name.clone(), description: vrf.description.clone() };
    let desired = v1::Desired {
        workers: Some(workers::desired(&model.system.workers, errors)),
        ports,
        interfaces,
        routes: Vec::new(),
        neighbors: std::mem::take(&mut addressing.neighbors),
        reassembly: Some(v1::Reassembly {
            packets: model.system.reassembly.packets,
            per_source: model.system.reassembly.per_source,
        }),
        multipath: model.system.multipath.hash_seed.map(|hash_seed| v1::Multipath { hash_seed }),
        vrfs: model.vrfs.vrf.iter().map(vrf).collect(),
        punts: punts::desired(&model.system.punt, errors),
        limits: Some(limits(&model.system.limits)),
        logging: Some(logging::desired(&model.logging)),
        rules: policy::desired(&model.routing.policy, errors),
    };
    let route_sources = route_sources::desired(&model.routing, &model.interfaces.interface, errors);
    let kernel_tables = policy::kernel_tables(&model.vrfs, errors);
    let management = management::desired(model.management, model.access, errors);
    Ok(Translated {
        desired,
        addressing,
        statics,
        floating,
        route_sources,
        kernel_tables,
        management,
    })
}

fn limits(limits: &Limits) -> v1::Limits {
    v1::Limits {
        ip4_routes: limits.ipv4_routes,
        ip6_routes: limits.ipv6_routes,
        vrf_routes: limits.vrf_routes,
        next_hops: limits.next_hops,
        adjacencies: limits.adjacencies,
        neighbors: limits.neighbors,
    }
}
