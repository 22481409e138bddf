//! The steps of the demo while the router runs; each checks one thing with a real tool.

use serde_json::Value;

use super::report::Report;
use crate::measure::{Load, Rate, iperf, ping, traceroute};
use crate::{Host, Result, Router, Topology};

/// Seconds of each iperf3 run.
const SECONDS: u32 = 3;
/// Rates of the UDP runs in bits per second: a slower one follows while too much is lost. A machine with two processors
/// reaches the first one when nothing else runs, and one that also compiles reaches the last one.
const UDP_BITS_PER_SECOND: [u64; 4] = [300_000_000, 150_000_000, 75_000_000, 30_000_000];
/// Tolerated loss in percent: a busy machine drops some datagrams while the router waits for a processor.
const LOST_PERCENT: f64 = 5.0;

/// Result of a step, or why it failed.
pub(crate) type Outcome = std::result::Result<String, String>;

/// Turns an error of the lab into the detail of a failed step.
pub(crate) fn outcome(result: Result<Outcome>) -> Outcome {
    result.unwrap_or_else(|error| Err(error.to_string()))
}

const fn four_or_six(six: bool) -> char {
    if six { '6' } else { '4' }
}

/// Pings with no loss.
pub(crate) fn pings(from: &Host, to: std::net::IpAddr) -> Outcome {
    outcome(ping(from, to, 5, &[]).map(|pings| {
        let printed = format!("{} of {} replies", pings.received, pings.sent);
        if pings.all() {
            Ok(format!("{printed}, {:.2} ms", pings.mean_ms))
        } else {
            Err(format!("{printed} from {to}; look at `stoa show drops` and `stoa show neighbors`"))
        }
    }))
}

/// The pings of the demo: each host to the router and to the other host, both families.
pub(crate) fn all_pings(topology: &Topology, report: &mut Report) {
    let [a, b] = topology.hosts() else { return };
    for six in [false, true] {
        for host in [a, b] {
            let name = format!("ping{} {} -> router", four_or_six(six), host.label());
            report.step(&name, outcome(host.gateway(six).map(|to| pings(host, to))));
        }
    }
    for six in [false, true] {
        for (from, to) in [(a, b), (b, a)] {
            let name = format!("ping{} {} -> {}", four_or_six(six), from.label(), to.label());
            report.step(&name, outcome(to.address(six).map(|to| pings(from, to))));
        }
    }
}

/// The first hop must be the router, the second the other host.
pub(crate) fn route_traced(topology: &Topology, six: bool) -> Outcome {
    let [a, b] = topology.hosts() else { return Err("there are no two hosts".to_owned()) };
    let traced = || -> Result<Outcome> {
        let (gateway, target) = (a.gateway(six)?, b.address(six)?);
        let hops = traceroute(a, target, &[])?;
        let printed: Vec<String> = hops
            .iter()
            .map(|hop| hop.address.map_or_else(|| "*".to_owned(), |address| address.to_string()))
            .collect();
        let path = printed.join(", ");
        if printed == [gateway.to_string(), target.to_string()] {
            Ok(Ok(format!("hops: {path} (the first is Stoa)")))
        } else {
            Ok(Err(format!("hops: {path}; expected {gateway}, {target}")))
        }
    };
    outcome(traced())
}

/// iperf3 from the first host to the second.
pub(crate) fn rate(topology: &Topology, six: bool, load: Load) -> Result<Rate> {
    let [a, b] = topology.hosts() else {
        return Err(crate::LabError::ParseFailed {
            what: "the topology".to_owned(),
            reason: "there are no two hosts".to_owned(),
        });
    };
    iperf(a, b, six, load, SECONDS)
}

/// TCP: any rate above zero passes.
pub(crate) fn tcp(rate: &Result<Rate>) -> Outcome {
    match rate {
        Err(error) => Err(error.to_string()),
        Ok(rate) if rate.bits_per_second > 0.0 => Ok(format!(
            "{:.2} Gbit/s, {} segments retransmitted",
            rate.bits_per_second / 1e9,
            rate.retransmits
        )),
        Ok(_) => Err("connected, but received no data; look at `stoa show drops`".to_owned()),
    }
}

/// UDP at the highest of several rates at which the path loses little.
pub(crate) fn udp(topology: &Topology) -> Outcome {
    highest(&UDP_BITS_PER_SECOND, |bits_per_second| {
        outcome(rate(topology, false, Load::Udp { bits_per_second }).map(|rate| udp_rate(&rate)))
    })
}

/// Runs with one rate after another until one passes. Returns the result of the last run.
fn highest(rates: &[u64], mut run: impl FnMut(u64) -> Outcome) -> Outcome {
    let mut last = Err("no rate was tried".to_owned());
    for &rate in rates {
        last = run(rate);
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Little loss on the path passes.
fn udp_rate(rate: &Rate) -> Outcome {
    let printed = format!(
        "{:.0} Mbit/s received, {:.2} % lost on the path, {:.2} % by the busy receiver",
        rate.bits_per_second / 1e6,
        rate.lost_percent,
        rate.late_percent
    );
    if rate.lost_percent <= LOST_PERCENT {
        Ok(printed)
    } else {
        Err(format!("{printed}; look at `stoa show interfaces` (missed) and `stoa show drops`"))
    }
}

/// Every interface with an address must have received and sent packets.
pub(crate) fn counters_moved(router: &Router, interfaces: &[String]) -> Outcome {
    let look = || -> Result<Outcome> {
        let list = router.interfaces()?;
        let mut printed = Vec::new();
        for name in interfaces {
            let Some(one) = list.iter().find(|one| one.name == *name) else {
                return Ok(Err(format!("interface {name} is not listed")));
            };
            if one.rx_packets == 0 || one.tx_packets == 0 {
                return Ok(Err(format!(
                    "{name} counts {} received and {} sent",
                    one.rx_packets, one.tx_packets
                )));
            }
            printed.push(format!("{name} {} in, {} out", one.rx_packets, one.tx_packets));
        }
        Ok(Ok(printed.join("; ")))
    };
    outcome(look())
}

/// Received + generated = sent + consumed + dropped + held.
pub(crate) fn accounting(router: &Router) -> Outcome {
    let number = |accounting: &Value, key: &str| accounting[key].as_u64().unwrap_or_default();
    outcome(router.conservation().map(|accounting| {
        Ok(format!(
            "{} received + {} generated = {} sent + {} consumed + {} dropped + {} held",
            number(&accounting, "received"),
            number(&accounting, "generated"),
            number(&accounting, "sent"),
            number(&accounting, "consumed"),
            number(&accounting, "dropped"),
            number(&accounting, "held"),
        ))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_rate_is_tried_while_too_much_is_lost() {
        let mut tried = Vec::new();
        let result = highest(&[300, 150, 75], |rate| {
            tried.push(rate);
            if rate > 200 { Err("lost".to_owned()) } else { Ok(format!("{rate}")) }
        });
        assert_eq!((result, tried), (Ok("150".to_owned()), vec![300, 150]));
        assert_eq!(
            highest(&[300, 250], |rate| Err(format!("lost at {rate}"))),
            Err("lost at 250".to_owned())
        );
    }
}
