//! Translation without state of the contract, checked.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::nat::{SIIT_KEPT, SIIT_MAPPINGS};
use stoa_api::v1;
use stoa_wire::siit::{Mapping, Prefix, faults};

use super::change::DesiredChange;
use super::{DesiredState, ValidationErrors, address};

/// What is translated in a VRF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiitPolicy {
    /// The instance.
    pub instance: u32,
    /// Its policy.
    pub policy: u32,
    /// The VRF; "": the default one.
    pub vrf: String,
    /// Stands for IPv4 addresses without a mapping.
    pub prefix: Prefix,
    /// The mappings, in their order.
    pub mappings: Vec<Mapping>,
    /// IPv4 networks whose packets are not translated, with their lengths.
    pub kept: Vec<(u32, u8)>,
    /// Its first address is the source of ICMP errors of routers without a mapping; "": nobody.
    pub error_interface: String,
}

/// A wrong entry: the cause and the fix.
type Wrong = (String, &'static str);

fn ip4_message(network: u32, length: u8) -> v1::Prefix {
    v1::Prefix { address: network.to_be_bytes().to_vec(), length: length.into() }
}

fn ip6_message(network: Ipv6Addr, length: u8) -> v1::Prefix {
    v1::Prefix { address: network.octets().to_vec(), length: length.into() }
}

impl SiitPolicy {
    /// As in the contract.
    pub(in crate::control) fn message(&self) -> v1::SiitPolicy {
        let mapping = |it: &Mapping| {
            let (network, length) = it.prefix6();
            v1::SiitMapping {
                ip4: Some(ip4_message(it.ip4().0, it.length4())),
                ip6: Some(ip6_message(network, length)),
                embedded: it.is_embedded(),
            }
        };
        v1::SiitPolicy {
            instance: self.instance,
            policy: self.policy,
            vrf: self.vrf.clone(),
            prefix: Some(ip6_message(self.prefix.network(), self.prefix.length())),
            mappings: self.mappings.iter().map(mapping).collect(),
            kept: self.kept.iter().map(|it| ip4_message(it.0, it.1)).collect(),
            error_interface: self.error_interface.clone(),
        }
    }

    fn path(&self) -> String {
        path(self.instance, self.policy)
    }
}

fn path(instance: u32, policy: u32) -> String {
    format!("siit instance {instance} policy {policy}")
}

fn ip4(prefix: Option<&v1::Prefix>) -> Result<(Ipv4Addr, u8), Wrong> {
    let ip = prefix.and_then(|it| Some((address(&it.address)?, u8::try_from(it.length).ok()?)));
    match ip {
        Some((IpAddr::V4(ip), length)) if length <= 32 => Ok((ip, length)),
        _ => Err(("has no IPv4 prefix".to_owned(), "Use an IPv4 prefix.")),
    }
}

fn ip6(prefix: Option<&v1::Prefix>) -> Result<(Ipv6Addr, u8), Wrong> {
    let ip = prefix.and_then(|it| Some((address(&it.address)?, u8::try_from(it.length).ok()?)));
    match ip {
        Some((IpAddr::V6(ip), length)) if length <= 128 => Ok((ip, length)),
        _ => Err(("has no IPv6 prefix".to_owned(), "Use an IPv6 prefix.")),
    }
}

/// A prefix of RFC 6052.
fn embedding(prefix: Option<&v1::Prefix>) -> Result<Prefix, Wrong> {
    let (network, length) = ip6(prefix)?;
    Prefix::new(network, length).ok_or_else(|| {
        let fix =
            "Use 32, 40, 48, 56, 64 or 96 bits, without host bits, and with bits 64 to 71 zero.";
        (format!("has the prefix {network}/{length}"), fix)
    })
}

fn mapping(message: &v1::SiitMapping) -> Result<Mapping, Wrong> {
    let of4 = ip4(message.ip4.as_ref())?;
    let wrong = |(network, length): (Ipv6Addr, u8)| {
        let fix = "Clear host bits; the suffix of IPv6 has at least as many bits as that of IPv4.";
        (format!("maps {}/{} to {network}/{length}", of4.0, of4.1), fix)
    };
    if message.embedded {
        let prefix = embedding(message.ip6.as_ref())?;
        return Mapping::embedded(of4, prefix)
            .ok_or_else(|| wrong((prefix.network(), prefix.length())));
    }
    let of6 = ip6(message.ip6.as_ref())?;
    Mapping::explicit(of4, of6).ok_or_else(|| wrong(of6))
}

fn checked(message: &v1::SiitPolicy) -> Result<SiitPolicy, Wrong> {
    let mappings = message.mappings.iter().map(mapping).collect::<Result<Vec<Mapping>, Wrong>>()?;
    let prefix = embedding(message.prefix.as_ref())?;
    let mut wrong: Option<Wrong> = None;
    let mut numbered: Vec<_> = mappings.iter().copied().enumerate().collect();
    faults::check(prefix, &mut numbered, |_, fault| {
        wrong.get_or_insert_with(|| (format!("has a wrong mapping: {fault}"), fault.fix()));
    });
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let kept =
        message.kept.iter().map(|it| ip4(Some(it)).map(|(ip, length)| (ip.to_bits(), length)));
    let kept = kept.collect::<Result<Vec<(u32, u8)>, Wrong>>()?;
    if kept.len() > SIIT_KEPT {
        let cause = format!("keeps {} prefixes, more than {SIIT_KEPT}", kept.len());
        return Err((cause, "This limit is fixed: use fewer."));
    }
    Ok(SiitPolicy {
        instance: message.instance,
        policy: message.policy,
        vrf: message.vrf.clone(),
        prefix,
        mappings,
        kept,
        error_interface: message.error_interface.clone(),
    })
}

impl DesiredChange {
    /// Sets all policies, if they are there.
    pub(super) fn set_siit(&mut self, siit: Option<&v1::Siit>, errors: &mut ValidationErrors) {
        let Some(message) = siit else { return };
        let (mut policies, mut seen) = (Vec::new(), BTreeSet::new());
        for message in &message.policies {
            match checked(message) {
                Ok(it) if !seen.insert(it.vrf.clone()) => {
                    let cause = format!("is the second one of the VRF {:?}", it.vrf);
                    errors.add(it.path(), cause, "Use one policy in a VRF.");
                }
                Ok(it) => policies.push(it),
                Err((cause, fix)) => errors.add(path(message.instance, message.policy), cause, fix),
            }
        }
        let mappings: usize = policies.iter().map(|it| it.mappings.len()).sum();
        if mappings > SIIT_MAPPINGS {
            let cause = format!("{mappings} mappings are more than {SIIT_MAPPINGS}");
            errors.add("siit".to_owned(), cause, "This limit is fixed: use fewer.");
        }
        self.siit = Some(policies);
    }
}

impl DesiredState {
    /// Checks that VRFs and interfaces of policies exist.
    pub(super) fn check_siit(&self, errors: &mut ValidationErrors) {
        for it in &self.siit {
            if !it.vrf.is_empty() && !self.vrfs.contains_key(&it.vrf) {
                let cause = format!("is in the VRF {:?}, which does not exist", it.vrf);
                errors.add(it.path(), cause, "Use an existing VRF.");
            }
            let interface = &it.error_interface;
            if !interface.is_empty() && !self.interfaces.contains_key(interface) {
                let cause = format!("has the interface {interface:?}, which does not exist");
                errors.add(it.path(), cause, "Use an existing interface.");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str, length: u32) -> Option<v1::Prefix> {
        let address = match text.parse().unwrap() {
            IpAddr::V4(it) => it.octets().to_vec(),
            IpAddr::V6(it) => it.octets().to_vec(),
        };
        Some(v1::Prefix { address, length })
    }

    /// Both prefixes, and whether that of IPv6 is one of RFC 6052.
    type Given<'a> = ((&'a str, u32), (&'a str, u32), bool);

    fn of(mappings: &[Given<'_>]) -> v1::SiitPolicy {
        let mapping = |it: &Given<'_>| v1::SiitMapping {
            ip4: prefix(it.0.0, it.0.1),
            ip6: prefix(it.1.0, it.1.1),
            embedded: it.2,
        };
        v1::SiitPolicy {
            instance: 1,
            policy: 2,
            prefix: prefix("2001:db8:46::", 96),
            mappings: mappings.iter().map(mapping).collect(),
            kept: prefix("192.0.2.9", 32).into_iter().collect(),
            ..v1::SiitPolicy::default()
        }
    }

    fn causes(policies: Vec<v1::SiitPolicy>) -> Vec<String> {
        let siit = Some(v1::Siit { policies });
        let message = v1::DesiredChange { siit, ..v1::DesiredChange::default() };
        let errors = DesiredChange::parse(&message).err().unwrap_or_default();
        errors.into_iter().map(|it| it.cause).collect()
    }

    #[test]
    fn wrong_policies_are_refused() {
        let good = || {
            of(&[
                (("192.0.2.0", 24), ("2001:db8:1::", 64), false),
                (("198.51.100.0", 24), ("2001:db8:46::", 96), true),
            ])
        };
        assert_eq!(causes(vec![good()]), Vec::<String>::new());
        assert_eq!(checked(&good()).unwrap().message(), good());
        let wrong = |ip4, ip6| of(&[(ip4, ip6, false)]);
        for (wrong, cause) in [
            (wrong(("192.0.2.1", 24), ("2001:db8::", 64)), "maps 192.0.2.1/24 to 2001:db8::/64"),
            (wrong(("192.0.2.0", 24), ("2001:db8::", 121)), "maps 192.0.2.0/24 to 2001:db8::/121"),
            (wrong(("2001:db8::", 24), ("2001:db8::", 121)), "has no IPv4 prefix"),
            (wrong(("192.0.2.0", 24), ("192.0.2.0", 24)), "has no IPv6 prefix"),
            (
                of(&[
                    (("192.0.2.1", 32), ("2001:db8::", 128), false),
                    (("192.0.2.2", 32), ("2001:db8::", 128), false),
                ]),
                "has a wrong mapping: 2001:db8::/128 is that of 192.0.2.1/32, too: packets from it would have one of \
                 both",
            ),
            (
                of(&[
                    (("198.51.100.0", 25), ("2001:db8:46::", 96), true),
                    (("192.0.2.0", 25), ("2001:db8:46::c633:6400", 121), false),
                ]),
                "has a wrong mapping: 2001:db8:46::c633:6400/121 is that of 198.51.100.0/25, too: packets from it \
                 would have one of both",
            ),
            (
                of(&[(("0.0.0.0", 0), ("2001:db8:46::", 96), true)]),
                "has a wrong mapping: 0.0.0.0/0 is mapped to 2001:db8:46::/96, which stands for IPv4 hosts without a \
                 mapping: nobody would be one",
            ),
            (
                wrong(("169.254.0.0", 16), ("2001:db8::", 64)),
                "has a wrong mapping: 169.254.0.0/16 has addresses of 169.254.0.0/16, which no host can have",
            ),
            (
                v1::SiitPolicy { prefix: prefix("2001:db8::", 65), ..good() },
                "has the prefix 2001:db8::/65",
            ),
        ] {
            assert_eq!(causes(vec![wrong]), [cause]);
        }
        assert_eq!(causes(vec![good(), good()]), ["is the second one of the VRF \"\""]);
    }
}
