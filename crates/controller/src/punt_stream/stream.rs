//! The task that owns the call: subscribes, hands packets to the channels, sends injections, and opens the call again
//! whenever it breaks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stoa_api::punts::{BATCH_PACKETS, Key};
use stoa_api::v1;
use stoa_api::v1::punt_stream_client::PuntStreamClient;
use stoa_api::v1::punts_reply::Reply;
use stoa_api::v1::punts_request::Request as Message;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::channel::{Answer, Class, Injection, PLACES, Refused, Request};
use crate::open_call::{next_reply, opened};

/// Messages that may wait for the forwarder.
const MESSAGES: usize = 16;
/// Delay before the call is opened again.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);
/// The same with a forwarder that is too old for it.
const UNKNOWN_DELAY: Duration = Duration::from_secs(10);
/// Interval at which a message that did not fit is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Taken packets that are worth a message.
const TAKEN: u32 = PLACES as u32 / 4;

/// An open call.
struct Call {
    messages: mpsc::Sender<v1::PuntsRequest>,
    replies: tonic::Streaming<v1::PuntsReply>,
    /// Whether the forwarder has the subscription as it is.
    is_subscribed: bool,
    /// Whether it has had any.
    is_new: bool,
}

impl Call {
    /// Sends a message; `false`: there is no room now.
    fn send(&self, message: impl FnOnce() -> Message) -> bool {
        let Ok(permit) = self.messages.try_reserve() else { return false };
        permit.send(v1::PuntsRequest { request: Some(message()) });
        true
    }
}

pub(super) struct Task {
    client: PuntStreamClient<Channel>,
    requests: mpsc::Receiver<Request>,
    /// A channel has taken packets, or was dropped.
    changed: Arc<Notify>,
    classes: BTreeMap<&'static str, Class>,
    call: Option<Call>,
    opening: Option<JoinHandle<Result<Call, Status>>>,
    waiting: VecDeque<Injection>,
    /// Those that the forwarder has not answered yet, by number of the message.
    sent: BTreeMap<u64, Vec<Answer>>,
    number: u64,
    /// Why classes were last refused: logged once.
    refusals: BTreeMap<String, String>,
}

/// What woke the task.
enum Event {
    Reply(Result<Option<v1::PuntsReply>, Status>),
    Opened(Result<Call, Status>),
    Request(Option<Request>),
    Changed,
    Retry,
}

impl Task {
    pub(super) fn new(
        client: PuntStreamClient<Channel>,
        requests: mpsc::Receiver<Request>,
        changed: Arc<Notify>,
    ) -> Task {
        Task {
            client,
            requests,
            changed,
            classes: BTreeMap::new(),
            call: None,
            opening: None,
            waiting: VecDeque::new(),
            sent: BTreeMap::new(),
            number: 0,
            refusals: BTreeMap::new(),
        }
    }

    /// Runs until nobody can open a channel any more.
    pub(super) async fn run(mut self) {
        let mut retry = tokio::time::interval(RETRY_INTERVAL);
        loop {
            let is_done = self.send();
            let has_room = self.waiting.len() < BATCH_PACKETS;
            let event = tokio::select! {
                biased;
                reply = next_reply(self.call.as_mut().map(|call| &mut call.replies)) => Event::Reply(reply),
                opened = opened(&mut self.opening) => Event::Opened(opened),
                () = self.changed.notified() => Event::Changed,
                request = self.requests.recv(), if has_room => Event::Request(request),
                _ = retry.tick(), if !is_done => Event::Retry,
            };
            match event {
                Event::Reply(Ok(Some(reply))) => self.receive(reply),
                Event::Reply(Ok(None)) => self.broke(&Status::unavailable("the call has ended")),
                Event::Reply(Err(status)) | Event::Opened(Err(status)) => self.broke(&status),
                Event::Opened(Ok(call)) => {
                    self.opening = None;
                    self.call = Some(call);
                }
                Event::Request(Some(Request::Open(class))) => self.open(class),
                Event::Request(Some(Request::Keys(class, keys))) => self.set_keys(class, keys),
                Event::Request(Some(Request::Inject(injection))) => {
                    self.waiting.push_back(injection);
                }
                Event::Request(None) => return,
                Event::Changed => self.remove_closed(),
                Event::Retry => {}
            }
        }
    }

    fn open(&mut self, class: Class) {
        match self.classes.insert(class.name, class) {
            // The window of the former channel must not be that of the new one.
            Some(_) if self.call.is_some() => {
                self.broke(&Status::aborted("another channel of a class was opened"));
            }
            _ => self.resubscribe(),
        }
        if self.call.is_none() && self.opening.is_none() {
            self.reopen(Duration::ZERO);
        }
    }

    fn set_keys(&mut self, class: &str, keys: Vec<Key>) {
        if let Some(class) = self.classes.get_mut(class) {
            class.keys = keys;
            self.resubscribe();
        }
    }

    fn remove_closed(&mut self) {
        let before = self.classes.len();
        self.classes.retain(|_, class| !class.packets.is_closed());
        if self.classes.len() < before {
            self.resubscribe();
        }
    }

    fn resubscribe(&mut self) {
        if let Some(call) = &mut self.call {
            call.is_subscribed = false;
        }
    }

    fn reopen(&mut self, delay: Duration) {
        let mut client = self.client.clone();
        self.opening = Some(tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let (messages, receiver) = mpsc::channel(MESSAGES);
            let replies = client.punts(ReceiverStream::new(receiver)).await?.into_inner();
            Ok(Call { messages, replies, is_subscribed: false, is_new: true })
        }));
    }

    fn broke(&mut self, status: &Status) {
        tracing::debug!(%status, "the punt stream broke");
        self.call = None;
        let waiting = self.waiting.drain(..).map(|injection| injection.answer);
        for answer in waiting.chain(std::mem::take(&mut self.sent).into_values().flatten()) {
            // Who asked may have given up.
            let _ = answer.send(Err(Refused::unavailable()));
        }
        let is_unknown = status.code() == Code::Unimplemented;
        self.reopen(if is_unknown { UNKNOWN_DELAY } else { RECONNECT_DELAY });
    }

    /// Sends what there is to send; `false`: something did not fit.
    fn send(&mut self) -> bool {
        let Some(call) = &mut self.call else {
            for injection in self.waiting.drain(..) {
                let _ = injection.answer.send(Err(Refused::unavailable()));
            }
            return true;
        };
        if !call.is_subscribed {
            if std::mem::take(&mut call.is_new) {
                // The windows begin with the free places.
                self.classes.values().for_each(|class| class.taken.store(0, Ordering::Relaxed));
            }
            if !call.send(|| Message::Subscription(subscription(&self.classes))) {
                return false;
            }
            call.is_subscribed = true;
        }
        for class in self.classes.values() {
            let packets = class.taken.load(Ordering::Relaxed);
            let taken = || v1::PuntsTaken { class: class.name.to_owned(), packets };
            if packets < TAKEN {
                continue;
            }
            if !call.send(|| Message::Taken(taken())) {
                return false;
            }
            class.taken.fetch_sub(packets, Ordering::Relaxed);
        }
        while let Some(first) = self.waiting.front() {
            let (class, number) = (first.class, self.number + 1);
            let Ok(permit) = call.messages.try_reserve() else { return false };
            let count = self.waiting.iter().take(BATCH_PACKETS);
            let count = count.take_while(|injection| injection.class == class).count();
            let all = self.waiting.drain(..count).map(|it| (it.packet, it.answer));
            let (packets, answers) = all.unzip();
            let injections = v1::PuntInjections { number, class: class.to_owned(), packets };
            permit.send(v1::PuntsRequest { request: Some(Message::Injections(injections)) });
            self.sent.insert(number, answers);
            self.number = number;
        }
        true
    }

    fn receive(&mut self, reply: v1::PuntsReply) {
        match reply.reply {
            Some(Reply::Packets(v1::PuntedPackets { class, packets })) => {
                let Some(class) = self.classes.get(class.as_str()) else { return };
                for packet in packets {
                    // There is room, unless the capability has ended.
                    if class.packets.try_send(packet).is_err() {
                        tracing::debug!(class = class.name, "no place for a packet");
                    }
                }
            }
            Some(Reply::Injected(v1::PuntsInjected { number, refused, sent_unix_us, .. })) => {
                let mut refused: BTreeMap<_, _> =
                    refused.into_iter().map(|it| (it.index as usize, it)).collect();
                let answers = self.sent.remove(&number).unwrap_or_default();
                for (index, answer) in answers.into_iter().enumerate() {
                    let refused = refused.remove(&index);
                    let refused = refused.map(|it| Refused { reason: it.reason, fix: it.fix });
                    let _ = answer.send(refused.map_or(Ok(sent_unix_us), Err));
                }
            }
            Some(Reply::Subscribed(v1::PuntsSubscribed { refused })) => {
                for v1::RefusedClass { class, reason, fix } in refused {
                    if self.refusals.insert(class.clone(), reason.clone()).as_ref() != Some(&reason)
                    {
                        tracing::error!(class, fix, "the forwarder refused a class: {reason}");
                    }
                }
            }
            // Of a newer version.
            None => {}
        }
    }
}

fn subscription(classes: &BTreeMap<&'static str, Class>) -> v1::PuntSubscription {
    let with_keys = classes.values().filter(|class| !class.keys.is_empty());
    let classes = with_keys.map(|class| v1::SubscribedClass {
        class: class.name.to_owned(),
        keys: class.keys.iter().map(|key| (*key).into()).collect(),
        window: class.packets.capacity().max(1) as u32,
    });
    v1::PuntSubscription { classes: classes.collect() }
}
