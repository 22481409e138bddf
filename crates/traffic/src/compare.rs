//! Compares two results, of runs or of methods.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::method::Report;
use crate::results::Results;

/// A value in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// The stream or frame size.
    pub of: String,
    /// Name of the value, with its unit.
    pub figure: String,
    /// In the first file; `null` when it is missing.
    pub first: Option<f64>,
    /// In the second file; `null` when it is missing.
    pub second: Option<f64>,
    /// The second as a multiple of the first.
    pub ratio: Option<f64>,
}

/// The comparison of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// All values of either file.
    pub pairs: Vec<Pair>,
    /// Differences in the conditions of the measurements.
    pub warnings: Vec<String>,
}

/// Why two files cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The file is not a result of this program.
    #[error("{name}: {reason}: give a file that `stoa traffic ... --json` wrote")]
    NoResults {
        /// The file.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The files are of different kinds.
    #[error("{first} has {one}, {second} has {other}: compare results of the same kind")]
    Kinds {
        /// The first file.
        first: String,
        /// Its kind.
        one: String,
        /// The second file.
        second: String,
        /// Its kind.
        other: String,
    },
}

#[derive(Deserialize)]
struct Kind {
    tool: String,
}

/// The values of one file, by stream or frame size and by name, in order.
struct Side {
    kind: String,
    /// The conditions of the measurement.
    how: String,
    figures: Vec<((String, String), f64)>,
    warnings: Vec<String>,
}

/// Compares two files, each given by name and text.
///
/// # Errors
///
/// A text that is not a result, or two results of different kinds.
pub fn compare(first: (&str, &str), second: (&str, &str)) -> Result<Comparison, CompareError> {
    let (one, other) = (side(first.0, first.1)?, side(second.0, second.1)?);
    let mut warnings = Vec::new();
    if one.how != other.how {
        warnings.push(format!("measured differently: {}; {}", one.how, other.how));
    }
    if one.kind != other.kind {
        let names = (first.0.to_owned(), second.0.to_owned());
        return Err(CompareError::Kinds {
            first: names.0,
            one: one.kind,
            second: names.1,
            other: other.kind,
        });
    }
    let mut rest: BTreeMap<_, _> = other.figures.iter().cloned().collect();
    let mut pairs = Vec::new();
    for (key, value) in one.figures {
        let theirs = rest.remove(&key);
        pairs.push(pair(key, Some(value), theirs));
    }
    for (key, value) in other.figures {
        if rest.contains_key(&key) {
            pairs.push(pair(key, None, Some(value)));
        }
    }
    warnings.extend(one.warnings.into_iter().chain(other.warnings));
    Ok(Comparison { pairs, warnings })
}

fn pair((of, figure): (String, String), first: Option<f64>, second: Option<f64>) -> Pair {
    let ratio = first.zip(second).and_then(|(one, other)| match (one, other) {
        (0.0, 0.0) => Some(1.0),
        (0.0, _) => None,
        _ => Some(other / one),
    });
    Pair { of, figure, first, second, ratio }
}

fn side(name: &str, text: &str) -> Result<Side, CompareError> {
    let wrong = |reason: serde_json::Error| CompareError::NoResults {
        name: name.into(),
        reason: reason.to_string(),
    };
    let kind: Kind = serde_json::from_str(text).map_err(wrong)?;
    match kind.tool.as_str() {
        "stoa traffic" => Ok(of_run(name, &serde_json::from_str(text).map_err(wrong)?)),
        "stoa traffic method" => Ok(of_method(name, &serde_json::from_str(text).map_err(wrong)?)),
        other => {
            let reason = format!("it is of {other:?}");
            Err(CompareError::NoResults { name: name.into(), reason })
        }
    }
}

fn of_run(name: &str, results: &Results) -> Side {
    let mut figures = Vec::new();
    let total = (results.streams.len() > 1).then_some(&results.total);
    for stream in results.streams.iter().chain(total) {
        let mut put = |figure: &str, value: f64| {
            figures.push(((stream.name.clone(), figure.to_owned()), value));
        };
        put("received_pps", stream.received_pps);
        put("received_gbps", stream.received_gbps);
        put("loss", stream.loss);
        put("duplicates", stream.duplicates as f64);
        put("reordered", stream.reordered as f64);
        if let Some(latency) = &stream.latency {
            put("latency_min_ns", latency.min as f64);
            put("latency_mean_ns", latency.mean);
            put("latency_p50_ns", latency.p50 as f64);
            put("latency_p99_ns", latency.p99 as f64);
            put("latency_max_ns", latency.max as f64);
        }
    }
    let not_valid = results.faults.iter();
    let warnings =
        not_valid.map(|fault| format!("{name} is not valid: {}", fault.reason)).collect();
    let rate = results.total.intended_pps.map_or("max".into(), |rate| format!("{rate} pps"));
    let how = format!("{rate} for {} s", results.duration_seconds);
    Side { kind: "a run".into(), how, figures, warnings }
}

fn of_method(name: &str, report: &Report) -> Side {
    let mut figures = Vec::new();
    let mut warnings = Vec::new();
    warnings.extend(report.ended.iter().map(|reason| format!("{name} ended early: {reason}")));
    for row in &report.rows {
        let of_row = row.figures.values.iter();
        figures.extend(of_row.map(|(figure, value)| ((row.size.clone(), figure.clone()), *value)));
        if let Some(words) = row.figures.bound.and_then(crate::method::Bound::warning) {
            warnings.push(format!("{name}, {} B: {words}", row.size));
        }
    }
    let most = report.most.as_deref().unwrap_or("what the ports take");
    let (seconds, repeat, share) = (report.seconds, report.repeat, report.resolution);
    let how = format!("up to {most}, {seconds} s a trial, {repeat} times, resolution {share}");
    Side { kind: format!("the test {}", report.test), how, figures, warnings }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(test: &str, rate: f64, bound: &str) -> String {
        format!(
            r#"{{"tool":"stoa traffic method","version":"0","test":"{test}","started":0,"seconds":1.0,
            "repeat":1,"resolution":0.01,"most":null,"trials":[],"rows":[{{"size":"64",
            "figures":{{"values":{{"throughput_pps":{rate}}},"bound":"{bound}"}}}}]}}"#
        )
    }

    #[test]
    fn compares_values() {
        let (one, other) = (method("throughput", 2e6, "loss"), method("throughput", 3e6, "port"));
        let both = compare(("a", &one), ("b", &other)).unwrap();
        assert_eq!(both.pairs.len(), 1);
        assert_eq!((both.pairs[0].of.as_str(), both.pairs[0].ratio), ("64", Some(1.5)));
        assert_eq!(both.warnings.len(), 1, "{:?}", both.warnings);
        assert!(both.warnings[0].starts_with("b, 64 B: "));
    }

    #[test]
    fn files_of_earlier_versions_are_read() {
        let trial = r#"{"size":"64","asked_pps":5.0,"seconds":1.0,"sent":1,"received":1,"lost":0,
            "loss":0.0,"sent_pps":1.0,"received_pps":1.0,"sent_gbps":0.0,"received_gbps":0.0,
            "delays":null,"bound":null}"#;
        let trial: crate::method::Trial = serde_json::from_str(trial).unwrap();
        assert_eq!(trial.intended_pps, Some(5.0));
    }

    #[test]
    fn rejects_other_files_and_kinds() {
        let one = method("throughput", 2e6, "loss");
        let kinds = compare(("a", &one), ("b", &method("mrr", 1.0, "loss"))).unwrap_err();
        assert!(kinds.to_string().contains("b has the test mrr"), "{kinds}");
        for text in ["", "{}", "[1]", r#"{"tool":"iperf3"}"#] {
            let error = compare(("a", &one), ("b", text)).unwrap_err().to_string();
            assert!(error.starts_with("b: ") && error.contains("--json"), "{error}");
        }
    }
}
