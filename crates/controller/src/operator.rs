//! The Operator service: status, reload, and the state of the forwarder.

mod acls;
mod cleared;
mod cleared_acls;
mod configuration;
mod flows;
mod held;
mod inactive;
mod listed;
mod logins;
mod nat;
mod printed;
mod reload;
mod status;
mod tables;
mod vrf_name;
mod zones;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use stoa_api::v1;
use stoa_api::v1::operator_server::Operator;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::apply::ForwarderConnection;
use crate::call_error::failed;
use crate::capture;
use crate::datastore::Datastore;
use crate::filter;
use crate::learned::Learned;
use crate::metrics;
use crate::probe::{Probes, one_vrf};

/// The reply to a call, or why there is none.
type Answer<T> = Result<Response<T>, Status>;

/// The Operator service of the contract.
#[derive(Clone, Debug)]
pub struct Service {
    connection: Arc<ForwarderConnection>,
    /// The startup file.
    config: PathBuf,
    datastore: Datastore,
    learned: Learned,
    probes: Probes,
    started_unix_s: u64,
    cleared: Arc<cleared::Cleared>,
    cleared_acls: Arc<cleared_acls::ClearedAcls>,
}

impl Service {
    /// The service of `datastore`; `config` is the file of a reload without a path.
    pub fn new(datastore: Datastore, config: PathBuf, learned: Learned) -> Service {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let connection = Arc::clone(datastore.connection());
        let (probes, started_unix_s) = (Probes::default(), since.as_secs());
        let (cleared, cleared_acls) = Default::default();
        Service {
            connection,
            config,
            datastore,
            learned,
            probes,
            started_unix_s,
            cleared,
            cleared_acls,
        }
    }
}

#[tonic::async_trait]
impl Operator for Service {
    type ShowRoutesStream =
        Pin<Box<dyn Stream<Item = Result<v1::RouteState, Status>> + Send + 'static>>;
    type ShowNeighborsStream = Streaming<v1::NeighborState>;
    type ShowPuntsStream = Streaming<v1::ListPuntsReply>;
    type CaptureStream = Streaming<v1::CaptureReply>;
    type ProbeStream = ReceiverStream<Result<v1::ProbeReply, Status>>;
    type LockStream = configuration::Locks;

    async fn status(&self, _: Request<v1::StatusRequest>) -> Answer<v1::StatusReply> {
        Ok(Response::new(self.status_reply().await))
    }

    async fn reload(&self, request: Request<v1::ReloadRequest>) -> Answer<v1::ReloadReply> {
        let path = request.into_inner().path;
        let path = (!path.is_empty()).then(|| PathBuf::from(path));
        // A task of its own, so that a disconnect does not interrupt it.
        let service = self.clone();
        let reload = tokio::spawn(async move { Service::reload(&service, path).await });
        let reply = reload.await.map_err(|error| Status::internal(error.to_string()))?;
        reply.map(Response::new)
    }

    async fn show_interfaces(
        &self,
        request: Request<v1::ListInterfacesRequest>,
    ) -> Answer<v1::ListInterfacesReply> {
        self.interfaces(request.into_inner()).await
    }

    async fn clear_counters(
        &self,
        request: Request<v1::ClearCountersRequest>,
    ) -> Answer<v1::ClearCountersReply> {
        let (client, name) = (self.connection.client(), request.into_inner().interface);
        self.cleared.clear_listed(client, &name).await.map(Response::new)
    }

    async fn count_routes(
        &self,
        request: Request<v1::CountRoutesRequest>,
    ) -> Answer<v1::CountRoutesReply> {
        self.connection.client().count_routes(request.into_inner()).await.map_err(failed)
    }

    async fn show_routes(
        &self,
        request: Request<v1::ListRoutesRequest>,
    ) -> Answer<Self::ShowRoutesStream> {
        self.routes(request.into_inner()).await.map(Response::new)
    }

    async fn audit_learned(
        &self,
        _: Request<v1::AuditLearnedRequest>,
    ) -> Answer<v1::AuditLearnedReply> {
        Ok(Response::new(self.learned.report().await))
    }

    async fn audit_tables(
        &self,
        _: Request<v1::AuditTablesRequest>,
    ) -> Answer<v1::AuditTablesReply> {
        Ok(Response::new(tables::audit(&self.connection, &self.learned).await))
    }

    async fn show_route_sources(
        &self,
        _: Request<v1::ShowRouteSourcesRequest>,
    ) -> Answer<v1::ShowRouteSourcesReply> {
        Ok(Response::new(v1::ShowRouteSourcesReply {
            route_sources: self.learned.show_route_sources().await,
        }))
    }

    async fn show_neighbors(
        &self,
        request: Request<v1::ListNeighborsRequest>,
    ) -> Answer<Self::ShowNeighborsStream> {
        self.connection.client().list_neighbors(request.into_inner()).await.map_err(failed)
    }

    async fn show_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Answer<v1::ListNodesReply> {
        self.connection.client().list_nodes(request.into_inner()).await.map_err(failed)
    }

    async fn show_drops(
        &self,
        request: Request<v1::ListDropsRequest>,
    ) -> Answer<v1::ListDropsReply> {
        self.connection.client().list_drops(request.into_inner()).await.map_err(failed)
    }

    async fn show_punts(
        &self,
        request: Request<v1::ListPuntsRequest>,
    ) -> Answer<Self::ShowPuntsStream> {
        self.connection.client().list_punts(request.into_inner()).await.map_err(failed)
    }

    async fn show_rules(
        &self,
        request: Request<v1::ListRulesRequest>,
    ) -> Answer<v1::ListRulesReply> {
        self.connection.client().list_rules(request.into_inner()).await.map_err(failed)
    }

    async fn show_acls(&self, request: Request<v1::ShowAclsRequest>) -> Answer<v1::ShowAclsReply> {
        self.acls(request.into_inner()).await.map(Response::new)
    }

    async fn clear_acl(&self, request: Request<v1::ClearAclRequest>) -> Answer<v1::ClearAclReply> {
        self.clear_hits(request.into_inner().acl).await.map(Response::new)
    }

    async fn test_acl(&self, request: Request<v1::TestAclRequest>) -> Answer<v1::TestAclReply> {
        self.test_access_lists(request.into_inner()).map(Response::new)
    }

    async fn show_zones(&self, _: Request<v1::ShowZonesRequest>) -> Answer<v1::ShowZonesReply> {
        self.zones().await.map(Response::new)
    }

    async fn clear_zones(&self, _: Request<v1::ClearZonesRequest>) -> Answer<v1::ClearZonesReply> {
        self.clear_pairs().await.map(Response::new)
    }

    async fn show_nat(&self, _: Request<v1::ListNatRequest>) -> Answer<v1::ListNatReply> {
        self.nat().await.map(Response::new)
    }

    async fn show_flow_sync(
        &self,
        _: Request<v1::ListFlowSyncRequest>,
    ) -> Answer<v1::ListFlowSyncReply> {
        self.flow_sync().await
    }

    async fn show_ipfix(&self, _: Request<v1::ListIpfixRequest>) -> Answer<v1::ListIpfixReply> {
        self.ipfix().await
    }

    async fn show_sas(&self, _: Request<v1::ListSasRequest>) -> Answer<v1::ListSasReply> {
        self.associations().await
    }

    async fn show_crypto(&self, _: Request<v1::ListCryptoRequest>) -> Answer<v1::ListCryptoReply> {
        self.crypto_engines().await
    }

    async fn show_logins(&self, _: Request<v1::ShowLoginsRequest>) -> Answer<v1::ShowLoginsReply> {
        Ok(Response::new(self.logins()))
    }

    async fn clear_logins(
        &self,
        request: Request<v1::ClearLoginsRequest>,
    ) -> Answer<v1::ClearLoginsReply> {
        Ok(Response::new(Service::clear_logins(self, request.get_ref())))
    }

    async fn show_nat_mappings(
        &self,
        request: Request<v1::ShowNatMappingsRequest>,
    ) -> Answer<v1::ShowNatMappingsReply> {
        self.nat_mappings(request.into_inner()).await.map(Response::new)
    }

    async fn nat_whois(&self, request: Request<v1::NatWhoisRequest>) -> Answer<v1::NatWhoisReply> {
        self.whois(request.into_inner()).await.map(Response::new)
    }

    async fn show_flows(
        &self,
        request: Request<v1::ShowFlowsRequest>,
    ) -> Answer<v1::ShowFlowsReply> {
        self.flows(request.into_inner()).await.map(Response::new)
    }

    async fn clear_flows(
        &self,
        request: Request<v1::ClearFlowsRequest>,
    ) -> Answer<v1::ClearFlowsReply> {
        self.clear_some_flows(request.into_inner()).await.map(Response::new)
    }

    async fn summarize_flows(
        &self,
        request: Request<v1::SummarizeFlowsRequest>,
    ) -> Answer<v1::SummarizeFlowsReply> {
        self.flow_summary(request.into_inner()).await.map(Response::new)
    }

    async fn show_workers(
        &self,
        request: Request<v1::ListWorkersRequest>,
    ) -> Answer<v1::ListWorkersReply> {
        self.connection.client().list_workers(request.into_inner()).await.map_err(failed)
    }

    async fn show_conservation(
        &self,
        request: Request<v1::GetConservationRequest>,
    ) -> Answer<v1::Conservation> {
        self.connection.client().get_conservation(request.into_inner()).await.map_err(failed)
    }

    async fn show_limits(
        &self,
        request: Request<v1::ListLimitsRequest>,
    ) -> Answer<v1::ListLimitsReply> {
        self.connection.client().list_limits(request.into_inner()).await.map_err(failed)
    }

    async fn show_state(
        &self,
        request: Request<v1::ShowStateRequest>,
    ) -> Answer<v1::ShowStateReply> {
        self.state_data(request.into_inner()).await.map(Response::new)
    }

    async fn show_metrics(
        &self,
        _: Request<v1::ShowMetricsRequest>,
    ) -> Answer<v1::ShowMetricsReply> {
        let text = metrics::render(&self.connection).await;
        Ok(Response::new(v1::ShowMetricsReply { text }))
    }

    async fn show_messages(
        &self,
        request: Request<v1::ShowMessagesRequest>,
    ) -> Result<Response<v1::ShowMessagesReply>, Status> {
        Ok(Response::new(self.recent_messages(request.get_ref().limit as usize).await))
    }

    async fn start_trace(
        &self,
        request: Request<v1::StartTraceRequest>,
    ) -> Answer<v1::StartTraceReply> {
        let mut request = request.into_inner();
        request.filter =
            filter::of_interface(&self.connection, &request.interface, &request.expression).await?;
        self.connection.client().start_trace(request).await.map_err(failed)
    }

    async fn show_trace(&self, request: Request<v1::GetTraceRequest>) -> Answer<v1::GetTraceReply> {
        self.connection.client().get_trace(request.into_inner()).await.map_err(failed)
    }

    async fn clear_trace(
        &self,
        request: Request<v1::ClearTraceRequest>,
    ) -> Answer<v1::ClearTraceReply> {
        self.connection.client().clear_trace(request.into_inner()).await.map_err(failed)
    }

    async fn capture(&self, request: Request<v1::CaptureRequest>) -> Answer<Self::CaptureStream> {
        capture::open(&self.connection, request.into_inner()).await.map(Response::new)
    }

    async fn probe(&self, request: Request<v1::ProbeRequest>) -> Answer<Self::ProbeStream> {
        let mut request = request.into_inner();
        request.vrf = one_vrf(request.vrf)?;
        self.check_vrf(&request.vrf)?;
        self.probes.start(&self.connection, request).await.map(Response::new)
    }

    async fn edit(&self, it: Request<v1::EditRequest>) -> Answer<v1::EditReply> {
        self.edit_candidate(it).await.map(Response::new)
    }

    async fn commit(&self, request: Request<v1::CommitRequest>) -> Answer<v1::CommitReply> {
        Ok(Response::new(self.commit_candidate(request).await))
    }

    async fn confirm(&self, request: Request<v1::ConfirmRequest>) -> Answer<v1::CommitReply> {
        Ok(Response::new(self.confirm_commit(request).await))
    }

    async fn discard(&self, request: Request<v1::DiscardRequest>) -> Answer<v1::EditReply> {
        Ok(Response::new(self.discard_candidate(request).await))
    }

    async fn rollback(&self, request: Request<v1::RollbackRequest>) -> Answer<v1::EditReply> {
        Ok(Response::new(self.roll_back(request).await))
    }

    async fn show_configuration(
        &self,
        request: Request<v1::ShowConfigurationRequest>,
    ) -> Answer<v1::ShowConfigurationReply> {
        Ok(Response::new(self.configuration(request.get_ref())))
    }

    async fn compare(&self, request: Request<v1::CompareRequest>) -> Answer<v1::CompareReply> {
        Ok(Response::new(self.compare_stores(request.get_ref())))
    }

    async fn show_history(
        &self,
        _: Request<v1::ShowHistoryRequest>,
    ) -> Answer<v1::ShowHistoryReply> {
        Ok(Response::new(self.history()))
    }

    async fn lock(&self, request: Request<v1::LockRequest>) -> Answer<Self::LockStream> {
        Ok(Response::new(self.take_lock(&request)))
    }
}
