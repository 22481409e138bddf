//! Access lists beside the kernel's netfilter: one script of packets through both, made of one description of rules.
//!
//! Where they differ, and why, is listed in `netfilter/differences.rs`; the table in the guide is made of it.

mod cases;
mod differences;
mod packet;
mod play;
mod rules;
mod station;
mod translation;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use stoa_lab::{Configuration, Linux, NextHop, Result, Router, Side, Tool, Topology, stoa_binary};
use stoa_scenarios::{Scenario, two_sides};

use differences::{DIFFERENCES, Who};
use packet::Packet;
use play::{BEHIND, Stage, Verdict};
use rules::Place;

/// Settings of connection tracking that make it as strict as Stoa is, with the timeouts that Stoa has.
const TRACKING: [(&str, &str); 16] = [
    ("netfilter/nf_conntrack_tcp_loose", "0"),
    ("netfilter/nf_conntrack_tcp_be_liberal", "0"),
    ("netfilter/nf_conntrack_checksum", "1"),
    ("netfilter/nf_conntrack_tcp_timeout_syn_sent", "240"),
    ("netfilter/nf_conntrack_tcp_timeout_syn_recv", "240"),
    ("netfilter/nf_conntrack_tcp_timeout_established", "7440"),
    ("netfilter/nf_conntrack_tcp_timeout_fin_wait", "240"),
    ("netfilter/nf_conntrack_tcp_timeout_close_wait", "7440"),
    ("netfilter/nf_conntrack_tcp_timeout_last_ack", "240"),
    ("netfilter/nf_conntrack_tcp_timeout_time_wait", "240"),
    ("netfilter/nf_conntrack_tcp_timeout_close", "240"),
    ("netfilter/nf_conntrack_udp_timeout", "300"),
    ("netfilter/nf_conntrack_udp_timeout_stream", "300"),
    ("netfilter/nf_conntrack_icmp_timeout", "60"),
    // All answers, not some in a second.
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv6/icmp/ratelimit", "0"),
];

type Verdicts = Vec<Vec<Verdict>>;

fn scripts() -> Vec<Vec<Packet>> {
    let script =
        |(_, text): &(&str, &str)| cases::steps(text).iter().map(|it| Packet::parse(it)).collect();
    cases::CASES.iter().map(script).collect()
}

/// What Linux does with the scripts.
fn by_linux(sides: &[Side], scripts: &[Vec<Packet>]) -> Result<Verdicts> {
    let topology = Topology::new(sides)?;
    let _linux = Linux::start(&topology)?;
    let router = topology.router();
    for (prefix, hop) in BEHIND {
        let family = if prefix.contains(':') { "-6" } else { "-4" };
        router.ip(&[family, "route", "add", prefix, "via", hop])?;
    }
    for (key, value) in TRACKING {
        router.sysctl(key, value)?;
    }
    let text = rules::nftables();
    router.command(Tool::NFT)?.args(["-f", "-"]).input(text).run()?.ok()?;
    Ok(Stage::new(&topology, scripts)?.play())
}

/// What Stoa does with the scripts.
fn by_stoa(sides: &[Side], scripts: &[Vec<Packet>], place: Place) -> Result<Verdicts> {
    let topology = Topology::new(sides)?;
    let configuration =
        BEHIND.into_iter().fold(Configuration::new(sides), |made, (prefix, hop)| {
            made.route(prefix, NextHop::Via(hop))
        });
    let mut configuration = configuration.json();
    configuration["ietf-access-control-list:acls"] = rules::stoa(place);
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b"])?;
    let scenario = Scenario { router, topology };
    let verdicts = Stage::new(&scenario.topology, scripts)?.play();
    scenario.end()?;
    Ok(verdicts)
}

/// Packets that a router sends on one processor stay in their order.
fn stay_on_one_processor() {
    let all = sched_getaffinity(Pid::from_raw(0)).expect("the own processors");
    let first = (0..CpuSet::count()).find(|at| all.is_set(*at) == Ok(true)).expect("one processor");
    let mut one = CpuSet::new();
    one.set(first).expect("a processor");
    sched_setaffinity(Pid::from_raw(0), &one).expect("one of the own processors");
}

/// A packet: the name of its script, the family, and its number from 1.
type Which = (&'static str, u8, usize);

/// What two routers do with packets about which they differ.
fn compare(one: &Verdicts, other: &Verdicts) -> BTreeMap<Which, [Verdict; 2]> {
    let mut all = BTreeMap::new();
    for (run, (one, other)) in one.iter().zip(other).enumerate() {
        let (name, family) = (cases::CASES[run / 2].0, if run % 2 == 0 { 4 } else { 6 });
        for (step, (one, other)) in one.iter().zip(other).enumerate() {
            if one != other {
                all.insert((name, family, step + 1), [one.clone(), other.clone()]);
            }
        }
    }
    all
}

fn printed((name, family, step): Which, both: Option<&[Verdict; 2]>) -> String {
    let text = cases::CASES.iter().find(|(it, _)| *it == name).map_or("", |(_, text)| text);
    let packet = cases::steps(text).get(step - 1).cloned().unwrap_or_default();
    let verdicts =
        both.map_or("no difference".to_owned(), |[one, other]| format!("{one} | {other}"));
    format!("{name}, IPv{family}, packet {step} ({packet}): {verdicts}\n")
}

/// The differences that are known: which of both lets the packet pass or answers it.
fn known() -> BTreeMap<Which, Who> {
    let mut all = BTreeMap::new();
    for one in DIFFERENCES {
        for (name, families, steps) in one.packets {
            for family in families.numbers() {
                for step in *steps {
                    let before = all.insert((*name, *family, *step), one.by);
                    assert!(before.is_none(), "{name}, IPv{family}, packet {step} is there twice");
                }
            }
        }
    }
    all
}

/// Who lets a packet pass, or answers it, about which both differ; `None`: both do, in different words.
fn more_lenient([stoa, linux]: &[Verdict; 2]) -> Option<Who> {
    let weigh = |verdict: &Verdict| (verdict.passes, verdict.answer.is_some());
    match weigh(stoa).cmp(&weigh(linux)) {
        std::cmp::Ordering::Greater => Some(Who::Stoa),
        std::cmp::Ordering::Less => Some(Who::Netfilter),
        std::cmp::Ordering::Equal => None,
    }
}

#[test]
fn verdicts_are_those_of_netfilter() -> Result<()> {
    let (scripts, sides) = (scripts(), two_sides(&[])?);
    let linux = std::thread::scope(|scope| {
        let played = scope.spawn(|| {
            stay_on_one_processor();
            by_linux(&sides, &scripts)
        });
        played.join().expect("no panic")
    })?;
    let stoa = by_stoa(&sides, &scripts, Place::Input)?;
    let found = compare(&stoa, &linux);
    let by = found.iter().map(|(packet, both)| (*packet, more_lenient(both)));
    let known: BTreeMap<_, _> =
        known().into_iter().map(|(packet, by)| (packet, Some(by))).collect();
    let by: BTreeMap<_, _> = by.collect();
    let wrong: BTreeSet<_> =
        known.keys().chain(by.keys()).filter(|it| known.get(*it) != by.get(*it)).collect();
    let list: String = wrong.into_iter().map(|it| printed(*it, found.get(it))).collect();
    assert!(list.is_empty(), "what Stoa and netfilter do with packets:\n{list}");
    // The scripts test something: much passes, and much is dropped.
    let all = linux.iter().flatten();
    let passes = all.clone().filter(|verdict| verdict.passes).count();
    assert!(passes > 500 && all.count() - passes > 200, "{passes} packets pass");
    for place in [Place::Output, Place::Zones] {
        let differs = compare(&stoa, &by_stoa(&sides, &scripts, place)?);
        let list: String = differs.iter().map(|(it, both)| printed(*it, Some(both))).collect();
        assert!(list.is_empty(), "lists for input, and {place:?}:\n{list}");
    }
    Ok(())
}

/// A page with a table in place of the one that begins with the same line and ends with a blank one.
fn with_table(page: &str, table: &str) -> String {
    let first = table.lines().next().expect("a table has lines");
    let at = page.find(first).unwrap_or_else(|| panic!("the page has no table {first}"));
    let end = page[at..].find("\n\n").map_or(page.len(), |length| at + length + 1);
    format!("{}{table}{}", &page[..at], &page[end..])
}

#[test]
fn the_guide_lists_the_differences() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/netfilter.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    let tables = translation::tables().into_iter().chain([differences::table()]);
    let right = tables.fold(text.clone(), |text, table| with_table(&text, &table));
    if std::env::var_os("STOA_UPDATE").is_some() {
        return std::fs::write(&page, right).expect("a page to write");
    }
    assert_eq!(text, right, "write the tables anew with STOA_UPDATE=1");
}
