//! Control-plane policers of the contract, checked.

use stoa_api::v1;

use super::ValidationErrors;
use super::change::{DesiredChange, add_once};
use crate::punt::{Class, Limit};

/// The highest rate and burst, in packets: a higher policer protects nothing.
const MAX_RATE: u32 = 1_000_000;

impl DesiredChange {
    pub(super) fn add_punt(&mut self, punt: &v1::PuntLimit, errors: &mut ValidationErrors) {
        let path = format!("punt class {:?}", punt.class);
        let Some(class) = Class::named(&punt.class) else {
            let known = Class::ALL.map(Class::name).join(", ");
            return errors.add(path, "does not exist", &format!("Use one of {known}."));
        };
        let default = class.default_limit();
        let or = |config: u32, default: u32| if config == 0 { default } else { config };
        let rate = or(punt.rate, default.rate);
        // A total below the rate of one interface would limit that interface.
        let total = or(punt.total, default.total.max(rate));
        let limit = Limit { rate, burst: or(punt.burst, default.burst), total };
        if limit.rate.max(limit.burst).max(limit.total) > MAX_RATE {
            return errors.add(path, format!("is above {MAX_RATE}"), "Use a lower value.");
        }
        add_once(&mut self.punts, (class, Some(limit)), || path, "Send each class once.", errors);
    }
}

#[cfg(test)]
mod tests {
    use super::super::DesiredState;
    use super::*;

    fn parse(punts: &[(&str, u32, u32, u32)]) -> Result<DesiredState, Vec<v1::ValidationError>> {
        let punt = |(class, rate, burst, total): &(&str, u32, u32, u32)| v1::PuntLimit {
            class: (*class).to_owned(),
            rate: *rate,
            burst: *burst,
            total: *total,
        };
        let punts = punts.iter().map(punt).collect();
        DesiredState::parse(&v1::Desired { punts, ..v1::Desired::default() })
    }

    #[test]
    fn omitted_values_are_the_defaults() {
        let desired = parse(&[("arp", 0, 0, 0), ("nd", 10_000, 7, 0)]).unwrap();
        assert_eq!(desired.punts[&Class::Arp], Class::Arp.default_limit());
        let nd = Limit { rate: 10_000, burst: 7, total: 10_000 };
        assert_eq!(desired.punts[&Class::Nd], nd);
    }

    #[test]
    fn invalid_policers_are_refused() {
        let bad = [("all", 1, 1, 1), ("arp", MAX_RATE + 1, 1, 1), ("nd", 1, 1, 1), ("nd", 1, 1, 1)];
        assert_eq!(parse(&bad).unwrap_err().len(), 3);
    }
}
