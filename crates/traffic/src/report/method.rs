//! The page of a method: one table of results, one plot of rates or loss, all trials.

use std::fmt::Write;

use super::plot::{Line, Plot};
use super::{STYLE, date, escape, group, rate, time};
use crate::method::{Bound, Report};

/// The page, self-contained.
pub fn method_html(report: &Report) -> String {
    let mut page = String::with_capacity(64 << 10);
    let warnings: String = report
        .rows
        .iter()
        .filter_map(|row| Some((row, row.figures.bound?.warning()?)))
        .map(|(row, words)| format!("<li>{}: {words}</li>", escape(&row.size)))
        .chain(
            report.ended.iter().map(|reason| format!("<li>ended early: {}</li>", escape(reason))),
        )
        .collect();
    let validity = match warnings.is_empty() {
        true => "<div class=\"validity good\">All figures are the device's own.</div>".to_owned(),
        false => format!("<div class=\"validity bad\">To know before<ul>{warnings}</ul></div>"),
    };
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\
         <title>Stoa {0} report</title>\n<style>{STYLE}</style></head>\n<body><main>\n\
         <h1>{0}</h1><p class=sub>{1} UTC, {2} trials of {3} s, Stoa {4}</p>\n{validity}\n",
        escape(&report.test),
        date(report.started),
        report.trials.len(),
        report.seconds,
        escape(&report.version),
    );
    plots(&mut page, report);
    figures(&mut page, report);
    trials(&mut page, report);
    // Strings in the JSON must not contain markup.
    let json = serde_json::to_string(report).unwrap_or_default().replace('<', "\\u003c");
    let _ = write!(
        page,
        "<script type=\"application/json\" id=results>{json}</script>\n</main></body></html>\n"
    );
    page
}

/// Received rate and loss by offered load, a line for each frame size.
fn plots(page: &mut String, report: &Report) {
    let lines = |value: &dyn Fn(&crate::method::Trial) -> Option<f64>| {
        let of_row = report.rows.iter().take(super::LINES).map(|row| {
            let here = report.trials.iter().filter(|trial| trial.size == row.size);
            let mut points: Vec<_> =
                here.filter_map(|trial| Some((trial.sent_pps / 1e6, value(trial)?))).collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            Line { name: row.size.clone(), points }
        });
        of_row.collect::<Vec<_>>()
    };
    let x = "million packets per second sent";
    let plots = [
        Plot {
            title: "Received",
            unit: "million packets per second",
            x,
            lines: lines(&|trial| Some(trial.received_pps / 1e6)),
            is_curve: false,
        },
        Plot {
            title: "Lost",
            unit: "percent, where the load was offered",
            x,
            lines: lines(&|trial| trial.bound.is_none().then_some(trial.loss * 100.0)),
            is_curve: false,
        },
        Plot {
            title: "Latency",
            unit: "microseconds in the mean",
            x,
            lines: lines(&|trial| Some(trial.delays?.mean / 1e3)),
            is_curve: false,
        },
    ];
    super::figures(page, &plots);
}

fn figures(page: &mut String, report: &Report) {
    page.push_str(
        "<h2>Figures</h2><div class=wide><table><tr><th>size<th class=text>figure<th>value\n",
    );
    for row in &report.rows {
        for (name, value) in &row.figures.values {
            let (words, shown) = super::figure(name, *value);
            let (size, name) = (escape(&row.size), escape(&words));
            let _ = writeln!(page, "<tr><td>{size}<td class=text>{name}<td>{shown}");
        }
    }
    page.push_str("</table></div>\n");
}

fn trials(page: &mut String, report: &Report) {
    page.push_str(
        "<h2>Trials</h2><div class=wide><table><tr><th>size<th>requested per stream<th>sent<th>received\
         <th>lost<th>loss<th>half took<th>99 % took<th class=text>load\n",
    );
    for trial in &report.trials {
        let delays = trial.delays.unwrap_or_default();
        let offered = match trial.bound {
            None | Some(Bound::Loss | Bound::Highest) => "offered",
            Some(Bound::Port) => "the port took less",
            Some(Bound::Generator) => "not generated in time",
        };
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.4} %<td>{}<td>{}<td class=text>{offered}",
            escape(&trial.size),
            trial.intended_pps.map_or_else(|| "max".to_owned(), rate),
            rate(trial.sent_pps),
            rate(trial.received_pps),
            group(trial.lost),
            trial.loss * 100.0,
            time(delays.p50),
            time(delays.p99),
        );
    }
    page.push_str("</table></div>\n");
}
