//! Logins of hosts: publishes them to the workers by interface, and reports what hosts send and get.
//!
//! Settings of interfaces come with the desired state; logins are rows ([`LoginRows`]). Rows of an interface that does
//! not exist, or where hosts need not log in, wait until they do.

mod rows;
mod service;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use stoa_api::login::{Key, LOGINS};
use stoa_api::v1;
use stoa_engine::clock;
use stoa_tables::exact_match::{ExactMatch, ExactMatchReader};

use super::apply::ApplyError;
use super::capability::{Capability, Start, Step, Verbs};
use super::desired::Login;
use super::forwarder_state::ForwarderState;
use super::limit_listing::limit;
use crate::login::shares::Rates;
use crate::login::traffic::Sum;
use crate::login::{Admits, LoginInterface, Logins, key};

pub(super) use rows::LoginRows;

/// Numbers that wait before they are used again: workers may still count for the login that they had.
const WAITING: usize = 1_024;

/// A login in force.
#[derive(Clone, Copy)]
struct Active {
    id: u64,
    /// The number of its counters.
    number: u32,
    /// What a former login has left there.
    before: Sum,
}

/// The logins of an interface.
#[derive(Default)]
struct OfInterface {
    table: ExactMatch,
    logins: BTreeMap<[u8; 6], Active>,
}

/// The settings of an interface in force.
struct Settings {
    name: String,
    login: Login,
    admits: Arc<Admits>,
    rates: Arc<Rates>,
    tags: usize,
    /// What workers look into.
    hosts: ExactMatchReader,
}

/// All logins.
#[derive(Default)]
pub(super) struct LoginState {
    by_name: BTreeMap<String, OfInterface>,
    /// By index of the interface.
    settings: BTreeMap<u32, Settings>,
    /// Numbers that were in use, the first one the longest time ago.
    free: VecDeque<u32>,
    /// No number from here on was ever in use.
    next: u32,
    logins: usize,
    /// Logins that were refused because all numbers are in use.
    refused: u64,
}

impl Capability for LoginState {
    const VERBS: Verbs = Verbs {
        apply: ForwarderState::apply_logins,
        remove_interface: |state, index| state.forget_login_interface(index),
        limits: |state, limits| {
            let logins = &state.capabilities.login;
            let fix = "This limit is fixed. Hosts that log in while it is reached stay unknown.";
            let used = Some(logins.logins as u64);
            limits.push(limit("logins", used, LOGINS as u64, logins.refused, fix));
        },
        in_force: |state, index, interface| {
            let settings = state.capabilities.login.settings.get(&index);
            interface.login = settings.map(|it| it.login.message());
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

/// The first and the last address of a prefix.
fn range((ip, length): &(IpAddr, u8)) -> (u128, u128) {
    let (first, bits) = match ip {
        IpAddr::V4(it) => (it.to_bits().into(), 32),
        IpAddr::V6(it) => (it.to_bits(), 128),
    };
    let host_bits = u32::from(bits - length.min(&bits));
    (first, first | u128::MAX.checked_shr(128 - host_bits).unwrap_or(0))
}

/// The whole answer of a web server that redirects to an address.
fn redirect(url: &str) -> Box<[u8]> {
    if url.is_empty() {
        return Box::default();
    }
    let answer = format!(
        "HTTP/1.1 302 Found\r\nLocation: {url}\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    );
    answer.into_bytes().into()
}

impl Login {
    fn admits(&self) -> Admits {
        let of = |is_ip4: bool| {
            self.garden.iter().filter(|(ip, _)| ip.is_ipv4() == is_ip4).map(range).collect()
        };
        Admits {
            garden: [of(true), of(false)],
            name_servers: self.name_servers.clone(),
            portal: self.portal.clone(),
            portal_port: self.portal_port,
            redirect: [redirect(&self.redirect[0]), redirect(&self.redirect[1])],
        }
    }
}

impl LoginState {
    /// A number for a login: one that was never in use, or that has waited the longest.
    fn take_number(&mut self) -> Option<u32> {
        let is_fresh = (self.next as usize) < LOGINS;
        if self.free.len() >= WAITING || !is_fresh {
            return self.free.pop_front();
        }
        self.next += 1;
        Some(self.next - 1)
    }

    fn published(&self) -> Logins {
        let interface = |(index, it): (&u32, &Settings)| {
            let (hosts, tags) = (it.hosts.clone(), it.tags);
            let (admits, rates) = (Arc::clone(&it.admits), Arc::clone(&it.rates));
            (*index, LoginInterface { hosts, admits, rates, tags })
        };
        self.settings.iter().map(interface).collect()
    }

    /// Has workers look into the table of an interface that was written anew; whether they have to.
    fn renew_reader(&mut self, name: &str) -> bool {
        let Some(of) = self.by_name.get(name) else { return false };
        let mut is_any = false;
        for settings in self.settings.values_mut().filter(|it| it.name == name) {
            if !settings.hosts.is_current(&of.table) {
                settings.hosts = of.table.reader();
                is_any = true;
            }
        }
        is_any
    }
}

impl ForwarderState {
    fn apply_logins(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        let mut is_changed = false;
        for index in &step.interfaces.indexes {
            let state = self.interface(*index).filter(|state| !state.is_reserved());
            let desired = state.and_then(|it| {
                let login = it.desired.login.clone()?;
                Some((it.name.clone(), login, 4 * it.desired.tags.len()))
            });
            let logins = &mut self.capabilities.login;
            is_changed |= match desired {
                Some((name, login, tags)) => {
                    let table = &logins.by_name.entry(name.clone()).or_default().table;
                    let (admits, hosts) = (Arc::new(login.admits()), table.reader());
                    let rates = Arc::new(Rates::new(login.rates));
                    let settings = Settings { name, login, admits, rates, tags, hosts };
                    logins.settings.insert(*index, settings);
                    true
                }
                None => logins.settings.remove(index).is_some(),
            };
            self.pause(1);
        }
        if is_changed {
            self.publish_logins();
        }
        Ok(())
    }

    fn forget_login_interface(&mut self, index: u32) {
        if self.capabilities.login.settings.remove(&index).is_some() {
            self.publish_logins();
        }
    }

    fn publish_logins(&mut self) {
        let published = self.capabilities.login.published();
        self.shared.logins.publish(published, &mut self.graveyard);
    }

    /// A host has logged in; `false`: there is no room for it.
    fn add_login(&mut self, host: &Key, id: u64) -> bool {
        self.remove_login(host);
        let shared = Arc::clone(&self.shared);
        let logins = &mut self.capabilities.login;
        let Some(number) = logins.take_number() else {
            logins.refused += 1;
            return false;
        };
        let active = Active { id, number, before: shared.login_traffic.sum(number) };
        let of = logins.by_name.entry(host.interface.clone()).or_default();
        if of.table.insert(key(&host.mac), number).is_err() {
            logins.free.push_back(number);
            logins.refused += 1;
            return false;
        }
        of.logins.insert(host.mac, active);
        logins.logins += 1;
        if logins.renew_reader(&host.interface) {
            self.publish_logins();
        }
        true
    }

    fn remove_login(&mut self, host: &Key) {
        let logins = &mut self.capabilities.login;
        let Some(of) = logins.by_name.get_mut(&host.interface) else { return };
        let Some(active) = of.logins.remove(&host.mac) else { return };
        of.table.remove(key(&host.mac));
        logins.free.push_back(active.number);
        logins.logins -= 1;
        let is_renewed = logins.renew_reader(&host.interface);
        let is_over = logins.by_name.get(&host.interface).is_some_and(|it| it.logins.is_empty());
        if is_over && !logins.settings.values().any(|it| it.name == host.interface) {
            logins.by_name.remove(&host.interface);
        }
        if is_renewed {
            self.publish_logins();
        }
    }

    /// The login that workers find for a host.
    fn login_in_force(&self, host: &Key) -> Option<u64> {
        let of = self.capabilities.login.by_name.get(&host.interface)?;
        let active = of.logins.get(&host.mac)?;
        (of.table.get(key(&host.mac)) == Some(active.number)).then_some(active.id)
    }

    /// Adds logins behind a host, some of them; the last one, if there are more.
    pub(super) fn list_logins(
        &self,
        after: Option<Key>,
        listed: &mut Vec<v1::LoginState>,
    ) -> Option<Key> {
        const PAGE: usize = 1_024;
        let (now, hz) = (clock::tsc(), u128::from(clock::tsc_hz().max(1)));
        let from = Bound::Included(after.as_ref().map_or("", |it| &it.interface));
        let interfaces = self.capabilities.login.by_name.range::<str, _>((from, Bound::Unbounded));
        let behind = |name: &String| match &after {
            Some(it) if it.interface == *name => (Bound::Excluded(it.mac), Bound::Unbounded),
            _ => (Bound::Unbounded, Bound::Unbounded),
        };
        let rest = interfaces
            .flat_map(|(name, of)| of.logins.range(behind(name)).map(move |it| (name, it)));
        let mut last = None;
        for (at, (name, (mac, active))) in rest.take(PAGE).enumerate() {
            let sum = self.shared.login_traffic.sum(active.number).since(active.before);
            let idle = u128::from(now.saturating_sub(sum.last)) * 1_000 / hz;
            listed.push(v1::LoginState {
                interface: name.clone(),
                mac: mac.to_vec(),
                id: active.id,
                in_packets: sum.in_packets,
                in_bytes: sum.in_bytes,
                out_packets: sum.out_packets,
                out_bytes: sum.out_bytes,
                idle_ms: (sum.last != 0).then_some(idle as u64),
            });
            if at + 1 == PAGE {
                last = Some(Key { interface: name.clone(), mac: *mac });
            }
        }
        last
    }

    /// All logins at once: for tests.
    pub fn logins(&self) -> Vec<v1::LoginState> {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            after = self.list_logins(after, &mut listed);
            if after.is_none() {
                return listed;
            }
        }
    }

    /// Sets a login, or removes it without a number, as a row does: for tests and benchmarks. `false`: there is no
    /// room.
    pub fn set_login(&mut self, interface: &str, mac: [u8; 6], id: Option<u64>) -> bool {
        let host = Key { interface: interface.to_owned(), mac };
        match id {
            Some(id) => self.add_login(&host, id),
            None => {
                self.remove_login(&host);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stoa_api::login::REDIRECT_BYTES;
    use stoa_wire::tcp_redirect::ANSWER_MOST;

    use super::*;

    #[test]
    fn the_longest_redirect_is_not_cut() {
        assert!(redirect(&"x".repeat(REDIRECT_BYTES)).len() <= ANSWER_MOST);
    }
}
