//! Translation of IPv6 prefixes of the contract, checked.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use stoa_api::nat::{PREFIX_LENGTH_MOST, PREFIX_PAIRS};
use stoa_api::v1;

use super::change::DesiredChange;
use super::{DesiredState, ValidationErrors, address};
use crate::nptv6::Prefix6;

/// A pair of prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NptPrefix {
    /// The instance.
    pub instance: u32,
    /// Its policy.
    pub policy: u32,
    /// The external interface.
    pub interface: String,
    /// Of hosts inside.
    pub internal: Prefix6,
    /// What hosts outside see.
    pub external: Prefix6,
}

impl NptPrefix {
    /// As in the contract.
    pub(in crate::control) fn message(&self) -> v1::NptPrefix {
        let prefix = |it: Prefix6| v1::Prefix {
            address: it.network.to_be_bytes().to_vec(),
            length: it.length.into(),
        };
        v1::NptPrefix {
            instance: self.instance,
            policy: self.policy,
            interface: self.interface.clone(),
            internal: Some(prefix(self.internal)),
            external: Some(prefix(self.external)),
        }
    }

    fn path(&self) -> String {
        path(self.instance, self.policy)
    }
}

fn path(instance: u32, policy: u32) -> String {
    format!("nptv6 instance {instance} policy {policy}")
}

/// A prefix; what is wrong otherwise, and what to do.
fn prefix(prefix: Option<&v1::Prefix>) -> Result<Prefix6, (String, &'static str)> {
    let ip = prefix.and_then(|it| Some((address(&it.address)?, it.length)));
    let Some((IpAddr::V6(ip), length)) = ip else {
        return Err(("has no IPv6 prefix".to_owned(), "Use an IPv6 prefix."));
    };
    if !(1..=PREFIX_LENGTH_MOST).contains(&length) {
        return Err((format!("has a prefix of {length} bits"), "Use 1 to 64 bits."));
    }
    let it = Prefix6 { network: ip.to_bits(), length: length as u8 };
    if !it.contains(it.network) {
        let cause = format!("has host bits set in {ip}/{length}");
        return Err((cause, "Clear the host bits."));
    }
    Ok(it)
}

fn checked(message: &v1::NptPrefix) -> Result<NptPrefix, (String, &'static str)> {
    let it = NptPrefix {
        instance: message.instance,
        policy: message.policy,
        interface: message.interface.clone(),
        internal: prefix(message.internal.as_ref())?,
        external: prefix(message.external.as_ref())?,
    };
    if it.internal.meets(it.external) {
        let network = Ipv6Addr::from_bits(it.internal.network);
        let cause = format!("has {network} inside and outside");
        return Err((cause, "Use prefixes without a common address."));
    }
    Ok(it)
}

impl DesiredChange {
    /// Sets all pairs of prefixes, if they are there.
    pub(super) fn set_nptv6(&mut self, nptv6: Option<&v1::Nptv6>, errors: &mut ValidationErrors) {
        let Some(message) = nptv6 else { return };
        let (mut pairs, mut seen) = (Vec::new(), BTreeSet::new());
        for message in &message.prefixes {
            match checked(message) {
                Ok(it) if !seen.insert((it.interface.clone(), it.internal)) => {
                    errors.add(it.path(), "is configured twice", "Send it once.");
                }
                Ok(it) => pairs.push(it),
                Err((cause, fix)) => errors.add(path(message.instance, message.policy), cause, fix),
            }
        }
        if pairs.len() > PREFIX_PAIRS {
            let cause = format!("{} pairs of prefixes are more than {PREFIX_PAIRS}", pairs.len());
            errors.add("nptv6".to_owned(), cause, "This limit is fixed: use fewer.");
        }
        self.nptv6 = Some(pairs);
    }
}

impl DesiredState {
    /// Checks that external interfaces exist, and that an external address has one pair in its VRF.
    pub(super) fn check_nptv6(&self, errors: &mut ValidationErrors) {
        let vrf = |it: &NptPrefix| self.interfaces.get(&it.interface).map(|it| it.vrf.as_str());
        for (at, it) in self.nptv6.iter().enumerate() {
            let Some(of) = vrf(it) else {
                let cause = format!("has the interface {:?}, which does not exist", it.interface);
                errors.add(it.path(), cause, "Use an existing interface.");
                continue;
            };
            let mut before = self.nptv6[..at].iter();
            let other =
                before.find(|other| vrf(other) == Some(of) && other.external.meets(it.external));
            if let Some(other) = other {
                let cause = format!("has external addresses that {} has, too", other.path());
                errors.add(it.path(), cause, "Use other prefixes.");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(internal: (&str, u32), external: (&str, u32)) -> v1::NptPrefix {
        let prefix = |(text, length): (&str, u32)| {
            let address: Ipv6Addr = text.parse().unwrap();
            Some(v1::Prefix { address: address.octets().to_vec(), length })
        };
        v1::NptPrefix {
            instance: 1,
            policy: 2,
            interface: "wan".into(),
            internal: prefix(internal),
            external: prefix(external),
        }
    }

    fn causes(prefixes: Vec<v1::NptPrefix>) -> Vec<String> {
        let message = v1::DesiredChange {
            nptv6: Some(v1::Nptv6 { prefixes }),
            ..v1::DesiredChange::default()
        };
        let errors = DesiredChange::parse(&message).err().unwrap_or_default();
        errors.into_iter().map(|it| it.cause).collect()
    }

    #[test]
    fn wrong_pairs_are_refused() {
        let good = || message(("fd00::", 48), ("2001:db8::", 56));
        assert_eq!(causes(vec![good()]), Vec::<String>::new());
        assert_eq!(checked(&good()).unwrap().message(), good());
        for (wrong, cause) in [
            (message(("fd00::1", 48), ("2001:db8::", 48)), "has host bits set in fd00::1/48"),
            (message(("fd00::", 65), ("2001:db8::", 48)), "has a prefix of 65 bits"),
            (message(("fd00::", 48), ("fd00::", 56)), "has fd00:: inside and outside"),
            (v1::NptPrefix { internal: None, ..good() }, "has no IPv6 prefix"),
        ] {
            assert_eq!(causes(vec![wrong]), [cause]);
        }
        assert_eq!(causes(vec![good(), good()]), ["is configured twice"]);
    }
}
