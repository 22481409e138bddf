//! The calls over a real socket, with a real control thread.

use stoa_api::v1::forwarder_client::ForwarderClient;
use stoa_api::v1::forwarder_server::ForwarderServer;
use stoa_api::v1::nat_table_client::NatTableClient;
use stoa_api::v1::nat_table_server::NatTableServer;
use stoa_api::{unix, v1};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Code;

use super::Service;
use crate::control::ControlLoop;
use crate::control::callers::Callers;

/// A policy whose 16 subscribers have the port sets of one address.
fn desired() -> v1::Desired {
    let port = v1::Port {
        interface: "wan".into(),
        driver: Some(v1::port::Driver::Null(v1::Null {})),
        ..v1::Port::default()
    };
    let workers = v1::Workers {
        buffers: 1024,
        polling: v1::Polling::Interrupt.into(),
        huge_pages: v1::HugePages::Never.into(),
        ..v1::Workers::default()
    };
    let net = |address: [u8; 4], length| v1::Prefix { address: address.into(), length };
    let policy = v1::NatPolicy {
        instance: 1,
        policy: 10,
        interface: "wan".into(),
        subscribers: vec![net([10, 0, 0, 0], 28)],
        pools: vec![net([192, 0, 2, 1], 32)],
        first_port: 1024,
        last_port: 1024 + 16 * 512 - 1,
        blocks: Some(v1::NatPortBlocks { size: 512, deterministic: true, ..Default::default() }),
        ..v1::NatPolicy::default()
    };
    v1::Desired {
        workers: Some(workers),
        ports: vec![port],
        interfaces: vec![v1::Interface { name: "wan".into(), ..v1::Interface::default() }],
        nat: Some(v1::Nat { policies: vec![policy], mappings: Vec::new() }),
        ..v1::Desired::default()
    }
}

#[tokio::test]
async fn calls_answer_with_and_without_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nat");
    let (requests, control_loop) =
        ControlLoop::new(String::new(), stoa_ports::Folders::default()).unwrap();
    let thread = std::thread::spawn(move || control_loop.run());
    let service = Service { requests: requests.clone(), callers: Callers::default() };
    let incoming = UnixListenerStream::new(unix::listen(&socket).unwrap());
    let server = tonic::transport::Server::builder()
        .add_service(NatTableServer::new(service.clone()))
        .add_service(ForwarderServer::new(service));
    let server = tokio::spawn(server.serve_with_incoming(incoming));
    let channel = unix::connect(&socket).await.unwrap();
    let mut client = NatTableClient::new(channel.clone());
    let of_port = |port| v1::NatWhoisRequest {
        external: vec![192, 0, 2, 1],
        port,
        protocol: 6,
        ..v1::NatWhoisRequest::default()
    };

    let early = client.list_nat(v1::ListNatRequest {}).await.unwrap().into_inner();
    assert!(early.policies.is_empty());
    let early = client.nat_whois(of_port(1024)).await.unwrap().into_inner();
    assert!(early.users.is_empty());

    ForwarderClient::new(channel).apply(desired()).await.unwrap();
    let listed = client.list_nat(v1::ListNatRequest {}).await.unwrap().into_inner();
    let [policy] = &listed.policies[..] else { panic!("{listed:?}") };
    assert_eq!((policy.blocks, policy.subscribers), (16, 16));
    let found = client.nat_whois(of_port(1024 + 3 * 512)).await.unwrap().into_inner();
    let [user] = &found.users[..] else { panic!("{found:?}") };
    assert_eq!((&user.kind[..], &user.internal), ("deterministic", &vec![10, 0, 0, 3]));
    let wrong = client.nat_whois(of_port(70_000)).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);

    let mut mappings =
        client.list_nat_mappings(v1::NatMappingFilter::default()).await.unwrap().into_inner();
    assert_eq!(mappings.message().await.unwrap(), None, "there are no dynamic mappings");
    let mut blocks =
        client.list_nat_blocks(v1::NatBlockFilter::default()).await.unwrap().into_inner();
    assert_eq!(blocks.message().await.unwrap(), None, "nothing is allocated");
    let events = client.list_nat_block_events(v1::ListNatBlockEventsRequest::default());
    assert_eq!(events.await.unwrap().into_inner(), v1::ListNatBlockEventsReply::default());

    server.abort();
    requests.stop();
    thread.join().unwrap();
}
