//! Profiles of stateful rules: from the contract and back.

use stoa_api::v1;

use crate::flow::profiles::Profile;
use crate::flow::tcp::Options;
use crate::flow::timeouts::{Class, Timeouts};

/// A profile of the contract; `None`: a timeout is missing.
pub(super) fn checked(profile: &v1::FlowProfile) -> Option<Profile> {
    let seconds = [
        profile.tcp_opening_s,
        profile.tcp_established_s,
        profile.tcp_half_closed_s,
        profile.tcp_closing_s,
        profile.tcp_time_wait_s,
        profile.tcp_reset_s,
        profile.udp_new_s,
        profile.udp_replied_s,
        profile.icmp_s,
        profile.other_new_s,
        profile.other_replied_s,
    ];
    let mut timeouts = Timeouts::default();
    for (class, seconds) in Class::ALL.into_iter().zip(seconds) {
        if seconds == 0 {
            return None;
        }
        timeouts.set(class, seconds);
    }
    let options = Options { loose: profile.tcp_loose, liberal: profile.tcp_liberal };
    Some(Profile { timeouts, options })
}

/// The same as a message of the contract.
pub(super) fn message(profile: &Profile) -> v1::FlowProfile {
    let of = |class| profile.timeouts.of(class);
    v1::FlowProfile {
        tcp_opening_s: of(Class::TcpOpening),
        tcp_established_s: of(Class::TcpEstablished),
        tcp_half_closed_s: of(Class::TcpHalfClosed),
        tcp_closing_s: of(Class::TcpClosing),
        tcp_time_wait_s: of(Class::TcpTimeWait),
        tcp_reset_s: of(Class::TcpReset),
        udp_new_s: of(Class::UdpNew),
        udp_replied_s: of(Class::UdpReplied),
        icmp_s: of(Class::Icmp),
        other_new_s: of(Class::OtherNew),
        other_replied_s: of(Class::OtherReplied),
        tcp_loose: profile.options.loose,
        tcp_liberal: profile.options.liberal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_has_the_same_defaults_and_each_timeout_has_its_field() {
        let default = stoa_api::flow::default_profile();
        assert_eq!(checked(&default), Some(Profile::default()));
        let mut profile = Profile::default();
        for (seconds, class) in (1..).zip(Class::ALL) {
            profile.timeouts.set(class, seconds);
        }
        profile.options.liberal = true;
        let sent = message(&profile);
        assert_eq!(checked(&sent), Some(profile));
        assert_eq!((sent.tcp_opening_s, sent.other_replied_s, sent.tcp_loose), (1, 11, false));
        assert_eq!(checked(&v1::FlowProfile { icmp_s: 0, ..default }), None);
    }
}
