//! The stream of one table: a task that owns the sender, and opens the call again whenever it breaks.

use std::hash::Hash;
use std::time::Duration;

use stoa_api::v1;
use stoa_api::v1::row_tables_client::RowTablesClient;
use stoa_delta::{Encode, Sender, Window};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::table_handle::{Request, Snapshot};
use crate::open_call::{next_reply, opened};

/// Blocks of changes that may be queued.
const QUEUE: usize = 16;
/// Delay before the call is opened again; it doubles with each attempt that the forwarder rejects.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);
/// Maximum of that delay: an upgraded forwarder has the table then.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(10);
/// Interval at which rows that had no room are sent again: a limit may have been raised.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// What keys and rows are made of.
pub trait RowType: Send + 'static {
    /// The name of the table.
    const TABLE: &'static str;
    /// The version of keys and rows.
    const FORMAT: u32;
    /// What rows are found by.
    type Key: Encode + Clone + Eq + Hash + Send + 'static;
    /// What is in force under a key.
    type Row: Encode + PartialEq + Send + 'static;
}

/// A key and the desired row; `None`: no row.
pub type Change<T> = (<T as RowType>::Key, Option<<T as RowType>::Row>);

enum Command<T: RowType> {
    Update(Vec<Change<T>>),
    Complete,
}

/// A capability's end of the stream. The task ends when it is dropped; the rows stay in force.
pub struct RowStream<T: RowType> {
    commands: mpsc::Sender<Command<T>>,
}

impl<T: RowType> RowStream<T> {
    /// Starts the task. It needs a runtime.
    pub(super) fn start(
        client: RowTablesClient<Channel>,
        requests: mpsc::Receiver<Request>,
    ) -> RowStream<T> {
        let (commands, received) = mpsc::channel(QUEUE);
        let task = Task {
            sender: Sender::new(Window::default()),
            client,
            call: None,
            opening: None,
            last_reason: String::new(),
            rejection: String::new(),
            delay: RECONNECT_DELAY,
        };
        tokio::spawn(task.run(received, requests));
        RowStream { commands }
    }

    /// Changes desired rows, in blocks of some thousand. Waits while the forwarder does not keep up.
    pub async fn update(&self, changes: Vec<Change<T>>) {
        // The task ends with the runtime.
        let _ = self.commands.send(Command::Update(changes)).await;
    }

    /// All rows were given: what the forwarder holds besides, from before a restart, is removed.
    pub async fn complete(&self) {
        let _ = self.commands.send(Command::Complete).await;
    }
}

/// An open call.
struct Call {
    messages: mpsc::Sender<v1::RowsMessage>,
    replies: tonic::Streaming<v1::RowsReply>,
}

struct Task<T: RowType> {
    sender: Sender<T::Key, T::Row>,
    client: RowTablesClient<Channel>,
    call: Option<Call>,
    opening: Option<JoinHandle<Result<Call, Status>>>,
    /// Why rows were last refused.
    last_reason: String,
    /// Why the forwarder rejects the whole table; empty if it does not.
    rejection: String,
    /// Delay before the next attempt.
    delay: Duration,
}

/// What woke the task.
enum Event<T: RowType> {
    Reply(Result<Option<v1::RowsReply>, Status>),
    Opened(Result<Call, Status>),
    Request(Request),
    Command(Option<Command<T>>),
    Retry,
}

impl<T: RowType> Task<T> {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command<T>>,
        mut requests: mpsc::Receiver<Request>,
    ) {
        let mut retry = tokio::time::interval(RETRY_INTERVAL);
        self.reopen(Duration::ZERO);
        loop {
            self.send();
            let may_receive = !self.sender.is_congested();
            let event = tokio::select! {
                biased;
                reply = next_reply(self.call.as_mut().map(|call| &mut call.replies)) => Event::Reply(reply),
                Some(request) = requests.recv() => Event::Request(request),
                opened = opened(&mut self.opening) => Event::Opened(opened),
                command = commands.recv(), if may_receive => Event::Command(command),
                _ = retry.tick() => Event::Retry,
            };
            match event {
                Event::Reply(Ok(Some(reply))) => self.acknowledge(reply),
                Event::Reply(Ok(None)) => self.broke(&Status::unavailable("the call has ended")),
                Event::Reply(Err(status)) | Event::Opened(Err(status)) => self.broke(&status),
                Event::Opened(Ok(call)) => {
                    self.opening = None;
                    self.call = Some(call);
                    self.sender.connect();
                }
                Event::Request(request) => self.answer(request),
                Event::Command(Some(Command::Update(changes))) => {
                    for (key, row) in changes {
                        match row {
                            Some(row) => self.set(key, row),
                            None => self.sender.remove(&key),
                        }
                    }
                }
                Event::Command(Some(Command::Complete)) => self.sender.complete(),
                Event::Command(None) => return,
                Event::Retry => self.sender.retry_refused(),
            }
        }
    }

    fn reopen(&mut self, delay: Duration) {
        let mut client = self.client.clone();
        self.opening = Some(tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // As many as the sender leaves unacknowledged: there is always room.
            let (messages, receiver) = mpsc::channel(Window::default().messages);
            let replies = client.rows(ReceiverStream::new(receiver)).await?.into_inner();
            Ok(Call { messages, replies })
        }));
    }

    fn set(&mut self, key: T::Key, row: T::Row) {
        if let Err(error) = self.sender.set(key, row) {
            tracing::error!(table = T::TABLE, "a row is not sent: {error}");
        }
    }

    fn broke(&mut self, status: &Status) {
        self.sender.disconnect();
        self.call = None;
        if is_rejection(status) {
            if self.rejection != status.message() {
                status.message().clone_into(&mut self.rejection);
                let table = T::TABLE;
                tracing::error!(table, "the forwarder rejects a table: {}", self.rejection);
            }
            self.delay = (self.delay * 2).min(MAX_RECONNECT_DELAY);
        } else {
            tracing::debug!(table = T::TABLE, %status, "the stream of a table broke");
        }
        self.reopen(self.delay);
    }

    fn send(&mut self) {
        let Some(call) = &self.call else { return };
        while let Ok(permit) = call.messages.try_reserve() {
            let Some(message) = self.sender.next_message() else { return };
            permit.send(v1::RowsMessage::new(message, T::TABLE, T::FORMAT));
        }
    }

    fn acknowledge(&mut self, reply: v1::RowsReply) {
        if let Some(last) = reply.refused.last()
            && last.reason != self.last_reason
        {
            self.last_reason.clone_from(&last.reason);
            let (table, reason, fix) = (T::TABLE, &last.reason, &last.fix);
            tracing::error!(table, fix, "the forwarder refused rows: {reason}");
        }
        (self.rejection, self.delay) = (String::new(), RECONNECT_DELAY);
        if let Err(error) = self.sender.acknowledge(&reply.into()) {
            self.broke(&Status::internal(error.to_string()));
        }
    }

    fn answer(&mut self, request: Request) {
        // Who asked may have given up.
        match request {
            Request::Snapshot(answer) => {
                let _ = answer.send(Snapshot {
                    expected: self.sender.expected().clone(),
                    refused: self.sender.refused() as u64,
                    changes: self.sender.changes(),
                    is_synced: self.sender.is_synced(),
                    rejection: self.rejection.clone(),
                });
            }
            Request::Repair { changes, slices, listed, answer } => {
                let is_same = changes == self.sender.changes() && self.sender.is_synced();
                let repaired = is_same.then(|| self.sender.repair(&slices, &listed).ok());
                let _ = answer.send(repaired.flatten());
            }
        }
    }
}

/// Whether the forwarder lacks the table, or has it in another format: a new call does not help.
fn is_rejection(status: &Status) -> bool {
    matches!(status.code(), Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition)
}
