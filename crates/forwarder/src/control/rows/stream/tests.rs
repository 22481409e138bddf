//! The calls over a real socket, with a real control thread, and a sender as the controller has one.

use std::time::Duration;

use stoa_api::rows::test::{FORMAT, TABLE};
use stoa_api::v1::forwarder_client::ForwarderClient;
use stoa_api::v1::forwarder_server::ForwarderServer;
use stoa_api::v1::row_tables_client::RowTablesClient;
use stoa_api::v1::row_tables_server::RowTablesServer;
use stoa_api::{unix, v1};
use stoa_delta::{Digests, Sender, Window};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::Code;
use tonic::transport::Channel;

use super::Service;
use crate::control::ControlLoop;
use crate::control::callers::Callers;

const ROWS: u64 = 100_000;
const TIMEOUT: Duration = Duration::from_secs(60);

type Rows = Sender<u64, [u8; 32]>;
type Client = RowTablesClient<Channel>;

/// A forwarder with one null port; it ends when the result is called.
async fn forwarder(folder: &tempfile::TempDir, name: &str) -> (Client, impl FnOnce()) {
    let socket = folder.path().join(name);
    let (requests, control_loop) =
        ControlLoop::new(String::new(), stoa_ports::Folders::default()).unwrap();
    let thread = std::thread::spawn(move || control_loop.run());
    let service = Service { requests: requests.clone(), callers: Callers::default() };
    let incoming = UnixListenerStream::new(unix::listen(&socket).unwrap());
    let server = tonic::transport::Server::builder()
        .add_service(RowTablesServer::new(service.clone()))
        .add_service(ForwarderServer::new(service));
    let server = tokio::spawn(server.serve_with_incoming(incoming));
    let channel = unix::connect(&socket).await.unwrap();
    let mut client = Client::new(channel.clone());
    let early = v1::AuditRowsRequest { table: TABLE.into(), ..Default::default() };
    assert_eq!(client.audit_rows(early).await.unwrap_err().code(), Code::Unavailable);
    let workers = v1::Workers {
        buffers: 1024,
        polling: v1::Polling::Interrupt.into(),
        huge_pages: v1::HugePages::Never.into(),
        ..Default::default()
    };
    let desired = v1::Desired { workers: Some(workers), ..Default::default() };
    ForwarderClient::new(channel).apply(desired).await.unwrap();
    let end = move || {
        server.abort();
        requests.stop();
        thread.join().unwrap();
    };
    (client, end)
}

fn row(key: u64, version: u8) -> [u8; 32] {
    let mut row = [version; 32];
    row[..8].copy_from_slice(&key.to_be_bytes());
    row
}

fn sender(rows: impl Iterator<Item = u64>) -> Rows {
    let mut sender = Rows::new(Window::default());
    rows.for_each(|key| sender.set(key, row(key, 1)).expect("short"));
    sender.complete();
    sender
}

/// Opens a stream, sends until the forwarder holds everything, and closes it.
async fn synchronize(client: &mut Client, rows: &mut Rows) {
    let (messages, receiver) = tokio::sync::mpsc::channel(Window::default().messages);
    rows.connect();
    let send = async |rows: &mut Rows| {
        while let Some(message) = rows.next_message() {
            messages.send(v1::RowsMessage::new(message, TABLE, FORMAT)).await.unwrap();
        }
    };
    send(rows).await;
    let mut replies = client.rows(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    while !rows.is_synced() {
        let reply = replies.message().await.unwrap().unwrap();
        rows.acknowledge(&reply.into()).unwrap();
        send(rows).await;
    }
}

async fn audit(client: &mut Client, slices: Vec<u32>) -> v1::AuditRowsReply {
    let request = v1::AuditRowsRequest { table: TABLE.into(), slices };
    client.audit_rows(request).await.unwrap().into_inner()
}

async fn digests(client: &mut Client) -> Digests {
    let mut reply = audit(client, vec![]).await;
    assert!(!reply.is_changing && reply.unknown == 0);
    reply.take_digests().unwrap()
}

async fn state(client: &mut Client) -> Option<v1::TableState> {
    let tables = client.list_tables(v1::ListTablesRequest {}).await.unwrap().into_inner().tables;
    tables.into_iter().find(|table| table.name == TABLE)
}

#[tokio::test]
async fn both_halves_agree_after_either_has_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut client, end) = forwarder(&folder, "first").await;
    let scenario = async {
        assert_eq!(state(&mut client).await, None, "hidden while it is empty");
        let mut rows = sender(0..ROWS);
        synchronize(&mut client, &mut rows).await;
        assert_eq!(digests(&mut client).await, *rows.expected());
        let held = state(&mut client).await.unwrap();
        assert_eq!((held.rows, held.stale, held.generation, held.is_complete), (ROWS, 0, 1, true));
        assert_eq!(held.digest, Some(rows.expected().total()));

        // The sender restarts, without a thousand rows and with other ones.
        let mut rows = sender(1_000..ROWS + 5);
        rows.set(5_000, row(5_000, 2)).expect("short");
        synchronize(&mut client, &mut rows).await;
        assert_eq!(digests(&mut client).await, *rows.expected());
        assert_eq!(state(&mut client).await.unwrap().generation, 2);

        // The forwarder restarts.
        let (mut other, end_other) = forwarder(&folder, "second").await;
        synchronize(&mut other, &mut rows).await;
        assert_eq!(digests(&mut other).await, *rows.expected());

        // A difference is found in its slice, and repaired.
        let mut wrong = sender(1_000..ROWS + 5);
        let slices = wrong.expected().differing(rows.expected());
        assert_eq!(slices.len(), 1, "one row differs");
        let listed = audit(&mut other, slices.clone()).await.listed;
        assert!(listed.len() > 100, "a slice of {ROWS} rows has some hundred");
        wrong.connect();
        assert_eq!(wrong.repair(&slices, &listed), Ok(1));
        end_other();
    };
    tokio::time::timeout(TIMEOUT, scenario).await.unwrap();
    end();
}

#[tokio::test]
async fn wrong_calls_are_refused_and_a_newer_caller_supersedes_the_older() {
    let folder = tempfile::tempdir().unwrap();
    let (mut client, end) = forwarder(&folder, "forwarder").await;
    let begin = |table: &str, format| v1::RowsMessage {
        number: 1,
        begins: true,
        table: table.into(),
        format,
        ..Default::default()
    };
    let scenario = async {
        let malformed = v1::RowsMessage { changes: vec![9], ..begin(TABLE, FORMAT) };
        let wrong = [
            (begin("sessions", 1), Code::NotFound),
            (begin(TABLE, FORMAT + 1), Code::FailedPrecondition),
            (v1::RowsMessage::default(), Code::InvalidArgument),
            (malformed, Code::InvalidArgument),
        ];
        for (message, code) in wrong {
            let call = client.rows(tokio_stream::iter([message])).await.unwrap();
            assert_eq!(call.into_inner().message().await.unwrap_err().code(), code);
        }
        let mut calls = Vec::new();
        for _ in 0..2 {
            let (sender, receiver) = tokio::sync::mpsc::channel(1);
            sender.send(begin(TABLE, FORMAT)).await.unwrap();
            let call = client.rows(ReceiverStream::new(receiver)).await.unwrap();
            let mut replies = call.into_inner();
            assert_eq!(replies.message().await.unwrap().unwrap().number, 1);
            calls.push((sender, replies));
        }
        let aborted = calls[0].1.message().await.unwrap_err();
        assert_eq!(aborted.code(), Code::Aborted);
        calls.pop();
        let unknown = v1::AuditRowsRequest { table: "sessions".into(), ..Default::default() };
        assert_eq!(client.audit_rows(unknown).await.unwrap_err().code(), Code::NotFound);
    };
    tokio::time::timeout(TIMEOUT, scenario).await.unwrap();
    end();
}
