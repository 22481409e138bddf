//! The contract as a gRPC service on a Unix socket.

use std::hash::{BuildHasher, RandomState};
use std::os::unix::net::UnixListener;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_api::v1::desired_audit_server::DesiredAuditServer;
use stoa_api::v1::flow_synchronizer_server::FlowSynchronizerServer;
use stoa_api::v1::flow_table_server::FlowTableServer;
use stoa_api::v1::forwarder_server::{Forwarder as Contract, ForwarderServer};
use stoa_api::v1::ipfix_exporter_server::IpfixExporterServer;
use stoa_api::v1::ipsec_table_server::IpsecTableServer;
use stoa_api::v1::log_server::LogServer;
use stoa_api::v1::login_table_server::LoginTableServer;
use stoa_api::v1::nat_table_server::NatTableServer;
use stoa_api::v1::punt_stream_server::PuntStreamServer;
use stoa_api::v1::row_tables_server::RowTablesServer;
use stoa_api::{CONTRACT, MESSAGE_LIMIT_BYTES, refusal};
use stoa_engine::clock;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Code, Response, Status, transport::Server};

use super::callers::Callers;
use super::control_loop::Requests;
use super::desired::{DesiredChange, DesiredState};
use super::ipsec::check_forwarder;
use super::listing::memory;
use super::log_service::LogService;
use super::paging::{PAGE, PUNTS_PAGES};
use super::refusals::{refused, status_of};
use super::trace_capture::forward_capture;
use super::{Error, Forwarder, ForwarderState, RouteListing};
use crate::kernel::Kernel;

/// Longest time of a request on the control thread.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Capture messages that may wait for the client.
const CAPTURE_MESSAGES: usize = 16;

type Answer<T> = Result<Response<T>, Status>;

/// Serves the contract until SIGTERM or SIGINT.
pub(super) async fn serve(listener: UnixListener, requests: Requests) -> Result<(), Error> {
    started_unix_s();
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let end = async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    };
    let service = Service { requests, callers: Callers::default() };
    let forwarder = ForwarderServer::new(service.clone());
    // Does nothing unless systemd started this process.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let incoming = UnixListenerStream::new(listener);
    let server = Server::builder()
        .add_service(forwarder.max_decoding_message_size(MESSAGE_LIMIT_BYTES))
        .add_service(RowTablesServer::new(service.clone()))
        .add_service(PuntStreamServer::new(service.clone()))
        .add_service(DesiredAuditServer::new(service.clone()))
        .add_service(FlowTableServer::new(service.clone()))
        .add_service(NatTableServer::new(service.clone()))
        .add_service(LoginTableServer::new(service.clone()))
        .add_service(IpfixExporterServer::new(service.clone()))
        .add_service(IpsecTableServer::new(service.clone()))
        .add_service(FlowSynchronizerServer::new(service))
        .add_service(LogServer::new(LogService));
    // An open stream of a client must not keep the forwarder from ending.
    tokio::select! {
        served = server.serve_with_incoming(incoming) => served?,
        () = end => {}
    }
    Ok(())
}

#[derive(Clone)]
pub(super) struct Service {
    pub(super) requests: Requests,
    pub(super) callers: Callers,
}

impl Service {
    /// Runs a function on the control thread and returns its result.
    pub(super) async fn on_control<T: Send + 'static>(
        &self,
        action: impl FnOnce(&mut Forwarder) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let (reply_tx, reply_rx) = oneshot::channel();
        let request = Box::new(move |forwarder: &mut Forwarder| {
            // The client may be gone.
            let _ = reply_tx.send(action(forwarder));
        });
        if !self.requests.submit(request) {
            return Err(full());
        }
        await_answer(reply_rx).await
    }

    /// Runs a function on the running state.
    async fn on_running<T: Send + 'static>(
        &self,
        action: impl FnOnce(&mut ForwarderState) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        self.on_control(|forwarder| match forwarder.state() {
            Some(state) => action(state),
            None => Err(Status::unavailable("no configuration is applied: apply one first")),
        })
        .await
    }

    /// Reads operational state; the default before the first configuration.
    pub(super) async fn read<T: Default + Send + 'static>(
        &self,
        read: impl FnOnce(&ForwarderState) -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.on_control(|forwarder| {
            Ok(forwarder.state().map(|state| read(state)).unwrap_or_default())
        })
        .await
    }
}

/// The reply of the control thread to a request.
pub(super) async fn await_answer<T>(
    reply_rx: oneshot::Receiver<Result<T, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(TIMEOUT, reply_rx).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Status::unavailable("the forwarder ends")),
        Err(_) => Err(Status::deadline_exceeded("the forwarder is busy: try again")),
    }
}

pub(super) fn full() -> Status {
    Status::resource_exhausted("the request queue is full: try again")
}

/// Differs between forwarders: random, for a clock may go back. Never 0.
pub(super) fn boot_id() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| RandomState::new().hash_one(("boot", std::process::id())).max(1))
}

/// Start time of the forwarder, in seconds since 1970.
fn started_unix_s() -> u64 {
    static STARTED: OnceLock<u64> = OnceLock::new();
    *STARTED.get_or_init(super::listing::unix_s)
}

#[tonic::async_trait]
impl Contract for Service {
    async fn hello(&self, _: tonic::Request<v1::HelloRequest>) -> Answer<v1::HelloReply> {
        let (kernel, generation, memory) = self
            .on_control(|forwarder| {
                let kernel = forwarder.desired().map_or(Kernel::detect(), |w| w.workers.kernel);
                let generation = forwarder.generation();
                Ok((
                    kernel,
                    generation,
                    forwarder.state().map(|state| memory(state)).unwrap_or_default(),
                ))
            })
            .await?;
        Ok(Response::new(v1::HelloReply {
            contract: CONTRACT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: boot_id(),
            drivers: stoa_ports::drivers().map(str::to_owned).collect(),
            kernel: kernel.name().to_owned(),
            memory,
            tsc_hz: clock::tsc_hz(),
            pid: std::process::id().into(),
            started_unix_s: started_unix_s(),
            generation,
            needs_restart: stoa_api::program::is_replaced(),
            changes_workers: true,
        }))
    }

    async fn apply(&self, request: tonic::Request<v1::Desired>) -> Answer<v1::Applied> {
        check_forwarder(request.get_ref().ipsec.as_ref())?;
        let desired = DesiredState::parse(request.get_ref());
        let desired = desired.map_err(|errors| refusal::refuse(Code::InvalidArgument, errors))?;
        let applied = self.on_control(move |forwarder| {
            let applied = forwarder.apply(desired).map_err(refused)?;
            Ok(v1::Applied { generation: forwarder.generation(), ..applied })
        });
        Ok(Response::new(applied.await?))
    }

    async fn change(&self, request: tonic::Request<v1::DesiredChange>) -> Answer<v1::Applied> {
        let begun = Instant::now();
        check_forwarder(request.get_ref().ipsec.as_ref())?;
        let invalid = |errors| refusal::refuse(Code::InvalidArgument, errors);
        let change = DesiredChange::parse(request.get_ref()).map_err(invalid)?;
        let generation = request.get_ref().generation;
        let applied = self.on_control(move |forwarder| {
            let applied = forwarder.change(generation, change);
            let applied = applied.map_err(|error| status_of(generation, error))?;
            let took_us = begun.elapsed().as_micros() as u64;
            tracing::debug!(took_us, "a change is in force");
            Ok(v1::Applied { generation: forwarder.generation(), ..applied })
        });
        Ok(Response::new(applied.await?))
    }

    type LearnRoutesStream = ReceiverStream<Result<v1::LearnedRoutesReply, Status>>;

    async fn learn_routes(
        &self,
        request: tonic::Request<tonic::Streaming<v1::LearnedRoutes>>,
    ) -> Answer<Self::LearnRoutesStream> {
        Ok(Response::new(ReceiverStream::new(self.learn_from(request.into_inner()))))
    }

    async fn audit_routes(
        &self,
        request: tonic::Request<v1::AuditRoutesRequest>,
    ) -> Answer<v1::AuditRoutesReply> {
        Ok(Response::new(self.audit(request.into_inner()).await?))
    }

    async fn list_interfaces(
        &self,
        request: tonic::Request<v1::ListInterfacesRequest>,
    ) -> Answer<v1::ListInterfacesReply> {
        let interfaces = self.interfaces(request.into_inner().names).await?;
        Ok(Response::new(v1::ListInterfacesReply { interfaces }))
    }

    async fn count_routes(
        &self,
        _: tonic::Request<v1::CountRoutesRequest>,
    ) -> Answer<v1::CountRoutesReply> {
        let counts = self.read(ForwarderState::count_routes).await?;
        Ok(Response::new(v1::CountRoutesReply { counts }))
    }

    type ListRoutesStream = ReceiverStream<Result<v1::RouteState, Status>>;

    async fn list_routes(
        &self,
        request: tonic::Request<v1::ListRoutesRequest>,
    ) -> Answer<Self::ListRoutesStream> {
        let (sender, receiver) = tokio::sync::mpsc::channel(PAGE);
        let (service, listing) = (self.clone(), RouteListing::new(request.into_inner()));
        tokio::spawn(async move { service.list_routes_to(listing, &sender).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type ListNeighborsStream = ReceiverStream<Result<v1::NeighborState, Status>>;

    async fn list_neighbors(
        &self,
        _: tonic::Request<v1::ListNeighborsRequest>,
    ) -> Answer<Self::ListNeighborsStream> {
        let (sender, receiver) = tokio::sync::mpsc::channel(PAGE);
        let service = self.clone();
        tokio::spawn(async move { service.list_neighbors_to(&sender).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn list_nodes(
        &self,
        _: tonic::Request<v1::ListNodesRequest>,
    ) -> Answer<v1::ListNodesReply> {
        let nodes = self.read(ForwarderState::list_nodes).await?;
        Ok(Response::new(v1::ListNodesReply { nodes, tsc_hz: clock::tsc_hz() }))
    }

    async fn list_drops(
        &self,
        _: tonic::Request<v1::ListDropsRequest>,
    ) -> Answer<v1::ListDropsReply> {
        let drops = self.read(ForwarderState::list_drops).await?;
        Ok(Response::new(v1::ListDropsReply { drops }))
    }

    type ListPuntsStream = ReceiverStream<Result<v1::ListPuntsReply, Status>>;

    async fn list_punts(
        &self,
        _: tonic::Request<v1::ListPuntsRequest>,
    ) -> Answer<Self::ListPuntsStream> {
        let (sender, receiver) = tokio::sync::mpsc::channel(PUNTS_PAGES);
        let service = self.clone();
        tokio::spawn(async move { service.list_punts_to(&sender).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn list_rules(
        &self,
        _: tonic::Request<v1::ListRulesRequest>,
    ) -> Answer<v1::ListRulesReply> {
        let rules = self.read(ForwarderState::list_rules).await?;
        Ok(Response::new(v1::ListRulesReply { rules }))
    }

    async fn list_zone_pairs(
        &self,
        _: tonic::Request<v1::ListZonePairsRequest>,
    ) -> Answer<v1::ListZonePairsReply> {
        self.read(ForwarderState::list_zone_pairs).await.map(Response::new)
    }

    type ListAclRulesStream = ReceiverStream<Result<v1::AclRuleState, Status>>;

    async fn list_acl_rules(
        &self,
        request: tonic::Request<v1::ListAclRulesRequest>,
    ) -> Answer<Self::ListAclRulesStream> {
        let (sender, receiver) = tokio::sync::mpsc::channel(PAGE);
        let (service, only) = (self.clone(), request.into_inner().acl);
        tokio::spawn(async move { service.list_acl_rules_to(only, &sender).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn list_workers(
        &self,
        _: tonic::Request<v1::ListWorkersRequest>,
    ) -> Answer<v1::ListWorkersReply> {
        let workers = self.read(ForwarderState::list_workers).await?;
        Ok(Response::new(v1::ListWorkersReply { workers }))
    }

    async fn get_conservation(
        &self,
        _: tonic::Request<v1::GetConservationRequest>,
    ) -> Answer<v1::Conservation> {
        Ok(Response::new(self.read(ForwarderState::conservation).await?))
    }

    async fn list_limits(
        &self,
        _: tonic::Request<v1::ListLimitsRequest>,
    ) -> Answer<v1::ListLimitsReply> {
        let read =
            |state: &ForwarderState| (state.list_limits(), state.flow_counts(), state.alg_state());
        let (mut limits, flows, algs) = self.read(read).await?;
        limits.push(self.requests.limit());
        Ok(Response::new(v1::ListLimitsReply { limits, flows, algs: Some(algs) }))
    }

    async fn start_trace(
        &self,
        request: tonic::Request<v1::StartTraceRequest>,
    ) -> Answer<v1::StartTraceReply> {
        let request = request.into_inner();
        let count = self.on_running(move |state| state.start_trace(&request)).await?;
        Ok(Response::new(v1::StartTraceReply { count }))
    }

    async fn get_trace(
        &self,
        request: tonic::Request<v1::GetTraceRequest>,
    ) -> Answer<v1::GetTraceReply> {
        let max = request.into_inner().max;
        Ok(Response::new(self.on_running(move |state| Ok(state.trace(max))).await?))
    }

    async fn clear_trace(
        &self,
        _: tonic::Request<v1::ClearTraceRequest>,
    ) -> Answer<v1::ClearTraceReply> {
        self.on_running(|state| {
            state.clear_trace();
            Ok(())
        })
        .await?;
        Ok(Response::new(v1::ClearTraceReply {}))
    }

    type CaptureStream = ReceiverStream<Result<v1::CaptureReply, Status>>;

    async fn capture(
        &self,
        request: tonic::Request<v1::CaptureRequest>,
    ) -> Answer<Self::CaptureStream> {
        let request = request.into_inner();
        let reader = self.on_running(move |state| state.start_capture(&request)).await?;
        let (sender, receiver) = tokio::sync::mpsc::channel(CAPTURE_MESSAGES);
        let thread = std::thread::Builder::new().name("capture".to_owned());
        let thread = thread.spawn(move || forward_capture(reader, &sender));
        thread.map_err(|error| {
            Status::resource_exhausted(format!("cannot start a capture thread: {error}"))
        })?;
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
