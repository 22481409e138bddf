//! The prefixes of each VRF: insert, remove, iterate.

use std::net::IpAddr;

use stoa_tables::lpm::{Ip4Lpm, Ip6Lpm, LpmError, Outcome};

use super::Fib;
use crate::control::desired::Prefix;
use crate::control::limits::{Table, TableFull};
use crate::control::vrfs::{DEFAULT, Slot};

impl Fib {
    /// Points a prefix of a VRF to a next hop; returns its previous next hop, or 0.
    ///
    /// # Errors
    /// The table is full.
    pub(in crate::control) fn insert(
        &mut self,
        slot: Slot,
        (address, length): Prefix,
        hop: u32,
    ) -> Result<u32, TableFull> {
        let prefixes = self.vrfs.get_mut(slot).and_then(Option::as_mut).ok_or_else(no_vrf)?;
        prefixes.expect(address.is_ipv4(), 1);
        let done = match address {
            IpAddr::V4(ip) => prefixes.ip4.insert(ip.into(), length, hop),
            IpAddr::V6(ip) => prefixes.ip6.insert(ip.into(), length, hop),
        };
        done.map(Option::unwrap_or_default).map_err(|error| self.refuse(slot, address, error))
    }

    /// Points prefixes of a VRF to their next hops, in order; fastest when they ascend. Appends the previous
    /// next hop of each to `former`, 0 for none.
    ///
    /// # Errors
    /// The number of prefixes inserted before the first that does not fit, and why it does not.
    pub(in crate::control) fn insert_all(
        &mut self,
        slot: Slot,
        routes: &[(Prefix, u32)],
        former: &mut Vec<u32>,
    ) -> Result<(), (usize, TableFull)> {
        let (mut inserted, mut outcomes) = (0, Vec::new());
        for run in routes.chunk_by(|one, next| one.0.0.is_ipv4() == next.0.0.is_ipv4()) {
            let prefixes = self.vrfs.get_mut(slot).and_then(Option::as_mut);
            let prefixes = prefixes.ok_or_else(|| (inserted, no_vrf()))?;
            prefixes.expect(run[0].0.0.is_ipv4(), run.len());
            let ip4 = |&((address, length), hop): &(Prefix, u32)| match address {
                IpAddr::V4(ip) => Some((ip.into(), length, hop)),
                IpAddr::V6(_) => None,
            };
            let ip6 = |&((address, length), hop): &(Prefix, u32)| match address {
                IpAddr::V4(_) => None,
                IpAddr::V6(ip) => Some((ip.into(), length, hop)),
            };
            let ip4: Vec<_> = run.iter().filter_map(ip4).collect();
            let ip6: Vec<_> = run.iter().filter_map(ip6).collect();
            let done = if ip6.is_empty() {
                prefixes.ip4.change_all(&ip4, |_, _| true, &mut outcomes)
            } else {
                prefixes.ip6.change_all(&ip6, |_, _| true, &mut outcomes)
            };
            former.extend(outcomes.iter().map(|outcome| match outcome {
                Outcome::Replaced(old) => *old,
                _ => 0,
            }));
            if let Err(refused) = done {
                inserted += refused.inserted;
                let address = routes.get(inserted).map_or(run[0].0.0, |route| route.0.0);
                return Err((inserted, self.refuse(slot, address, refused.error)));
            }
            inserted += run.len();
        }
        Ok(())
    }

    /// The error for a refused route to `address`; counts it when a table is full.
    pub(in crate::control) fn refuse(
        &mut self,
        slot: Slot,
        address: IpAddr,
        error: LpmError,
    ) -> TableFull {
        let prefixes = self.vrfs.get(slot).and_then(Option::as_ref);
        let (table, limit) = match (slot, address) {
            (DEFAULT, IpAddr::V4(_)) => (Table::Ip4Routes, prefixes.map(|of| of.ip4.capacity())),
            (DEFAULT, IpAddr::V6(_)) => (Table::Ip6Routes, prefixes.map(|of| of.ip6.capacity())),
            _ => (Table::VrfRoutes, prefixes.map(|of| of.ip4.capacity())),
        };
        match error {
            LpmError::Full(what) => {
                let limit = limit.unwrap_or(0);
                let reason = format!("all {limit} prefixes are in use: no {what} left");
                self.table_full_counts.full(table, reason)
            }
            error => TableFull::of(table, error),
        }
    }

    /// Removes a prefix, if present.
    pub(in crate::control) fn remove(&mut self, slot: Slot, (address, length): Prefix) {
        let Some(Some(prefixes)) = self.vrfs.get_mut(slot) else { return };
        let removed = match address {
            IpAddr::V4(ip) => prefixes.ip4.remove(ip.into(), length),
            IpAddr::V6(ip) => prefixes.ip6.remove(ip.into(), length),
        };
        debug_assert!(matches!(removed, Ok(_) | Err(LpmError::Absent)));
    }

    /// The next hop of exactly this prefix.
    pub(in crate::control) fn get(&self, slot: Slot, (address, length): Prefix) -> Option<u32> {
        let prefixes = self.vrfs.get(slot)?.as_ref()?;
        match address {
            IpAddr::V4(ip) => prefixes.ip4.get_exact(ip.into(), length).ok(),
            IpAddr::V6(ip) => prefixes.ip6.get_exact(ip.into(), length).ok(),
        }
    }

    /// All prefixes of a VRF from `(address, length)` on with their next hops, IPv4 first, in order.
    pub(in crate::control) fn routes_from(
        &self,
        slot: Slot,
        (address, length): Prefix,
    ) -> impl Iterator<Item = (Prefix, u32)> {
        let (ip4, ip6) = match address {
            IpAddr::V4(ip) => (Some((ip.into(), length)), (0, 0)),
            IpAddr::V6(ip) => (None, (ip.into(), length)),
        };
        let prefixes = self.vrfs.get(slot).and_then(Option::as_ref);
        let four = ip4.and_then(|from: (u32, u8)| Some(prefixes?.ip4.range(from.0, from.1)));
        let six = prefixes.map(|prefixes| prefixes.ip6.range(ip6.0, ip6.1));
        let four = four
            .into_iter()
            .flatten()
            .map(|(prefix, length, hop)| ((IpAddr::V4(prefix.into()), length), hop));
        four.chain(
            six.into_iter()
                .flatten()
                .map(|(prefix, length, hop)| ((IpAddr::V6(prefix.into()), length), hop)),
        )
    }

    /// The tables of a VRF.
    pub(in crate::control) fn tables(&self, slot: Slot) -> Option<(&Ip4Lpm, &Ip6Lpm)> {
        let prefixes = self.vrfs.get(slot)?.as_ref()?;
        Some((&prefixes.ip4, &prefixes.ip6))
    }

    /// The tables of a VRF, mutable.
    pub(in crate::control) fn tables_mut(
        &mut self,
        slot: Slot,
    ) -> Option<(&mut Ip4Lpm, &mut Ip6Lpm)> {
        let prefixes = self.vrfs.get_mut(slot)?.as_mut()?;
        Some((&mut prefixes.ip4, &mut prefixes.ip6))
    }
}

fn no_vrf() -> TableFull {
    TableFull::of(Table::Vrfs, "the VRF does not exist")
}
