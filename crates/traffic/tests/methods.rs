//! Methods over a link that needs no rights: shared memory between two ports of one run.

use stoa_traffic::method::{self, Bound, Method, Test};
use stoa_traffic::plan::quantity::{Rate, Size};
use stoa_traffic::{plan, report};

fn measured(name: &str, test: Test, sizes: Vec<Size>) -> method::Report {
    let socket = format!("@stoa-methods-{name}-{}", std::process::id());
    let file = plan::parse_file(&format!(
        "ports:
  a: {{ memif: {{ socket: '{socket}', role: slave }}, addresses: [192.0.2.1/24] }}
  b: {{ memif: {{ socket: '{socket}', role: master }}, addresses: [192.0.2.2/24] }}
settle: 2s
threads: one
streams: [{{ name: s, from: a, to: b }}]"
    ));
    let method = Method {
        test,
        sizes,
        seconds: 0.1,
        repeat: 2,
        most: Some(Rate::Packets(20e3)),
        resolution: 0.1,
        step: 0.25,
        tolerance: 0.005,
    };
    let file = file.unwrap_or_else(|error| panic!("{error}"));
    method::run(file, &method, &mut |_, _| true).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_link_without_a_device_loses_nothing() {
    let sizes = vec![Size::Fixed(64), Size::Fixed(512), Size::Imix1];
    let report = measured("throughput", Test::Throughput, sizes);
    let names: Vec<_> = report.rows.iter().map(|row| row.size.as_str()).collect();
    assert_eq!(names, ["64", "512", "imix1"]);
    for trial in &report.trials {
        assert_eq!(trial.lost, 0, "{trial:?}");
    }
    for row in &report.rows {
        // A busy machine may be late, but nothing is ever lost.
        assert_ne!(row.figures.bound, Some(Bound::Loss), "{row:?}");
        assert!(row.figures.values["throughput_pps"] <= 20.5e3, "{row:?}");
    }
    let page = report::method_html(&report);
    assert!(page.contains("imix1") && page.contains("20.000 kpps"), "{page}");
}

#[test]
fn every_test_ends_with_figures() {
    for (name, test) in [
        ("latency", Test::Latency),
        ("loss", Test::FrameLoss),
        ("burst", Test::BackToBack),
        ("ndrpdr", Test::NdrPdr),
        ("mrr", Test::Mrr),
    ] {
        let report = measured(name, test, vec![Size::Fixed(64)]);
        assert_eq!(report.rows.len(), 1);
        assert!(!report.rows[0].figures.values.is_empty() && !report.trials.is_empty(), "{name}");
        let json = serde_json::to_string(&report).expect("it is plain");
        let again: method::Report = serde_json::from_str(&json).expect("it was written so");
        let (read, written) = (&again.rows[0].figures, &report.rows[0].figures);
        assert_eq!((read.bound, read.values.len()), (written.bound, written.values.len()));
        for (figure, value) in &written.values {
            // Reading a number may be off by its last digit.
            assert!((read.values[figure] - value).abs() <= value.abs() * 1e-12, "{figure}");
        }
    }
}
