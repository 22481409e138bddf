//! Values of rules of the contract, checked.

use stoa_api::v1;

use super::{Fault, fault};
use crate::control::desired::{Prefix, address, bits, network};

pub(super) fn small(value: Option<u32>, most: u32) -> Result<Option<u8>, Fault> {
    match value {
        Some(value) if value > most => {
            fault(format!("has the value {value}, more than {most}"), "Use a smaller value.")
        }
        value => Ok(value.map(|value| value as u8)),
    }
}

pub(super) fn range(range: &v1::PortRange) -> Option<(u16, u16)> {
    let range = (u16::try_from(range.first).ok()?, u16::try_from(range.last).ok()?);
    (range.0 <= range.1).then_some(range)
}

pub(super) fn ports(ranges: &[v1::PortRange]) -> Result<Vec<(u16, u16)>, Fault> {
    let one = |it: &v1::PortRange| match range(it) {
        Some(range) => Ok(range),
        None => fault(
            format!("has the ports {} to {}", it.first, it.last),
            "Use two ports up to 65,535, the lower one first.",
        ),
    };
    ranges.iter().map(one).collect()
}

pub(super) fn protocols(numbers: &[u32]) -> Result<Vec<u8>, Fault> {
    let one = |number: &u32| Ok(small(Some(*number), 255)?.unwrap_or_default());
    numbers.iter().map(one).collect()
}

pub(super) fn prefixes(prefixes: &[v1::Prefix], family: u32) -> Result<Vec<Prefix>, Fault> {
    prefixes.iter().map(|it| prefix(it, family)).collect()
}

fn prefix(prefix: &v1::Prefix, family: u32) -> Result<Prefix, Fault> {
    let ip = address(&prefix.address).filter(|ip| ip.is_ipv4() == (family == 4));
    let Some(ip) = ip.filter(|ip| prefix.length <= u32::from(bits(*ip))) else {
        let cause = "has a prefix that is too long, or of another family";
        return fault(cause, "Use a prefix of the rule's family.");
    };
    let length = prefix.length as u8;
    if network(ip, length) != ip {
        return fault(format!("has host bits set in {ip}/{length}"), "Clear the host bits.");
    }
    Ok((ip, length))
}
