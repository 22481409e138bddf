//! Prefixes whose routes have changed: the host routes of neighbours in them must be reviewed, and no others.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::control::desired::{Prefix, network};

/// The most prefixes that are kept; beyond, all neighbours are reviewed.
const MOST: usize = 16_384;

/// The prefixes.
#[derive(Default)]
pub(super) struct TouchedPrefixes {
    prefixes: BTreeSet<Prefix>,
    is_all: bool,
}

impl TouchedPrefixes {
    /// Adds a prefix.
    pub(super) fn add(&mut self, prefix: Prefix) {
        if self.is_all {
            return;
        }
        self.prefixes.insert((network(prefix.0, prefix.1), prefix.1));
        if self.prefixes.len() > MOST {
            self.add_all();
        }
    }

    /// Adds all prefixes: it is not known which routes have changed.
    pub(super) fn add_all(&mut self) {
        (self.prefixes, self.is_all) = (BTreeSet::new(), true);
    }

    /// Whether no prefix was added.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_all && self.prefixes.is_empty()
    }

    /// A function that tells whether one of the prefixes covers an address.
    pub(super) fn coverage(self) -> impl Fn(IpAddr) -> bool {
        let lengths = |is_ip4: bool| {
            let of_family = self.prefixes.iter().filter(|(address, _)| address.is_ipv4() == is_ip4);
            of_family.map(|(_, length)| *length).collect::<BTreeSet<u8>>()
        };
        let (lengths4, lengths6) = (lengths(true), lengths(false));
        move |address| {
            let lengths = if address.is_ipv4() { &lengths4 } else { &lengths6 };
            let covers =
                |length: &u8| self.prefixes.contains(&(network(address, *length), *length));
            self.is_all || lengths.iter().any(covers)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_in_touched_prefixes_are_covered() {
        let mut touched = TouchedPrefixes::default();
        assert!(touched.is_empty());
        touched.add((ip("10.0.1.1"), 24));
        touched.add((ip("2001:db8::"), 32));
        assert!(!touched.is_empty());
        let covers = touched.coverage();
        let covered = ["10.0.1.9", "10.0.2.1", "2001:db8::1", "2001:db9::1", "0.0.0.0"];
        assert_eq!(covered.map(|text| covers(ip(text))), [true, false, true, false, false]);
    }

    #[test]
    fn too_many_prefixes_cover_all() {
        let mut touched = TouchedPrefixes::default();
        (0..=MOST as u32).for_each(|n| touched.add((IpAddr::from((n << 8).to_be_bytes()), 24)));
        assert!(!touched.is_empty());
        assert!(touched.coverage()(ip("2001:db8::1")));
    }
}
