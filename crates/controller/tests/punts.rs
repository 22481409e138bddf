//! Protocols in the controller over the contract, with a forwarder that the test plays: subscriptions, windows, packets
//! there and back, refusals, and a forwarder that restarts.

#[path = "fake/served.rs"]
mod served;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::punts::{Key, test};
use stoa_api::v1::injected_packet::Data;
use stoa_api::v1::punt_stream_server::{PuntStream, PuntStreamServer};
use stoa_api::v1::{punts_reply::Reply, punts_request::Request as Message};
use stoa_api::{unix, v1};
use stoa_controller::punt_stream::{PuntChannel, Punts};
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use served::Served;

const PATIENCE: Duration = Duration::from_secs(20);
/// Packets that wait for a capability in the controller.
const PLACES: usize = 128;
/// When the forwarder says that it sent a packet.
const SENT_US: u64 = 5;

type Replies = mpsc::Sender<Result<v1::PuntsReply, Status>>;

/// A call of the controller.
struct Call {
    messages: Streaming<v1::PuntsRequest>,
    replies: Replies,
}

struct Service(mpsc::Sender<Call>);

#[tonic::async_trait]
impl PuntStream for Service {
    type PuntsStream = ReceiverStream<Result<v1::PuntsReply, Status>>;

    async fn punts(
        &self,
        request: Request<Streaming<v1::PuntsRequest>>,
    ) -> Result<Response<Self::PuntsStream>, Status> {
        let (replies, receiver) = mpsc::channel(16);
        let call = Call { messages: request.into_inner(), replies };
        self.0.send(call).await.map_err(|_| Status::unavailable("over"))?;
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// The forwarder.
struct Forwarder {
    calls: Mutex<mpsc::Receiver<Call>>,
    _served: Served,
}

impl Forwarder {
    fn start(socket: &Path) -> Forwarder {
        let (sender, calls) = mpsc::channel(4);
        let service = PuntStreamServer::new(Service(sender));
        let services = tonic::transport::Server::builder().add_service(service);
        Forwarder { calls: Mutex::new(calls), _served: Served::start(socket, services) }
    }

    async fn call(&self) -> Call {
        self.calls.lock().await.recv().await.expect("a call")
    }
}

impl Call {
    async fn message(&mut self) -> Message {
        self.messages.message().await.unwrap().unwrap().request.unwrap()
    }

    async fn subscription(&mut self) -> Vec<v1::SubscribedClass> {
        match self.message().await {
            Message::Subscription(subscription) => subscription.classes,
            other => panic!("no subscription: {other:?}"),
        }
    }

    async fn injections(&mut self) -> v1::PuntInjections {
        loop {
            match self.message().await {
                Message::Injections(injections) => return injections,
                Message::Taken(_) => {}
                other => panic!("no injections: {other:?}"),
            }
        }
    }

    async fn reply(&self, reply: Reply) {
        self.replies.send(Ok(v1::PuntsReply { reply: Some(reply) })).await.unwrap();
    }

    async fn packets(&self, class: &str, payloads: impl Iterator<Item = Vec<u8>>) {
        let packet = |payload| v1::PuntedPacket {
            interface: "a".into(),
            ethertype: 0x88b5,
            link_header: (0..12).chain([0x88, 0xb5]).collect(),
            payload,
            ..Default::default()
        };
        let packets = payloads.map(packet).collect();
        self.reply(Reply::Packets(v1::PuntedPackets { class: class.into(), packets })).await;
    }

    async fn answer(&self, number: u64, refused: Vec<v1::RefusedInjection>) {
        self.reply(Reply::Injected(v1::PuntsInjected {
            number,
            refused,
            sent_unix_us: SENT_US,
            ..Default::default()
        }))
        .await;
    }
}

struct Controller {
    punts: Arc<Punts>,
    task: tokio::task::JoinHandle<()>,
}

impl Controller {
    fn start(socket: &Path) -> Controller {
        let punts = Arc::new(Punts::new(unix::connect_lazily(socket)));
        let running = Arc::clone(&punts);
        Controller { punts, task: tokio::spawn(async move { running.run().await }) }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn in_time<T>(scenario: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, scenario).await.expect("in time")
}

async fn payload(channel: &mut PuntChannel) -> Vec<u8> {
    channel.receive().await.unwrap().payload
}

fn frame(bytes: &[u8]) -> v1::InjectedPacket {
    v1::InjectedPacket { interface: "a".into(), data: Some(Data::Frame(bytes.to_vec())) }
}

#[tokio::test]
async fn the_test_capability_echoes_over_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("forwarder");
    in_time(async {
        let forwarder = Forwarder::start(&socket);
        let controller = Controller::start(&socket);
        controller.punts.start_tests().await;
        let mut call = forwarder.call().await;
        let mut classes = call.subscription().await;
        while classes.len() < 2 {
            classes = call.subscription().await;
        }
        let keys = |at: usize| Key::of(&classes[at].keys[0]).unwrap();
        assert_eq!((&*classes[0].class, keys(0)), (test::CLASS, test::KEY));
        assert_eq!((&*classes[1].class, keys(1)), (test::LINK_CLASS, test::LINK_KEY));
        call.packets(test::LINK_CLASS, [vec![1, 2, 3]].into_iter()).await;
        let v1::PuntInjections { number, class, packets } = call.injections().await;
        assert_eq!((&*class, packets.len(), &*packets[0].interface), (test::LINK_CLASS, 1, "a"));
        let expected = [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 0x88, 0xb5, 1, 2, 3];
        assert_eq!(packets[0].data, Some(Data::Frame(expected.to_vec())));
        call.answer(number, vec![]).await;
    })
    .await;
}

#[tokio::test]
async fn a_refused_packet_does_not_end_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("forwarder");
    in_time(async {
        let forwarder = Forwarder::start(&socket);
        let controller = Controller::start(&socket);
        let channel = controller.punts.open("link", vec![test::LINK_KEY]).await;
        let mut call = forwarder.call().await;
        call.subscription().await;
        // A refused class is logged, and nothing else.
        let refused = v1::RefusedClass { class: "link".into(), ..Default::default() };
        call.reply(Reply::Subscribed(v1::PuntsSubscribed { refused: vec![refused] })).await;
        let forwarder_side = async {
            let mut seen = 0;
            while seen < 2 {
                let v1::PuntInjections { number, packets, .. } = call.injections().await;
                let is_long = |packet: &v1::InjectedPacket| match &packet.data {
                    Some(Data::Frame(frame)) => frame.len() > 20,
                    _ => false,
                };
                let refused = packets.iter().enumerate().filter(|(_, packet)| is_long(packet));
                let refused = refused.map(|(index, _)| v1::RefusedInjection {
                    index: index as u32,
                    reason: "too long".into(),
                    fix: "Send less.".into(),
                });
                call.answer(number, refused.collect()).await;
                seen += packets.len();
            }
        };
        let (long, short) = (frame(&[0; 30]), frame(&[0; 20]));
        let (long, short, ()) =
            tokio::join!(channel.inject(long), channel.inject(short), forwarder_side);
        let refused = long.unwrap_err();
        assert_eq!(
            (&*refused.reason, &*refused.fix, short),
            ("too long", "Send less.", Ok(SENT_US))
        );
    })
    .await;
}

#[tokio::test]
async fn a_slow_capability_fills_its_own_window_only() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("forwarder");
    in_time(async {
        let forwarder = Forwarder::start(&socket);
        let controller = Controller::start(&socket);
        let mut slow = controller.punts.open("slow", vec![Key::UdpPort(500)]).await;
        let mut fast = controller.punts.open("fast", vec![Key::UdpPort(67)]).await;
        let mut call = forwarder.call().await;
        let mut classes = call.subscription().await;
        while classes.len() < 2 {
            classes = call.subscription().await;
        }
        assert!(classes.iter().all(|class| class.window as usize == PLACES), "{classes:?}");
        call.packets("slow", (0..PLACES).map(|at| vec![at as u8])).await;
        for at in 0..PLACES {
            call.packets("fast", [vec![at as u8]].into_iter()).await;
            assert_eq!(payload(&mut fast).await, [at as u8]);
        }
        // What was taken is reported: of the fast class all, of the slow one nothing.
        let mut taken = 0;
        while taken < PLACES {
            match call.message().await {
                Message::Taken(report) if report.class == "fast" => {
                    taken += report.packets as usize
                }
                other => panic!("{other:?}"),
            }
        }
        for at in 0..PLACES {
            assert_eq!(payload(&mut slow).await, [at as u8], "none is lost");
        }
        assert!(matches!(call.message().await, Message::Taken(report) if report.class == "slow"));
        // A dropped channel ends the subscription of its class, and no other.
        drop(slow);
        let classes = loop {
            match call.message().await {
                Message::Subscription(subscription) => break subscription.classes,
                Message::Taken(_) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(classes.iter().map(|class| &*class.class).collect::<Vec<_>>(), ["fast"]);
        call.packets("fast", [vec![7]].into_iter()).await;
        assert_eq!(payload(&mut fast).await, [7]);
    })
    .await;
}

#[tokio::test]
async fn a_forwarder_that_restarts_gets_the_subscription_again() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("forwarder");
    in_time(async {
        let controller = Controller::start(&socket);
        let mut channel = controller.punts.open("link", vec![test::LINK_KEY]).await;
        let unavailable = channel.inject(frame(&[0; 20])).await.unwrap_err();
        assert!(unavailable.reason.contains("does not take packets"), "{unavailable}");
        for at in 0..3 {
            let forwarder = Forwarder::start(&socket);
            let mut call = forwarder.call().await;
            let classes = call.subscription().await;
            // One packet of the former forwarder still waits for the capability.
            let window = PLACES - usize::from(at > 0);
            assert_eq!((classes.len(), classes[0].window as usize), (1, window));
            call.packets("link", [vec![at], vec![at]].into_iter()).await;
            if at > 0 {
                assert_eq!(payload(&mut channel).await, [at - 1]);
            }
            assert_eq!(payload(&mut channel).await, [at]);
            // An injection that the forwarder never answers.
            let (answer, ()) = tokio::join!(channel.inject(frame(&[0; 20])), async {
                call.injections().await;
                drop(call);
                drop(forwarder);
            });
            assert_eq!(answer.unwrap_err().reason, unavailable.reason);
            let _ = std::fs::remove_file(&socket);
        }
    })
    .await;
}
