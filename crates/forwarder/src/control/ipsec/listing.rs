//! Security associations and crypto engines as operators see them, and for the audit.

use std::sync::atomic::Ordering::Relaxed;

use stoa_api::audit::{self, Tally};
use stoa_api::v1;
use stoa_crypto::Algorithm;
use tonic::{Request, Response, Status};

use super::configured::{Active, Published};
use crate::control::forwarder_state::ForwarderState;
use crate::control::service::{Service, boot_id};
use crate::control::tunnels;
use crate::ipsec::engines::engines;

impl ForwarderState {
    /// The associations of the configuration, by name.
    pub fn security_associations(&self) -> v1::ListSasReply {
        let configured = &self.capabilities.ipsec.configured;
        let active = configured.active.values().map(|it| self.state_of(it));
        let withheld = configured.withheld.iter().map(|it| v1::SecurityAssociationState {
            reason: it.withheld.clone(),
            association: Some(it.clone()),
            ..v1::SecurityAssociationState::default()
        });
        let mut associations: Vec<_> = active.chain(withheld).collect();
        let name = |it: &v1::SecurityAssociationState| {
            it.association.as_ref().map(|it| it.name.clone()).unwrap_or_default()
        };
        associations.sort_by_cached_key(name);
        v1::ListSasReply { associations }
    }

    fn state_of(&self, it: &Active) -> v1::SecurityAssociationState {
        let in_force = self.is_in_place(it);
        let state = v1::SecurityAssociationState {
            association: Some(it.association.message.clone()),
            in_force,
            reason: if in_force { "" } else { "its tunnel has changed" }.to_owned(),
            engine: engines().chosen(it.association.settings.algorithm).unwrap_or("").to_owned(),
            ..v1::SecurityAssociationState::default()
        };
        match &it.published {
            Published::Inbound(inbound) => {
                let received = inbound.received();
                let window = inbound.window();
                v1::SecurityAssociationState {
                    packets: received.packets.load(Relaxed),
                    bytes: received.bytes.load(Relaxed),
                    replayed: received.replayed.load(Relaxed),
                    late: received.late.load(Relaxed),
                    forged: received.forged.load(Relaxed),
                    malformed: received.malformed.load(Relaxed),
                    sequence: window.map_or(0, |it| it.top()),
                    lost: window.map_or(0, |it| it.lost()),
                    ..state
                }
            }
            Published::Outbound(outbound, _, begun) => {
                let (sequence, bytes) = outbound.sent();
                let packets = sequence.saturating_sub(*begun);
                v1::SecurityAssociationState { packets, bytes, sequence, ..state }
            }
        }
    }

    /// The associations in force, for the audit, and those that are not to be.
    pub(super) fn add_association_entries(&self, tally: &mut Tally) {
        let configured = &self.capabilities.ipsec.configured;
        for it in configured.active.values().filter(|it| self.is_in_place(it)) {
            audit::security_association(tally, &it.association.message);
        }
        configured.withheld.iter().for_each(|it| audit::security_association(tally, it));
    }

    /// A tunnel with ESP, for the audit: `PublishedTunnels` has the others.
    pub(super) fn add_esp_tunnel_entry(&self, index: u32, tally: &mut Tally) {
        if let (Some(interface), Some(tunnel)) = (self.interface(index), self.esp_tunnel_at(index))
        {
            audit::tunnel(tally, &interface.name, tunnels::message(&tunnel));
        }
    }

    /// Withdraws an inbound association, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(in crate::control) fn lose_association(&mut self, spi: u32) {
        self.remove_inbound_association(spi);
    }
}

/// The crypto engines of this process.
fn crypto_engines() -> v1::ListCryptoReply {
    let engines = engines();
    let names = |all: &[Algorithm]| all.iter().map(|it| it.name().to_owned()).collect();
    let engine = |it: &stoa_crypto::EngineState| v1::CryptoEngine {
        name: it.name.to_owned(),
        algorithms: names(&it.algorithms),
        refused: it.refused.map(|it| it.to_string()).unwrap_or_default(),
    };
    let algorithm = |it: Algorithm| v1::CryptoAlgorithm {
        name: it.name().to_owned(),
        engine: engines.chosen(it).unwrap_or("").to_owned(),
    };
    v1::ListCryptoReply {
        engines: engines.list().iter().map(engine).collect(),
        algorithms: Algorithm::ALL.into_iter().map(algorithm).collect(),
    }
}

/// Refuses keys that were meant for an earlier forwarder: their nonces could repeat.
///
/// # Errors
/// There is such a key. The controller sends the state again, for this forwarder.
pub(in crate::control) fn check_forwarder(ipsec: Option<&v1::Ipsec>) -> Result<(), Status> {
    let Some(ipsec) = ipsec.filter(|it| it.boot_id != boot_id()) else { return Ok(()) };
    let is_at_risk = |it: &v1::SecurityAssociation| {
        let algorithm = Algorithm::from_name(&it.algorithm);
        it.direction() == v1::IpsecDirection::IpsecOutbound
            && it.withheld.is_empty()
            && algorithm.is_none_or(Algorithm::needs_unique_nonces)
    };
    match ipsec.associations.iter().find(|it| is_at_risk(it)) {
        Some(it) => Err(Status::failed_precondition(format!(
            "the key of security association {:?} is for another forwarder process",
            it.name
        ))),
        None => Ok(()),
    }
}

#[tonic::async_trait]
impl v1::ipsec_table_server::IpsecTable for Service {
    async fn list_sas(
        &self,
        _: Request<v1::ListSasRequest>,
    ) -> Result<Response<v1::ListSasReply>, Status> {
        self.read(ForwarderState::security_associations).await.map(Response::new)
    }

    async fn list_crypto(
        &self,
        _: Request<v1::ListCryptoRequest>,
    ) -> Result<Response<v1::ListCryptoReply>, Status> {
        Ok(Response::new(crypto_engines()))
    }
}
