//! The report of a run as one HTML file with values, plots and the results as JSON; it needs no
//! network.

mod method;
mod plot;

use std::fmt::Write;

use crate::results::{Latency, Results, Stream};
pub use method::method_html;
use plot::{Line, Plot};

/// The most lines of a plot: more cannot be distinguished.
const LINES: usize = 6;

/// The page, self-contained.
pub fn html(results: &Results) -> String {
    let mut page = String::with_capacity(64 << 10);
    let (class, validity) = match results.valid {
        true => ("good", "The run was performed as requested.".to_owned()),
        false => {
            let reasons =
                results.faults.iter().map(|fault| format!("<li>{}</li>", escape(&fault.reason)));
            let reasons: String = reasons.collect();
            ("bad", format!("Not valid: the results do not describe the device:<ul>{reasons}</ul>"))
        }
    };
    let total = &results.total;
    let latency = total.latency.clone().unwrap_or_default();
    let cards = [
        (
            "lost",
            format!("{:.4} %", total.loss * 100.0),
            format!("{} of {} packets", group(total.lost), group(total.sent)),
        ),
        ("sent", rate(total.sent_pps), format!("{:.3} Gbit/s on the wire", total.sent_gbps)),
        (
            "received",
            rate(total.received_pps),
            format!("{:.3} Gbit/s on the wire", total.received_gbps),
        ),
        ("latency, half", time(latency.p50 as f64), format!("99 %: {}", time(latency.p99 as f64))),
        ("out of order", group(total.reordered), format!("{} duplicates", group(total.duplicates))),
    ];
    let cards = cards.map(|(name, value, more)| {
        format!("<div class=card><small>{name}</small><b>{value}</b><small>{more}</small></div>")
    });
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\
         <title>Stoa traffic report</title>\n<style>{STYLE}</style></head>\n<body><main>\n\
         <h1>Traffic report</h1><p class=sub>{} UTC, {:.2} s, {}, Stoa {}</p>\n\
         <div class=\"validity {class}\">{validity}</div>\n<section class=cards>{}</section>\n",
        date(results.started),
        results.seconds,
        counted(results.streams.len(), "stream"),
        escape(&results.version),
        cards.concat(),
    );
    plots(&mut page, results);
    tables(&mut page, results);
    // Strings in the JSON must not contain markup.
    let json = serde_json::to_string(results).unwrap_or_default().replace('<', "\\u003c");
    let _ = write!(
        page,
        "<script type=\"application/json\" id=results>{json}</script>\n</main></body></html>\n"
    );
    page
}

fn plots(page: &mut String, results: &Results) {
    let over_time = |value: &dyn Fn(&crate::results::Sample) -> f64| {
        results.samples.iter().map(|sample| (sample.at, value(sample))).collect::<Vec<_>>()
    };
    let curve = |stream: &Stream| {
        let points = stream.latency.as_ref().map(latency_curve)?;
        Some(Line { name: stream.name.clone(), points })
    };
    let all = [&results.total].into_iter();
    let streams = results.streams.iter().filter(|_| results.streams.len() > 1);
    let curves: Vec<Line> = all.chain(streams).filter_map(curve).take(LINES).collect();
    let fastest = results.samples.iter().fold(0.0, |most: f64, one| most.max(one.sent_pps));
    let (unit, per) = match fastest >= 1e6 {
        true => ("million packets per second", 1e6),
        false => ("thousand packets per second", 1e3),
    };
    let plots = [
        Plot {
            title: "Rate",
            unit,
            x: "seconds",
            lines: vec![
                Line { name: "sent".into(), points: over_time(&|one| one.sent_pps / per) },
                Line { name: "received".into(), points: over_time(&|one| one.received_pps / per) },
            ],
            is_curve: false,
        },
        Plot {
            title: "Missing",
            unit: "packets not received yet",
            x: "seconds",
            lines: vec![Line {
                name: "missing".into(),
                points: over_time(&|one| one.missing as f64),
            }],
            is_curve: false,
        },
        Plot {
            title: "Latency over time",
            unit: "microseconds in the mean",
            x: "seconds",
            lines: vec![Line { name: "mean".into(), points: over_time(&|one| one.latency / 1e3) }],
            is_curve: false,
        },
        Plot {
            title: "Latency by share",
            unit: "latency in microseconds",
            x: "",
            lines: curves,
            is_curve: true,
        },
    ];
    figures(page, &plots);
}

/// Plots side by side; empty ones are omitted.
fn figures(page: &mut String, plots: &[Plot]) {
    page.push_str("<section class=plots>\n");
    for plot in plots.iter().filter(|plot| plot.has_points()) {
        let legend =
            plot.lines.iter().enumerate().map(|(at, line)| {
                format!("<span><i class=c{at}></i>{}</span>", escape(&line.name))
            });
        let _ = writeln!(
            page,
            "<figure><figcaption><b>{}</b> {}<div class=legend>{}</div></figcaption>{}</figure>",
            plot.title,
            plot.unit,
            legend.collect::<String>(),
            plot.svg().unwrap_or_default(),
        );
    }
    page.push_str("</section>\n");
}

/// Points of the curve: number of nines, and microseconds.
fn latency_curve(latency: &Latency) -> Vec<(f64, f64)> {
    let nines = |share: f64| if share >= 1.0 { 6.0 } else { -(1.0 - share).log10() };
    latency.curve.iter().map(|(share, ns)| (nines(*share), *ns as f64 / 1e3)).collect()
}

fn tables(page: &mut String, results: &Results) {
    let total = (results.streams.len() > 1).then_some(&results.total);
    let streams = || results.streams.iter().chain(total);
    page.push_str(
        "<h2>Streams</h2><div class=wide><table><tr><th>stream<th>way<th>sent<th>received<th>lost\
         <th>loss<th>duplicates<th>out of order<th>stray<th>rate<th>received\n",
    );
    for one in streams() {
        let way = match one.from.is_empty() {
            true => String::new(),
            false => format!("{} → {}", escape(&one.from), escape(&one.to)),
        };
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{way}<td>{}<td>{}<td>{}<td>{:.4} %<td>{}<td>{}<td>{}<td>{}<td>{}",
            escape(&one.name),
            group(one.sent),
            group(one.received),
            group(one.lost),
            one.loss * 100.0,
            group(one.duplicates),
            group(one.reordered),
            group(one.stray),
            rate(one.sent_pps),
            rate(one.received_pps),
        );
    }
    page.push_str(
        "</table></div>\n<h2>Latency</h2><div class=wide><table><tr><th>stream<th>min<th>mean<th>50 %\
         <th>90 %<th>99 %<th>99.9 %<th>max<th>jitter\n",
    );
    for (one, latency) in streams().filter_map(|one| Some((one, one.latency.as_ref()?))) {
        let times = [
            latency.min,
            latency.p50,
            latency.p90,
            latency.p99,
            latency.p999,
            latency.max,
            latency.jitter,
        ];
        let [min, p50, p90, p99, p999, max, jitter] = times.map(|ns| time(ns as f64));
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{min}<td>{}<td>{p50}<td>{p90}<td>{p99}<td>{p999}<td>{max}<td>{jitter}",
            escape(&one.name),
            time(latency.mean),
        );
    }
    page.push_str(
        "</table></div>\n<h2>Ports</h2><div class=wide><table><tr><th>port<th>driver<th>foreign frames\
         <th>of neighbours<th>refused<th>missed<th class=text>detail\n",
    );
    for one in &results.ports {
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td class=text>{}",
            escape(&one.name),
            escape(&one.driver),
            group(one.foreign),
            group(one.neighbor),
            group(one.refused),
            group(one.missed),
            escape(&one.detail),
        );
    }
    page.push_str("</table></div>\n");
}

const STYLE: &str = include_str!("style.css");

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Title and formatted value of a result; the last word of its name is the unit (`latency_p50_ns`).
pub fn figure(name: &str, value: f64) -> (String, String) {
    let (words, unit) = name.rsplit_once('_').unwrap_or((name, ""));
    let (words, value) = match unit {
        "pps" => (words, rate(value)),
        "gbps" => (words, format!("{value:.3} Gbit/s")),
        "ns" => (words, time(value)),
        "seconds" => (words, time(value * 1e9)),
        "frames" => (words, format!("{value:.0} frames")),
        "share" => (words, format!("{:.2} % of the highest load", value * 100.0)),
        _ if name.starts_with("loss") => (name, format!("{:.4} %", value * 100.0)),
        _ => (name, format!("{value}")),
    };
    (words.replace('_', " "), value)
}

/// "1.234 Mpps".
pub fn rate(pps: f64) -> String {
    match pps {
        pps if pps >= 1e6 => format!("{:.3} Mpps", pps / 1e6),
        pps if pps >= 1e3 => format!("{:.3} kpps", pps / 1e3),
        pps => format!("{pps:.1} pps"),
    }
}

/// "1.25 µs", from nanoseconds.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.2} µs", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

/// "1 234 567", by thin spaces.
fn group(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// "2026-11-22 03:04", from seconds since 1970 (Howard Hinnant's days-to-civil algorithm).
fn date(unix: u64) -> String {
    let days = unix / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hours, minutes) = (unix % 86_400 / 3600, unix % 3600 / 60);
    format!("{year}-{month:02}-{day:02} {hours:02}:{minutes:02}")
}

#[cfg(test)]
mod tests;
