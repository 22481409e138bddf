//! Accounting: reports about logins to RADIUS servers.
//!
//! The reports of one login are sent in their order, those of others at the same time. What no server takes is sent
//! again, for a day; it holds up no other login. [`waiting`] has the rules.

mod waiting;

use std::sync::Arc;
use std::time::Duration;

use stoa_controller::login::clock_s;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::state::Portal;
use crate::auth::radius::accounting::Report;
use waiting::Waiting;

/// Reports that wait for the answer of a server at most.
const AT_ONCE: usize = 32;
/// The pause between log lines about lost reports.
const LOG: Duration = Duration::from_secs(60);
/// Pauses between looks for a configuration.
const LOOK: Duration = Duration::from_millis(200);

/// The end of a report: whether a server has taken it.
type Sent = (Report, bool);

/// Reports what happens to logins, forever.
pub(super) async fn run(portal: Arc<Portal>) {
    let connection = portal.datastore.connection();
    // Logins may end before it is known which servers there are.
    while !connection.is_configured() {
        tokio::time::sleep(LOOK).await;
    }
    let logins = connection.logins();
    let (mut waiting, mut in_flight) = (Waiting::default(), JoinSet::<Sent>::new());
    let (mut log_at, mut is_failing) = (Instant::now(), false);
    loop {
        while in_flight.len() < AT_ONCE
            && let Some(report) = waiting.take(Instant::now())
        {
            in_flight.spawn(send(Arc::clone(&portal), report));
        }
        // While as many reports as possible are on their way, the next one waits for an answer.
        let next = waiting.next_due().filter(|_| in_flight.len() < AT_ONCE);
        tokio::select! {
            events = logins.take_events() => {
                let has_servers = has_servers(&portal);
                for (event, at) in events.into_iter().filter(|_| has_servers) {
                    waiting.add(Report::of(event, at), Instant::now());
                }
            }
            Some(Ok((report, is_sent))) = in_flight.join_next(), if !in_flight.is_empty() => {
                let is_failed = !is_sent && has_servers(&portal);
                waiting.end(report, !is_failed, clock_s(), Instant::now());
                if is_failed != is_failing {
                    is_failing = is_failed;
                    log(is_failing, waiting.len());
                }
            }
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
        logins.count_lost_reports(waiting.take_lost());
        if waiting.unlogged > 0 && Instant::now() >= log_at {
            log_at = Instant::now() + LOG;
            let lost = std::mem::take(&mut waiting.unlogged);
            tracing::warn!(
                lost,
                "accounting has lost starts or stops of logins: no server took them"
            );
        }
    }
}

/// Whether there are servers. Without them, what waits for them goes.
fn has_servers(portal: &Portal) -> bool {
    !portal.settings().radius.accounting().server.is_empty()
}

async fn send(portal: Arc<Portal>, report: Report) -> Sent {
    let settings = portal.settings().radius.accounting();
    let is_sent = portal.login.servers().report(&settings, &report).await.is_ok();
    (report, is_sent)
}

fn log(is_failing: bool, waiting: usize) {
    match is_failing {
        true => tracing::warn!(waiting, "no RADIUS server takes a report about a login: it waits"),
        false => tracing::info!(waiting, "a RADIUS server takes reports about logins again"),
    }
}
