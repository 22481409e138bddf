//! What a flow begins with.

use super::key::FlowKey;
use super::line::TCP_WORDS;
use super::memory::Kind;

/// A flow to create.
#[derive(Clone, Copy, Debug)]
pub struct NewFlow {
    /// The key of its first packet.
    pub key: FlowKey,
    /// The key of its replies, when they do not have the reversed one. The key itself and the reversed one count as
    /// none: the flow is not translated.
    pub reply_key: Option<FlowKey>,
    /// The epoch of the policy.
    pub epoch: u16,
    /// The timeout class.
    pub class: u8,
    /// Its flags, those of its [`Eviction`](super::Eviction) among them.
    pub flags: u8,
    /// The rule that admitted it, below 2^24.
    pub rule: u32,
    /// The pair of zones.
    pub zone_pair: u16,
    /// The state of TCP.
    pub tcp: [u32; TCP_WORDS],
}

impl NewFlow {
    /// A flow with zeros for everything but its keys.
    pub fn new(key: FlowKey, reply_key: Option<FlowKey>) -> Self {
        Self { key, reply_key, epoch: 0, class: 0, flags: 0, rule: 0, zone_pair: 0, tcp: [0; _] }
    }

    /// The key of its replies, if they have neither its key nor the reversed one.
    pub(super) fn second_key(&self) -> Option<FlowKey> {
        self.reply_key.filter(|reply| *reply != self.key && *reply != self.key.reversed())
    }

    pub(super) fn kind(&self) -> Kind {
        match (self.key.is_ip6(), self.second_key()) {
            (false, None) => Kind::Ip4,
            (true, None) => Kind::Ip6,
            (false, Some(reply)) if !reply.is_ip6() => Kind::TranslatedIp4,
            (_, Some(_)) => Kind::TranslatedIp6,
        }
    }
}
