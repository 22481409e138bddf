//! Operational state of the forwarder: queried once, rendered as YANG data or as metrics.

use std::future::Future;
use std::sync::Arc;

use stoa_api::v1;
use stoa_api::v1::forwarder_client::ForwarderClient;
use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::apply::ForwarderConnection;
use crate::capability::NatFacts;
use crate::flow_counts;
use crate::kernel_configuration::KernelConfiguration;
use crate::learned::RouteSourceSummary;
use crate::login::Listed;
use crate::merged_routes::MergedRoutes;
use crate::rib;
use crate::route_sources::RouteSourceStatistics;

/// A section of the operational state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateSection {
    /// Interfaces with their counters.
    Interfaces,
    /// Neighbours, all of them.
    Neighbors,
    /// Numbers of routes.
    RouteCounts,
    /// The routes themselves, up to a limit.
    Routes,
    /// Route sources of routing daemons.
    RouteSources,
    /// Policy rules.
    Rules,
    /// Rules of access lists.
    Acls,
    /// Address translation: policies, static mappings and external addresses.
    Nat,
    /// Export by IPFIX.
    Ipfix,
    /// Security associations.
    Ipsec,
    /// Flows at a partner.
    FlowSync,
    /// Hosts that have logged in.
    Logins,
    /// How many flows there are of each state: all of them are counted.
    Flows,
    /// Version, process, and whether the forwarder is in sync.
    Program,
    /// Workers.
    Workers,
    /// Nodes of the graph.
    Nodes,
    /// Drops by reason.
    Drops,
    /// Control-plane policers.
    Punts,
    /// All limits with their use.
    Limits,
    /// The accounting of all packets.
    Conservation,
}

impl StateSection {
    /// All sections except routes, neighbours and flows, of which there may be very many.
    pub const OVERVIEW: [StateSection; 17] = [
        StateSection::Interfaces,
        StateSection::RouteCounts,
        StateSection::RouteSources,
        StateSection::Rules,
        StateSection::Acls,
        StateSection::Nat,
        StateSection::Ipfix,
        StateSection::Ipsec,
        StateSection::FlowSync,
        StateSection::Logins,
        StateSection::Program,
        StateSection::Workers,
        StateSection::Nodes,
        StateSection::Drops,
        StateSection::Punts,
        StateSection::Limits,
        StateSection::Conservation,
    ];
}

/// One routing table: a family of a VRF.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Table {
    /// "" is the default VRF.
    pub vrf: String,
    /// 4 or 6.
    pub family: u32,
}

/// Routes of one table.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// Whose they are.
    pub table: Table,
    /// The first routes, by prefix.
    pub listed: Vec<v1::RouteState>,
    /// Whether there are more.
    pub has_more: bool,
    /// Number of routes that are not in the forwarder because no next hop is resolved.
    pub inactive: u64,
}

/// The requested sections; all others are empty.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // each is a `StateSection`
pub struct OperationalState {
    pub interfaces: Vec<v1::InterfaceState>,
    pub neighbors: Vec<v1::NeighborState>,
    pub route_counts: Vec<v1::RouteCount>,
    pub routes: Vec<Routes>,
    pub route_sources: Vec<(&'static str, String, RouteSourceStatistics)>,
    pub rules: Vec<v1::RuleState>,
    pub acls: Vec<v1::AclRuleState>,
    pub flow_states: Vec<v1::FlowCount>,
    pub zone_pairs: v1::ListZonePairsReply,
    /// With the time when its counters began.
    pub nat: Option<(v1::ListNatReply, u64)>,
    pub ipfix: Option<v1::ListIpfixReply>,
    pub ipsec: Option<v1::ListSasReply>,
    pub flow_sync: Option<v1::ListFlowSyncReply>,
    pub logins: Listed,
    pub learned_routes: Vec<RouteSourceSummary>,
    pub kernel_configuration: Arc<KernelConfiguration>,
    pub program: Option<v1::HelloReply>,
    pub in_sync: bool,
    pub flow_hash_seed: u32,
    pub workers: Vec<v1::WorkerState>,
    pub nodes: Vec<v1::NodeState>,
    pub drops: Vec<v1::DropState>,
    pub punts: Vec<v1::PuntState>,
    pub limits: Vec<v1::LimitState>,
    pub flows: Vec<v1::FlowCounts>,
    pub algs: Option<v1::AlgState>,
    pub conservation: v1::Conservation,
}

/// Selects routes.
#[derive(Clone, Debug)]
pub struct RouteFilter {
    /// Only those of this table; `None`: of all tables.
    pub table: Option<Table>,
    /// Maximum routes of each table.
    pub at_most: usize,
}

impl OperationalState {
    /// Queries `pieces` concurrently.
    ///
    /// # Errors
    /// The first failure of the forwarder.
    pub async fn ask(
        connection: &ForwarderConnection,
        pieces: &[StateSection],
        routes: &RouteFilter,
    ) -> Result<OperationalState, Status> {
        let client = || connection.client();
        let is = |piece| pieces.contains(&piece);
        let (interfaces, route_counts, workers, nodes, drops, punts, limits, conservation) = tokio::try_join!(
            when(is(StateSection::Interfaces), async {
                client().list_interfaces(v1::ListInterfacesRequest::default()).await
            }),
            when(is(StateSection::RouteCounts) || is(StateSection::Routes), async {
                client().count_routes(v1::CountRoutesRequest {}).await
            }),
            when(is(StateSection::Workers), async {
                client().list_workers(v1::ListWorkersRequest {}).await
            }),
            when(is(StateSection::Nodes), async {
                client().list_nodes(v1::ListNodesRequest {}).await
            }),
            when(is(StateSection::Drops), async {
                client().list_drops(v1::ListDropsRequest {}).await
            }),
            when(is(StateSection::Punts), async { all_punts(client()).await.map(Response::new) }),
            when(is(StateSection::Limits) || is(StateSection::Flows), async {
                client().list_limits(v1::ListLimitsRequest {}).await
            }),
            when(is(StateSection::Conservation), async {
                client().get_conservation(v1::GetConservationRequest {}).await
            }),
        )?;
        let mut operational = OperationalState {
            interfaces: interfaces.interfaces,
            route_counts: route_counts.counts,
            kernel_configuration: if is(StateSection::Interfaces) {
                connection.kernel_configuration()
            } else {
                Arc::default()
            },
            route_sources: if is(StateSection::RouteSources) {
                connection.route_sources().all()
            } else {
                Vec::new()
            },
            program: connection.identity().filter(|_| is(StateSection::Program)),
            in_sync: connection.in_sync(),
            flow_hash_seed: connection.flow_hash_seed(),
            workers: workers.workers,
            nodes: nodes.nodes,
            drops: drops.drops,
            punts: punts.into_rows(),
            limits: limits.limits,
            flows: limits.flows,
            algs: limits.algs,
            conservation,
            ..OperationalState::default()
        };
        if is(StateSection::Rules) {
            let rules = client().list_rules(v1::ListRulesRequest {}).await?;
            operational.rules = rules.into_inner().rules;
        }
        if is(StateSection::Acls) {
            let request = v1::ListAclRulesRequest::default();
            let mut listed = client().list_acl_rules(request).await?.into_inner();
            while let Some(rule) = listed.message().await? {
                operational.acls.push(rule);
            }
            let pairs = client().list_zone_pairs(v1::ListZonePairsRequest {}).await?;
            operational.zone_pairs = pairs.into_inner();
        }
        // Most routers translate nothing, which needs no call.
        if is(StateSection::Nat) && connection.translates() {
            let listed = connection.nat_client().list_nat(v1::ListNatRequest {}).await?;
            let since = connection.identity().map_or(0, |it| it.started_unix_s);
            operational.nat = Some((listed.into_inner(), since));
        }
        if is(StateSection::FlowSync) && connection.has_partner() {
            operational.flow_sync = Some(connection.list_flow_sync().await?);
        }
        if is(StateSection::Ipfix) && connection.exports() {
            let listed = connection.ipfix_client().list_ipfix(v1::ListIpfixRequest {}).await?;
            operational.ipfix = Some(listed.into_inner());
        }
        if is(StateSection::Ipsec) {
            operational.ipsec = connection.list_associations().await?;
        }
        if is(StateSection::Logins) {
            operational.logins = connection.logins().list();
        }
        if is(StateSection::Flows) {
            let all = v1::FlowFilter::default();
            operational.flow_states = flow_counts::read(connection, all).await?;
        }
        if is(StateSection::RouteSources) && !operational.route_sources.is_empty() {
            let learned = connection.learned().await;
            operational.learned_routes = learned.map(|it| it.route_sources).unwrap_or_default();
        }
        if is(StateSection::Neighbors) {
            let mut listed =
                client().list_neighbors(v1::ListNeighborsRequest {}).await?.into_inner();
            while let Some(neighbor) = listed.message().await? {
                operational.neighbors.push(neighbor);
            }
        }
        if is(StateSection::Routes) {
            for table in operational
                .tables()
                .filter(|it| routes.table.as_ref().is_none_or(|only| only == it))
            {
                let request = v1::ListRoutesRequest {
                    family: table.family,
                    vrf: table.vrf,
                    ..v1::ListRoutesRequest::default()
                };
                operational.routes.push(first_routes(connection, request, routes.at_most).await?);
            }
        }
        Ok(operational)
    }

    /// What is known of address translation.
    pub fn nat_facts(&self) -> Option<NatFacts<'_>> {
        let (listed, since_unix_s) = self.nat.as_ref()?;
        Some(NatFacts { listed, since_unix_s: *since_unix_s })
    }

    /// The routing tables.
    pub fn tables(&self) -> impl Iterator<Item = Table> + use<> {
        let table = |count: &v1::RouteCount| Table { vrf: count.vrf.clone(), family: count.family };
        let tables: std::collections::BTreeSet<Table> =
            self.route_counts.iter().map(table).collect();
        tables.into_iter()
    }
}

/// Calls only if requested.
async fn when<T: Default>(
    is_desired: bool,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    if is_desired { call.await.map(Response::into_inner) } else { Ok(T::default()) }
}

/// The pages of the control-plane policers, added up.
async fn all_punts(
    mut client: ForwarderClient<Channel>,
) -> Result<stoa_api::punts::Listing, Status> {
    let mut pages = client.list_punts(v1::ListPuntsRequest {}).await?.into_inner();
    let mut all = stoa_api::punts::Listing::default();
    while let Some(page) = pages.message().await? {
        all.add(page);
    }
    Ok(all)
}

/// The first routes of one table; the rest is not transferred.
pub(crate) async fn first_routes(
    connection: &ForwarderConnection,
    request: v1::ListRoutesRequest,
    at_most: usize,
) -> Result<Routes, Status> {
    let table = Table { vrf: request.vrf.clone(), family: request.family };
    let annotations = connection.route_annotations();
    let inactive = rib::inactive(&annotations, &request);
    let idle = inactive.len() as u64;
    let held = connection.client().list_routes(request).await?.into_inner();
    let mut routes = MergedRoutes::new(held, annotations, inactive);
    let (mut listed, mut has_more) = (Vec::new(), false);
    while let Some(route) = routes.next().await {
        if listed.len() == at_most {
            has_more = true;
            break;
        }
        listed.push(route?);
    }
    connection.name_route_sources(&mut listed).await;
    Ok(Routes { table, listed, has_more, inactive: idle })
}
