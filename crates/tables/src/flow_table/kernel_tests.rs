//! The kernels against the scalar code.

use proptest::prelude::*;

use super::tests::secret;
use super::*;
use crate::flow_hash::Flow;
use crate::lpm::Kernel;

/// All columns of some keys of one family.
fn columns(keys: &[FlowKey]) -> [Vec<u32>; 10] {
    let mut all: [Vec<u32>; 10] = core::array::from_fn(|_| Vec::new());
    for key in keys {
        let (ends, ports, protocol) = match key.tuple {
            Tuple::Ip4(flow) => {
                let ends = [u128::from(flow.source), u128::from(flow.destination)];
                (ends, [flow.source_port, flow.destination_port], flow.protocol)
            }
            Tuple::Ip6(flow) => {
                let ports = [flow.source_port, flow.destination_port];
                ([flow.source, flow.destination], ports, flow.protocol)
            }
        };
        for at in 0..8 {
            all[at].push((ends[at / 4] >> (at % 4 * 32)) as u32);
        }
        all[8].push(u32::from(ports[0]) << 16 | u32::from(ports[1]));
        all[9].push(u32::from(protocol) << 16 | u32::from(key.vrf));
    }
    all
}

fn look_up(reader: &FlowReader, keys: &[FlowKey], is_ip6: bool) -> Vec<Match> {
    let mut found = vec![Match(77); keys.len()];
    let all = columns(keys);
    let [a, b, c, d, e, f, g, h, ports, contexts] = all.each_ref().map(|column| &column[..]);
    if is_ip6 {
        let (sources, destinations) = ([a, b, c, d], [e, f, g, h]);
        reader.lookup_ip6(&Columns6 { sources, destinations, ports, contexts }, &mut found);
    } else {
        let columns = Columns4 { sources: a, destinations: e, ports, contexts };
        reader.lookup_ip4(&columns, &mut found);
    }
    found
}

proptest! {
    #[test]
    fn all_kernels_find_the_same(
        flows in prop::collection::vec(
            (any::<[u8; 2]>(), any::<[u16; 2]>(), any::<Option<u16>>(), any::<[bool; 2]>()), 1..400),
        asked in prop::collection::vec((any::<u8>(), any::<bool>(), any::<bool>()), 1..200),
        seed: u8,
    ) {
        let capacity =
            FlowCapacity { ip4: 400, translated_ip4: 400, ip6: 400, translated_ip6: 400 };
        let mut table = FlowTable::new(&capacity, &secret(seed)).unwrap();
        let mut owner = table.owner(0, 0).unwrap();
        let make = |hosts: [u8; 2], ports: [u16; 2], is_ip6: bool| {
            let [source, destination] = hosts.map(|host| u32::from(host).wrapping_mul(0x1234_5678));
            let [source_port, destination_port] = ports;
            let four = Flow { source, destination, source_port, destination_port, protocol: 6 };
            let [source, destination] = [source, destination].map(|end| u128::from(end) << 64);
            let six = Flow { source, destination, source_port, destination_port, protocol: 6 };
            if is_ip6 { FlowKey::ip6(six, 5) } else { FlowKey::ip4(four, 5) }
        };
        let mut keys = [Vec::new(), Vec::new()];
        for (number, (hosts, ports, reply_port, is_ip6)) in flows.into_iter().enumerate() {
            let key = make(hosts, ports, is_ip6[0]);
            let reply = reply_port.map(|port| make([hosts[1], 9], [ports[1], port], is_ip6[1]));
            // Every fifth flow is looked for in vain.
            if number % 5 != 0 {
                let _ = owner.create(&NewFlow::new(key, reply), 0, 1);
            }
            for key in [Some(key), reply].into_iter().flatten() {
                keys[usize::from(key.is_ip6())].push(key);
            }
        }
        for (keys, is_ip6) in keys.iter().zip([false, true]).filter(|(keys, _)| !keys.is_empty()) {
            let asked: Vec<FlowKey> = asked.iter().map(|(number, reversed, _)| {
                let key = keys[usize::from(*number) % keys.len()];
                if *reversed { key.reversed() } else { key }
            }).collect();
            let reader = table.reader().with_kernel(Kernel::Scalar).unwrap();
            let expected = look_up(&reader, &asked, is_ip6);
            let found: Vec<Match> = asked.iter().map(|key| reader.find(key)).collect();
            prop_assert_eq!(&expected, &found);
            for kernel in [Kernel::Avx2, Kernel::Avx512] {
                if let Some(reader) = reader.clone().with_kernel(kernel) {
                    prop_assert_eq!(&look_up(&reader, &asked, is_ip6), &expected, "{:?}", kernel);
                }
            }
        }
    }
}
