//! Hosts that have logged in: list, and log out.

use stoa_api::v1;

use super::Service;
use crate::login::{Cause, Session};

impl Service {
    /// All hosts that have logged in.
    pub(super) fn logins(&self) -> v1::ShowLoginsReply {
        let listed = self.connection.logins().list();
        let now = listed.now_s;
        let host = |it: &Session| v1::HostLogin {
            interface: it.interface.clone(),
            mac: it.mac.to_vec(),
            user: it.user.clone(),
            method: it.method.name().to_owned(),
            age_s: it.age_s(now),
            idle_s: it.idle_s(now),
            remaining_s: it.remaining_s(now),
            remaining_bytes: it.remaining_bytes(),
            in_packets: it.total().in_packets,
            in_bytes: it.total().in_bytes,
            out_packets: it.total().out_packets,
            out_bytes: it.total().out_bytes,
            session_id: it.session_id(),
            address: it.address.clone(),
            is_standby: it.is_standby(),
        };
        v1::ShowLoginsReply { hosts: listed.sessions.iter().map(host).collect() }
    }

    /// Logs out hosts that meet all conditions of a request.
    pub(super) fn clear_logins(&self, request: &v1::ClearLoginsRequest) -> v1::ClearLoginsReply {
        let is = |asked: &str, value: &str| asked.is_empty() || asked == value;
        let meets = |it: &Session| {
            is(&request.interface, &it.interface)
                && is(&request.user, &it.user)
                && (request.mac.is_empty() || request.mac == it.mac)
        };
        v1::ClearLoginsReply { hosts: self.connection.logins().end(Cause::Operator, meets) }
    }
}
