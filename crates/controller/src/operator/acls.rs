//! Access lists: their rules with counters, where they are attached, and which rule decides about a packet.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use stoa_api::text::ip;
use stoa_api::v1;
use stoa_yang::error::ValidationError;
use tonic::Status;

use super::{Service, failed};
use crate::acl::{Packet, evaluate};
use crate::configuration::Configuration;
use crate::datastore::Store;

/// The attachments of an interface.
fn attachments(interface: &v1::Interface) -> impl Iterator<Item = v1::AclAttachment> {
    let sets = interface.acls.clone().unwrap_or_default();
    let all =
        [("in", 4, sets.in4), ("in", 6, sets.in6), ("out", 4, sets.out4), ("out", 6, sets.out6)];
    let name = interface.name.clone();
    all.into_iter().filter(|(_, _, acls)| !acls.is_empty()).map(move |(direction, family, acls)| {
        let (interface, direction) = (name.clone(), direction.to_owned());
        v1::AclAttachment { interface, direction, family, acls, ..v1::AclAttachment::default() }
    })
}

/// The lists of a pair of zones.
fn lists_of(pair: &v1::ZonePair) -> impl Iterator<Item = &String> {
    pair.acls4.iter().chain(&pair.acls6)
}

fn key(row: v1::AclRow) -> (u32, Vec<String>) {
    (row.family, row.acls)
}

impl Service {
    /// The lists with counters; only the one of a name, if there is one.
    pub(super) async fn acls(
        &self,
        request: v1::ShowAclsRequest,
    ) -> Result<v1::ShowAclsReply, Status> {
        let only = request.acl;
        let mut states = self.listed(&only).await?;
        states.iter_mut().for_each(|state| self.cleared_acls.subtract(state));
        let (rules, rows): (Vec<_>, Vec<_>) = states.into_iter().partition(|it| it.rule.is_some());
        let unmatched: HashMap<(u32, Vec<String>), (u64, u64)> = rows
            .into_iter()
            .filter_map(|it| Some((key(it.row?), (it.packets, it.bytes))))
            .collect();
        let configuration = self.connection.configuration();
        let interfaces = configuration.iter().flat_map(|it| it.interfaces.iter());
        let all = interfaces.flat_map(attachments);
        let mut attachments: Vec<_> =
            all.filter(|it| only.is_empty() || it.acls.contains(&only)).collect();
        for it in &mut attachments {
            let counts = unmatched.get(&(it.family, it.acls.clone())).copied().unwrap_or_default();
            (it.unmatched_packets, it.unmatched_bytes) = counts;
        }
        let with_rules: BTreeSet<&str> =
            rules.iter().filter_map(|it| Some(it.rule.as_ref()?.acl.as_str())).collect();
        let pairs = configuration.iter().flat_map(|it| &it.desired.zone_pairs);
        let zone_pairs: Vec<_> = pairs
            .filter(|it| only.is_empty() || lists_of(it).any(|acl| *acl == only))
            .cloned()
            .collect();
        let of_interfaces = attachments.iter().flat_map(|it| &it.acls);
        let attached: BTreeSet<&String> =
            of_interfaces.chain(zone_pairs.iter().flat_map(lists_of)).collect();
        let empty = attached.into_iter().filter(|name| !with_rules.contains(name.as_str()));
        let empty: Vec<String> =
            empty.filter(|name| only.is_empty() || **name == only).cloned().collect();
        if !only.is_empty() && rules.is_empty() && empty.is_empty() {
            return Err(missing(&only));
        }
        Ok(v1::ShowAclsReply { rules, attachments, empty, zone_pairs })
    }

    /// The rules of all lists, or of this one, with their counters, and the rows of lists.
    async fn listed(&self, acl: &str) -> Result<Vec<v1::AclRuleState>, Status> {
        let ask = v1::ListAclRulesRequest { acl: acl.to_owned() };
        let listed = self.connection.client().list_acl_rules(ask).await.map_err(failed)?;
        let (mut listed, mut rules) = (listed.into_inner(), Vec::new());
        while let Some(rule) = listed.message().await.map_err(failed)? {
            rules.push(rule);
        }
        Ok(rules)
    }

    /// Has the hits of all lists, or of this one, begin at 0 for operators.
    pub(super) async fn clear_hits(&self, acl: String) -> Result<v1::ClearAclReply, Status> {
        let states = self.listed(&acl).await?;
        match states.is_empty() && !acl.is_empty() {
            true => Err(missing(&acl)),
            false => Ok(self.cleared_acls.clear(&acl, &states)),
        }
    }

    /// Which rule decides about a packet.
    pub(super) fn test_access_lists(
        &self,
        request: v1::TestAclRequest,
    ) -> Result<v1::TestAclReply, Status> {
        let (source, destination) = (ip(&request.source), ip(&request.destination));
        let (Some(source), Some(destination)) = (source, destination) else {
            return Err(Status::invalid_argument("source or destination is no address"));
        };
        if source.is_ipv4() != destination.is_ipv4() {
            let cause = format!("{source} and {destination} are of different families");
            return Err(Status::invalid_argument(cause));
        }
        let configuration = self.tested(&request)?;
        let packet = Packet { source, destination, of: request };
        evaluate(&configuration, &packet).map_err(Status::not_found)
    }

    /// The configuration that a test is about.
    fn tested(&self, request: &v1::TestAclRequest) -> Result<Arc<Configuration>, Status> {
        if !request.configuration.is_empty() {
            let path = Path::new("candidate");
            let parsed = Configuration::parse(path, request.configuration.clone());
            return parsed.map(Arc::new).map_err(|errors| invalid(&errors));
        }
        if !request.candidate {
            let running = self.connection.configuration();
            return running.ok_or_else(|| Status::unavailable("there is no configuration yet"));
        }
        let candidate = self.datastore.tree(Store::Candidate);
        let text = stoa_yang::data::print(&candidate.tree);
        let text = text.map_err(|errors| invalid(&errors))?;
        let parsed = Configuration::of_data(&self.config, &text, &candidate.tree);
        parsed.map(Arc::new).map_err(|errors| invalid(&errors))
    }
}

fn missing(acl: &str) -> Status {
    let hint = "`stoa show acl` lists all with rules";
    Status::not_found(format!("there is no access list {acl:?} in use: {hint}"))
}

fn invalid(errors: &[ValidationError]) -> Status {
    let first = errors.first().map(|it| format!("{}: {} {}", it.path, it.cause, it.fix));
    let (count, first) = (errors.len(), first.unwrap_or_default());
    Status::failed_precondition(format!(
        "the configuration has {count} errors, the first is {first}"
    ))
}
