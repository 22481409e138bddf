//! The calls of the audit.

use stoa_api::audit::Kind;
use stoa_api::v1;
use stoa_api::v1::desired_audit_server::DesiredAudit as Contract;
use tonic::{Request, Response, Status};

use super::DesiredAudit;
use crate::control::refusals::status_of;
use crate::control::service::Service;
use crate::punt::Class;

/// The limits of all classes where none are configured.
pub(super) fn punt_defaults() -> Vec<v1::PuntLimit> {
    let limit = |class: Class| {
        let limit = class.default_limit();
        let (rate, burst, total) = (limit.rate, limit.burst, limit.total);
        v1::PuntLimit { class: class.name().to_owned(), rate, burst, total }
    };
    Class::ALL.map(limit).into()
}

/// The kinds with these names; those of a newer controller are left out.
fn kinds(names: &[String]) -> impl Iterator<Item = Kind> {
    names.iter().filter_map(|name| Kind::named(name))
}

#[tonic::async_trait]
impl Contract for Service {
    async fn audit_desired(
        &self,
        request: Request<v1::AuditDesiredRequest>,
    ) -> Result<Response<v1::AuditDesiredReply>, Status> {
        let listed: Vec<Kind> = kinds(&request.get_ref().listed).collect();
        let mut audit = DesiredAudit::listing(&listed);
        loop {
            // Other requests run between the slices.
            let (rest, is_done) = self
                .on_control(move |forwarder| {
                    let is_done = forwarder.audit_desired_step(&mut audit);
                    Ok((audit, is_done))
                })
                .await?;
            audit = rest;
            if is_done {
                break;
            }
        }
        let DesiredAudit { tally, generation, is_changing, mut defaults, .. } = audit;
        // Those of punt classes had their field first.
        let punt_defaults = std::mem::take(&mut defaults.punts);
        let (kinds, defaults) = (tally.into_messages(), Some(defaults));
        let reply =
            v1::AuditDesiredReply { generation, kinds, is_changing, punt_defaults, defaults };
        Ok(Response::new(reply))
    }

    async fn repair_desired(
        &self,
        request: Request<v1::RepairDesiredRequest>,
    ) -> Result<Response<v1::Applied>, Status> {
        let v1::RepairDesiredRequest { generation, kinds: names } = request.into_inner();
        let kinds = kinds(&names).collect();
        let applied = self.on_control(move |forwarder| {
            let applied = forwarder.repair(generation, &kinds);
            applied.map_err(|error| status_of(generation, error))
        });
        Ok(Response::new(applied.await?))
    }
}
