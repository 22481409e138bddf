//! The capabilities of the forwarder, in one list, and what the core asks of each.
//!
//! [`ForwarderState`] is the core: workers, ports, interfaces, tables. A capability is a module whose state is
//! a struct with private fields: nothing outside the module can reach them. The core calls it by its [`Verbs`]
//! only, in the order of the list; where one capability needs another, it calls a method of that one.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use stoa_api::audit::Tally;
use stoa_api::v1;
use stoa_engine::Packet;
use stoa_warm_restart::probe::Journal;
use stoa_warm_restart::{Opened, Regions, State};

use super::apply::ApplyError;
use super::converge::TouchedInterfaces;
use super::desired::{DesiredChange, DesiredState, Held, Workers};
use super::forwarder_state::{ForwarderState, InterfaceState};
use super::limits::Limits;
use super::vrfs::Slot;
use crate::flow::flows::Flows;
use crate::plugin::StartFailure;
use crate::punt::Class;

/// What states begin with: settings that are fixed while the forwarder runs, and memory of an earlier start.
pub(super) struct Start<'a> {
    pub(super) limits: &'a Limits,
    pub(super) workers: &'a Workers,
    /// Empty tables.
    pub(super) flows: &'a Flows,
    regions: RefCell<&'a mut Regions>,
    failures: RefCell<Vec<StartFailure>>,
}

impl<'a> Start<'a> {
    pub(super) fn new(
        limits: &'a Limits,
        workers: &'a Workers,
        flows: &'a Flows,
        regions: &'a mut Regions,
    ) -> Self {
        let (regions, failures) = (RefCell::new(regions), RefCell::default());
        Self { limits, workers, flows, regions, failures }
    }

    /// Opens the region of a capability, with room for `capacity` entries and with those of the last start, in this
    /// process or in an earlier one. `None`: the system has no memory for it, and the forwarder does not start.
    pub(super) fn open<S: State>(&self, capacity: usize) -> Option<Opened<S>> {
        let opened = self.regions.borrow_mut().open(capacity);
        opened.map_err(|error| self.fail(format!("the region {:?}: {error}", S::NAME).into())).ok()
    }

    /// The memory of earlier processes, for arrays ([`Regions::open_arrays`]).
    pub(super) fn regions(&self) -> RefMut<'_, &'a mut Regions> {
        self.regions.borrow_mut()
    }

    /// The forwarder does not start, for this reason.
    pub(super) fn fail(&self, failure: StartFailure) {
        self.failures.borrow_mut().push(failure);
    }

    /// The journal of the test capability.
    pub(super) fn journal(&self) -> Option<Journal> {
        self.regions.borrow().journal().cloned()
    }
}

/// The state of a capability.
pub(super) trait Capability {
    /// What it does, and when.
    const VERBS: Verbs;

    /// Its state before the first configuration.
    fn start(start: &Start<'_>) -> Self;
}

/// A step towards the desired state. What it costs should follow what was touched, not what there is.
pub(super) struct Step<'a> {
    /// The desired state, with its referrers.
    pub(super) held: &'a Held,
    /// What may differ from the running state: the keys count, not the values.
    pub(super) touched: &'a DesiredChange,
    /// Touched interfaces, removed ones among them; empty before ports and interfaces are as desired.
    pub(super) interfaces: &'a TouchedInterfaces,
}

impl<'a> Step<'a> {
    /// The desired state.
    pub(super) fn desired(&self) -> &'a DesiredState {
        self.held.desired()
    }
}

/// Interfaces whose entries in the tables of the workers were written.
pub(super) struct Published {
    pub(super) changed: BTreeSet<u32>,
    /// Those whose multicast groups have changed.
    pub(super) regrouped: Vec<u32>,
}

/// Does its part of a step.
type Change = fn(&mut ForwarderState, &Step<'_>) -> Result<(), ApplyError>;
/// A change of one interface.
type OfInterface = fn(&mut ForwarderState, u32);

/// Packets that a capability takes from workers.
pub(super) struct Punted {
    pub(super) class: Class,
    /// Whether it takes the packet with these bytes: a class may have several protocols.
    pub(super) takes: fn(&[u8]) -> bool,
    /// Handles a packet of a worker.
    pub(super) receive: fn(&mut ForwarderState, usize, Packet),
}

/// What a capability does, and when. A capability names what it needs; the rest, [`Verbs::NONE`], does
/// nothing.
pub(super) struct Verbs {
    /// Before anything changes: prepares what may fail and touches nothing else. After an error, what was
    /// touched is applied again with its former settings.
    pub(super) prepare: Change,
    /// Before anything changes: resigns from what is no longer desired, while it can still send. In reverse
    /// order.
    pub(super) retire: fn(&mut ForwarderState, &Step<'_>),
    /// Ports and interfaces are as desired, routes are not yet: brings its own settings into effect.
    pub(super) apply: Change,
    /// Routes are as desired, too, and only other `finish` verbs can still fail.
    pub(super) finish: Change,
    /// The step is done, and nothing of it can fail any more: forgets what is needed to take it back.
    pub(super) done: fn(&mut ForwarderState),
    /// Interfaces, links or routes have changed; the argument has the interfaces.
    pub(super) review: fn(&mut ForwarderState, &BTreeSet<u32>),

    /// The flags of an interface that workers read. Its features can be set here: before packets arrive.
    pub(super) flags: fn(&ForwarderState, u32, &InterfaceState) -> u32,
    /// Interfaces were published to the workers: publishes its own tables of them.
    pub(super) publish: fn(&mut ForwarderState, &Published),
    /// The link of an interface is up.
    pub(super) link_up: OfInterface,
    /// The link of an interface is down.
    pub(super) link_down: OfInterface,
    /// Interfaces are about to be removed: removes its routes through them.
    pub(super) remove_routes: fn(&mut ForwarderState, &BTreeSet<u32>),
    /// An interface is removed next, and nothing runs in between: forgets it. In reverse order.
    pub(super) remove_interface: OfInterface,
    /// A VRF was removed. Another one may get its slot.
    pub(super) remove_vrf: fn(&mut ForwarderState, Slot),

    /// The packets that it takes from workers.
    pub(super) punts: &'static [Punted],
    /// Runs the timers that have expired; called in each iteration of the control loop.
    pub(super) run_due: fn(&mut ForwarderState),
    /// Time until the next timer.
    pub(super) due_in: fn(&ForwarderState) -> Option<Duration>,
    /// Periodic work, ten times a second.
    pub(super) tick: fn(&mut ForwarderState),
    /// Services its own file descriptors: those of these interfaces, or all.
    pub(super) service: fn(&mut ForwarderState, Option<&BTreeSet<u32>>),
    /// Those that wake the control loop.
    pub(super) descriptors: for<'a> fn(&'a ForwarderState) -> Vec<BorrowedFd<'a>>,
    /// The forwarder ends: tells the neighbours. In reverse order.
    pub(super) end: fn(&mut ForwarderState),

    /// Adds its part to the operational state of an interface.
    pub(super) facts: fn(&ForwarderState, u32, &mut v1::InterfaceState),
    /// Adds its rows to `stoa show limits`.
    pub(super) limits: fn(&ForwarderState, &mut Vec<v1::LimitState>),
    /// Adds the entries of the desired state that it works with, where they do not belong to an interface: an audit
    /// compares them with those of the controller (`stoa_api::audit` has the kinds).
    pub(super) entries: fn(&ForwarderState, &mut Tally),
    /// The same for those of an interface.
    pub(super) entries_of: fn(&ForwarderState, u32, &mut Tally),
    /// Writes its settings of an interface, as it works with them, over those of the desired state: for the entry that
    /// the core adds for the interface.
    pub(super) in_force: fn(&ForwarderState, u32, &mut v1::Interface),
}

impl Verbs {
    /// Does nothing.
    pub(super) const NONE: Self = Self {
        prepare: |_, _| Ok(()),
        retire: |_, _| {},
        apply: |_, _| Ok(()),
        finish: |_, _| Ok(()),
        done: |_| {},
        review: |_, _| {},
        flags: |_, _, _| 0,
        publish: |_, _| {},
        link_up: |_, _| {},
        link_down: |_, _| {},
        remove_routes: |_, _| {},
        remove_interface: |_, _| {},
        remove_vrf: |_, _| {},
        punts: &[],
        run_due: |_| {},
        due_in: |_| None,
        tick: |_| {},
        service: |_, _| {},
        descriptors: |_| Vec::new(),
        end: |_| {},
        facts: |_, _, _| {},
        limits: |_, _| {},
        entries: |_, _| {},
        entries_of: |_, _, _| {},
        in_force: |_, _, _| {},
    };
}

/// Declares the states of all capabilities and the list of their verbs.
macro_rules! capabilities {
    ($($name:ident: $state:ty,)*) => {
        /// The states of all capabilities.
        #[expect(dead_code, reason = "some have all of their state in what workers share")]
        pub(super) struct Capabilities {
            $(pub(super) $name: $state,)*
        }

        impl Capabilities {
            /// The states before the first configuration.
            pub(super) fn start(start: &Start<'_>) -> Result<Self, StartFailure> {
                let states = Self { $($name: <$state as Capability>::start(start),)* };
                start.failures.borrow_mut().pop().map_or(Ok(states), Err)
            }
        }

        /// The verbs of all capabilities, in the order in which they are called.
        pub(super) static CAPABILITIES: [Verbs; [$(stringify!($name)),*].len()] =
            [$(<$state as Capability>::VERBS),*];
    };
}

capabilities! {
    logging: super::logging::Logging,
    worker_load: super::worker_load::WorkerLoads,
    vlans: super::vlans::Vlans,
    tunnels: super::tunnels::PublishedTunnels,
    ipsec: super::ipsec::Associations,
    path_mtus: super::path_mtu::PathMtus,
    reassembly: super::reassembly::Reassembly,
    plugins: super::plugins::Plugins,
    multipath: super::multipath::Multipath,
    origin_features: super::output_features::OriginFeatures,
    policy: super::policy::ActiveRules,
    acl: super::acl::AccessListState,
    flow_limits: super::flow_limits::FlowLimitState,
    nat: super::nat::NatState,
    kept_flows: super::adoption::KeptFlows,
    nptv6: super::nptv6::PrefixTranslation,
    siit: super::siit::StatelessTranslation,
    login: super::login::LoginState,
    ipfix: super::ipfix::Export,
    flow_sync: super::flow_sync::FlowSync,
    neighbors: super::neighbors::Neighbors,
    learned: super::learned::Learned,
    rows: super::rows::Tables,
    bfd: super::bfd::Sessions,
    host_interfaces: super::host_interfaces::HostInterfaces,
    punts: super::punts::Punts,
    punt_stream: super::punt_stream::PuntStream,
    trace_capture: super::trace_capture::TraceCaptureState,
    duplicate_detection: super::duplicate_detection::DuplicateDetection,
    vrrp: super::vrrp::VirtualRouters,
    advertising: super::advertising::Advertisers,
    listener_reports: super::mld_reports::Reports,
    test_sequences: super::test_sequences::TestSequences,
}

#[cfg(test)]
mod tests;
