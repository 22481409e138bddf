//! Application level gateways of policies.

use stoa_api::v1;

use super::Wrong;
use crate::flow::alg::Alg;
use crate::nat::AlgPort;

pub(super) fn checked(given: &v1::NatAlg) -> Result<AlgPort, Wrong> {
    let name = &given.name;
    let Some(alg) = Alg::of_name(name) else {
        return Err((format!("has the ALG {name:?}"), "Use ftp, tftp, pptp or sip."));
    };
    match u16::try_from(given.port) {
        Ok(0) => Ok(AlgPort { alg, port: alg.port() }),
        Ok(port) => Ok(AlgPort { alg, port }),
        Err(_) => {
            Err((format!("has the port {} of an ALG", given.port), "Use a port up to 65,535."))
        }
    }
}

pub(super) fn message(it: &AlgPort) -> v1::NatAlg {
    v1::NatAlg { name: it.alg.name().to_owned(), port: it.port.into() }
}
