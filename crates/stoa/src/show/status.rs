//! The status of the router.

use serde_json::{Value, json};
use stoa_api::date;
use stoa_api::v1::{LockHolder, StatusReply};

use super::{duration, route_sources, unix_s};

/// The status as text.
pub fn text(status: &StatusReply) -> String {
    let now = unix_s();
    let up_s = now.saturating_sub(status.started_unix_s);
    let mut lines = vec![
        format!("Stoa {}", status.version),
        format!("  configuration  {}", status.configuration),
        format!("  in force       {}", if status.in_sync { "yes" } else { "no, not yet" }),
    ];
    if status.confirm_by_unix_ms > 0 {
        let left = (status.confirm_by_unix_ms / 1_000).saturating_sub(now);
        lines.push(format!(
            "  unconfirmed    a commit{}: run `stoa commit` within {} to confirm it, or it is rolled back",
            by(&status.unconfirmed_author),
            duration(left)
        ));
    }
    if status.is_edited {
        lines
            .push("  candidate      has uncommitted changes: `stoa compare` shows them".to_owned());
    }
    if let Some(lock) = &status.lock {
        let LockHolder { author, client, since_unix_ms } = lock;
        let since_s = since_unix_ms / 1_000;
        lines.push(format!(
            "  locked by      {author} ({client}) since {}, for {}",
            date::of_unix_s(since_s),
            duration(now.saturating_sub(since_s))
        ));
    }
    for problem in &status.https_problems {
        lines.push(format!("  HTTPS          {problem}"));
    }
    for route_source in &status.lost_route_sources {
        let (name, kind, reason) = (&route_source.name, &route_source.r#type, &route_source.reason);
        lines.push(format!("  route source   {name} ({kind}): {reason}"));
        let more = [route_sources::countdown(route_source), route_sources::refused(route_source)];
        lines.extend(
            more.into_iter().flatten().map(|more| format!("                 {name}: {more}")),
        );
    }
    if status.supervisor_pid > 0 {
        lines.push(format!("  stoa run       process {}", status.supervisor_pid));
    }
    lines.extend([format!(
        "  controller     process {}, up {}",
        status.controller_pid,
        duration(up_s)
    )]);
    match &status.forwarder {
        Some(forwarder) => {
            lines.push(format!("  forwarder      process {}", forwarder.pid));
            lines.push(format!("  kernel         {}", forwarder.kernel));
            lines.push(format!("  memory         {}", forwarder.memory));
            lines.push(format!("  drivers        {}", forwarder.drivers.join(", ")));
        }
        None => lines.push("  forwarder      does not answer".to_owned()),
    }
    let outdated = outdated(status);
    if !outdated.is_empty() {
        lines.push(format!(
            "  needs restart  {}: another program is installed; `stoa upgrade` restarts it",
            outdated.join(" and ")
        ));
    }
    lines.join("\n")
}

fn by(author: &str) -> String {
    if author.is_empty() { String::new() } else { format!(" of {author}") }
}

/// The processes that run another program than the installed one.
pub fn outdated(status: &StatusReply) -> Vec<&'static str> {
    let forwarder = status.forwarder.as_ref().is_some_and(|forwarder| forwarder.needs_restart);
    let all = [("controller", status.needs_restart), ("forwarder", forwarder)];
    all.into_iter().filter_map(|(name, is_outdated)| is_outdated.then_some(name)).collect()
}

/// The status as JSON.
pub fn json(status: &StatusReply) -> Value {
    let forwarder = status.forwarder.as_ref().map(|forwarder| {
        json!({
            "contract": forwarder.contract,
            "version": forwarder.version,
            "boot_id": forwarder.boot_id.to_string(),
            "drivers": forwarder.drivers,
            "kernel": forwarder.kernel,
            "memory": forwarder.memory,
            "tsc_hz": forwarder.tsc_hz,
            "pid": forwarder.pid,
        })
    });
    let author = &status.unconfirmed_author;
    let by_whom = (!author.is_empty()).then_some(author);
    json!({
        "version": status.version,
        "configuration": status.configuration,
        "supervisor_pid": status.supervisor_pid,
        "controller_pid": status.controller_pid,
        "forwarder_pid": status.forwarder_pid,
        "in_sync": status.in_sync,
        "is_edited": status.is_edited,
        "confirm_by_unix_ms": (status.confirm_by_unix_ms > 0).then_some(status.confirm_by_unix_ms),
        "unconfirmed_author": by_whom,
        "lock": status.lock.as_ref().map(|lock| json!({
            "author": lock.author,
            "client": lock.client,
            "since_unix_ms": lock.since_unix_ms,
        })),
        "https_problems": status.https_problems,
        "lost_route_sources":
            status.lost_route_sources.iter().map(route_sources::json).collect::<Vec<_>>(),
        "started_unix_s": status.started_unix_s,
        "needs_restart": outdated(status),
        "forwarder": forwarder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_changes_are_shown() {
        let settled = StatusReply::default();
        assert!(!text(&settled).contains("unconfirmed") && !text(&settled).contains("candidate"));
        let status =
            StatusReply { is_edited: true, confirm_by_unix_ms: 1, ..StatusReply::default() };
        assert!(
            text(&status).contains("`stoa commit` within")
                && text(&status).contains("stoa compare")
        );
        assert_eq!(
            (&json(&status)["is_edited"], &json(&status)["confirm_by_unix_ms"]),
            (&json!(true), &json!(1))
        );
        assert!(json(&settled)["confirm_by_unix_ms"].is_null());
        let of_ann = StatusReply { unconfirmed_author: "ann".into(), ..status };
        assert!(text(&of_ann).contains("a commit of ann: run `stoa commit` within"));
        assert_eq!(json(&of_ann)["unconfirmed_author"], "ann");
    }

    #[test]
    fn the_holder_of_the_lock_is_shown_with_its_time() {
        let open = StatusReply::default();
        assert!(!text(&open).contains("locked") && json(&open)["lock"].is_null());
        let since_unix_ms = (unix_s() - 180) * 1_000;
        let holder = LockHolder { author: "ann".into(), client: "console".into(), since_unix_ms };
        let status = StatusReply { lock: Some(holder), ..open };
        let since = date::of_unix_s(since_unix_ms / 1_000);
        let line = format!("  locked by      ann (console) since {since}, for 3 min");
        assert!(text(&status).contains(&line), "{}", text(&status));
        assert_eq!(json(&status)["lock"]["since_unix_ms"], since_unix_ms);
    }

    #[test]
    fn https_that_is_not_served_is_shown_with_the_reason() {
        assert!(!text(&StatusReply::default()).contains("HTTPS"));
        let problem = "not served on 127.0.0.1:8443: Address already in use".to_owned();
        let status = StatusReply { https_problems: vec![problem], ..StatusReply::default() };
        assert!(text(&status).contains("  HTTPS          not served on 127.0.0.1:8443: Address"));
        assert_eq!(json(&status)["https_problems"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn a_route_source_without_a_daemon_is_shown_with_its_countdown() {
        let route_source = stoa_api::v1::RouteSourceState {
            name: "frr".to_owned(),
            r#type: "fpm".to_owned(),
            reason: "zebra has closed the connection".to_owned(),
            stale: 1_200,
            stale_time_left_s: Some(90),
            ..Default::default()
        };
        assert!(!text(&StatusReply::default()).contains("route source"));
        let lost_route_sources = vec![route_source];
        let status = StatusReply { lost_route_sources, ..StatusReply::default() };
        let text = text(&status);
        assert!(
            text.contains("  route source   frr (fpm): zebra has closed the connection\n"),
            "{text}"
        );
        assert!(text.contains("frr: 1,200 stale routes are removed in 1 min 30 s"), "{text}");
        let shown = &json(&status)["lost_route_sources"][0];
        assert_eq!((&shown["name"], &shown["stale_time_left_s"]), (&json!("frr"), &json!(90)));
    }

    #[test]
    fn an_outdated_process_is_shown() {
        let current = StatusReply::default();
        assert!(!text(&current).contains("needs restart"));
        assert_eq!(json(&current)["needs_restart"], json!([]));
        let (boot_id, needs_restart) = (u64::MAX, true);
        let forwarder = stoa_api::v1::HelloReply { boot_id, needs_restart, ..Default::default() };
        let status = StatusReply { forwarder: Some(forwarder), ..current };
        assert_eq!(json(&status)["forwarder"]["boot_id"], "18446744073709551615");
        assert!(text(&status).contains("needs restart  forwarder: "), "{}", text(&status));
        assert_eq!(json(&status)["needs_restart"], json!(["forwarder"]));
    }

    #[test]
    fn a_missing_forwarder_is_shown() {
        let status = StatusReply { version: "0.1.0".into(), ..StatusReply::default() };
        assert!(text(&status).contains("does not answer"));
        assert!(!text(&status).contains("stoa run"));
        let run = StatusReply { supervisor_pid: 4711, ..status.clone() };
        assert!(text(&run).contains("stoa run       process 4711"));
        assert_eq!(json(&run)["supervisor_pid"], 4711);
        assert_eq!(json(&status)["in_sync"], false);
        assert!(json(&status)["forwarder"].is_null());
    }
}
