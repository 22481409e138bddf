//! Translated flows: those that no partner takes, and those of IPv6 hosts.

use std::net::Ipv6Addr;

use stoa_wire::siit::Prefix;

use super::*;
use crate::flow::tracker::Uses;

/// A host of NAT64, as flow tables have it.
const STAND_IN: u32 = 0xf000_0000;
const SERVER: u32 = 0xc633_6407;
const EXTERNAL: u32 = 0xc000_0201;

#[test]
fn flows_that_no_partner_takes_are_left_out() {
    let with = |number: u32, change: fn(&mut Flow<u32>)| {
        let Tuple::Ip4(mut reply) = key(number).reversed().tuple else { panic!() };
        change(&mut reply);
        let reply_key = Some(FlowKey::ip4(reply, 0));
        FormerFlow { reply_key, ..former(number, ESTABLISHED, 0) }
    };
    assert!(!is_never_taken(&former(1, ESTABLISHED, 0)));
    assert!(!is_never_taken(&with(1, |it| it.destination = 0xc000_0201)));
    // The end outside is another one behind the router; or the flow of a host of NAT64 is not translated.
    assert!(is_never_taken(&with(1, |it| it.source = 0x0a00_0009)));
    assert!(is_never_taken(&with(1, |it| it.source_port += 1)));
    let Tuple::Ip4(crossed) = key(1).tuple else { panic!() };
    let of_host = FlowKey::ip4(Flow { source: STAND_IN, ..crossed }, 0);
    assert!(is_never_taken(&FormerFlow { key: of_host, ..former(1, ESTABLISHED, 0) }));
    let crossed = with(1, |it| it.destination = 0xc000_0201);
    assert!(!is_never_taken(&FormerFlow { key: of_host, ..crossed }));
    let mut table = Table::new(8);
    table.tracker.of(true).adopt(&former(2, ESTABLISHED, 0), None, 1).unwrap();
    assert_eq!(records(&table.walk(BEGIN + 9, is_bulk)), [(key(2), false)]);
}

/// Of a host to a server, or back.
fn four(ends: (u32, u16), to: (u32, u16)) -> FlowKey {
    let ((source, source_port), (destination, destination_port)) = (ends, to);
    let protocol = protocol::TCP;
    FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
}

#[test]
fn a_flow_of_nat64_has_the_addresses_of_its_host() {
    let mut table = Table::new(8);
    table.walk = Walk::new(Kind::TranslatedIp4);
    let prefix = Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap();
    let host: Ipv6Addr = "2001:db8:1::7".parse().unwrap();
    let hosts = table.flows.nat64_hosts();
    hosts.set_prefixes([(0, prefix)].into_iter());
    let longest = || table.flows.profiles().longest();
    let stand_in = hosts.stand_in((host.to_bits(), 0), BEGIN, longest).unwrap();
    let (source, destination) = (host.to_bits(), prefix.embed(SERVER.into()).to_bits());
    let (source_port, destination_port, protocol) = (5000, 80, protocol::TCP);
    let there =
        FlowKey::ip6(Flow { source, destination, source_port, destination_port, protocol }, 0);
    let sent = SentKey { key: there, is_nat64: true };
    let of = |key, reply| FormerFlow { key, reply_key: Some(reply), ..former(1, ESTABLISHED, 0) };
    let (inside, back) =
        (four((stand_in, 5000), (SERVER, 80)), four((SERVER, 80), (EXTERNAL, 7000)));
    let outbound = of(inside, back);
    let uses = Uses { number: 1, mapping: None, block: None, is_inbound: true };
    let inbound = of(four((SERVER, 99), (EXTERNAL, 7000)), four((stand_in, 5000), (SERVER, 99)));
    let both = [(outbound, None), (inbound, Some(uses))];
    let ids = both.map(|(it, uses)| table.tracker.of(true).adopt(&it, uses, 1).unwrap());
    let items = table.walk(BEGIN + 9, is_bulk);
    let [Item::Flow(first), Item::Flow(second)] = &items[..] else { panic!("{items:?}") };
    assert_eq!((first.key(), first.flow.reply_key), (sent, Some(back)));
    assert_eq!(second.key(), inbound.key.into());
    let Some(Tuple::Ip6(reply)) = second.flow.reply_key.map(|it| it.tuple) else { panic!() };
    assert_eq!((reply.source, reply.destination_port), (host.to_bits(), 99));
    // What the partner has is named, and its end is sent, by the same key.
    table.give(ids[0], BEGIN + 10, NUMBER - 1);
    table.walk.begin_again();
    assert_eq!(table.walk(BEGIN + 10, is_bulk)[0], Item::Known(sent));
    table.seen(ids[0], BEGIN + 20);
    ids.iter().for_each(|id| table.tracker.of(true).remove(*id));
    let ends = table.sends(BEGIN + 21);
    assert_eq!(ends, [Item::End(sent), Item::End(inbound.key.into())]);
}
