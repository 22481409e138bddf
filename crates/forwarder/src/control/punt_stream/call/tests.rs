//! The call over a real socket, with a real control thread.

use std::time::Duration;

use stoa_api::punts::{Listing, test};
use stoa_api::v1::forwarder_client::ForwarderClient;
use stoa_api::v1::forwarder_server::ForwarderServer;
use stoa_api::v1::punt_stream_client::PuntStreamClient;
use stoa_api::v1::punt_stream_server::PuntStreamServer;
use stoa_api::{unix, v1};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Code;
use tonic::transport::Channel;

use super::*;
use crate::control::ControlLoop;
use crate::control::callers::Callers;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A forwarder without configuration; it ends when the result is called.
async fn forwarder(folder: &tempfile::TempDir) -> (Channel, impl FnOnce()) {
    let socket = folder.path().join("forwarder");
    let (requests, control_loop) = ControlLoop::new(String::new(), Default::default()).unwrap();
    let thread = std::thread::spawn(move || control_loop.run());
    let service = Service { requests: requests.clone(), callers: Callers::default() };
    let incoming = UnixListenerStream::new(unix::listen(&socket).unwrap());
    let server = tonic::transport::Server::builder()
        .add_service(PuntStreamServer::new(service.clone()))
        .add_service(ForwarderServer::new(service));
    let server = tokio::spawn(server.serve_with_incoming(incoming));
    let end = move || {
        server.abort();
        requests.stop();
        thread.join().unwrap();
    };
    (unix::connect(&socket).await.unwrap(), end)
}

async fn configure(channel: &Channel) {
    let workers = v1::Workers {
        buffers: 1024,
        polling: v1::Polling::Interrupt.into(),
        huge_pages: v1::HugePages::Never.into(),
        ..Default::default()
    };
    let desired = v1::Desired { workers: Some(workers), ..Default::default() };
    ForwarderClient::new(channel.clone()).apply(desired).await.unwrap();
}

struct Call {
    messages: mpsc::Sender<v1::PuntsRequest>,
    replies: Streaming<v1::PuntsReply>,
}

impl Call {
    async fn open(channel: &Channel) -> Self {
        let (messages, receiver) = mpsc::channel(8);
        let mut client = PuntStreamClient::new(channel.clone());
        let replies = client.punts(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { messages, replies }
    }

    async fn ask(&mut self, request: Request) -> Result<Reply, Status> {
        self.messages.send(v1::PuntsRequest { request: Some(request) }).await.unwrap();
        self.reply().await
    }

    async fn reply(&mut self) -> Result<Reply, Status> {
        let reply = self.replies.message().await?;
        reply.and_then(|reply| reply.reply).ok_or_else(|| Status::cancelled("the call has ended"))
    }
}

fn subscription(classes: &[&str]) -> Request {
    let classes = classes.iter().map(|class| v1::SubscribedClass {
        class: (*class).to_owned(),
        keys: vec![if *class == test::CLASS { test::KEY } else { test::LINK_KEY }.into()],
        window: 10,
    });
    Request::Subscription(v1::PuntSubscription { classes: classes.collect() })
}

fn injections(class: &str, interface: &str) -> Request {
    let packet = v1::InjectedPacket { interface: interface.to_owned(), data: None };
    let (class, packets) = (class.to_owned(), vec![packet]);
    Request::Injections(v1::PuntInjections { number: 7, class, packets })
}

async fn streams(channel: &Channel) -> Vec<v1::PuntStreamState> {
    let mut client = ForwarderClient::new(channel.clone());
    let mut pages = client.list_punts(v1::ListPuntsRequest {}).await.unwrap().into_inner();
    let mut all = Listing::default();
    while let Some(page) = pages.message().await.unwrap() {
        all.add(page);
    }
    all.streams
}

#[tokio::test]
async fn errors_are_answered_and_the_call_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (channel, end) = forwarder(&folder).await;
    let scenario = async {
        let mut early = Call::open(&channel).await;
        let status = early.ask(subscription(&[test::CLASS])).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        configure(&channel).await;
        let listed = streams(&channel).await;
        let is_hidden = !listed.iter().any(|state| state.class.starts_with(test::CLASS));
        assert!(is_hidden, "while they are unused: {listed:?}");

        let mut call = Call::open(&channel).await;
        let reply = call.ask(subscription(&[test::CLASS, "ike"])).await.unwrap();
        let Reply::Subscribed(subscribed) = reply else { panic!("{reply:?}") };
        assert_eq!(subscribed.refused.len(), 1);
        assert_eq!(subscribed.refused[0].class, "ike");
        for (class, interface, reason) in [
            (test::LINK_CLASS, "a", "has not subscribed to the class"),
            ("ike", "a", "has not subscribed to the class"),
            (test::CLASS, "a", "there is no interface \"a\""),
        ] {
            let reply = call.ask(injections(class, interface)).await.unwrap();
            let Reply::Injected(injected) = reply else { panic!("{reply:?}") };
            assert_eq!((injected.number, injected.sent, injected.refused.len()), (7, 0, 1));
            assert!(injected.refused[0].reason.contains(reason), "{injected:?}");
        }
        // A message of a newer version has no effect.
        call.messages.send(v1::PuntsRequest { request: None }).await.unwrap();
        let reply = call.ask(subscription(&[test::LINK_CLASS])).await.unwrap();
        assert_eq!(reply, Reply::Subscribed(v1::PuntsSubscribed::default()));
        let states = streams(&channel).await;
        let keys = |at: usize| states[at].keys.iter().filter_map(stoa_api::punts::Key::of).next();
        assert_eq!((states[0].is_subscribed, states[0].refused), (false, 1));
        assert_eq!((states[1].is_subscribed, keys(0), keys(1)), (true, None, Some(test::LINK_KEY)));
    };
    tokio::time::timeout(TIMEOUT, scenario).await.unwrap();
    end();
}

#[tokio::test]
async fn the_newest_caller_has_the_subscription_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (channel, end) = forwarder(&folder).await;
    let scenario = async {
        configure(&channel).await;
        let mut old = Call::open(&channel).await;
        old.ask(subscription(&[test::CLASS])).await.unwrap();
        let mut new = Call::open(&channel).await;
        assert_eq!(old.reply().await.unwrap_err().code(), Code::Aborted);
        new.ask(subscription(&[test::CLASS])).await.unwrap();
        drop(old);
        assert!(streams(&channel).await[0].is_subscribed);
        // A caller that goes away, as when its process is killed, loses the subscription; its keys stay.
        drop(new);
        while streams(&channel).await[0].is_subscribed {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(streams(&channel).await[0].keys.len(), 1);
        let mut next = Call::open(&channel).await;
        next.ask(subscription(&[test::CLASS])).await.unwrap();
        assert!(streams(&channel).await[0].is_subscribed);
    };
    tokio::time::timeout(TIMEOUT, scenario).await.unwrap();
    end();
}
