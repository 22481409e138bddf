//! Limits of flows: the message of the contract, checked.

use std::collections::BTreeMap;

use stoa_api::v1;

use super::ValidationErrors;
use super::change::DesiredChange;
use crate::flow::limits::{Limit, PREFIX_LENGTHS};

/// The longest prefixes whose flows are counted, IPv4 and IPv6: longer ones are parts of a host.
const LONGEST: [u32; 2] = [32, 64];

/// How many flows hosts, prefixes, zones and VRFs may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowLimits {
    /// Each host.
    pub host: Limit,
    /// Each prefix.
    pub prefix: Limit,
    /// The lengths of these, IPv4 and IPv6.
    pub lengths: [u8; 2],
    /// Zones by name.
    pub zones: BTreeMap<String, Limit>,
    /// VRFs by name; "": the default one.
    pub vrfs: BTreeMap<String, Limit>,
    /// Whether senders of packets that may begin no flow get no ICMP.
    pub is_silent: bool,
}

impl Default for FlowLimits {
    fn default() -> Self {
        let (host, prefix) = Default::default();
        let (zones, vrfs) = Default::default();
        Self { host, prefix, lengths: PREFIX_LENGTHS, zones, vrfs, is_silent: false }
    }
}

fn limit(it: &v1::FlowLimit) -> Limit {
    [it.live, it.half_open, it.new_per_second]
}

fn message([live, half_open, new_per_second]: Limit) -> v1::FlowLimit {
    v1::FlowLimit { live, half_open, new_per_second, ..v1::FlowLimit::default() }
}

fn named(all: &[v1::FlowLimit]) -> BTreeMap<String, Limit> {
    all.iter().map(|it| (it.name.clone(), limit(it))).collect()
}

impl FlowLimits {
    /// Those of a message.
    ///
    /// # Errors
    /// Cause and fix.
    pub fn of(message: &v1::FlowLimits) -> Result<Self, (String, &'static str)> {
        let of = |it: &Option<v1::FlowLimit>| it.as_ref().map(limit).unwrap_or_default();
        let given = message.prefix.clone().unwrap_or_default();
        let mut lengths = PREFIX_LENGTHS;
        let given = [given.ip4_length, given.ip6_length].into_iter().zip(LONGEST);
        for (to, (length, longest)) in lengths.iter_mut().zip(given) {
            if length > longest {
                let cause = format!("flows of prefixes of length {length} cannot be counted");
                return Err((cause, "Use lengths up to 32 for IPv4, and up to 64 for IPv6."));
            }
            *to = if length == 0 { *to } else { length as u8 };
        }
        Ok(Self {
            host: of(&message.host),
            prefix: of(&message.prefix),
            lengths,
            zones: named(&message.zones),
            vrfs: named(&message.vrfs),
            is_silent: message.refusal() == v1::FlowRefusal::Silent,
        })
    }

    /// The message; `None`: nothing is limited, and senders are answered.
    pub fn message(&self) -> Option<v1::FlowLimits> {
        let some = |limit: &Limit| limit.iter().any(Option::is_some);
        let all = |limits: &BTreeMap<String, Limit>| -> Vec<v1::FlowLimit> {
            let limits = limits.iter().filter(|(_, limit)| some(limit));
            limits
                .map(|(name, limit)| v1::FlowLimit { name: name.clone(), ..message(*limit) })
                .collect()
        };
        let [ip4_length, ip6_length] = self.lengths.map(u32::from);
        let prefix = v1::FlowLimit { ip4_length, ip6_length, ..message(self.prefix) };
        let refusal = if self.is_silent { v1::FlowRefusal::Silent } else { v1::FlowRefusal::Icmp };
        let whole = v1::FlowLimits {
            host: some(&self.host).then(|| message(self.host)),
            prefix: some(&self.prefix).then_some(prefix),
            zones: all(&self.zones),
            vrfs: all(&self.vrfs),
            refusal: refusal.into(),
        };
        (whole != v1::FlowLimits::default()).then_some(whole)
    }
}

impl DesiredChange {
    /// Sets the limits of flows, if they are there.
    pub(super) fn set_flow_limits(
        &mut self,
        limits: Option<&v1::FlowLimits>,
        errors: &mut ValidationErrors,
    ) {
        match limits.map(FlowLimits::of) {
            None => {}
            Some(Ok(limits)) => self.flow_limits = Some(limits),
            Some(Err((cause, fix))) => errors.add("flow limits".to_owned(), cause, fix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_without_what_limits_nothing() {
        let limit = |name: &str, live| v1::FlowLimit {
            name: name.into(),
            live,
            ..v1::FlowLimit::default()
        };
        let given = v1::FlowLimits {
            host: Some(v1::FlowLimit { half_open: Some(3), ..limit("", None) }),
            prefix: Some(v1::FlowLimit { ip4_length: 20, ..limit("", Some(0)) }),
            zones: vec![limit("lan", Some(7)), limit("wan", None)],
            vrfs: vec![limit("", Some(9))],
            refusal: v1::FlowRefusal::Silent.into(),
        };
        let read = FlowLimits::of(&given).unwrap();
        assert_eq!((read.lengths, read.is_silent), ([20, 56], true));
        let back = read.message().unwrap();
        assert_eq!((&back.host, &back.vrfs), (&given.host, &given.vrfs));
        assert_eq!(back.zones, [limit("lan", Some(7))]);
        assert_eq!(FlowLimits::of(&back).map(|it| it.message()), Ok(Some(back)));
        assert_eq!(FlowLimits::of(&v1::FlowLimits::default()), Ok(FlowLimits::default()));
        assert_eq!(FlowLimits::default().message(), None);
        let silent = FlowLimits { is_silent: true, ..FlowLimits::default() };
        assert_eq!(silent.message().map(|it| FlowLimits::of(&it)), Some(Ok(silent)));
        let long = v1::FlowLimit { ip6_length: 65, ..limit("", Some(1)) };
        let long = v1::FlowLimits { prefix: Some(long), ..v1::FlowLimits::default() };
        assert!(FlowLimits::of(&long).is_err());
    }
}
