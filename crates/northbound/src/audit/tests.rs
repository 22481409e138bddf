//! The logs: their files, their limits, and what a flood of requests leaves of them.

use std::time::Duration;

use serde_json::Value;

use super::*;

fn record<'a>(user: &'a str, what: &'a str) -> AuditRecord<'a> {
    AuditRecord { user, from: None, client: "login", what, result: "refused" }
}

fn lines(folder: &Path, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_log_is_bounded_and_keeps_one_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::new(folder.path());
    let what = "x".repeat(10_000);
    audit.write(&record("eve", &what));
    let line = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    assert!(line.len() < 1_000, "{}", line.len());
    assert_eq!(lines(folder.path(), "audit.log")[0]["user"], "eve");
    // As if the log were nearly full.
    audit.actions.open().file.as_mut().unwrap().1 = SIZE_LIMIT_BYTES;
    audit.write(&record("eve", &what));
    audit.write(&record("eve", &what));
    let count = |name: &str| lines(folder.path(), name).len();
    assert_eq!((count("audit.log.1"), count("audit.log")), (1, 2));
    for _ in 0..5 {
        audit.write_login(&record("eve", &what));
    }
    assert_eq!((count("audit-logins.log"), count("audit.log")), (5, 2));
}

#[test]
fn thirty_thousand_refused_requests_are_a_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::new(folder.path());
    audit.write(&record("ann", "PATCH /restconf/data/x"));
    let from: IpAddr = "192.0.2.1".parse().unwrap();
    let refused = "y".repeat(2_000);
    for number in 0..30_000 {
        let what = format!("PUT /restconf/data/{number}?{refused}");
        audit.write_refused(&AuditRecord { from: Some(from), ..record("eve", &what) });
    }
    let name = "audit-refused.log";
    assert_eq!(lines(folder.path(), name).len(), 10);
    audit.write_counts(Instant::now() + Duration::from_secs(61));
    let written = lines(folder.path(), name);
    let last = written.last().unwrap();
    assert_eq!((written.len(), &last["count"]), (11, &29_990.into()));
    assert_eq!((&last["user"], &last["address"]), (&"eve".into(), &"192.0.2.1".into()));
    assert!(last["action"].as_str().unwrap().starts_with("PUT /restconf/data/29999"), "{last}");
    assert!(last.to_string().len() < 600 && last["since"].is_string(), "{last}");
    assert_eq!(lines(folder.path(), "audit.log").len(), 1);
    // The next minute begins anew, and what is counted is not lost at the end.
    for _ in 0..12 {
        audit.write_refused(&AuditRecord { from: Some(from), ..record("eve", "GET /x") });
    }
    drop(audit);
    let written = lines(folder.path(), name);
    assert_eq!((written.len(), &written.last().unwrap()["count"]), (22, &2.into()));
}

#[test]
fn made_up_names_and_addresses_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::new(folder.path());
    let from = |number: u32| Some(IpAddr::from(std::net::Ipv4Addr::from(number)));
    for number in 0..10_000_u32 {
        let name = format!("name{number}");
        audit.write_login(&AuditRecord { from: from(7), ..record(&name, "log in") });
    }
    let of_one = lines(folder.path(), "audit-logins.log").len();
    assert_eq!(of_one, 16 + 10, "users of one address");
    for number in 0..10_000 {
        audit.write_login(&AuditRecord { from: from(100 + number), ..record("ann", "log in") });
    }
    assert_eq!(lines(folder.path(), "audit-logins.log").len(), 2_000, "all addresses");
    audit.write_all_counts();
    let written = lines(folder.path(), "audit-logins.log");
    let count = |line: &Value| line.get("count").map_or(1, |count| count.as_u64().unwrap());
    assert_eq!(written.iter().map(count).sum::<u64>(), 20_000, "each is accounted for");
    assert!(written.len() < 2_000 + 4_096 + 100, "{}", written.len());
}

#[test]
fn different_actions_are_all_written_and_repeated_ones_counted() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::new(folder.path());
    for number in 0..5_000 {
        audit.write(&record("ann", &format!("PUT /restconf/data/{number}")));
    }
    assert_eq!(lines(folder.path(), "audit.log").len(), 5_000);
    for _ in 0..200 {
        audit.write(&record("eve", "log in"));
    }
    let of_eve = || {
        let all = lines(folder.path(), "audit.log");
        all.into_iter().filter(|line| line["user"] == "eve").collect::<Vec<_>>()
    };
    assert_eq!(of_eve().len(), 200, "the table of repeated actions was full");
    let audit = Audit::new(folder.path());
    for _ in 0..180 {
        audit.write(&record("eve", "log in"));
    }
    audit.write_all_counts();
    assert_eq!(of_eve().len(), 200 + 100 + 1);
    assert_eq!(of_eve().last().unwrap()["count"], 80);
}

#[test]
fn a_user_pushes_out_only_its_own_records() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::new(folder.path());
    for number in 0..20 {
        audit.write(&record("ann", &format!("PUT /restconf/data/{number}")));
    }
    // Fills the log three times.
    let long = "z".repeat(500);
    for number in 0..3 * SIZE_LIMIT_BYTES / 600 {
        audit.write(&record("eve", &format!("{number} {long}")));
    }
    let both = ["audit.log.1", "audit.log"].map(|name| lines(folder.path(), name));
    let of_ann = both.iter().flatten().filter(|line| line["user"] == "ann").count();
    assert_eq!(of_ann, 20);
    let size = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    assert!(size("audit.log.1") <= SIZE_LIMIT_BYTES && size("audit.log") <= SIZE_LIMIT_BYTES);
}
