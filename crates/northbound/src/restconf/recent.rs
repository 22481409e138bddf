//! Operations that tell what happened recently: the traffic of the last hour, and log messages.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use stoa_api::date;
use stoa_controller::recent::{INTERVAL_S, Points, Rates, TrafficHistory};

use super::call::Call;
use super::fault::{Fault, Faults};
use super::operation::Input;
use super::path;
use crate::audit::timestamp;
use crate::nacm::{Operation, Rights};

/// Messages unless requested otherwise.
const MESSAGES: u64 = 200;

/// Modules and names of the counters of an interface that the history comes from, below its statistics.
const COUNTERS: [(&str, &str); 6] = [
    ("ietf-interfaces", "in-octets"),
    ("ietf-interfaces", "out-octets"),
    ("ietf-interfaces", "in-discards"),
    ("ietf-interfaces", "out-discards"),
    ("stoa-interfaces", "in-pkts"),
    ("stoa-interfaces", "out-pkts"),
];

/// `stoa-forwarder:traffic-history`: of what the client may read.
pub fn traffic_history(call: &Call, input: &Input) -> Result<Value, Faults> {
    let management = call.app.management();
    let rights = Rights::of(&call.identity, &management);
    let recent = &call.app.datastore.connection().recent;
    let may_read = |name: &String| may_read_traffic(&rights, name);
    let interfaces: Vec<String> = input.values("interface").into_iter().filter(may_read).collect();
    let has_total = input.value("total").as_deref() == Some("true");
    // The sum tells the traffic of each interface to a client that may read all others.
    let may_read_total =
        || rights.is_whole() || may_read_drops(&rights) && recent.interfaces().iter().all(may_read);
    if has_total && !may_read_total() {
        let at = "/stoa-forwarder:traffic-history/total".to_owned();
        return Err(Fault::forbidden(at).into());
    }
    let resolution = input.number("resolution").unwrap_or(INTERVAL_S);
    Ok(shown(&recent.traffic_history(&interfaces, has_total, resolution)))
}

/// Whether all counters may be read that the history of an interface comes from.
fn may_read_traffic(rights: &Rights<'_>, interface: &str) -> bool {
    COUNTERS.iter().all(|(module, name)| {
        let counter = path::below(path::statistics(interface), module, name);
        rights.may(Operation::Read, &counter)
    })
}

/// The same for the dropped packets of the sum of all interfaces.
fn may_read_drops(rights: &Rights<'_>) -> bool {
    rights.may(Operation::Read, &path::below(path::conservation(), "stoa-forwarder", "dropped"))
}

fn shown(history: &TrafficHistory) -> Value {
    let interfaces = history.interfaces.iter().map(|(name, points)| {
        let mut value = series(points);
        value["name"] = name.as_str().into();
        value
    });
    let mut output = json!({
        "interval": history.interval_s,
        "end": timestamp(history.end),
        "age": u32::try_from(history.age.as_millis()).unwrap_or(u32::MAX),
        "interface": interfaces.collect::<Vec<_>>(),
    });
    if let Some(total) = &history.total {
        output["total"] = series(total);
    }
    output
}

fn series(points: &Points) -> Value {
    let list = |rate: fn(&Rates) -> f32| {
        let words = points.iter().map(|point| point.as_ref().map(rate).map_or("-".into(), number));
        words.collect::<Vec<String>>().join(" ")
    };
    json!({
        "in-packets": list(|rates| rates.in_packets),
        "out-packets": list(|rates| rates.out_packets),
        "in-bits": list(|rates| rates.in_bits),
        "out-bits": list(|rates| rates.out_bits),
        "dropped": list(|rates| rates.dropped),
    })
}

/// A rate, with a digit after the point if it is small.
fn number(rate: f32) -> String {
    match rate {
        rate if rate > 0.0 && rate < 9.95 => format!("{rate:.1}"),
        rate => format!("{:.0}", rate.max(0.0)),
    }
}

/// `stoa-logging:recent-messages`.
pub async fn log_messages(call: &Call, input: &Input) -> Value {
    let limit = usize::try_from(input.number("limit").unwrap_or(MESSAGES)).unwrap_or(usize::MAX);
    let level = input.value("level").unwrap_or_else(|| "info".into());
    let recent = &call.app.datastore.connection().recent;
    let messages = recent.log_messages(limit, &level).await;
    let messages = messages.into_iter().map(|it| {
        let time = UNIX_EPOCH + Duration::from_micros(it.message.unix_us);
        json!({
            "time": date::with_micros(time), "program": it.program, "level": it.message.level,
            "target": it.message.target, "text": it.message.text,
        })
    });
    json!({ "message": messages.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restconf::path::Step;
    use crate::tests::with_denied;

    /// Rights of a user to whom one rule denies to read `path`, or all of `module`.
    fn denied(module: &str, path: Option<&str>) -> (bool, bool) {
        with_denied(module, path, |rights| {
            (may_read_traffic(rights, "lan"), may_read_drops(rights))
        })
    }

    #[test]
    fn the_history_needs_the_right_to_each_of_its_counters() {
        let of = "/ietf-interfaces:interfaces/interface[name='lan']/statistics";
        for name in COUNTERS.map(|(module, name)| match module {
            "ietf-interfaces" => name.to_owned(),
            _ => format!("{module}:{name}"),
        }) {
            assert_eq!(denied("*", Some(&format!("{of}/{name}"))), (false, true), "{name}");
        }
        assert_eq!(denied("*", Some(of)), (false, true));
        assert_eq!(denied("stoa-interfaces", None), (false, true));
        let dropped = "/stoa-forwarder:forwarder/conservation/dropped";
        assert_eq!(denied("*", Some(dropped)), (true, false));
        let other = of.replace("lan", "wan");
        assert_eq!(denied("*", Some(&other)), (true, true));
    }

    #[test]
    fn counters_are_those_of_the_modules() {
        let is_known = |steps: &[Step]| {
            let names: Vec<_> =
                steps.iter().map(|step| format!("{}:{}", step.module, step.name)).collect();
            let names = names.join("/").replace(":interface/", ":interface=lan/");
            path::parse(&names).is_ok_and(|it| it.steps == steps)
        };
        for (module, name) in COUNTERS {
            assert!(
                is_known(&path::below(path::statistics("lan"), module, name)),
                "{module}:{name}"
            );
        }
        assert!(is_known(&path::below(path::conservation(), "stoa-forwarder", "dropped")));
    }

    #[test]
    fn rates_and_gaps_are_written_as_the_module_has_them() {
        let rates = |in_packets| Some(Rates { in_packets, ..Rates::default() });
        let value = series(&vec![None, rates(0.0), rates(0.25), rates(9.96), rates(1.5e9)]);
        assert_eq!(value["in-packets"], "- 0 0.2 10 1500000000");
        assert_eq!(value["dropped"], "- 0 0 0 0");
    }
}
