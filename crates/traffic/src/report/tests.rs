//! The page is complete, escapes its input and needs no network.

use super::*;
use crate::results::{Cause, Fault, Port, Sample};

fn results(name: &str) -> Results {
    let latency = Latency {
        min: 900,
        mean: 1500.0,
        p50: 1400,
        p90: 2000,
        p99: 9000,
        p999: 12_000,
        max: 20_000,
        jitter: 11_100,
        curve: vec![(0.0, 900), (0.5, 1400), (0.9, 2000), (0.99, 9000), (1.0, 20_000)],
    };
    let stream = Stream {
        name: name.into(),
        from: "a".into(),
        to: "b".into(),
        sent: 1_234_567,
        received: 1_234_000,
        lost: 567,
        loss: 0.5,
        latency: Some(latency),
        ..Stream::default()
    };
    let sample = |at: u32| Sample {
        at: f64::from(at) / 10.0,
        sent_pps: 1e6,
        received_pps: 9e5 + f64::from(at) * 1e3,
        missing: u64::from(at) * 10,
        latency: 1500.0,
        ..Sample::default()
    };
    Results {
        tool: "stoa traffic".into(),
        version: "0.1.0".into(),
        started: 1_795_314_240,
        duration_seconds: 2.0,
        seconds: 2.0,
        valid: true,
        faults: Vec::new(),
        total: stream.clone(),
        streams: vec![stream.clone(), stream],
        ports: vec![Port { name: "a".into(), driver: "memif".into(), ..Port::default() }],
        samples: (1..20).map(sample).collect(),
    }
}

#[test]
fn a_page_has_values_and_plots_and_needs_no_network() {
    let page = html(&results("up"));
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<svg").count(), 4);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    for word in
        ["1\u{2009}234\u{2009}567", "50.0000 %", "1.40 µs", "prefers-color-scheme", "2026-11-22"]
    {
        assert!(page.contains(word), "{word}");
    }
    for word in ["http://", "https://", "url(", "<link", " src="] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn a_page_contains_the_results() {
    let desired = results("up");
    let page = html(&desired);
    let (_, rest) = page.split_once("id=results>").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    let found: Results = serde_json::from_str(json).unwrap();
    assert_eq!((found.streams, found.samples), (desired.streams, desired.samples));
}

#[test]
fn names_are_escaped() {
    let page = html(&results("</script><script>alert(1)</script>"));
    assert!(!page.contains("<script>alert"));
    assert_eq!(page.matches("</script>").count(), 1);
}

#[test]
fn an_empty_run_has_a_page_with_the_reason() {
    let mut empty = results("up");
    empty.valid = false;
    empty.faults = vec![Fault { cause: Cause::Stopped, reason: "it was stopped".into() }];
    (empty.samples, empty.streams, empty.total) = (Vec::new(), Vec::new(), Stream::default());
    let page = html(&empty);
    assert!(page.contains("it was stopped") && !page.contains("<svg"));
}

#[test]
fn formats_dates() {
    for (unix, desired) in [
        (0, "1970-01-01 00:00"),
        (951_782_400, "2000-02-29 00:00"),
        (4_102_444_740, "2099-12-31 23:59"),
    ] {
        assert_eq!(date(unix), desired);
    }
}

#[test]
fn formats_values() {
    assert_eq!(rate(1_234_567.0), "1.235 Mpps");
    assert_eq!(rate(12.0), "12.0 pps");
    assert_eq!(time(1250.0), "1.25 µs");
    assert_eq!(time(2.5e9), "2.50 s");
    let formatted = |name, value| figure(name, value);
    assert_eq!(formatted("latency_p50_ns", 184.0), ("latency p50".into(), "184 ns".into()));
    assert_eq!(formatted("loss_at_100", 0.5), ("loss at 100".into(), "50.0000 %".into()));
    assert_eq!(formatted("ndr_share", 1.0).1, "100.00 % of the highest load");
}
