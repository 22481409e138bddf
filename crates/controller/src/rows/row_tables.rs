//! All tables of rows: opens their streams, and audits them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stoa_api::v1::row_tables_client::RowTablesClient;
use stoa_api::{MESSAGE_LIMIT_BYTES, v1};
use tonic::Status;
use tonic::transport::Channel;

use super::stream::{RowStream, RowType};
use super::table_handle::{Request, Snapshot, TableHandle};

/// Attempts to compare both sides while rows change.
const MAX_ATTEMPTS: u32 = 50;
/// Pause between attempts.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Interval of the automatic audit.
const INTERVAL: Duration = Duration::from_secs(60);
/// Slices whose rows are listed at a time.
const SLICES_AT_ONCE: usize = 16;

/// The result of an audit for one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedRows {
    /// Rows that should be in force here.
    pub desired: u64,
    /// Refused rows, which are not among them.
    pub refused: u64,
    /// Rows in force in the forwarder.
    pub held: u64,
    /// Rows that differed.
    pub different: u64,
    /// The digest of the rows in force.
    pub digest: u64,
    /// Whether the comparison succeeded; it fails while rows keep changing.
    pub is_compared: bool,
    /// Why the forwarder rejects the whole table; empty if it does not.
    pub rejection: String,
}

/// The tables of all capabilities.
#[derive(Debug)]
pub struct RowTables {
    client: RowTablesClient<Channel>,
    streams: Mutex<BTreeMap<&'static str, TableHandle>>,
}

impl RowTables {
    /// The tables of the forwarder behind `channel`.
    pub fn new(channel: Channel) -> RowTables {
        let client = RowTablesClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT_BYTES);
        RowTables { client, streams: Mutex::default() }
    }

    /// Opens the stream of a table, which needs a runtime. Another stream of the same table ends when it is dropped.
    pub fn open<T: RowType>(&self) -> RowStream<T> {
        let (handle, requests) = TableHandle::new();
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.insert(T::TABLE, handle);
        RowStream::start(self.client.clone(), requests)
    }

    fn handles(&self) -> BTreeMap<&'static str, TableHandle> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|_, handle| !handle.is_closed());
        streams.clone()
    }

    /// The tables whose rows this controller sends.
    pub fn names(&self) -> Vec<&'static str> {
        self.handles().into_keys().collect()
    }

    /// Audits everything periodically, forever.
    pub async fn watch(&self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            for table in self.handles().into_keys() {
                self.audit(table).await;
            }
        }
    }

    /// What the forwarder holds of each capability.
    ///
    /// # Errors
    /// The forwarder does not answer, or is too old to have tables.
    pub async fn list(&self) -> Result<Vec<v1::TableState>, Status> {
        let reply = self.client.clone().list_tables(v1::ListTablesRequest {}).await?;
        Ok(reply.into_inner().tables)
    }

    /// Audits a table, and repairs differences; `None` when this controller does not send its rows.
    pub async fn audit(&self, table: &str) -> Option<AuditedRows> {
        let handle = self.handles().get(table)?.clone();
        let mut audited = AuditedRows::default();
        for _ in 0..MAX_ATTEMPTS {
            if self.compare(table, &handle, &mut audited).await.is_some() {
                audited.is_compared = true;
                let different = audited.different;
                if different > 0 {
                    tracing::error!(
                        table,
                        different,
                        "rows differed in the forwarder; sent them again"
                    );
                }
                break;
            }
            if !audited.rejection.is_empty() {
                break;
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        Some(audited)
    }

    /// Compares both sides; `None` when rows changed or the forwarder did not answer.
    async fn compare(
        &self,
        table: &str,
        handle: &TableHandle,
        audited: &mut AuditedRows,
    ) -> Option<()> {
        let Snapshot { expected, refused, changes, is_synced, rejection } =
            handle.ask(Request::Snapshot).await?;
        (audited.desired, audited.refused) = (expected.rows, refused);
        audited.rejection = rejection;
        if !is_synced {
            return None;
        }
        let mut held = self.held(table, &[]).await?;
        let unknown = held.unknown;
        let digests = held.take_digests()?;
        let now = handle.ask(Request::Snapshot).await?;
        if now.changes != changes || !now.is_synced {
            return None;
        }
        (audited.held, audited.digest) = (digests.rows.saturating_add(unknown), digests.total());
        audited.different = unknown;
        for slices in expected.differing(&digests).chunks(SLICES_AT_ONCE) {
            let changes = self.drained(handle).await?;
            let listed = self.held(table, slices).await?.listed;
            let slices = slices.to_vec();
            let repair = |answer| Request::Repair { changes, slices, listed, answer };
            audited.different += handle.ask(repair).await??;
        }
        Some(())
    }

    /// What the forwarder holds; `None` while it changes.
    async fn held(&self, table: &str, slices: &[u32]) -> Option<v1::AuditRowsReply> {
        let request = v1::AuditRowsRequest { table: table.to_owned(), slices: slices.to_vec() };
        let reply = self.client.clone().audit_rows(request).await.ok()?.into_inner();
        (!reply.is_changing).then_some(reply)
    }

    /// The number of changes, once the forwarder has acknowledged everything.
    async fn drained(&self, handle: &TableHandle) -> Option<u64> {
        for _ in 0..MAX_ATTEMPTS {
            let now = handle.ask(Request::Snapshot).await?;
            if now.is_synced {
                return Some(now.changes);
            }
            tokio::time::sleep(RETRY_DELAY / 10).await;
        }
        None
    }
}
