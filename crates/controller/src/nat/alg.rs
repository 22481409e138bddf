//! Application level gateways of policies.

use stoa_api::nat::default_alg_port;
use stoa_api::v1;
use stoa_wire::protocol::{TCP, UDP};
use stoa_yang::error::ValidationErrors;

use crate::config::model::{NatAlg, NatPolicy};

/// Those that Stoa has, with the protocol of their control connections.
const KNOWN: [(&str, u8); 4] = [("ftp", TCP), ("tftp", UDP), ("pptp", TCP), ("sip", UDP)];

/// The gateways of a policy that are on.
pub(super) fn algs(
    given: &NatPolicy,
    path: &str,
    errors: &mut ValidationErrors,
) -> Vec<v1::NatAlg> {
    given.algs.iter().filter_map(|it| alg(it, path, errors)).collect()
}

fn alg(given: &NatAlg, path: &str, errors: &mut ValidationErrors) -> Option<v1::NatAlg> {
    let path = format!("{path}/algs[name='{}']", given.name);
    let Some((name, protocol)) = KNOWN.iter().find(|(name, _)| *name == given.name) else {
        let cause = format!("Stoa has no application level gateway \"{}\"", given.name);
        errors.add(path, cause, "Use ftp, tftp, pptp or sip, or remove it.");
        return None;
    };
    let other = given.transport_protocol.filter(|it| *it != u32::from(*protocol));
    if let Some(other) = other {
        errors.add(
            format!("{path}/transport-protocol"),
            format!("control connections of {name} do not have the protocol {other}"),
            format!("Set it to {protocol}, or remove it."),
        );
    }
    let ports = given.dst_transport_port;
    let (first, last) = (ports.start_port_number, ports.end_port_number);
    if last.is_some() && last != first {
        errors.add(
            format!("{path}/dst-transport-port/end-port-number"),
            "a gateway has one port",
            "Remove it.",
        );
    }
    if first == Some(0) {
        errors.add(
            format!("{path}/dst-transport-port/start-port-number"),
            "no server has port 0",
            "Use a port from 1 on, or remove it.",
        );
    }
    let port = first.unwrap_or_else(|| default_alg_port(name));
    given.status.unwrap_or(true).then(|| v1::NatAlg { name: (*name).to_owned(), port })
}
