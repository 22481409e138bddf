//! Prefixes of the contract.

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;

/// A prefix as the contract has it.
pub(crate) fn prefix_to_proto(prefix: &IpNet) -> v1::Prefix {
    v1::Prefix { address: ip_bytes(prefix.network()), length: u32::from(prefix.prefix_len()) }
}

/// An address of the contract with its prefix length, if it is valid. Host bits stay.
pub(crate) fn net_from_proto(address: &v1::Address) -> Option<IpNet> {
    let ip = stoa_api::text::ip(&address.address)?;
    IpNet::new(ip, u8::try_from(address.prefix_length).ok()?).ok()
}

/// Converts a prefix of the contract, if it is valid.
pub(crate) fn prefix_from_proto(prefix: &v1::Prefix) -> Option<IpNet> {
    let address = stoa_api::text::ip(&prefix.address)?;
    IpNet::new(address, u8::try_from(prefix.length).ok()?).ok()
}
