//! Entries of the core that do not belong to an interface: workers, sizes of tables, ports and VRFs; and what is in
//! force where nothing is configured.

use std::collections::BTreeSet;

use stoa_api::audit::{self, Kind, Tally};
use stoa_api::v1;
use stoa_engine::pool::HugePages;
use stoa_engine::worker::Polling;
use stoa_ports::{GeneratorConfig, PortConfig};

use super::punt_defaults;
use crate::control::apply::{ApplyError, Forwarder};
use crate::control::capability::CAPABILITIES;
use crate::control::desired::Workers;
use crate::control::desired_port;
use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::Limits;
use crate::flow;
use crate::ip::reassembly;

/// The workers as a message of the contract, with this way to wait.
fn workers(workers: &Workers, polling: Polling) -> v1::Workers {
    let polling = match polling {
        Polling::Adaptive => v1::Polling::Adaptive,
        Polling::Always => v1::Polling::Polling,
        Polling::Interrupt => v1::Polling::Interrupt,
    };
    let huge_pages = match workers.huge_pages {
        HugePages::IfAvailable => v1::HugePages::IfAvailable,
        HugePages::Never => v1::HugePages::Never,
        HugePages::Required => v1::HugePages::Required,
    };
    v1::Workers {
        count: workers.count as u32,
        cpus: workers.cpus.iter().map(|cpu| *cpu as u32).collect(),
        polling: polling.into(),
        buffers: workers.buffers,
        huge_pages: huge_pages.into(),
        kernel: workers.kernel.name().to_owned(),
    }
}

/// What a forwarder with these limits has in force where the desired state has 0 or "".
pub(super) fn defaults(limits: &Limits) -> v1::Desired {
    let generator = PortConfig::Generator(GeneratorConfig::default());
    let (packets, per_source) = (reassembly::Limits::CONTEXTS, reassembly::Limits::PER_SOURCE);
    v1::Desired {
        workers: Some(workers(&Workers::default(), Polling::Adaptive)),
        limits: Some(limits.message()),
        reassembly: Some(v1::Reassembly { packets, per_source }),
        multipath: Some(v1::Multipath { hash_seed: flow::SEED }),
        ports: vec![desired_port::message("", &generator, false)],
        punts: punt_defaults(),
        ..v1::Desired::default()
    }
}

impl Forwarder {
    /// Brings workers and limits of tables into force again, of which most are fixed while the forwarder runs.
    pub(super) fn repair_fixed(&self, kinds: &BTreeSet<Kind>) -> Result<(), ApplyError> {
        let (Some(state), Some(desired)) = (self.running(), self.desired()) else { return Ok(()) };
        if kinds.contains(&Kind::Workers) || kinds.contains(&Kind::Limits) {
            self.check_fixed(&desired.workers, self.limits_of(desired))?;
            state.set_polling(desired);
        }
        Ok(())
    }
}

impl ForwarderState {
    /// Adds what does not belong to an interface.
    pub(super) fn add_whole_entries(&self, tally: &mut Tally) {
        let complete = v1::Desired::default();
        // Workers that wait in different ways are not as desired, whichever way that is.
        let mut pollings = self.pollings();
        let polling = pollings.next();
        if let Some(polling) = polling.filter(|first| pollings.all(|other| other == *first)) {
            audit::workers(tally, workers(&self.workers, polling), &complete);
        }
        let usage = self.fib.usage();
        let limits = Limits {
            routes4: usage.routes4.1,
            routes6: usage.routes6.1,
            vrf_routes: usage.vrf_routes.1,
            next_hops: usage.next_hops.1,
            adjacencies: usage.adjacencies.1,
            neighbors: self.limits.neighbors,
            flows4: self.shared.flows.capacity_of(true, false) as usize,
            flows6: self.shared.flows.capacity_of(false, false) as usize,
            nat_flows: self.shared.flows.capacity_of(true, true) as usize,
            nat_mappings: self.shared.flows.mappings().capacity() as usize,
        };
        audit::limits(tally, limits.message(), &complete);
        for (name, port) in &self.ports {
            audit::port(tally, name, port.config.driver());
            let software_rss = self.rx_queues.software_rss.contains(name);
            let settings = desired_port::message(name, &port.config, software_rss);
            audit::port_settings(tally, settings, &complete);
        }
        for (_, vrf) in self.vrfs.iter().filter(|(_, vrf)| !vrf.name.is_empty()) {
            audit::vrf(tally, &vrf.name);
        }
        CAPABILITIES.iter().for_each(|capability| (capability.entries)(self, tally));
    }
}
