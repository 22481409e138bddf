//! Subscribers of address translation with their port sets.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};
use stoa_api::nat::BLOCKS_OF_SUBSCRIBER;
use stoa_api::text::ip_text;
use stoa_api::v1;
use tonic::Status;

use crate::apply::ForwarderConnection;
use crate::find_flows::shown_vrf;
use crate::json::{list, object};

/// A subscriber with its port sets.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriber {
    /// First address, prefix length and VRF.
    key: (Vec<u8>, u32, String),
    /// Instance and policy.
    policy: (u32, u32),
    sets: Vec<(Vec<u8>, u32, u32)>,
    /// Port sets that it may have.
    sets_most: u32,
    /// Ports in use: of TCP, UDP, ICMP and other protocols.
    ports: [u32; 4],
    /// Ports that it may use of each protocol: those of all sets that it may have, or the quota.
    ports_most: [u32; 4],
    /// The quota of all protocols together.
    total_most: Option<u32>,
}

impl Subscriber {
    /// How much of what it may have it has, in thousandths.
    fn fullness(&self) -> u64 {
        let of = |used: u32, most: u32| u64::from(used) * 1000 / u64::from(most.max(1));
        let each = self.ports.iter().zip(self.ports_most).map(|(used, most)| of(*used, most));
        let total = self.total_most.map(|most| of(self.ports.iter().sum(), most));
        each.chain(total).max().unwrap_or(0)
    }

    /// As `stoa-nat:find-translations` has it.
    pub(super) fn shown(&self) -> Value {
        let (address, length, vrf) = &self.key;
        let set = |(address, first, last): &(Vec<u8>, u32, u32)| json!({ "external-address": ip_text(address), "first-port": first, "last-port": last });
        let names = ["tcp", "udp", "icmp", "other"];
        let ports = names.into_iter().zip(self.ports).zip(self.ports_most);
        let ports = ports
            .map(|((name, used), most)| json!({ "protocol": name, "used": used, "limit": most }));
        object([
            ("prefix", json!(format!("{}/{length}", ip_text(address)))),
            ("vrf", shown_vrf(vrf)),
            ("instance", json!(self.policy.0)),
            ("policy", json!(self.policy.1)),
            ("port-set-limit", json!(self.sets_most)),
            ("port-limit", self.total_most.map_or(Value::Null, |it| json!(it))),
            ("fullness", json!(self.fullness() / 10)),
            ("ports", list(ports)),
            ("port-set", list(self.sets.iter().map(set))),
        ])
    }
}

/// The subscribers of port sets, the fullest first.
pub(super) async fn subscribers(
    connection: &ForwarderConnection,
    filter: v1::NatBlockFilter,
    listed: &v1::ListNatReply,
) -> Result<Vec<Subscriber>, Status> {
    let mut blocks = connection.nat_client().list_nat_blocks(filter).await?.into_inner();
    let mut all = BTreeMap::new();
    while let Some(block) = blocks.message().await? {
        add(&mut all, block, listed);
    }
    let mut all: Vec<Subscriber> = all.into_values().collect();
    all.sort_by_key(|it| Reverse((it.fullness(), it.sets.len())));
    Ok(all)
}

/// By VRF, address and policy.
type Subscribers = BTreeMap<(String, Vec<u8>, (u32, u32)), Subscriber>;

fn add(all: &mut Subscribers, block: v1::NatBlock, listed: &v1::ListNatReply) {
    let policy = (block.instance, block.policy);
    let key = (block.subscriber_vrf.clone(), block.subscriber.clone(), policy);
    let one = all.entry(key).or_insert_with(|| new_subscriber(&block, listed));
    one.sets.push((block.external, block.first_port, block.last_port));
    for (sum, ports) in one.ports.iter_mut().zip([block.tcp, block.udp, block.icmp, block.others]) {
        *sum += ports;
    }
}

/// A subscriber without port sets, and with what its policy lets it have.
fn new_subscriber(block: &v1::NatBlock, listed: &v1::ListNatReply) -> Subscriber {
    let policies = listed.policies.iter().filter_map(|it| it.policy.as_ref());
    let mut same = policies.filter(|it| (it.instance, it.policy) == (block.instance, block.policy));
    let policy = same.next();
    let blocks = policy.and_then(|it| it.blocks.as_ref());
    let sets_most = blocks.map_or(1, |it| match it.limit {
        0 => BLOCKS_OF_SUBSCRIBER,
        limit => limit,
    });
    let size = block.last_port.saturating_sub(block.first_port) + 1;
    let quota = |protocol: u32| {
        let quotas = policy.map_or(&[][..], |it| &it.quotas);
        quotas.iter().find(|it| it.protocol == protocol).map(|it| it.ports)
    };
    let ports = sets_most.saturating_mul(size);
    let most = |protocol: u32| quota(protocol).map_or(ports, |it| it.min(ports));
    Subscriber {
        key: (block.subscriber.clone(), block.subscriber_length, block.subscriber_vrf.clone()),
        policy: (block.instance, block.policy),
        sets: Vec::new(),
        sets_most,
        ports: [0; 4],
        ports_most: [most(6), most(17), most(1), ports],
        total_most: quota(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed() -> v1::ListNatReply {
        let policy = v1::NatPolicy {
            instance: 1,
            policy: 10,
            blocks: Some(v1::NatPortBlocks { limit: 4, size: 100, ..Default::default() }),
            quotas: vec![
                v1::NatPortQuota { protocol: 0, ports: 300 },
                v1::NatPortQuota { protocol: 17, ports: 50 },
            ],
            ..v1::NatPolicy::default()
        };
        v1::ListNatReply {
            policies: vec![v1::NatPolicyState { policy: Some(policy), ..Default::default() }],
            ..v1::ListNatReply::default()
        }
    }

    #[test]
    fn port_sets_are_added_up_by_subscriber() {
        let block = |last, first_port, tcp, udp| v1::NatBlock {
            subscriber: vec![10, 0, 0, last],
            subscriber_length: 32,
            external: vec![203, 0, 113, 1],
            first_port,
            last_port: first_port + 99,
            instance: 1,
            policy: 10,
            tcp,
            udp,
            ..v1::NatBlock::default()
        };
        let mut all = BTreeMap::new();
        for block in [block(7, 1_024, 90, 10), block(7, 1_124, 30, 0), block(8, 2_024, 0, 45)] {
            add(&mut all, block, &listed());
        }
        let all: Vec<Subscriber> = all.into_values().collect();
        let [seven, eight] = [all[0].shown(), all[1].shown()];
        assert_eq!((&seven["prefix"], &seven["port-limit"]), (&json!("10.0.0.7/32"), &json!(300)));
        let tcp = json!({ "protocol": "tcp", "used": 120, "limit": 400 });
        assert_eq!((&seven["ports"][0], &seven["port-set-limit"]), (&tcp, &json!(4)));
        assert_eq!(seven["port-set"][1]["first-port"], 1_124);
        assert_eq!(seven["fullness"], 43, "130 of 300 ports of all protocols");
        assert_eq!(eight["fullness"], 90, "45 of 50 ports of UDP");
    }
}
