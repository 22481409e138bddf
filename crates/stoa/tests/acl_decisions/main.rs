//! `stoa acl test` against the forwarder: random packets through random lists, interfaces and zones. The controller
//! evaluates its configuration; the forwarder gets the desired state of the same one, and traces the packets.

mod lists;
mod packets;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use stoa_api::v1;
use stoa_api::v1::port::Driver;
use stoa_controller::acl::evaluate;
use stoa_controller::configuration::Configuration;
use stoa_forwarder::Folders;
use stoa_forwarder::control::desired::DesiredState;
use stoa_forwarder::control::{Forwarder, Limits};

use lists::{INTERFACES, Lists, lists};
use packets::{Packet, packet};

/// The drop reasons of packets that lists refuse.
const REFUSED: [&str; 4] = ["acl-input", "acl-output", "zone-pair", "tcp-no-connection"];

/// A capture file without frames.
const EMPTY: &str = "empty.pcap";

/// Writes the frames that an interface receives.
fn write_capture(file: &Path, frames: &[Vec<u8>]) {
    let mut bytes: Vec<u8> = Vec::new();
    // The version 2.4 is two numbers of 16 bits, and 1 is Ethernet.
    [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1]
        .iter()
        .for_each(|word| bytes.extend(word.to_le_bytes()));
    for frame in frames {
        let length = frame.len() as u32;
        [0, 0, length, length].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(frame);
    }
    std::fs::write(file, bytes).unwrap();
}

fn desired(whole: &v1::Desired) -> DesiredState {
    DesiredState { logging: None, ..DesiredState::parse(whole).unwrap() }
}

/// What became of each packet of an interface, in their order.
fn traced(configuration: &Configuration, folder: &Path, interface: &str) -> Vec<v1::TracedPacket> {
    let folders = Folders { pcap: Some(folder.to_owned()), ..Folders::default() };
    let open = move |config: &_, pool| stoa_ports::open(&folders.confine(config)?, pool);
    let mut forwarder = Forwarder::stepped(Limits::default(), Arc::new(open));
    let mut whole = configuration.whole_desired();
    let workers = whole.workers.get_or_insert_default();
    (workers.cpus, workers.huge_pages) = (Vec::new(), v1::HugePages::Never.into());
    let mut silent = whole.clone();
    for port in &mut silent.ports {
        let input = EMPTY.to_owned();
        port.driver = Some(Driver::Pcap(v1::Pcap { input, ..v1::Pcap::default() }));
    }
    // Workers begin to follow flows before packets come.
    forwarder.apply(desired(&silent)).unwrap();
    forwarder.state().unwrap().step();
    forwarder.apply(desired(&whole)).unwrap();
    let state = forwarder.state().unwrap();
    let count = 1_000;
    let request =
        v1::StartTraceRequest { interface: interface.to_owned(), count, ..Default::default() };
    state.start_trace(&request).unwrap();
    for _ in 0..8 {
        state.step();
    }
    let mut packets = state.trace(0).packets;
    packets.retain(|packet| packet.derived_from == 0);
    packets.sort_by_key(|packet| packet.number);
    packets
}

/// What has happened to a packet itself, without the answer to it.
fn own_steps(packet: &v1::TracedPacket) -> impl Iterator<Item = &v1::TraceStep> {
    packet.steps.iter().take_while(|step| !step.what.starts_with("answers it"))
}

/// The place of a step as `stoa acl test` names it.
fn place(step: &v1::TraceStep, output: &str) -> String {
    let name = |zone: &str| if zone.is_empty() { "none".to_owned() } else { zone.to_owned() };
    match step.drop.as_str() {
        "zone-pair" => format!("zones {} to {}", name(&step.from_zone), name(&step.to_zone)),
        "acl-output" => format!("output of {output}"),
        _ => format!("input of {}", step.rx_interface),
    }
}

/// Compares both answers about a packet.
fn compare(
    configuration: &Configuration,
    (packet, traced): (&Packet, &v1::TracedPacket),
    has_flows: bool,
) -> Result<(), TestCaseError> {
    let asked = packet.asked();
    let decision = evaluate(configuration, &asked).unwrap();
    let refused = own_steps(traced).find(|step| REFUSED.contains(&step.drop.as_str()));
    let text = || format!("{packet:?}\n{decision:?}\n{traced:#?}");
    prop_assert_eq!(decision.action == "accept", refused.is_none(), "{}", text());
    let rule = (decision.acl.as_str(), decision.rule.as_str());
    match refused {
        // It is not refused by a rule: its flow cannot begin with it.
        Some(step) if step.drop == "tcp-no-connection" => {
            prop_assert!(decision.reason.contains("tcp-no-connection"), "{}", text());
        }
        Some(step) => {
            prop_assert_eq!(rule, (step.acl.as_str(), step.rule.as_str()), "{}", text());
            prop_assert_eq!(&decision.place, &place(step, &asked.of.output), "{}", text());
        }
        // With flows, the trace names the rule that has admitted the flow last.
        None if has_flows => {}
        None => {
            let last = own_steps(traced).filter(|step| !step.rule.is_empty()).last();
            let last = last.map_or(("", ""), |step| (&step.acl, &step.rule));
            prop_assert_eq!(rule, last, "{}", text());
        }
    }
    Ok(())
}

fn check(lists: &Lists, packets: &[Packet]) -> Result<(), TestCaseError> {
    let text = lists.text();
    let configuration = Configuration::parse(Path::new("random"), text.clone());
    let configuration = configuration.unwrap_or_else(|errors| panic!("{text}\n{errors:#?}"));
    let mut seen = BTreeSet::new();
    // With flows, a later fragment waits for the first one of its packet before rules decide.
    let is_first = |it: &&Packet| {
        let is_new = !lists.has_flows || !it.is_later_fragment() && seen.insert(it.flow());
        it.is_possible() && is_new
    };
    let packets: Vec<&Packet> = packets.iter().filter(is_first).collect();
    for (at, name) in INTERFACES.iter().enumerate() {
        let sent: Vec<&Packet> = packets.iter().copied().filter(|it| it.from == at).collect();
        if sent.is_empty() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let frames: Vec<Vec<u8>> = (1..).zip(&sent).map(|(id, packet)| packet.frame(id)).collect();
        write_capture(&folder.path().join(EMPTY), &[]);
        for other in INTERFACES {
            let frames = if other == *name { &frames[..] } else { &[] };
            write_capture(&folder.path().join(format!("{other}.pcap")), frames);
        }
        let traced = traced(&configuration, folder.path(), name);
        prop_assert_eq!(traced.len(), sent.len());
        for pair in sent.into_iter().zip(&traced) {
            compare(&configuration, pair, lists.has_flows)?;
        }
    }
    Ok(())
}

/// The cases of a property test: `usual` ones, and in proportion more if `PROPTEST_CASES` is above its default.
fn cases(usual: u32) -> ProptestConfig {
    let given = ProptestConfig::default().cases;
    ProptestConfig::with_cases(usual.max(usual.saturating_mul(given) / 256))
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn the_controller_decides_as_the_forwarder_does(
        lists in lists(),
        packets in proptest::collection::vec(packet(), 1..64),
    ) {
        check(&lists, &packets)?;
    }
}
