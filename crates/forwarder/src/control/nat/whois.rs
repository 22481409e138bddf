//! Who uses an external address and port now.

use std::net::Ipv4Addr;

use stoa_api::v1;
use stoa_engine::clock;

use super::listing::{checked, octets, translated};
use crate::control::forwarder_state::ForwarderState;
use crate::nat::mappings::End;
use crate::nat::statics::Statics;

/// Users of an external end that are listed.
const USERS: usize = 1_000;

impl ForwarderState {
    /// Who uses an external end: static and dynamic mappings.
    ///
    /// # Errors
    /// What no end can have.
    pub(in crate::control) fn nat_users(
        &self,
        request: &v1::NatWhoisRequest,
    ) -> Result<Vec<v1::NatUser>, String> {
        let (address, port, protocol) = whom(request)?;
        let mut users = Vec::new();
        for it in &self.capabilities.nat.mappings {
            let one = Statics::of(vec![it.compiled()]);
            let is_meant = request.vrf.as_ref().is_none_or(|vrf| *vrf == it.mapping.vrf);
            let found = one.of_external(it.vrf, (protocol, address, Some(port)));
            if let Some((_, end)) = found.filter(|_| is_meant) {
                users.push(v1::NatUser {
                    kind: "static".to_owned(),
                    internal: octets(end.address),
                    internal_port: end.port.unwrap_or(port).into(),
                    internal_vrf: it.mapping.vrf.clone(),
                    instance: it.mapping.instance,
                    id: it.mapping.index,
                    ..v1::NatUser::default()
                });
            }
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
                    internal: octets(it.internal.address),
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

    /// Adds the flows of a page that use an external end; where the next page begins.
    pub(in crate::control) fn add_nat_flows(
        &self,
        request: &v1::NatWhoisRequest,
        first: u32,
        users: &mut Vec<v1::NatUser>,
    ) -> Option<u32> {
        let Ok((address, port, protocol)) = whom(request) else { return None };
        let (ids, next) = self.translated_page(first);
        let (reader, now) =
            (self.shared.flows.reader(true), self.shared.flows.now(clock::tsc()).tick);
        for id in ids {
            let entry = reader.entry(id);
            let Some(it) = translated(&entry) else { continue };
            let is_it = (it.external.address, it.external.port, it.external.protocol)
                == (address, port, protocol)
                && request.vrf.as_ref().is_none_or(|vrf| *vrf == self.vrf_name(it.external.vrf));
            if !is_it {
                continue;
            }
            if users.len() >= USERS {
                return None;
            }
            let (instance, id) = self.nat_owner(it.uses.number);
            users.push(v1::NatUser {
                kind: "flow".to_owned(),
                internal: octets(it.internal.0),
                internal_port: it.internal.1.into(),
                internal_vrf: self.vrf_name(it.internal.2),
                remote: octets(it.remote.0),
                remote_port: it.remote.1.into(),
                instance,
                id,
                age_s: now.wrapping_sub(entry.start()).cast_signed().max(0).cast_unsigned(),
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
            next = self.add_nat_flows(request, first, &mut users);
        }
        Ok(users)
    }
}

/// The end that a request is about.
fn whom(request: &v1::NatWhoisRequest) -> Result<(u32, u16, u8), String> {
    let octets = <[u8; 4]>::try_from(request.external.as_slice());
    let octets = octets.map_err(|_| "the address is no IPv4 address".to_owned())?;
    let (port, protocol) = (checked(request.port, "port")?, checked(request.protocol, "protocol")?);
    Ok((Ipv4Addr::from(octets).to_bits(), port, protocol))
}
