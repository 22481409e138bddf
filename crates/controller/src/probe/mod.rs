//! `ping` and `traceroute` of the router itself: echo requests from its own addresses and through its own tables. They
//! and their answers cross to the forwarder by the punt stream, in the class `probe`; each series has an identifier of
//! its own, so that those of Linux keep their answers.

mod origin;
mod packet;
mod series;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stoa_api::punts::{Key, PROBE};
use stoa_api::v1::injected_packet::Data;
use stoa_api::v1::probe_reply::Reply;
use stoa_api::{text, v1};
use stoa_wire::echo::Kind;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

pub(crate) use self::origin::one_vrf;
use self::origin::{Origin, Query};
use self::packet::{Arrival, Request};
use self::series::{Series, Step};
use crate::apply::ForwarderConnection;
use crate::call_error::failed;
use crate::operational_state::first_routes;
use crate::punt_stream::{PuntChannel, PuntSender, Refused};

/// Most series at a time.
const SERIES: usize = 16;
/// Answers of a series that may wait for it.
const ARRIVALS: usize = 64;
/// Replies that may wait for the operator.
const REPLIES: usize = 64;
/// Longest wait of the first request for the forwarder.
const OPENING: Duration = Duration::from_secs(2);

type Replies = mpsc::Sender<Result<v1::ProbeReply, Status>>;
type Arrivals = BTreeMap<u16, mpsc::Sender<Arrival>>;

/// All series of the controller.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// Where answers go, by identifier.
    arrivals: Arc<Mutex<Arrivals>>,
    /// The way to the forwarder, once there was a series.
    sender: Arc<tokio::sync::OnceCell<PuntSender>>,
    /// Held by the task that sends the keys.
    sends_keys: Arc<tokio::sync::Mutex<()>>,
}

impl Probes {
    /// Starts a series. It ends when all its requests have a result, or when the stream is dropped.
    ///
    /// # Errors
    /// The request is out of range, there is no way to the destination, too many series run, or the forwarder does not
    /// answer.
    pub async fn start(
        &self,
        connection: &ForwarderConnection,
        request: v1::ProbeRequest,
    ) -> Result<ReceiverStream<Result<v1::ProbeReply, Status>>, Status> {
        let (plan, size) = series::plan(&request)?;
        let (destination, origin) = origin_of(connection, &request).await?;
        let sender = self.sender.get_or_init(|| self.open(connection)).await.clone();
        let (identifier, arrivals) = self.add()?;
        let request = Request {
            source: origin.source,
            destination,
            identifier,
            sequence: 0,
            ttl: 0,
            size,
            dont_fragment: request.dont_fragment,
        };
        if let Err(refusal) = check_length(&request, &origin) {
            self.lock().remove(&identifier);
            return Err(refusal);
        }
        let (replies, receiver) = mpsc::channel(REPLIES);
        let started = v1::ProbeStarted {
            source: text::ip_bytes(origin.source),
            interface: origin.interface.clone(),
            count: plan.count.into(),
            size: size as u32,
            ttl: plan.ttl.into(),
            timeout_ms: (plan.timeout_us / 1000) as u32,
        };
        let _ = replies.try_send(Ok(v1::ProbeReply { reply: Some(Reply::Started(started)) }));
        let probes = self.clone();
        tokio::spawn(async move {
            probes.send_keys(|keys| sender.set_keys(keys)).await;
            let run = Run { sender: &sender, interface: &origin.interface, request, replies };
            // The operator may go at any time.
            let _ = run.run(Series::new(plan), arrivals).await;
            probes.lock().remove(&identifier);
            probes.send_keys(|keys| sender.set_keys(keys)).await;
        });
        Ok(ReceiverStream::new(receiver))
    }

    /// Opens the class of the answers, and hands them to their series from now on.
    async fn open(&self, connection: &ForwarderConnection) -> PuntSender {
        let mut channel: PuntChannel = connection.punts().open(PROBE, vec![]).await;
        let (sender, probes) = (channel.sender(), self.clone());
        tokio::spawn(async move {
            while let Some(packet) = channel.receive().await {
                let Some(arrival) = packet::arrival(&packet) else { continue };
                if let Some(series) = probes.lock().get(&arrival.answer.identifier) {
                    // A series that does not keep up loses answers, as any host does.
                    let _ = series.try_send(arrival);
                }
            }
        });
        sender
    }

    /// Gives a new series an identifier that no other one has.
    fn add(&self) -> Result<(u16, mpsc::Receiver<Arrival>), Status> {
        let mut all = self.lock();
        if all.len() == SERIES {
            return Err(Status::resource_exhausted(format!(
                "{SERIES} pings and traces run already: wait until one of them ends"
            )));
        }
        let identifier = loop {
            // Nobody outside can tell it, and answer in place of the destination.
            let identifier = RandomState::new().hash_one("identifier") as u16;
            if !all.contains_key(&identifier) {
                break identifier;
            }
        };
        let (sender, arrivals) = mpsc::channel(ARRIVALS);
        all.insert(identifier, sender);
        Ok((identifier, arrivals))
    }

    /// Sends the keys of all series. One list at a time is made and sent, so that no older one arrives last.
    async fn send_keys<F: Future<Output = ()>>(&self, send: impl FnOnce(Vec<Key>) -> F) {
        let _turn = self.sends_keys.lock().await;
        send(self.keys()).await;
    }

    fn keys(&self) -> Vec<Key> {
        self.lock().keys().copied().map(Key::EchoIdentifier).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the requests leave.
async fn origin_of(
    connection: &ForwarderConnection,
    request: &v1::ProbeRequest,
) -> Result<(IpAddr, Origin), Status> {
    let destination = text::ip(&request.destination)
        .ok_or_else(|| Status::invalid_argument("the destination is no IP address"))?;
    if destination.is_multicast() || destination.is_unspecified() {
        return Err(Status::invalid_argument(format!(
            "{destination} is not the address of a host"
        )));
    }
    let listed = connection.client().list_interfaces(v1::ListInterfacesRequest::default()).await;
    let interfaces = listed.map_err(failed)?.into_inner().interfaces;
    let mut vrf = request.vrf.as_str();
    if !request.interface.is_empty() {
        let own = origin::named(&interfaces, &request.interface)?.vrf.as_str();
        if !vrf.is_empty() && vrf != own {
            return Err(Status::invalid_argument(format!(
                "{} is not in VRF {vrf}: leave one of the two out",
                request.interface
            )));
        }
        vrf = own;
    }
    let source = text::ip(&request.source);
    if source.is_some_and(|source| source.is_ipv4() != destination.is_ipv4()) {
        return Err(Status::invalid_argument(
            "source and destination are of different address families",
        ));
    }
    let length = if destination.is_ipv4() { 32 } else { 128 };
    let prefix = v1::Prefix { address: request.destination.clone(), length };
    let route = match origin::needs_route(destination) {
        true => {
            let request = v1::ListRoutesRequest {
                family: if destination.is_ipv4() { 4 } else { 6 },
                longest_match: Some(prefix),
                vrf: vrf.to_owned(),
                ..Default::default()
            };
            first_routes(connection, request, 1).await.map_err(failed)?.listed.into_iter().next()
        }
        false => None,
    };
    let query = Query { destination, vrf, source, interface: &request.interface };
    Ok((destination, origin::choose(&query, &interfaces, route.as_ref())?))
}

/// Refuses what can never leave unfragmented. The forwarder would drop it without an answer.
fn check_length(request: &Request, origin: &Origin) -> Result<(), Status> {
    let Some((interface, mtu)) = origin.mtu.as_ref().filter(|_| request.dont_fragment) else {
        return Ok(());
    };
    let (length, mtu) = (request.length(), *mtu as usize);
    if length <= mtu {
        return Ok(());
    }
    let most = mtu.saturating_sub(length - request.size);
    Err(Status::invalid_argument(format!(
        "packets of {length} bytes exceed the MTU of {interface}, {mtu}: choose a size of at most {most}, or leave \
         out df"
    )))
}

/// A series that runs.
struct Run<'a> {
    sender: &'a PuntSender,
    /// Whose VRF routes the requests.
    interface: &'a str,
    /// All of them but for sequence and TTL.
    request: Request,
    replies: Replies,
}

/// The operator has gone.
struct Gone;

impl Run<'_> {
    async fn run(
        &self,
        mut series: Series,
        mut arrivals: mpsc::Receiver<Arrival>,
    ) -> Result<(), Gone> {
        let begun = Instant::now();
        let now_us = || begun.elapsed().as_micros() as u64;
        loop {
            for (sequence, ttl) in series.expired(now_us()) {
                let state = v1::ProbeState::ProbeTimeout;
                self.reply(result((sequence, ttl), state)).await?;
            }
            match series.step(now_us()) {
                Step::Done => return Ok(()),
                Step::Send { sequence, ttl } => {
                    let sent = self.send(sequence, ttl).await?;
                    series.sent(now_us(), sent);
                }
                Step::WaitUntil(until_us) => {
                    let wait = Duration::from_micros(until_us.saturating_sub(now_us()));
                    tokio::select! {
                        Some(arrival) = arrivals.recv() => self.answered(&mut series, &arrival).await?,
                        () = self.replies.closed() => return Err(Gone),
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
    }

    /// Sends a request; `None`: it was refused, which the operator knows by now.
    async fn send(&self, sequence: u16, ttl: u8) -> Result<Option<u64>, Gone> {
        let packet = Request { sequence, ttl, ..self.request }.build().unwrap_or_default();
        let interface = self.interface.to_owned();
        let injected = v1::InjectedPacket { interface, data: Some(Data::Packet(packet)) };
        let mut sent = self.sender.inject(injected.clone()).await;
        // The first series after a start opens the stream.
        let opened_by = Instant::now() + OPENING;
        while sequence == 1
            && sent.as_ref().is_err_and(Refused::is_unavailable)
            && Instant::now() < opened_by
        {
            tokio::time::sleep(OPENING / 100).await;
            sent = self.sender.inject(injected.clone()).await;
        }
        match sent {
            Ok(sent_unix_us) => Ok(Some(sent_unix_us)),
            Err(refused) => {
                let state = v1::ProbeState::ProbeRefused;
                let reason = refused.to_string();
                self.reply(v1::ProbeResult { reason, ..result((sequence, ttl), state) }).await?;
                Ok(None)
            }
        }
    }

    async fn answered(&self, series: &mut Series, arrival: &Arrival) -> Result<(), Gone> {
        if !arrival.is_about(self.request.destination) {
            return Ok(());
        }
        let sequence = arrival.answer.sequence;
        let is_reply = matches!(arrival.answer.kind, Kind::Reply { .. });
        let Some(request) = series.answered(sequence, is_reply || is_final(arrival)) else {
            return Ok(());
        };
        let state = if is_reply { v1::ProbeState::ProbeReply } else { v1::ProbeState::ProbeError };
        let rtt_us = arrival.received_unix_us.saturating_sub(request.sent_unix_us);
        self.reply(v1::ProbeResult {
            from: text::ip_bytes(arrival.from),
            rtt_us: rtt_us.try_into().unwrap_or(u32::MAX),
            size: arrival.size as u32,
            answer_ttl: arrival.ttl.into(),
            reason: packet::reason(arrival),
            ..result((sequence, request.ttl), state)
        })
        .await
    }

    async fn reply(&self, result: v1::ProbeResult) -> Result<(), Gone> {
        let reply = v1::ProbeReply { reply: Some(Reply::Result(result)) };
        self.replies.send(Ok(reply)).await.map_err(|_| Gone)
    }
}

/// Whether no request with a larger TTL can get further: the error is not about the TTL.
fn is_final(arrival: &Arrival) -> bool {
    let exceeded = if arrival.from.is_ipv4() { 11 } else { 3 };
    !matches!(arrival.answer.kind, Kind::Error { kind, .. } if kind == exceeded)
}

fn result((sequence, ttl): (u16, u8), state: v1::ProbeState) -> v1::ProbeResult {
    v1::ProbeResult {
        sequence: sequence.into(),
        ttl: ttl.into(),
        state: state.into(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_never_leave_are_refused_with_the_size_that_does() {
        let request = Request {
            source: "192.0.2.1".parse().unwrap(),
            destination: "192.0.2.2".parse().unwrap(),
            identifier: 1,
            sequence: 1,
            ttl: 64,
            size: 1472,
            dont_fragment: true,
        };
        let origin = Origin {
            source: request.source,
            interface: "eth0".into(),
            mtu: Some(("eth0".into(), 1500)),
        };
        assert!(check_length(&request, &origin).is_ok());
        let long = Request { size: 1473, ..request };
        let refusal = check_length(&long, &origin).unwrap_err();
        assert!(refusal.message().contains("at most 1472"), "{refusal}");
        assert!(check_length(&Request { dont_fragment: false, ..long }, &origin).is_ok());
        let tiny = Origin { mtu: Some(("eth0".into(), 20)), ..origin };
        assert!(check_length(&request, &tiny).unwrap_err().message().contains("at most 0"));
    }

    #[tokio::test]
    async fn the_newest_keys_arrive_last() {
        let (probes, arrived) = (Probes::default(), Mutex::new(Vec::new()));
        let (finish, finished) = tokio::sync::oneshot::channel::<()>();
        let arrived = &arrived;
        let first = probes.add().unwrap();
        let slow = probes.send_keys(|keys| async move {
            finished.await.unwrap();
            arrived.lock().unwrap().push(keys.len());
        });
        let fast = async {
            let second = probes.add().unwrap();
            let send = |keys: Vec<Key>| async move { arrived.lock().unwrap().push(keys.len()) };
            probes.send_keys(send).await;
            second
        };
        let finish = async {
            tokio::task::yield_now().await;
            finish.send(()).unwrap();
        };
        let ((), second, ()) = tokio::join!(slow, fast, finish);
        assert_eq!(*arrived.lock().unwrap(), [1, 2]);
        assert_ne!(first.0, second.0);
    }

    #[test]
    fn identifiers_are_unique_and_limited() {
        let probes = Probes::default();
        let all: Vec<_> = (0..SERIES).map(|_| probes.add().unwrap()).collect();
        assert_eq!(probes.keys().len(), SERIES);
        assert!(probes.add().unwrap_err().message().contains("run already"));
        probes.lock().remove(&all[3].0);
        assert!(probes.add().is_ok());
    }
}
