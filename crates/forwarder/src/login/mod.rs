//! Login of hosts: an interface lets hosts reach little more than a portal until they have logged in.
//!
//! A login is an interface and a MAC address, so that all addresses of a host follow, of both families. The input
//! features let packets of known hosts pass and count them, and decide about those of others ([`admits`]). The output
//! features count what known hosts get, and let unknown ones get answers alone. What an unknown host asks of web
//! servers by HTTP, `ip4-login-redirect` and `ip6-login-redirect` answer with the address of the portal.

pub mod admits;
mod beside;
mod hosts;
mod input;
mod output;
mod redirect;
pub mod shares;
mod source;
pub mod traffic;

pub use admits::{Admits, Prefixes};
pub use beside::{beside_arc4, beside_arc6};
pub use hosts::{LoginInterface, Logins};
pub use input::{EDGES4, EDGES6, make_input4, make_input6};
pub use output::{make_output4, make_output6};
pub use redirect::{EDGES4 as REDIRECT_EDGES4, EDGES6 as REDIRECT_EDGES6};
pub use redirect::{make4 as make_redirect4, make6 as make_redirect6};
pub use source::key;

use stoa_engine::{Next, Vector};

/// The nodes of received packets, IPv4 and IPv6.
pub const INPUT_NODES: [&str; 2] = ["ip4-login", "ip6-login"];
/// The nodes of sent packets.
pub const OUTPUT_NODES: [&str; 2] = ["ip4-login-output", "ip6-login-output"];

/// Sends one lane elsewhere than all lanes so far.
#[cold]
fn send_lane(next: &mut Next, (vector, lane): (&mut Vector, usize), edge: u16) {
    if let Next::All(all) = *next {
        let lanes = vector.len();
        vector.next[..lanes].fill(all);
        *next = Next::Lanes;
    }
    vector.next[lane] = edge;
}
