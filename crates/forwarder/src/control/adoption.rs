//! Flows that outlive the forwarder ([`crate::flow::adoption`]): puts the flow tables into memory that the supervisor
//! holds, and has workers adopt the flows of the former forwarder with the first configuration, before ports receive.

use std::time::{Duration, Instant};

use stoa_engine::{clock, heap};
use stoa_tables::flow_table::FlowCapacity;
use stoa_warm_restart::{Arrays, FormerArrays, Regions};

use super::capability::{Capability, Start, Verbs};
use super::forwarder_state::ForwarderState;
use crate::acl::flow_vrf;
use crate::flow::adoption::head::{self, Names};
use crate::flow::adoption::{FormerFlows, PATIENCE};
use crate::flow::flows::Flows;
use crate::flow::profiles::PROFILES;

/// The name of the memory.
const NAME: &str = "flows";
/// Beyond what workers take: time until they begin and notice that they are late.
const MARGIN: Duration = Duration::from_secs(1);
/// How often the clocks are written.
const CLOCKS: Duration = Duration::from_secs(10);

/// The memory of the flow tables.
#[derive(Default)]
pub(super) struct KeptFlows {
    /// `None`: nobody holds it.
    arrays: Option<Arrays>,
    former: Option<FormerArrays>,
    is_held: bool,
    names: Names,
    written: Option<Instant>,
}

impl Capability for KeptFlows {
    const VERBS: Verbs = Verbs {
        done: ForwarderState::keep_flows,
        tick: ForwarderState::tick_kept_flows,
        ..Verbs::NONE
    };

    fn start(start: &Start<'_>) -> Self {
        Self::open(start.flows, &mut start.regions())
    }
}

impl KeptFlows {
    /// Puts new tables into memory that the supervisor can hold. Without it, flows end with this process.
    fn open(flows: &Flows, regions: &mut Regions) -> Self {
        let capacity = |is_ip4| {
            let [one, translated] = [false, true].map(|it| flows.capacity_of(is_ip4, it));
            match is_ip4 {
                true => {
                    FlowCapacity { ip4: one, translated_ip4: translated, ..FlowCapacity::default() }
                }
                false => {
                    FlowCapacity { ip6: one, translated_ip6: translated, ..FlowCapacity::default() }
                }
            }
        };
        let opened = regions.open_arrays(NAME, || flows.leak_arrays());
        let opened = opened.and_then(|opened| {
            let Some((arrays, former)) = opened else { return Ok(Self::default()) };
            for array in flows.leak_arrays() {
                heap::expect_huge_pages(array.as_ptr().cast(), size_of_val(array));
            }
            head::write(&arrays, [&capacity(true), &capacity(false)])?;
            Ok(Self { arrays: Some(arrays), former, ..Self::default() })
        });
        opened.unwrap_or_else(|error| {
            tracing::warn!("flows do not survive a restart of the forwarder: {error}");
            Self::default()
        })
    }

    /// Writes what a later process must know of VRFs and zones, if it has changed.
    fn follow_names(&mut self, names: Names) {
        if names == self.names && self.is_held {
            return;
        }
        self.names = names;
        let written = self.arrays.as_ref().map(|arrays| head::write_names(arrays, &self.names));
        if let Some(Err(error)) = written {
            tracing::warn!("flows do not survive a restart of the forwarder: {error}");
        }
    }
}

impl ForwarderState {
    /// A configuration is in force, and ports do not receive by it yet. With the first one, the flows of the former
    /// forwarder are adopted.
    fn keep_flows(&mut self) {
        if self.capabilities.kept_flows.arrays.is_none() {
            return;
        }
        let names = self.flow_names();
        self.capabilities.kept_flows.follow_names(names);
        if self.capabilities.kept_flows.is_held {
            return;
        }
        self.adopt_flows();
        self.capabilities.kept_flows.is_held = true;
        // From now on, the next process finds these flows and not the former ones.
        self.capabilities.kept_flows.arrays.iter().for_each(Arrays::hold);
    }

    /// What the numbers mean that flows have of VRFs, zones and profiles.
    pub(super) fn flow_names(&self) -> Names {
        let mut names = Names::default();
        self.vrfs.iter().for_each(|(_, it)| names.add_vrf(flow_vrf(it.id), &it.name));
        self.zone_numbers().for_each(|(zone, name)| names.add_zone(zone, name));
        let profiles = self.shared.flows.profiles();
        (0..PROFILES as u8).for_each(|it| names.add_profile(it, &profiles.get(it)));
        names
    }

    fn adopt_flows(&mut self) {
        let Some(former) = self.capabilities.kept_flows.former.take() else { return };
        let tick = self.shared.flows.now(clock::tsc()).tick;
        let Some(former) =
            FormerFlows::of(former, self.capabilities.kept_flows.names.clone(), tick)
        else {
            tracing::warn!(
                "the flows of the last forwarder are lost: its tables are of another kind"
            );
            return;
        };
        if !self.follows_any_flows() {
            return;
        }
        let (begin, flows) = (Instant::now(), self.shared.flows.clone());
        flows.adoption().begin(former, self.worker_count());
        while flows.adoption().is_pending() && begin.elapsed() < PATIENCE + MARGIN {
            self.step();
            std::thread::sleep(Duration::from_millis(1));
        }
        flows.adoption().end();
        report(&flows, begin.elapsed());
    }

    /// Writes the clocks for the next process now and then.
    fn tick_kept_flows(&mut self) {
        let kept = &mut self.capabilities.kept_flows;
        let Some(arrays) = &kept.arrays else { return };
        if kept.written.is_none_or(|written| written.elapsed() >= CLOCKS) {
            kept.written = Some(Instant::now());
            // With former clocks, times are as wrong as these have drifted.
            let _ = head::write_clocks(arrays);
        }
    }
}

fn report(flows: &Flows, took: Duration) {
    let adopted: u64 = [true, false].map(|is_ip4| flows.sums(is_ip4).adopted).iter().sum();
    let left_out = flows.adoption().left_out();
    let reasons: Vec<String> = left_out
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(why, count)| format!("{count} {}", why.name()))
        .collect();
    let left_out = if reasons.is_empty() { "0".to_owned() } else { reasons.join(", ") };
    let ms = took.as_millis();
    tracing::info!(
        "flows: {adopted} of the last forwarder adopted in {ms} ms; left out: {left_out}"
    );
}
