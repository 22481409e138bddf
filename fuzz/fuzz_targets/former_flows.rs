//! The flow tables of a former process, whose memory is the input: what is believed makes a table that is right in
//! itself. The input changes words of a real table: the array, the position and the word.
#![no_main]

use std::sync::atomic::Ordering::Relaxed;

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{
    Created, FlowCapacity, FlowKey, FlowOwner, FlowTable, FormerFlow, FormerTable, NewFlow,
    Reading, Secret,
};

const CAPACITY: FlowCapacity = FlowCapacity { ip4: 8, translated_ip4: 8, ip6: 8, translated_ip6: 8 };

fn table(secret: u8) -> (FlowTable, FlowOwner) {
    let mut table = FlowTable::new(&CAPACITY, &Secret([secret; 64])).expect("memory");
    let owner = table.owner(1, 0).expect("nobody has it");
    (table, owner)
}

fn key(number: u16, is_ip6: bool) -> FlowKey {
    let protocol = 6;
    if is_ip6 {
        let (source, destination) = (u128::from(number) << 64 | 7, 9);
        let flow = Flow { source, destination, source_port: number, destination_port: 80, protocol };
        return FlowKey::ip6(flow, number % 3);
    }
    let (source, destination) = (0x0a00_0000 + u32::from(number), 9);
    let flow = Flow { source, destination, source_port: number, destination_port: 80, protocol };
    FlowKey::ip4(flow, number % 3)
}

/// The words of a table with flows of all kinds.
fn words() -> [Vec<u32>; 4] {
    let (table, mut owner) = table(1);
    for number in 0..24 {
        let reply = (number % 2 == 0).then(|| key(900 + number, number % 3 == 0).reversed());
        let _ = owner.create(&NewFlow::new(key(number, number % 4 < 2), reply), 5, 60);
    }
    let counts = FormerTable::of(&CAPACITY).expect("not too many").words();
    let mut counts = counts.into_iter();
    table.arrays().map(|array| {
        let count = counts.next().unwrap_or(0) as usize;
        array[..count].iter().map(|word| word.load(Relaxed)).collect()
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut words = words();
    for change in bytes.chunks_exact(7) {
        let array = &mut words[usize::from(change[0] % 4)];
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % array.len();
        array[at] = u32::from_le_bytes([change[3], change[4], change[5], change[6]]);
    }
    let former = FormerTable::of(&CAPACITY).expect("not too many");
    let mut flows: Vec<FormerFlow> = Vec::new();
    let read = |array: usize, first: u64, into: &mut [u32]| {
        into.copy_from_slice(&words[array][first as usize..][..into.len()]);
        true
    };
    assert!(former.read(0..u32::MAX, read, |reading| {
        if let Reading::Flow(flow) = reading {
            flows.push(flow);
        }
    }));
    let (table, mut owner) = table(2);
    let (reader, mut ids) = (table.reader(), Vec::new());
    for flow in &flows {
        let FormerFlow { class, flags, zone_pair, tcp, past, .. } = *flow;
        let new = NewFlow { class, flags, zone_pair, tcp, ..NewFlow::new(flow.key, flow.reply_key) };
        if let Ok(Created::New(id)) = owner.adopt(&new, &past, 9) {
            ids.push(id);
        }
    }
    for id in &ids {
        let entry = owner.entry(*id);
        assert_eq!(reader.find(&entry.key()).id(), Some(*id));
        assert_eq!(reader.find(&entry.reply_key()).id(), Some(*id));
    }
    ids.into_iter().for_each(|id| owner.remove(id).expect("it is live"));
    assert_eq!((table.live(), table.evictable(), table.counted_by_source()), (0, 0, 0));
});
