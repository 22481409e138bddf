//! Address translation: what policies and static mappings do, dynamic mappings, and who has an external port.

use stoa_api::nat::user_of;
use stoa_api::v1;
use tonic::Status;

use super::{Service, failed};
use crate::nat_mapping_list::oldest;

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
        let filter = request.filter.unwrap_or_default();
        self.check_vrf(filter.vrf.as_deref().unwrap_or_default())?;
        let listed = oldest(&self.connection, filter, request.at_most as usize).await;
        listed.map_err(failed)
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
