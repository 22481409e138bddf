//! Address translation: what policies and static mappings do, dynamic mappings, and who has an external port.

use std::cmp::Reverse;

use stoa_api::nat::user_of;
use stoa_api::v1;
use tonic::Status;

use super::{Service, failed};

/// Rows of a reply, at most.
const ROWS: usize = 100_000;

/// The oldest `at_most` mappings.
fn oldest(mappings: &mut Vec<v1::NatDynamicMapping>, at_most: usize) {
    mappings.sort_by(|a, b| {
        let key = |it: &v1::NatDynamicMapping| (Reverse(it.age_s), it.protocol, it.external_port);
        key(a).cmp(&key(b)).then_with(|| a.external.cmp(&b.external))
    });
    mappings.truncate(at_most);
}

impl Service {
    /// Policies, static mappings and external addresses; nothing where nothing is translated.
    pub(super) async fn nat(&self) -> Result<v1::ListNatReply, Status> {
        if !self.connection.translates() {
            return Ok(v1::ListNatReply::default());
        }
        let listed = self.connection.nat_client().list_nat(v1::ListNatRequest {}).await;
        listed.map(tonic::Response::into_inner).map_err(failed)
    }

    /// The dynamic mappings that meet a filter.
    pub(super) async fn nat_mappings(
        &self,
        request: v1::ShowNatMappingsRequest,
    ) -> Result<v1::ShowNatMappingsReply, Status> {
        let at_most = (request.at_most as usize).min(ROWS);
        let filter = request.filter.unwrap_or_default();
        self.check_vrf(filter.vrf.as_deref().unwrap_or_default())?;
        let listed = self.connection.nat_client().list_nat_mappings(filter).await;
        let (mut listed, mut mappings) = (listed.map_err(failed)?.into_inner(), Vec::new());
        let mut matching = 0;
        while let Some(mapping) = listed.message().await.map_err(failed)? {
            matching += 1;
            mappings.push(mapping);
            // Memory for the rows of the reply, and as much again.
            if mappings.len() > 2 * at_most.max(1024) {
                oldest(&mut mappings, at_most);
            }
        }
        oldest(&mut mappings, at_most);
        Ok(v1::ShowNatMappingsReply { mappings, matching })
    }

    /// Who uses an external address and port.
    pub(super) async fn whois(
        &self,
        request: v1::NatWhoisRequest,
    ) -> Result<v1::NatWhoisReply, Status> {
        self.check_vrf(request.vrf.as_deref().unwrap_or_default())?;
        let found = self.connection.nat_client().nat_whois(request.clone()).await;
        match found {
            Ok(found) => Ok(found.into_inner()),
            // What follows from the configuration is known without the forwarder.
            Err(status) => self.deterministic(&request).ok_or_else(|| failed(status)),
        }
    }

    /// The subscribers that an external end or an internal address has by arithmetic; `None`: there are none.
    fn deterministic(&self, request: &v1::NatWhoisRequest) -> Option<v1::NatWhoisReply> {
        let address = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).ok().map(u32::from_be_bytes);
        let external = address(&request.external).zip(u16::try_from(request.port).ok());
        let internal = address(&request.internal);
        let users: Vec<_> = self.connection.with_configuration(|it| {
            let policies = it.and_then(|it| it.desired.nat.as_ref()).map(|nat| &nat.policies);
            let policies = policies.into_iter().flatten();
            policies.filter_map(|it| user_of(it, internal, external)).collect()
        });
        (!users.is_empty()).then_some(v1::NatWhoisReply { users, known_since_unix_s: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_mappings_come_first() {
        let mapping = |age_s, external_port| v1::NatDynamicMapping {
            age_s,
            external_port,
            ..v1::NatDynamicMapping::default()
        };
        let mut mappings = vec![mapping(1, 1), mapping(9, 3), mapping(9, 2)];
        oldest(&mut mappings, 2);
        assert_eq!(mappings, [mapping(9, 2), mapping(9, 3)]);
    }
}
