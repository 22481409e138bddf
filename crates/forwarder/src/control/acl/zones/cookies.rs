//! SYN cookies of zones: thresholds, keys, and when cookies go off.

use std::collections::BTreeMap;

use stoa_api::v1;
use stoa_engine::clock;

use crate::control::forwarder_state::ForwarderState;
use crate::flow::cookie::STEP_S;
use crate::flow::flows::random;

/// How long cookies of a zone stay on at least, in seconds.
const STAY_S: u32 = 10;

/// What the control thread knows of cookies.
#[derive(Default)]
pub(super) struct CookieState {
    /// The lowest threshold of the interfaces of each zone.
    thresholds: BTreeMap<String, u32>,
    /// The zones whose cookies are on, and since which tick.
    on: BTreeMap<String, u32>,
    /// When the keys were changed, and how many cookies were sent then.
    rotated: Option<(u32, u64)>,
}

impl ForwarderState {
    /// Gives workers the thresholds of the zones of interfaces.
    pub(super) fn set_syn_cookies(&mut self) {
        let mut thresholds: BTreeMap<String, u32> = BTreeMap::new();
        for (index, zone) in &self.capabilities.acl.zones.members {
            let state = self.interface(*index);
            let Some(threshold) = state.and_then(|it| it.desired.zone_syn_cookies) else {
                continue;
            };
            let least = thresholds.entry(zone.clone()).or_insert(threshold);
            *least = threshold.min(*least);
        }
        let flows = &self.shared.flows;
        if !thresholds.is_empty() && !flows.prepare_splices() {
            tracing::error!(
                "no memory for connections with SYN cookies: they stay off; lower the capacity of the flow tables"
            );
            thresholds.clear();
        }
        let zones = &mut self.capabilities.acl.zones;
        zones.cookies.thresholds = thresholds;
        let known = zones.cookies.thresholds.iter();
        let numbers: Vec<(u8, u32)> =
            known.filter_map(|(zone, it)| Some((*zones.numbers.get(zone)?, *it))).collect();
        flows.syn_cookies().configure(&numbers);
    }

    /// Changes keys that are old enough, and switches cookies of zones off that need them no longer.
    pub(in crate::control::acl) fn tick_syn_cookies(&mut self) {
        let flows = &self.shared.flows;
        let (cookies, now) = (flows.syn_cookies(), flows.now(clock::tsc()).tick);
        let zones = &mut self.capabilities.acl.zones;
        if !cookies.is_configured() && !cookies.is_armed() && zones.cookies.on.is_empty() {
            return;
        }
        let sent: u64 = zones.numbers.values().map(|number| cookies.zone(*number).sent).sum();
        let (rotated, before) = *zones.cookies.rotated.get_or_insert((now, 0));
        if u64::from(now.wrapping_sub(rotated)) >= STEP_S {
            cookies.rotate(random(), sent != before);
            zones.cookies.rotated = Some((now, sent));
        }
        for (zone, number) in &zones.numbers {
            if let Some(since) = zones.cookies.on.get(zone)
                && now.wrapping_sub(*since) >= STAY_S
            {
                cookies.calm(*number);
            }
            let state = cookies.zone(*number);
            let half_open = state.half_open;
            match (state.is_on, zones.cookies.on.contains_key(zone)) {
                (true, false) => {
                    zones.cookies.on.insert(zone.clone(), now);
                    tracing::warn!(zone, half_open, "SYN cookies are on");
                }
                (false, true) => {
                    zones.cookies.on.remove(zone);
                    tracing::info!(zone, half_open, sent = state.sent, "SYN cookies are off");
                }
                _ => {}
            }
        }
        let numbers = &zones.numbers;
        zones.cookies.on.retain(|zone, _| numbers.contains_key(zone));
    }

    /// The zones with cookies.
    pub(super) fn list_syn_cookies(&self) -> Vec<v1::SynCookiesState> {
        let (zones, flows) = (&self.capabilities.acl.zones, &self.shared.flows);
        let known = zones.cookies.thresholds.keys();
        let state = |zone: &String| {
            let it = flows.syn_cookies().zone(*zones.numbers.get(zone)?);
            Some(v1::SynCookiesState {
                zone: zone.clone(),
                threshold: it.threshold?,
                half_open: it.half_open,
                is_on: it.is_on,
                sent: it.sent,
                accepted: it.accepted,
            })
        };
        known.filter_map(state).collect()
    }
}
