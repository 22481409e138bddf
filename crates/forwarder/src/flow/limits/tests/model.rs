//! Limits of flows against a naive model.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// What is there of flows, without any cleverness.
#[derive(Default)]
struct Model {
    limits: Limits,
    /// Flows by id.
    flows: HashMap<u32, Flow>,
    /// New flows in this second, as counted for each.
    new: HashMap<(Of, [u64; 2]), u32>,
}

impl Model {
    /// Whom a flow counts for, with what they may have.
    fn of(&self, flow: &Flow) -> Vec<((Of, [u64; 2]), Limit)> {
        let vrf = (flow.key.vrf & VRF_SLOT) as u8;
        let none = Limit::default();
        let zone = self.limits.zones.get(&flow.zone).copied().unwrap_or(none);
        let all = [
            ((Of::Host, name(flow, HOSTS)), self.limits.host),
            ((Of::Prefix, name(flow, self.limits.lengths)), self.limits.prefix),
            ((Of::Zone(flow.zone), [0; 2]), if flow.zone == 0 { none } else { zone }),
            ((Of::Vrf(vrf), [0; 2]), self.limits.vrfs.get(&vrf).copied().unwrap_or(none)),
        ];
        all.into_iter().filter(|(_, limit)| settings::is_any(limit)).collect()
    }

    fn count(&self, of: (Of, [u64; 2]), is_half_open: bool) -> u32 {
        let flows = self.flows.values().filter(|flow| flow.is_half_open || !is_half_open);
        flows.filter(|flow| self.of(flow).iter().any(|(it, _)| *it == of)).count() as u32
    }

    fn begin(&mut self, id: u32, flow: Flow) -> Result<(), Reached> {
        let all = self.of(&flow);
        for (of, [live, half_open, new]) in &all {
            let reached = |measure| Err(Reached { of: of.0, measure });
            let is_at = |limit: &Option<u32>, count| limit.is_some_and(|most| count >= most);
            if is_at(live, self.count(*of, false)) {
                return reached(Measure::Live);
            }
            if flow.is_half_open && is_at(half_open, self.count(*of, true)) {
                return reached(Measure::HalfOpen);
            }
            if is_at(new, self.new.get(of).copied().unwrap_or(0)) {
                return reached(Measure::New);
            }
        }
        for (of, [.., new]) in all {
            *self.new.entry(of).or_default() += u32::from(new.is_some());
        }
        self.flows.insert(id, flow);
        Ok(())
    }

    /// Each counter has what there is.
    fn check(&self, all: &FlowLimits) {
        for (of, numbered) in [(Of::Zone as fn(u8) -> Of, &all.zones), (Of::Vrf, &all.vrfs)] {
            // Flows are of the first ones.
            for (number, it) in (0..8).zip(numbered) {
                let expected = [false, true].map(|half| self.count((of(number), [0; 2]), half));
                assert_eq!(it.counted.now(0)[..2], expected, "{:?}", of(number));
            }
        }
        for (of, table) in [(Of::Host, &all.hosts), (Of::Prefix, &all.prefixes)] {
            let is_counted = self.limits.all().any(|it| it.0 == of);
            let flows = self.flows.values().filter(|_| is_counted);
            let half_open = flows.clone().filter(|flow| flow.is_half_open).count();
            assert_eq!(table.sums(), [flows.count(), half_open].map(|it| it as u64), "{of:?}");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Begin(u32, Flow),
    Open(u32),
    End(u32),
    /// A second passes.
    Pass,
    Set(Limits),
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let key = prop_oneof![
        (0..3_u32, 0..3_u32, 0..2_u16).prop_map(|(net, host, vrf)| four(net << 8 | host, vrf)),
        (0..3_u128, 0..3_u128).prop_map(|(net, host)| six(net << 72 | host << 64)),
    ];
    (key, 0..4_u8, any::<bool>()).prop_map(|(key, zone, half)| flow(key, zone, half))
}

fn any_limit() -> impl Strategy<Value = Limit> {
    let one = || prop_oneof![3 => Just(None), 2 => (0..6_u32).prop_map(Some)];
    [one(), one(), one()]
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let lengths = prop::sample::select(vec![[24, 56], [22, 55], [32, 64], [8, 16]]);
    let named = || prop::collection::btree_map(0..4_u8, any_limit(), 0..3);
    (any_limit(), any_limit(), lengths, named(), named()).prop_map(
        |(host, prefix, lengths, zones, vrfs)| Limits {
            host,
            prefix,
            lengths,
            zones,
            vrfs,
            ..Limits::default()
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || 0..CAPACITY / 8;
    let step = prop_oneof![
        12 => (id(), any_flow()).prop_map(|(id, flow)| Step::Begin(id, flow)),
        4 => id().prop_map(Step::Open),
        6 => id().prop_map(Step::End),
        2 => Just(Step::Pass),
        1 => any_limits().prop_map(Step::Set),
    ];
    (any_limits(), prop::collection::vec(step, 1..120)).prop_map(|(first, mut steps)| {
        steps.insert(0, Step::Set(first));
        steps
    })
}

proptest! {
    #[test]
    fn counts_are_those_of_a_naive_model(steps in steps()) {
        let all = FlowLimits::new(1, [[11, 12], [13, 14]]);
        let (mut model, mut tick, mut version) = (Model::default(), 1_000, all.version());
        for step in steps {
            match step {
                Step::Begin(id, flow) => {
                    let of = (!flow.key.is_ip6(), id);
                    if model.flows.contains_key(&id) {
                        continue;
                    }
                    let may = all.may_begin(&flow, tick);
                    let held = all.hold(&flow, tick);
                    prop_assert_eq!(may, held.map(|_| ()));
                    prop_assert_eq!(held.map(|_| ()), model.begin(id, flow));
                    held.into_iter().for_each(|held| all.keep(of, held));
                }
                Step::Open(id) => {
                    let Some(flow) = model.flows.get_mut(&id) else { continue };
                    flow.is_half_open = false;
                    all.opened((!flow.key.is_ip6(), id));
                }
                Step::End(id) => {
                    if let Some(flow) = model.flows.remove(&id) {
                        all.end((!flow.key.is_ip6(), id));
                    }
                }
                Step::Pass => {
                    tick += 1;
                    model.new.clear();
                }
                Step::Set(limits) => {
                    set(&all, &limits);
                    model.limits = limits;
                    if all.version() != version {
                        version = all.version();
                        for (id, flow) in &model.flows {
                            all.recount((!flow.key.is_ip6(), *id), flow);
                        }
                    }
                    // New flows are not counted again.
                    tick += 1;
                    model.new.clear();
                }
            }
            model.check(&all);
        }
        for (id, flow) in std::mem::take(&mut model.flows) {
            all.end((!flow.key.is_ip6(), id));
        }
        model.check(&all);
    }
}
