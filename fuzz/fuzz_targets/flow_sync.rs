//! The items of a frame of a partner: what is read is written as it was, and read again as the same.
#![no_main]

use stoa_forwarder::flow_sync::message::{
    Item, put_again, put_alive, put_complete, put_end, put_flow, put_known, put_known_lease, put_lease,
    put_lease_end, put_names, read,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    const NOW: u32 = 1_000;
    let mut items = Vec::new();
    let is_whole = read(bytes, NOW, |item| items.push(item)).is_ok();
    let mut written = Vec::new();
    for item in &items {
        match item {
            Item::Alive => put_alive(&mut written),
            Item::Names(lacks_flows, names) => put_names(*lacks_flows, names, &mut written),
            Item::Complete => put_complete(&mut written),
            Item::End(key) => put_end(key, &mut written),
            Item::Flow(record) => put_flow(record, NOW, &mut written),
            Item::Known(key) => put_known(key, &mut written),
            Item::Again => put_again(&mut written),
            Item::Lease(lease) => put_lease(lease, NOW, &mut written),
            Item::LeaseEnd(key) => put_lease_end(key, &mut written),
            Item::KnownLease(key) => put_known_lease(key, &mut written),
        }
    }
    assert!(!is_whole || written == bytes);
    assert_eq!(bytes.get(..written.len()), Some(&written[..]));
    let mut again = Vec::new();
    assert!(read(&written, NOW, |item| again.push(item)).is_ok());
    assert_eq!(items, again);
});
