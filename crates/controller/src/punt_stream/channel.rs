//! A capability's end of the punt stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use stoa_api::punts::Key;
use stoa_api::v1;
use tokio::sync::{Notify, mpsc, oneshot};

/// Packets that may wait for a capability; the others wait in the forwarder.
pub(super) const PLACES: usize = 128;

/// Why a packet was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {fix}")]
pub struct Refused {
    /// The cause.
    pub reason: String,
    /// How to fix it.
    pub fix: String,
}

impl Refused {
    /// The stream is not connected.
    pub(super) fn unavailable() -> Refused {
        let reason = "the forwarder does not take packets at the moment".to_owned();
        Refused { reason, fix: "Send it again later.".to_owned() }
    }

    /// Whether the stream is not connected: it may be soon.
    pub fn is_unavailable(&self) -> bool {
        *self == Refused::unavailable()
    }
}

/// A packet to send, and where the answer goes.
pub(super) struct Injection {
    pub(super) class: &'static str,
    pub(super) packet: v1::InjectedPacket,
    pub(super) answer: Answer,
}

/// Where the answer to an injection goes: when the forwarder sent the packet, in microseconds since 1970.
pub(super) type Answer = oneshot::Sender<Result<u64, Refused>>;

/// A request to the task.
pub(super) enum Request {
    Open(Class),
    /// A class has other keys now.
    Keys(&'static str, Vec<Key>),
    Inject(Injection),
}

/// The task's end of a channel.
pub(super) struct Class {
    pub(super) name: &'static str,
    pub(super) keys: Vec<Key>,
    pub(super) packets: mpsc::Sender<v1::PuntedPacket>,
    /// Packets that the capability took since the last report to the forwarder.
    pub(super) taken: Arc<AtomicU32>,
}

/// Packets of a class, and the way back.
#[derive(Debug)]
pub struct PuntChannel {
    sender: PuntSender,
    packets: mpsc::Receiver<v1::PuntedPacket>,
    taken: Arc<AtomicU32>,
    /// Wakes the task.
    changed: Arc<Notify>,
}

/// The way back to the forwarder.
#[derive(Clone, Debug)]
pub struct PuntSender {
    class: &'static str,
    requests: mpsc::Sender<Request>,
}

/// Both ends of a channel.
pub(super) fn open(
    name: &'static str,
    keys: Vec<Key>,
    (requests, changed): (mpsc::Sender<Request>, Arc<Notify>),
) -> (Class, PuntChannel) {
    let (sender, packets) = mpsc::channel(PLACES);
    let taken = Arc::new(AtomicU32::new(0));
    let class = Class { name, keys, packets: sender, taken: Arc::clone(&taken) };
    let sender = PuntSender { class: name, requests };
    (class, PuntChannel { sender, packets, taken, changed })
}

impl PuntChannel {
    /// The next packet; `None`: another channel has replaced this one.
    pub async fn receive(&mut self) -> Option<v1::PuntedPacket> {
        let packet = self.packets.recv().await?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
        Some(packet)
    }

    /// The way back, for tasks beside the one that receives.
    pub fn sender(&self) -> PuntSender {
        self.sender.clone()
    }

    /// Sends a packet: [`PuntSender::inject`].
    ///
    /// # Errors
    /// The forwarder refused it, or is not connected.
    pub async fn inject(&self, packet: v1::InjectedPacket) -> Result<u64, Refused> {
        self.sender.inject(packet).await
    }
}

impl PuntSender {
    /// Replaces the keys of the class. Without keys, nothing of it is punted. What is injected afterwards finds the new
    /// keys in effect.
    pub async fn set_keys(&self, keys: Vec<Key>) {
        // The task ends with the controller.
        let _ = self.requests.send(Request::Keys(self.class, keys)).await;
    }

    /// Sends a packet, and waits for the forwarder's answer. Returns when the forwarder sent it, in microseconds since
    /// 1970.
    ///
    /// # Errors
    /// The forwarder refused it, or is not connected.
    pub async fn inject(&self, packet: v1::InjectedPacket) -> Result<u64, Refused> {
        let (answer, answered) = oneshot::channel();
        let request = Request::Inject(Injection { class: self.class, packet, answer });
        let sent = self.requests.send(request).await;
        sent.map_err(|_| Refused::unavailable())?;
        answered.await.unwrap_or_else(|_| Err(Refused::unavailable()))
    }
}

impl Drop for PuntChannel {
    fn drop(&mut self) {
        self.packets.close();
        self.changed.notify_one();
    }
}
