//! Login of hosts.

use std::net::Ipv4Addr;

use stoa_forwarder::control::desired::Login;

use super::{Setup, our4, our6};

/// Hosts of a sub-interface reach one network and the router as a portal.
pub(super) fn logins(setup: Setup) -> Setup {
    let login = Login {
        garden: vec![(Ipv4Addr::new(10, 0, 2, 0).into(), 24)],
        portal: vec![our4(10).into(), our6(10).into()],
        portal_port: 8444,
        rates: [1_000; 2],
        redirect: ["https://portal.example/".to_owned(), "https://[2001:db8::1]/".to_owned()],
        ..Login::default()
    };
    setup.with("west.100", |it| it.login = Some(login))
}
