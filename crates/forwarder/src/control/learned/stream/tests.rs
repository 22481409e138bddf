//! The calls over a real socket, with a real control thread.

use std::time::Duration;

use stoa_api::v1::forwarder_client::ForwarderClient;
use stoa_api::v1::forwarder_server::ForwarderServer;
use stoa_api::{unix, v1};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::Code;
use tonic::transport::Channel;

use super::Service;
use crate::control::ControlLoop;
use crate::control::callers::Callers;

type Sender = tokio::sync::mpsc::Sender<v1::LearnedRoutes>;
type Replies = tonic::Streaming<v1::LearnedRoutesReply>;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A running forwarder and a client of it.
async fn forwarder(folder: &tempfile::TempDir) -> (ForwarderClient<Channel>, impl FnOnce()) {
    let socket = folder.path().join("forwarder");
    let (requests, control_loop) =
        ControlLoop::new(String::new(), stoa_ports::Folders::default()).unwrap();
    let thread = std::thread::spawn(move || control_loop.run());
    let service = Service { requests: requests.clone(), callers: Callers::default() };
    let incoming = UnixListenerStream::new(unix::listen(&socket).unwrap());
    let server = tonic::transport::Server::builder().add_service(ForwarderServer::new(service));
    tokio::spawn(server.serve_with_incoming(incoming));
    let client = ForwarderClient::new(unix::connect(&socket).await.unwrap());
    let end = move || {
        requests.stop();
        thread.join().unwrap();
    };
    (client, end)
}

/// One null port.
fn desired() -> v1::Desired {
    let workers = v1::Workers {
        buffers: 1024,
        polling: v1::Polling::Interrupt.into(),
        huge_pages: v1::HugePages::Never.into(),
        ..Default::default()
    };
    let driver = Some(v1::port::Driver::Null(v1::Null {}));
    let port = v1::Port { interface: "a".into(), driver, ..Default::default() };
    let family = || Some(v1::Family { enabled: true, forwarding: true, ..Default::default() });
    let (ip4, ip6) = (family(), family());
    let interface =
        v1::Interface { name: "a".into(), enabled: true, ip4, ip6, ..Default::default() };
    let (ports, interfaces) = (vec![port], vec![interface]);
    v1::Desired { workers: Some(workers), ports, interfaces, ..Default::default() }
}

/// That many routes on one hop.
fn learned_routes(number: u64, routes: u32) -> v1::LearnedRoutes {
    let path = v1::Path { interface: "a".into(), next_hop: vec![10, 0, 0, 2], weight: 1 };
    let action = Some(v1::learned_hop::Action::Paths(v1::Paths { paths: vec![path] }));
    let hop = v1::LearnedHop { id: 1, action, ..Default::default() };
    let packed = |at: u32| {
        let [a, b, c, d] = (at << 8).to_be_bytes();
        [a, b, c, d, 24]
    };
    let run =
        v1::RouteRun { hop: 1, ip4: (0..routes).flat_map(packed).collect(), ..Default::default() };
    v1::LearnedRoutes {
        number,
        begins: true,
        hops: vec![hop],
        runs: vec![run],
        completes: true,
        ..Default::default()
    }
}

async fn call(client: &mut ForwarderClient<Channel>) -> (Sender, Replies) {
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    let replies = client.learn_routes(ReceiverStream::new(receiver)).await.unwrap();
    (sender, replies.into_inner())
}

#[tokio::test]
async fn messages_are_answered_and_a_newer_caller_supersedes_the_older() {
    let folder = tempfile::tempdir().unwrap();
    let (mut client, end) = forwarder(&folder).await;
    let scenario = async {
        // Nothing is configured yet.
        let (sender, mut replies) = call(&mut client).await;
        sender.send(learned_routes(1, 1)).await.unwrap();
        assert_eq!(replies.message().await.unwrap_err().code(), Code::Unavailable);
        client.apply(desired()).await.unwrap();

        let (sender, mut replies) = call(&mut client).await;
        // Large enough to be parsed on a blocking thread and applied in batches.
        for (number, routes) in [(7, 100_000), (8, 3)] {
            sender.send(learned_routes(number, routes)).await.unwrap();
            let reply = replies.message().await.unwrap().unwrap();
            assert_eq!((reply.number, reply.refused), (number, vec![]));
            let request = v1::AuditRoutesRequest { family: 4, ..Default::default() };
            let held = client.audit_routes(request).await.unwrap().into_inner();
            assert_eq!((held.routes, held.is_changing), (u64::from(routes), false));
        }
        let (newer, mut newer_replies) = call(&mut client).await;
        assert_eq!(replies.message().await.unwrap_err().code(), Code::Aborted);
        newer.send(learned_routes(1, 2)).await.unwrap();
        assert_eq!(newer_replies.message().await.unwrap().unwrap().number, 1);
        drop(newer);
        assert!(newer_replies.message().await.unwrap().is_none(), "it ends when its caller does");
        let unknown = v1::AuditRoutesRequest { vrf: "red".into(), family: 4, slices: vec![] };
        assert_eq!(client.audit_routes(unknown).await.unwrap_err().code(), Code::NotFound);
    };
    tokio::time::timeout(TIMEOUT, scenario).await.unwrap();
    end();
}
