//! The calls of tables of rows.

use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_api::v1::row_tables_server::RowTables;
use stoa_delta::{Audit, Update};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{TABLES, find};
use crate::control::ForwarderState;
use crate::control::callers::{REPLIES, superseded_status};
use crate::control::service::Service;

/// A message in progress, with its time on the control thread.
type Work = (Update, Duration);

/// The index of the table that a first message names.
fn table_of(message: &v1::RowsMessage) -> Result<usize, Status> {
    if !message.begins {
        return Err(Status::invalid_argument("the first message of a call must begin"));
    }
    let table = known(&message.table)?;
    let (known, format) = (TABLES[table].format, message.format);
    if format != known {
        return Err(Status::failed_precondition(format!(
            "the rows of the table {:?} have format {format}, this forwarder has {known}: update both",
            message.table
        )));
    }
    Ok(table)
}

fn known(name: &str) -> Result<usize, Status> {
    find(name).ok_or_else(|| Status::not_found(format!("this forwarder has no table {name:?}")))
}

impl Service {
    /// Applies one message.
    async fn apply_rows(
        &self,
        (table, caller): (usize, u64),
        message: v1::RowsMessage,
    ) -> Result<v1::RowsReply, Status> {
        let update = Update::new(caller, message.into_message());
        let update = update.map_err(|malformed| Status::invalid_argument(malformed.to_string()))?;
        let mut work: Work = (update, Duration::ZERO);
        loop {
            let (rest, is_done) = self
                .run_slices(work, move |state, (update, took)| {
                    let started = Instant::now();
                    let done = state.update_rows(table, update);
                    *took += started.elapsed();
                    done.map_err(|_| superseded_status(TABLES[table].name))
                })
                .await?;
            if is_done {
                let (update, took) = rest;
                let took_us = took.as_micros() as u64;
                return Ok(v1::RowsReply { took_us, ..update.into_reply().into() });
            }
            work = rest;
        }
    }

    async fn audit_table(
        &self,
        request: v1::AuditRowsRequest,
    ) -> Result<v1::AuditRowsReply, Status> {
        let table = known(&request.table)?;
        let mut audit: Option<Audit> = None;
        loop {
            let slices = request.slices.clone();
            let step = move |state: &mut ForwarderState, audit: &mut Option<Audit>| {
                let audit = audit.get_or_insert_with(|| state.begin_rows_audit(table, &slices));
                Ok(state.audit_rows(table, audit))
            };
            let (rest, is_done) = self.run_slices(audit, step).await?;
            if is_done {
                let audited = rest.map(Audit::into_result).unwrap_or_default();
                let generation = self.read(move |state| state.rows_generation(table)).await?;
                return Ok(v1::AuditRowsReply { generation, ..audited.into() });
            }
            audit = rest;
        }
    }
}

#[tonic::async_trait]
impl RowTables for Service {
    type RowsStream = ReceiverStream<Result<v1::RowsReply, Status>>;

    async fn rows(
        &self,
        request: Request<Streaming<v1::RowsMessage>>,
    ) -> Result<Response<Self::RowsStream>, Status> {
        let (sender, receiver) = mpsc::channel(REPLIES);
        let (service, mut messages) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            let Ok(Some(first)) = messages.message().await else { return };
            match table_of(&first) {
                Ok(table) => {
                    let caller = service.callers.next(TABLES[table].name);
                    let place = (table, caller.number);
                    let apply = |message| service.apply_rows(place, message);
                    caller.serve(Some(first), messages, &sender, apply).await;
                }
                // The caller may be gone.
                Err(status) => drop(sender.send(Err(status)).await),
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn audit_rows(
        &self,
        request: Request<v1::AuditRowsRequest>,
    ) -> Result<Response<v1::AuditRowsReply>, Status> {
        Ok(Response::new(self.audit_table(request.into_inner()).await?))
    }

    async fn list_tables(
        &self,
        _: Request<v1::ListTablesRequest>,
    ) -> Result<Response<v1::ListTablesReply>, Status> {
        let tables = self.read(ForwarderState::list_tables).await?;
        Ok(Response::new(v1::ListTablesReply { tables }))
    }
}

#[cfg(test)]
mod tests;
