//! Pairs of zones of the contract, checked.

use std::collections::BTreeSet;

use stoa_api::v1;
use stoa_api::zones::{ROUTER, ZONES};

use super::ValidationErrors;
use super::change::{DesiredChange, add_once};
use super::held::Held;

/// From which zone and to which one.
pub type ZonePairKey = (String, String);

/// What passes from one zone to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZonePair {
    /// The lists of IPv4 packets in their order.
    pub acls4: Vec<String>,
    /// The same of IPv6.
    pub acls6: Vec<String>,
}

fn path(from: &str, to: &str) -> String {
    format!("zones {from:?} to {to:?}")
}

impl DesiredChange {
    pub(super) fn add_zone_pairs(&mut self, pairs: &[v1::ZonePair], errors: &mut ValidationErrors) {
        for v1::ZonePair { from, to, acls4, acls6 } in pairs {
            if from.is_empty() || to.is_empty() || from == to {
                errors.add(path(from, to), "are no pair", "Name two different zones.");
                continue;
            }
            let pair = ZonePair { acls4: acls4.clone(), acls6: acls6.clone() };
            let object = ((from.clone(), to.clone()), Some(pair));
            let fix = "Send each pair once.";
            add_once(&mut self.zone_pairs, object, || path(from, to), fix, errors);
        }
    }

    pub(super) fn remove_zone_pairs(
        &mut self,
        keys: &[v1::ZonePairKey],
        errors: &mut ValidationErrors,
    ) {
        for v1::ZonePairKey { from, to } in keys {
            let object = ((from.clone(), to.clone()), None);
            let fix = "Send each object once, or its removal.";
            add_once(&mut self.zone_pairs, object, || path(from, to), fix, errors);
        }
    }
}

impl Held {
    /// The zones that interfaces have or that pairs name, without the router itself.
    pub(in crate::control) fn zones(&self) -> BTreeSet<&String> {
        let pairs = self.desired().zone_pairs.keys().flat_map(|(from, to)| [from, to]);
        pairs.chain(self.references().zones()).filter(|zone| *zone != ROUTER).collect()
    }

    /// Checks after an exchange that the zones are not too many, and that no interface is the router itself.
    pub(super) fn check_zones(&self, errors: &mut ValidationErrors) {
        let count = self.zones().len();
        if count > ZONES {
            let fix = "This limit is fixed: use fewer zones.";
            errors.add("zones".to_owned(), format!("{count} zones are more than {ZONES}"), fix);
        }
        if self.references().zones().any(|zone| zone == ROUTER) {
            let cause = "has interfaces, but is the router itself";
            errors.add(format!("zone {ROUTER:?}"), cause, "Use another name.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::DesiredState;
    use super::*;

    fn parsed(desired: &v1::Desired) -> Result<(), Vec<String>> {
        let text = |errors: Vec<v1::ValidationError>| {
            errors.into_iter().map(|it| format!("{} {}", it.path, it.cause)).collect()
        };
        DesiredState::parse(desired).map(drop).map_err(text)
    }

    #[test]
    fn pairs_name_two_zones_once() {
        let pair = |from: &str, to: &str| v1::ZonePair {
            from: from.into(),
            to: to.into(),
            ..v1::ZonePair::default()
        };
        let of = |zone_pairs| parsed(&v1::Desired { zone_pairs, ..v1::Desired::default() });
        assert_eq!(of(vec![pair("lan", "wan"), pair("wan", "lan"), pair("lan", ROUTER)]), Ok(()));
        for wrong in [pair("lan", "lan"), pair("", "lan"), pair("lan", "")] {
            assert!(of(vec![wrong.clone()]).is_err(), "{wrong:?}");
        }
        let twice = of(vec![pair("lan", "wan"), pair("lan", "wan")]).unwrap_err();
        assert_eq!(twice, ["zones \"lan\" to \"wan\" is configured twice"]);
    }

    #[test]
    fn zones_are_limited_and_none_is_the_router() {
        let with = |zones: Vec<String>| {
            let of = |(at, zone): (usize, String)| {
                let port = v1::Port {
                    interface: at.to_string(),
                    driver: Some(v1::port::Driver::Null(v1::Null {})),
                    ..v1::Port::default()
                };
                let interface = v1::Interface { name: at.to_string(), zone, ..Default::default() };
                (port, interface)
            };
            let (ports, interfaces) = zones.into_iter().enumerate().map(of).unzip();
            parsed(&v1::Desired { ports, interfaces, ..v1::Desired::default() })
        };
        let zones = |count: usize| (0..count).map(|at| format!("zone {at}")).collect::<Vec<_>>();
        assert_eq!(with(zones(ZONES)), Ok(()));
        let found = with(zones(ZONES + 1)).unwrap_err();
        assert_eq!(found, ["zones 65 zones are more than 64"]);
        assert_eq!(with(vec![ROUTER.into()]).unwrap_err().len(), 1);
    }
}
