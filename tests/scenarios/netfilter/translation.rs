//! Translation, gateways and SYN cookies beside the kernel's: one script of packets through both.
//!
//! Packets answer what has arrived, so that a script does not know which external ports and cookies a router chooses.
//! What arrives is described in words that are the same for both if both do the same.

mod alg;
mod cookies;
mod differences;
mod ends;
mod nat;
mod script;
mod setup;
mod stage;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use stoa_lab::{Configuration, Linux, NextHop, Result, Router, Side, Tool, Topology, stoa_binary};
use stoa_scenarios::{Scenario, side};

pub use differences::tables;
use ends::BEHIND;
use script::Step;
use setup::Plan;
use stage::{Descriptions, Stage};

use super::{TRACKING, stay_on_one_processor};

/// Names and texts of scripts.
type Cases = &'static [(&'static str, &'static str)];

/// What Linux does beside [`TRACKING`].
const FORWARDING: [(&str, &str); 2] =
    [("ipv4/conf/all/send_redirects", "0"), ("ipv4/tcp_timestamps", "1")];
/// Destinations without translation are dropped silently, as by Stoa.
const EXTERNAL: &str = "198.19.0.0/16";

fn by_linux(sides: &[Side], scripts: &[Vec<Step>], plan: Plan) -> Result<Descriptions> {
    let topology = Topology::new(sides)?;
    let _linux = Linux::start(&topology)?;
    let router = topology.router();
    for host in topology.hosts() {
        // Stations see checksums as they would be on a wire.
        let off = ["-K", host.label(), "tx", "off"];
        router.command(Tool::ETHTOOL)?.args(off).run()?.ok()?;
    }
    for (prefix, hop) in BEHIND {
        router.ip(&["route", "add", prefix, "via", hop])?;
    }
    router.ip(&["route", "add", "blackhole", EXTERNAL])?;
    for (key, value) in TRACKING.into_iter().chain(FORWARDING) {
        router.sysctl(key, value)?;
    }
    let text = plan.nftables(scripts.len() as u8);
    router.command(Tool::NFT)?.args(["-f", "-"]).input(text).run()?.ok()?;
    Ok(Stage::new(&topology, scripts, plan)?.play())
}

fn by_stoa(sides: &[Side], scripts: &[Vec<Step>], plan: Plan) -> Result<Descriptions> {
    let topology = Topology::new(sides)?;
    let configuration =
        BEHIND.into_iter().fold(Configuration::new(sides), |made, (prefix, hop)| {
            made.route(prefix, NextHop::Via(hop))
        });
    let mut configuration = configuration.json();
    let (module, part) = plan.stoa(scripts.len() as u8);
    configuration[module] = part;
    let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
    router.wait_up(&["host-a", "host-b", "host-c"])?;
    let scenario = Scenario { router, topology };
    let described = Stage::new(&scenario.topology, scripts, plan)?.play();
    scenario.end()?;
    Ok(described)
}

/// A packet: the name of its script, and its number from 1.
type Which = (&'static str, usize);

/// What arrives by way of Stoa and of Linux, where it differs from each other.
fn compare(cases: Cases, [stoa, linux]: [&Descriptions; 2]) -> BTreeMap<Which, [String; 2]> {
    let mut all = BTreeMap::new();
    for ((name, _), (stoa, linux)) in cases.iter().zip(stoa.iter().zip(linux)) {
        for (step, (stoa, linux)) in stoa.iter().zip(linux).enumerate() {
            if stoa != linux {
                all.insert((*name, step + 1), [stoa.clone(), linux.clone()]);
            }
        }
    }
    all
}

/// Plays scripts by both routers, and asserts that they differ where it is known.
fn both(cases: Cases, steps: fn(&str) -> Vec<String>, plan: Plan) -> Result<()> {
    let parse = |text: &str| steps(text).iter().map(|line| Step::parse(line)).collect();
    let scripts: Vec<Vec<Step>> = cases.iter().map(|(_, text)| parse(text)).collect();
    let sides = [side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?];
    let linux = std::thread::scope(|scope| {
        let played = scope.spawn(|| {
            stay_on_one_processor();
            by_linux(&sides, &scripts, plan)
        });
        played.join().expect("no panic")
    })?;
    let stoa = by_stoa(&sides, &scripts, plan)?;
    let found = compare(cases, [&stoa, &linux]);
    let known = differences::known(plan);
    let known: BTreeSet<Which> = known.into_iter().collect();
    let differs: BTreeSet<Which> = found.keys().copied().collect();
    let printed = |which: &Which| {
        let (name, step) = *which;
        let at = cases.iter().position(|(it, _)| *it == name);
        let of = |described: &Descriptions| {
            at.and_then(|at| described[at].get(step - 1)).cloned().unwrap_or_default()
        };
        let text = at.and_then(|at| steps(cases[at].1).get(step - 1).cloned()).unwrap_or_default();
        format!("{name}, {step} ({text})\n    Stoa:  {}\n    Linux: {}\n", of(&stoa), of(&linux))
    };
    let list: String = known.symmetric_difference(&differs).map(printed).collect();
    assert!(list.is_empty(), "{plan:?}: what Stoa and netfilter do with packets:\n{list}");
    // The scripts test something: much arrives.
    let all = linux.iter().flatten();
    let arrives = all.clone().filter(|described| *described != stage::NOTHING).count();
    assert!(arrives * 2 > all.count(), "{arrives} packets arrive");
    Ok(())
}

#[test]
fn translation_is_that_of_netfilter() -> Result<()> {
    both(nat::CASES, nat::steps, Plan::Pool)?;
    both(nat::CASES, nat::steps, Plan::Interface)
}

#[test]
fn gateways_are_those_of_netfilter() -> Result<()> {
    both(alg::CASES, alg::steps, Plan::Gateways)
}

#[test]
fn cookies_are_those_of_synproxy() -> Result<()> {
    both(cookies::CASES, cookies::steps, Plan::Cookies)
}
