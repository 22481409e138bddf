//! Who uses an external address and port now.

use stoa_api::nat::user_of;
use stoa_api::v1;
use stoa_engine::clock;

use super::history::unix_ms;
use super::listing::{checked, is_in, octets, translated};
use crate::control::forwarder_state::ForwarderState;
use crate::nat::mappings::End;
use crate::nat::statics::Statics;

/// Users of an external end that are listed.
const USERS: usize = 1_000;

impl ForwarderState {
    /// Who uses an external end: static and dynamic mappings, and blocks of ports. Of a time, no dynamic ones.
    ///
    /// # Errors
    /// What no end can have.
    pub(in crate::control) fn nat_users(
        &self,
        request: &v1::NatWhoisRequest,
    ) -> Result<Vec<v1::NatUser>, String> {
        if host_of(request).is_some() {
            // It has flows alone.
            return Ok(Vec::new());
        }
        let blocks = self.users_of_blocks(request)?;
        if request.external.is_empty() {
            return Ok(blocks);
        }
        let (address, port, protocol) = whom(request)?;
        let mut users = blocks;
        for it in &self.capabilities.nat.mappings {
            let one = Statics::of(vec![it.compiled()]);
            let is_meant = request.vrf.as_ref().is_none_or(|vrf| *vrf == it.mapping.vrf);
            let found = one.of_external(it.vrf, (protocol, address, Some(port)));
            let Some((of, end)) = found.filter(|_| is_meant) else { continue };
            users.extend(of.ends(end).into_iter().map(|end| v1::NatUser {
                kind: "static".to_owned(),
                internal: octets(end.address),
                internal_port: end.port.unwrap_or(port).into(),
                internal_vrf: it.mapping.internal_vrf.clone(),
                instance: it.mapping.instance,
                id: it.mapping.index,
                ..v1::NatUser::default()
            }));
        }
        if request.unix_s.is_some() {
            return Ok(users);
        }
        let mut vrfs: Vec<u16> = self.capabilities.nat.policies.iter().map(|it| it.vrf).collect();
        vrfs.sort_unstable();
        vrfs.dedup();
        let now = self.shared.flows.now(clock::tsc()).tick;
        for vrf in vrfs {
            let is_meant = request.vrf.as_ref().is_none_or(|name| *name == self.vrf_name(vrf));
            let found =
                self.shared.flows.mappings().of_external(End { address, port, protocol, vrf });
            if let Some(it) = found.filter(|_| is_meant) {
                let (instance, id) = self.nat_owner(it.policy);
                users.push(v1::NatUser {
                    kind: "mapping".to_owned(),
                    internal: self.shared.flows.nat64_hosts().octets(it.internal.address),
                    internal_port: it.internal.port.into(),
                    internal_vrf: self.vrf_name(it.internal.vrf),
                    instance,
                    id,
                    age_s: now.wrapping_sub(it.start).cast_signed().max(0).cast_unsigned(),
                    ..v1::NatUser::default()
                });
            }
        }
        Ok(users)
    }

    /// The blocks of ports that have an external end, or belong to an internal address: now, or at a time.
    fn users_of_blocks(&self, request: &v1::NatWhoisRequest) -> Result<Vec<v1::NatUser>, String> {
        let internal = match request.external.is_empty() {
            true => Some(address_of(&request.internal)?),
            false => None,
        };
        let external = if internal.is_none() { Some(whom(request)?) } else { None };
        let mut users = self.deterministic_users(internal, external);
        let is_meant = |vrf: &str| request.vrf.as_ref().is_none_or(|it| it == vrf);
        let is_it = |subscriber: (&[u8], u32), block: (&[u8], u32, u32)| {
            let of_internal = |address: u32| {
                address_of(subscriber.0).is_ok_and(|it| is_in(address, (it, subscriber.1)))
            };
            let of_external = |(address, port, _): (u32, u16, u8)| {
                block.0 == octets(address) && (block.1..=block.2).contains(&u32::from(port))
            };
            internal.is_none_or(of_internal) && external.is_none_or(of_external)
        };
        let Some(unix_s) = request.unix_s else {
            if let Some((address, port, _)) = external {
                let now = self.nat_blocks_with((address, port));
                users.extend(
                    now.filter(|it| is_meant(&it.external_vrf)).map(|it| user_of_block(&it)),
                );
            }
            return Ok(users);
        };
        let at = self.capabilities.nat.history.at(unix_s, |it| {
            let subscriber = (&*it.subscriber, it.subscriber_length);
            let block = (&*it.external, it.first_port, it.last_port);
            is_meant(&it.external_vrf) && is_it(subscriber, block)
        });
        users.extend(at.into_iter().take(USERS).map(|(it, end)| v1::NatUser {
            kind: "port-set".to_owned(),
            internal: it.subscriber,
            internal_length: it.subscriber_length,
            internal_vrf: it.subscriber_vrf,
            instance: it.instance,
            id: it.policy,
            external: it.external,
            first_port: it.first_port,
            last_port: it.last_port,
            allocated_unix_s: it.unix_ms / 1000,
            released_unix_s: end.unwrap_or(0),
            ..v1::NatUser::default()
        }));
        if let Some((address, port, _)) = external {
            for it in self.nat_blocks_with((address, port)).filter(|it| is_meant(&it.external_vrf))
            {
                add_held(&mut users, &it, unix_s);
            }
        }
        Ok(users)
    }

    fn deterministic_users(
        &self,
        internal: Option<u32>,
        external: Option<(u32, u16, u8)>,
    ) -> Vec<v1::NatUser> {
        let policies = self.capabilities.nat.policies.iter();
        let messages = policies.map(|it| it.policy.message());
        let external = external.map(|(address, port, _)| (address, port));
        messages.filter_map(|it| user_of(&it, internal, external)).collect()
    }

    /// The seconds since 1970 from which on events of blocks are known.
    pub(in crate::control) fn nat_known_since(&self) -> u64 {
        self.capabilities.nat.history.since_unix_s()
    }

    /// Adds the flows of a page that use an external end, or that an IPv6 host has by NAT64; where the next page
    /// begins.
    pub(in crate::control) fn add_nat_flows(
        &self,
        request: &v1::NatWhoisRequest,
        first: u32,
        users: &mut Vec<v1::NatUser>,
    ) -> Option<u32> {
        if request.unix_s.is_some() {
            return None;
        }
        let (host, external) = (host_of(request), whom(request).ok());
        if host.is_none() && external.is_none() {
            return None;
        }
        let hosts = self.shared.flows.nat64_hosts();
        let (ids, next) = self.translated_page(first);
        let (reader, now) =
            (self.shared.flows.reader(true), self.shared.flows.now(clock::tsc()).tick);
        for id in ids {
            let entry = reader.entry(id);
            let Some(it) = translated(&entry) else { continue };
            let end = (it.external.address, it.external.port, it.external.protocol);
            let is_it = match host {
                Some(host) => hosts.known_host(it.internal.0).is_some_and(|it| it.0 == host),
                None => external == Some(end),
            };
            let is_meant =
                || request.vrf.as_ref().is_none_or(|vrf| *vrf == self.vrf_name(it.external.vrf));
            if !is_it || !is_meant() {
                continue;
            }
            if users.len() >= USERS {
                return None;
            }
            let (instance, id) = self.nat_owner(it.uses.number);
            users.push(v1::NatUser {
                kind: "flow".to_owned(),
                internal: hosts.octets(it.internal.0),
                internal_port: it.internal.1.into(),
                internal_vrf: self.vrf_name(it.internal.2),
                remote: hosts.octets(it.remote.0),
                remote_port: it.remote.1.into(),
                instance,
                id,
                age_s: now.wrapping_sub(entry.start()).cast_signed().max(0).cast_unsigned(),
                external: host.map_or(Vec::new(), |_| octets(end.0)),
                first_port: host.map_or(0, |_| end.1.into()),
                last_port: host.map_or(0, |_| end.1.into()),
                ..v1::NatUser::default()
            });
        }
        next
    }

    /// Who uses an external end, at once: for small tables.
    ///
    /// # Errors
    /// What no end can have.
    pub fn nat_whois(&self, request: &v1::NatWhoisRequest) -> Result<Vec<v1::NatUser>, String> {
        let (mut users, mut next) = (self.nat_users(request)?, Some(0));
        while let Some(first) = next {
            next = match is_about_blocks(request) {
                true => self.add_nat_blocks(request, first, &mut users),
                false => self.add_nat_flows(request, first, &mut users),
            };
        }
        Ok(users)
    }

    /// Adds the blocks of a page that an internal address has; where the next page begins.
    pub(in crate::control) fn add_nat_blocks(
        &self,
        request: &v1::NatWhoisRequest,
        first: u32,
        users: &mut Vec<v1::NatUser>,
    ) -> Option<u32> {
        let prefix = v1::Prefix { address: request.internal.clone(), length: 32 };
        let filter = v1::NatBlockFilter { prefix: Some(prefix), vrf: request.vrf.clone() };
        let (blocks, next) = self.list_nat_blocks(&filter, first);
        // The filter also finds external addresses.
        for it in blocks.iter().filter(|it| it.external != request.internal) {
            match request.unix_s {
                Some(unix_s) => add_held(users, it, unix_s),
                None => users.push(user_of_block(it)),
            }
        }
        users.truncate(USERS);
        next
    }
}

fn address_of(octets: &[u8]) -> Result<u32, String> {
    let octets = <[u8; 4]>::try_from(octets).map_err(|_| "the address is no IPv4 address")?;
    Ok(u32::from_be_bytes(octets))
}

/// The IPv6 host that a request is about.
fn host_of(request: &v1::NatWhoisRequest) -> Option<u128> {
    let octets = <[u8; 16]>::try_from(&*request.internal).ok();
    octets.filter(|_| request.external.is_empty()).map(u128::from_be_bytes)
}

/// Whether a request asks for the blocks of an internal address.
pub(super) fn is_about_blocks(request: &v1::NatWhoisRequest) -> bool {
    request.external.is_empty() && host_of(request).is_none()
}

/// Adds a block that somebody has now, and had at a time: its allocation may be too long ago for the history.
fn add_held(users: &mut Vec<v1::NatUser>, it: &v1::NatBlock, unix_s: u64) {
    let allocated_unix_s = (unix_ms() / 1000).saturating_sub(it.age_s.into());
    let one = v1::NatUser { allocated_unix_s, unused_s: None, ..user_of_block(it) };
    let is_known = |known: &v1::NatUser| {
        known.released_unix_s == 0
            && (&known.internal, &known.external, known.first_port)
                == (&one.internal, &one.external, one.first_port)
    };
    if allocated_unix_s <= unix_s && !users.iter().any(is_known) {
        users.push(one);
    }
}

/// The answer that a block is.
pub(super) fn user_of_block(it: &v1::NatBlock) -> v1::NatUser {
    v1::NatUser {
        kind: "port-set".to_owned(),
        internal: it.subscriber.clone(),
        internal_length: it.subscriber_length,
        internal_vrf: it.subscriber_vrf.clone(),
        instance: it.instance,
        id: it.policy,
        age_s: it.age_s,
        external: it.external.clone(),
        first_port: it.first_port,
        last_port: it.last_port,
        unused_s: (it.tcp + it.udp + it.icmp + it.others == 0).then_some(it.unused_s),
        ..v1::NatUser::default()
    }
}

/// The end that a request is about.
fn whom(request: &v1::NatWhoisRequest) -> Result<(u32, u16, u8), String> {
    let address = address_of(&request.external)?;
    let (port, protocol) = (checked(request.port, "port")?, checked(request.protocol, "protocol")?);
    Ok((address, port, protocol))
}
