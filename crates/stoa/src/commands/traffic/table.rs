//! Results of `stoa traffic` as tables.

use comfy_table::Cell;
use stoa_traffic::Moment;
use stoa_traffic::report::{rate as rate_of, time};
use stoa_traffic::results::{Results, Stream};

use crate::show::{number, table, write};

/// The progress line.
pub fn progress(moment: &Moment) -> String {
    if moment.at <= 0.0 || moment.since <= 0.0 {
        return "waiting for links and gateways".to_owned();
    }
    let rate = |packets: u64| rate_of(packets as f64 / moment.since);
    let missing = moment.total.missing() as f64 * 100.0 / moment.total.sent.max(1) as f64;
    format!(
        "{:.0} of {:.0} s  sent {}  received {}  missing {missing:.4} %",
        moment.at.min(moment.of),
        moment.of,
        rate(moment.last.sent),
        rate(moment.last.received),
    )
}

/// The results at the end.
pub fn text(results: &Results) -> String {
    let mut out = Vec::new();
    let mut counts = table(&[
        "stream",
        "path",
        ">sent",
        ">received",
        ">lost",
        ">loss",
        ">duplicates",
        ">reordered",
        ">tx rate",
        ">rx rate",
    ]);
    let mut times =
        table(&["stream", ">min", ">mean", ">p50", ">p90", ">p99", ">p99.9", ">max", ">jitter"]);
    let total = (results.streams.len() > 1).then_some(&results.total);
    for stream in results.streams.iter().chain(total) {
        counts.add_row(count_row(stream));
        if let Some(latency) = &stream.latency {
            let cells = [
                latency.min as f64,
                latency.mean,
                latency.p50 as f64,
                latency.p90 as f64,
                latency.p99 as f64,
                latency.p999 as f64,
                latency.max as f64,
                latency.jitter as f64,
            ];
            let mut row = vec![Cell::new(&stream.name)];
            row.extend(cells.map(|ns| Cell::new(time(ns))));
            times.add_row(row);
        }
    }
    // Writing to memory does not fail.
    let _ = write(&counts, &mut out);
    out.push(b'\n');
    if times.row_iter().next().is_some() {
        let _ = write(&times, &mut out);
        out.push(b'\n');
    }
    let mut text = String::from_utf8_lossy(&out).into_owned();
    text.push_str(&notes(results).join("\n"));
    text
}

fn count_row(stream: &Stream) -> Vec<Cell> {
    let path = match stream.from.is_empty() {
        true => String::new(),
        false => format!("{} > {}", stream.from, stream.to),
    };
    vec![
        Cell::new(&stream.name),
        Cell::new(path),
        Cell::new(number(stream.sent)),
        Cell::new(number(stream.received)),
        Cell::new(number(stream.lost)),
        Cell::new(format!("{:.4} %", stream.loss * 100.0)),
        Cell::new(number(stream.duplicates)),
        Cell::new(number(stream.reordered)),
        Cell::new(rate_of(stream.sent_pps)),
        Cell::new(rate_of(stream.received_pps)),
    ]
}

/// Notes below the tables.
fn notes(results: &Results) -> Vec<String> {
    let total = &results.total;
    let mut lines = vec![format!(
        "{:.2} s; on the wire {:.3} Gbit/s sent, {:.3} received",
        results.seconds, total.sent_gbps, total.received_gbps
    )];
    for port in &results.ports {
        let others = port.foreign - port.neighbor;
        if others > 0 {
            lines.push(format!(
                "port {}: received {} frames that do not belong to this run",
                port.name,
                number(others)
            ));
        }
    }
    if total.stray > 0 {
        lines
            .push(format!("{} packets arrived at another port than expected", number(total.stray)));
    }
    match results.valid {
        true => lines.push("The run is valid.".to_owned()),
        false => {
            lines.push("NOT VALID: these results do not describe the device:".to_owned());
            lines.extend(results.faults.iter().map(|fault| format!("  {}", fault.reason)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use stoa_traffic::results::{Cause, Fault, Latency};

    use super::*;

    #[test]
    fn the_text_ends_with_the_reasons_of_an_invalid_run() {
        let latency = Some(Latency { p50: 1500, ..Latency::default() });
        let stream =
            Stream { name: "up".into(), from: "a".into(), sent: 5, latency, ..Stream::default() };
        let results = Results {
            tool: String::new(),
            version: String::new(),
            started: 0,
            duration_seconds: 1.0,
            seconds: 1.0,
            valid: false,
            faults: vec![Fault { cause: Cause::Late, reason: "no processor".into() }],
            total: Stream::default(),
            streams: vec![stream],
            ports: Vec::new(),
            samples: Vec::new(),
        };
        let text = text(&results);
        assert!(
            text.contains("1.50 µs")
                && text.ends_with(
                    "NOT VALID: these results do not describe the device:\n  no processor"
                ),
            "{text}"
        );
    }
}
