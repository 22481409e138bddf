//! A forwarder without packets: it records what it receives, answers from that, and refuses or terminates on
//! request of a test.

mod change;
pub mod learned;
mod served;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use stoa_api::audit::{self, Kind};
use stoa_api::v1::desired_audit_server::{DesiredAudit, DesiredAuditServer};
use stoa_api::v1::forwarder_server::{Forwarder, ForwarderServer};
use stoa_api::v1::{self, Desired};
use stoa_api::{CONTRACT, MESSAGE_LIMIT_BYTES, refusal};
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status};

use change::changed;
use served::Served;

/// Takes entries out of a desired state.
pub type Lost = fn(&mut Desired);

/// What all instances of a fake share: the record of a test.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Every desired state that took effect, in order.
    pub applied: Arc<Mutex<Vec<Desired>>>,
    /// How many of them came as a change.
    pub changes: Arc<Mutex<usize>>,
    /// If set, the next states are refused with these errors.
    pub refuse: Arc<Mutex<Vec<v1::ValidationError>>>,
    /// The last trace request.
    pub traced: Arc<Mutex<v1::StartTraceRequest>>,
    /// The learned routes.
    pub learned: learned::Shared,
    /// What the forwarder has lost of its state; `None`: it is of a version without audits of the desired state.
    pub lost: Arc<Mutex<Option<Lost>>>,
    /// The kinds of each repair. One that is refused repairs nothing.
    pub repairs: Arc<Mutex<Vec<Vec<String>>>>,
    /// Whether repairs are refused; then the whole state repairs what is lost, and otherwise it does not, as a
    /// forwarder compares it with what it has received before.
    pub refuses_repairs: Arc<Mutex<bool>>,
    /// Whether the whole state does not repair it either.
    pub stays_different: Arc<Mutex<bool>>,
    /// Whether the forwarder is of a version that takes workers and limits only with a whole state.
    pub is_old: Arc<Mutex<bool>>,
    /// A kind that it omits in audits, and whether it reports the version of the controller.
    pub omits: Arc<Mutex<(&'static str, bool)>>,
    instances: Arc<AtomicU64>,
}

/// A fake forwarder that serves a socket until it is dropped.
pub struct Fake {
    _served: Served,
    socket: PathBuf,
}

impl Fake {
    /// Starts a new instance on `socket`, without any state.
    pub fn start(socket: &Path, record: &Record) -> Fake {
        let life = Instance {
            boot_id: record.instances.fetch_add(1, Ordering::Relaxed) + 1,
            held: Arc::default(),
            generation: Arc::default(),
            record: record.clone(),
        };
        let audits = DesiredAuditServer::new(life.clone());
        let service = ForwarderServer::new(life).max_decoding_message_size(MESSAGE_LIMIT_BYTES);
        let services = tonic::transport::Server::builder().add_service(service).add_service(audits);
        Fake { _served: Served::start(socket, services), socket: socket.to_owned() }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[derive(Clone)]
struct Instance {
    boot_id: u64,
    held: Arc<Mutex<Desired>>,
    /// The number of the held state.
    generation: Arc<AtomicU64>,
    record: Record,
}

impl Instance {
    /// Takes a state into effect, unless the test wants it to be refused.
    fn take(&self, desired: Desired) -> Result<Response<v1::Applied>, Status> {
        let errors = self.record.refuse.lock().unwrap().clone();
        if !errors.is_empty() {
            return Err(refusal::refuse(Code::FailedPrecondition, errors));
        }
        let mut held = self.held.lock().unwrap();
        let changed = *held != desired;
        let stays_different = *self.record.stays_different.lock().unwrap();
        if *self.record.refuses_repairs.lock().unwrap() && !stays_different {
            // Repaired by the whole state.
            self.record.lost.lock().unwrap().as_mut().into_iter().for_each(|lost| *lost = |_| {});
        }
        *held = desired.clone();
        self.record.applied.lock().unwrap().push(desired);
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Response::new(v1::Applied { changed, generation, ..v1::Applied::default() }))
    }
}

type Answers<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn answers<T: Send + 'static>(list: Vec<T>) -> Response<Answers<T>> {
    Response::new(Box::pin(tokio_stream::iter(list.into_iter().map(Ok))))
}

#[tonic::async_trait]
impl Forwarder for Instance {
    type ListRoutesStream = Answers<v1::RouteState>;
    type ListNeighborsStream = Answers<v1::NeighborState>;
    type ListPuntsStream = Answers<v1::ListPuntsReply>;
    type ListAclRulesStream = Answers<v1::AclRuleState>;
    type CaptureStream = Answers<v1::CaptureReply>;

    async fn hello(
        &self,
        _: Request<v1::HelloRequest>,
    ) -> Result<Response<v1::HelloReply>, Status> {
        let is_same = self.record.omits.lock().unwrap().1;
        Ok(Response::new(v1::HelloReply {
            contract: CONTRACT,
            version: if is_same { env!("CARGO_PKG_VERSION") } else { "fake" }.into(),
            boot_id: self.boot_id,
            drivers: vec!["null".into()],
            kernel: "scalar".into(),
            memory: "none".into(),
            tsc_hz: 1_000_000_000,
            pid: u64::from(std::process::id()),
            started_unix_s: 1_700_000_000,
            needs_restart: false,
            changes_workers: !*self.record.is_old.lock().unwrap(),
            generation: self.generation.load(Ordering::Relaxed),
        }))
    }

    async fn apply(&self, request: Request<Desired>) -> Result<Response<v1::Applied>, Status> {
        self.take(request.into_inner())
    }

    async fn change(
        &self,
        request: Request<v1::DesiredChange>,
    ) -> Result<Response<v1::Applied>, Status> {
        let change = request.into_inner();
        if change.generation != self.generation.load(Ordering::Relaxed) {
            return Err(Status::failed_precondition("the change starts from another state"));
        }
        *self.record.changes.lock().unwrap() += 1;
        let held = self.held.lock().unwrap().clone();
        self.take(changed(held, change))
    }

    type LearnRoutesStream =
        tokio_stream::wrappers::ReceiverStream<Result<v1::LearnedRoutesReply, Status>>;

    async fn learn_routes(
        &self,
        request: Request<tonic::Streaming<v1::LearnedRoutes>>,
    ) -> Result<Response<Self::LearnRoutesStream>, Status> {
        Ok(Response::new(learned::serve(self.record.learned.clone(), request.into_inner())))
    }

    async fn audit_routes(
        &self,
        request: Request<v1::AuditRoutesRequest>,
    ) -> Result<Response<v1::AuditRoutesReply>, Status> {
        Ok(Response::new(self.record.learned.lock().unwrap().audit(request.get_ref())))
    }

    async fn list_interfaces(
        &self,
        request: Request<v1::ListInterfacesRequest>,
    ) -> Result<Response<v1::ListInterfacesReply>, Status> {
        let names = request.into_inner().names;
        let held = self.held.lock().unwrap();
        let state = |interface: &v1::Interface| v1::InterfaceState {
            name: interface.name.clone(),
            up: true,
            mtu: 1500,
            ..v1::InterfaceState::default()
        };
        let is_asked = |it: &&v1::Interface| names.is_empty() || names.contains(&it.name);
        let interfaces = held.interfaces.iter().filter(is_asked).map(state).collect();
        Ok(Response::new(v1::ListInterfacesReply { interfaces }))
    }

    async fn list_routes(
        &self,
        request: Request<v1::ListRoutesRequest>,
    ) -> Result<Response<Self::ListRoutesStream>, Status> {
        if request.get_ref().inactive {
            return Ok(answers(Vec::new()));
        }
        let held = self.held.lock().unwrap();
        let state = |route: &v1::Route| v1::RouteState {
            route: Some(route.clone()),
            state: "active".into(),
            ..v1::RouteState::default()
        };
        Ok(answers(held.routes.iter().map(state).collect()))
    }

    async fn count_routes(
        &self,
        _: Request<v1::CountRoutesRequest>,
    ) -> Result<Response<v1::CountRoutesReply>, Status> {
        let held = self.held.lock().unwrap();
        let mut counts: Vec<v1::RouteCount> = Vec::new();
        for route in &held.routes {
            let family = if route.prefix.as_ref().unwrap().address.len() == 4 { 4 } else { 6 };
            let is_kind = |it: &&mut v1::RouteCount| {
                it.vrf == route.vrf && it.family == family && it.protocol == route.protocol
            };
            match counts.iter_mut().find(is_kind) {
                Some(count) => count.routes += 1,
                None => counts.push(v1::RouteCount {
                    vrf: route.vrf.clone(),
                    family,
                    protocol: route.protocol,
                    routes: 1,
                }),
            }
        }
        counts.extend(self.record.learned.lock().unwrap().count());
        Ok(Response::new(v1::CountRoutesReply { counts }))
    }

    async fn list_neighbors(
        &self,
        _: Request<v1::ListNeighborsRequest>,
    ) -> Result<Response<Self::ListNeighborsStream>, Status> {
        let held = self.held.lock().unwrap();
        let state = |neighbor: &v1::Neighbor| v1::NeighborState {
            interface: neighbor.interface.clone(),
            address: neighbor.address.clone(),
            mac: neighbor.mac.clone(),
            state: "permanent".into(),
            ..v1::NeighborState::default()
        };
        Ok(answers(held.neighbors.iter().map(state).collect()))
    }

    async fn list_nodes(
        &self,
        _: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesReply>, Status> {
        let it = v1::NodeState { name: "ip4-lookup".into(), calls: 1, ..v1::NodeState::default() };
        Ok(Response::new(v1::ListNodesReply { nodes: vec![it], tsc_hz: 1_000_000_000 }))
    }

    async fn list_drops(
        &self,
        _: Request<v1::ListDropsRequest>,
    ) -> Result<Response<v1::ListDropsReply>, Status> {
        let drop = v1::DropState { reason: "no-route".into(), ..v1::DropState::default() };
        Ok(Response::new(v1::ListDropsReply { drops: vec![drop] }))
    }

    async fn list_rules(
        &self,
        _: Request<v1::ListRulesRequest>,
    ) -> Result<Response<v1::ListRulesReply>, Status> {
        let rule = Some(v1::Rule { family: 4, priority: 100, ..v1::Rule::default() });
        let state = v1::RuleState { rule, packets: 7, bytes: 700 };
        Ok(Response::new(v1::ListRulesReply { rules: vec![state] }))
    }

    async fn list_zone_pairs(
        &self,
        _: Request<v1::ListZonePairsRequest>,
    ) -> Result<Response<v1::ListZonePairsReply>, Status> {
        Ok(Response::new(v1::ListZonePairsReply::default()))
    }

    async fn list_acl_rules(
        &self,
        request: Request<v1::ListAclRulesRequest>,
    ) -> Result<Response<Self::ListAclRulesStream>, Status> {
        let (held, only) = (self.held.lock().unwrap(), request.into_inner().acl);
        let asked = held.acl_rules.iter().filter(|it| only.is_empty() || it.acl == only);
        let state = |(at, rule): (usize, &v1::AclRule)| v1::AclRuleState {
            rule: Some(rule.clone()),
            packets: 7,
            bytes: 700,
            last_hit_unix_s: 951_782_400,
            position: at as u32 + 1,
            row: None,
        };
        Ok(answers(asked.enumerate().map(state).collect()))
    }

    async fn list_punts(
        &self,
        _: Request<v1::ListPuntsRequest>,
    ) -> Result<Response<Self::ListPuntsStream>, Status> {
        let punt = v1::PuntState { class: "arp".into(), ..v1::PuntState::default() };
        Ok(answers(vec![v1::ListPuntsReply { punts: vec![punt], ..Default::default() }]))
    }

    async fn list_workers(
        &self,
        _: Request<v1::ListWorkersRequest>,
    ) -> Result<Response<v1::ListWorkersReply>, Status> {
        let worker = v1::WorkerState { cpu: -1, ..v1::WorkerState::default() };
        Ok(Response::new(v1::ListWorkersReply { workers: vec![worker] }))
    }

    async fn get_conservation(
        &self,
        _: Request<v1::GetConservationRequest>,
    ) -> Result<Response<v1::Conservation>, Status> {
        Ok(Response::new(v1::Conservation { balanced: true, ..v1::Conservation::default() }))
    }

    async fn list_limits(
        &self,
        _: Request<v1::ListLimitsRequest>,
    ) -> Result<Response<v1::ListLimitsReply>, Status> {
        Ok(Response::new(v1::ListLimitsReply::default()))
    }

    async fn start_trace(
        &self,
        request: Request<v1::StartTraceRequest>,
    ) -> Result<Response<v1::StartTraceReply>, Status> {
        *self.record.traced.lock().unwrap() = request.into_inner();
        Ok(Response::new(v1::StartTraceReply { count: 10 }))
    }

    async fn get_trace(
        &self,
        _: Request<v1::GetTraceRequest>,
    ) -> Result<Response<v1::GetTraceReply>, Status> {
        Ok(Response::new(v1::GetTraceReply { count: 10, ..v1::GetTraceReply::default() }))
    }

    async fn clear_trace(
        &self,
        _: Request<v1::ClearTraceRequest>,
    ) -> Result<Response<v1::ClearTraceReply>, Status> {
        Ok(Response::new(v1::ClearTraceReply {}))
    }

    async fn capture(
        &self,
        _: Request<v1::CaptureRequest>,
    ) -> Result<Response<Self::CaptureStream>, Status> {
        Ok(answers(vec![v1::CaptureReply { missed: 3, ..v1::CaptureReply::default() }]))
    }
}

#[tonic::async_trait]
impl DesiredAudit for Instance {
    async fn audit_desired(
        &self,
        request: Request<v1::AuditDesiredRequest>,
    ) -> Result<Response<v1::AuditDesiredReply>, Status> {
        let Some(lose) = *self.record.lost.lock().unwrap() else {
            return Err(Status::unimplemented("no audits"));
        };
        let mut held = self.held.lock().unwrap().clone();
        lose(&mut held);
        let listed = request.get_ref().listed.iter().filter_map(|name| Kind::named(name));
        let (listed, apart) = (listed.collect::<Vec<_>>(), (&held.interfaces, &held.routes));
        let tally = audit::desired(&held, apart, &Desired::default(), &listed);
        let omits = self.record.omits.lock().unwrap().0;
        let kinds = tally.into_messages().into_iter().filter(|kind| kind.name != omits).collect();
        Ok(Response::new(v1::AuditDesiredReply {
            generation: self.generation.load(Ordering::Relaxed),
            kinds,
            ..v1::AuditDesiredReply::default()
        }))
    }

    async fn repair_desired(
        &self,
        request: Request<v1::RepairDesiredRequest>,
    ) -> Result<Response<v1::Applied>, Status> {
        let v1::RepairDesiredRequest { generation, kinds } = request.into_inner();
        assert_eq!(generation, self.generation.load(Ordering::Relaxed));
        self.record.repairs.lock().unwrap().push(kinds);
        if *self.record.refuses_repairs.lock().unwrap() {
            return Err(Status::internal("broken"));
        }
        *self.record.lost.lock().unwrap() = Some(|_| {});
        Ok(Response::new(v1::Applied { generation, ..v1::Applied::default() }))
    }
}
