//! BFD sessions of the contract, checked.

use std::collections::BTreeMap;
use std::net::IpAddr;

use stoa_api::audit::{BFD_INTERVAL_US, BFD_MULTIPLIER};
use stoa_api::v1;

use super::{ValidationErrors, address};
use crate::bfd::session::Config;

/// Default interval in microseconds, and default multiplier.
const DEFAULT: (u32, u8) = (BFD_INTERVAL_US, BFD_MULTIPLIER as u8);
/// Shortest interval in microseconds: the control thread has other work as well.
const MIN_INTERVAL_US: u32 = 10_000;

/// The sessions of an interface.
pub(super) fn sessions(
    desired: &[v1::BfdSession],
    path: &str,
    errors: &mut ValidationErrors,
) -> BTreeMap<IpAddr, Config> {
    let mut sessions = BTreeMap::new();
    for session in desired {
        let Some(peer) = address(&session.address) else {
            let cause = "has a BFD session whose address is not 4 or 16 bytes";
            errors.add(path.to_owned(), cause, "Set the address of the neighbour.");
            continue;
        };
        let or_default = |micros: u32| if micros == 0 { DEFAULT.0 } else { micros };
        let multiplier = u8::try_from(session.multiplier).unwrap_or(0);
        let config = Config {
            desired_min_tx: or_default(session.desired_min_tx_us),
            required_min_rx: or_default(session.required_min_rx_us),
            multiplier: if session.multiplier == 0 { DEFAULT.1 } else { multiplier },
        };
        if config.desired_min_tx < MIN_INTERVAL_US
            || config.required_min_rx < MIN_INTERVAL_US
            || config.multiplier == 0
        {
            let cause = format!(
                "has a BFD session with {peer} with the intervals {} and {} us and the multiplier {}",
                config.desired_min_tx, config.required_min_rx, session.multiplier
            );
            let fix = "Use intervals of at least 10,000 us, and a multiplier from 1 to 255.";
            errors.add(path.to_owned(), cause, fix);
        } else if sessions.insert(peer, config).is_some() {
            let cause = format!("has two BFD sessions with {peer}");
            errors.add(path.to_owned(), cause, "Send each session once.");
        }
    }
    sessions
}
