//! BFD sessions of the contract, checked.

use std::collections::BTreeMap;
use std::net::IpAddr;

use stoa_api::v1;

use super::{Reasons, address};
use crate::bfd::session::Config;

/// Microseconds between packets unless told otherwise, and packets that may be missed, and one.
const USUAL: (u32, u8) = (300_000, 3);
/// Least microseconds: the control thread does other things as well.
const LEAST: u32 = 10_000;

/// The sessions of an interface.
pub(super) fn sessions(
    desired: &[v1::BfdSession],
    place: &str,
    reasons: &mut Reasons,
) -> BTreeMap<IpAddr, Config> {
    let mut sessions = BTreeMap::new();
    for session in desired {
        let Some(peer) = address(&session.address) else {
            let reason = "has a BFD session with no address of 4 or 16 bytes";
            reasons.add(place.to_owned(), reason, "Name the neighbour.");
            continue;
        };
        let or_usual = |micros: u32| if micros == 0 { USUAL.0 } else { micros };
        let multiplier = u8::try_from(session.multiplier).unwrap_or(0);
        let config = Config {
            desired_min_tx: or_usual(session.desired_min_tx_us),
            required_min_rx: or_usual(session.required_min_rx_us),
            multiplier: if session.multiplier == 0 { USUAL.1 } else { multiplier },
        };
        if config.desired_min_tx < LEAST || config.required_min_rx < LEAST || config.multiplier == 0
        {
            let reason =
                format!("has a BFD session with {peer} that is too fast, or misses too much");
            let fix = "Give intervals from 10,000 microseconds on, and a multiplier from 1 to 255.";
            reasons.add(place.to_owned(), reason, fix);
        } else if sessions.insert(peer, config).is_some() {
            let reason = format!("has two BFD sessions with {peer}");
            reasons.add(place.to_owned(), reason, "Send each once.");
        }
    }
    sessions
}
