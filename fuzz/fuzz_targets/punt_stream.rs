//! Messages of the punt stream: any bytes as requests and replies; subscriptions by the forwarder's check, and its
//! queues, in which each packet is sent, dropped for one reason, or waits.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use stoa_api::punts::{BATCH_PACKETS, KEYS, Key, WINDOW};
use stoa_api::v1::{self, punts_reply::Reply, punts_request::Request};
use stoa_forwarder::punt::stream_queues::{StreamCounters, StreamQueues, StreamState, cost};
use stoa_forwarder::punt::streamed::STREAMED;
use stoa_forwarder::punt::subscriptions::{Parsed, Subscriptions, parse};

fn subscribe(queues: &mut StreamQueues, subscription: &v1::PuntSubscription) {
    let parsed = parse(subscription);
    let Parsed { keys, windows, refused } = &parsed;
    assert!(keys.len() <= KEYS && windows.len() + refused.len() == subscription.classes.len());
    assert!(windows.values().all(|window| (1..=WINDOW).contains(window)));
    assert!(refused.iter().all(|class| !class.reason.is_empty() && !class.fix.is_empty()));
    let subscriptions = Subscriptions::new(keys);
    for (key, class) in keys {
        let found = match *key {
            Key::UdpPort(port) => {
                let [high, low] = port.to_be_bytes();
                subscriptions.of_packet(17, &[0, 0, high, low, 0, 8, 0, 0])
            }
            Key::IpProtocol(number) => subscriptions.of_packet(number, &[]),
            Key::Ethertype(number) => subscriptions.of_ethertype(number),
        };
        assert_eq!(found, Some(*class));
    }
    queues.subscribe(windows);
}

fuzz_target!(|input: &[u8]| {
    let mut queues = StreamQueues::new(0);
    let mut offered: BTreeMap<usize, u64> = BTreeMap::new();
    let mut now_us = 0;
    let mut rest = input;
    while let [step, length, bytes @ ..] = rest {
        let (message, after) = bytes.split_at(bytes.len().min((*length).into()));
        rest = after;
        let class = usize::from(*step) % STREAMED.len();
        if let Ok(v1::PuntsRequest { request: Some(request) }) = v1::PuntsRequest::decode(message) {
            match request {
                Request::Subscription(subscription) => subscribe(&mut queues, &subscription),
                Request::Taken(taken) => queues.extend_window(class, taken.packets),
                Request::Injections(injections) => {
                    for _ in injections.packets {
                        queues.may_inject(class, now_us);
                    }
                }
            }
        }
        if let Ok(v1::PuntsReply { reply: Some(Reply::Packets(packets)) }) =
            v1::PuntsReply::decode(message)
        {
            for packet in packets.packets {
                *offered.entry(class).or_default() += 1;
                let bytes = packet.link_header.len() + packet.payload.len();
                if queues.admit(class, bytes, now_us).is_ok() {
                    queues.push(class, packet);
                }
            }
        }
        let _ = Subscriptions::default().of_ip4(message);
        now_us += u64::from(*step);
        match step >> 6 {
            0 => drop(queues.unsubscribe()),
            1 => {
                let taken = queues.take().map_or(0, |(_, taken)| taken.len());
                assert!(taken <= BATCH_PACKETS);
            }
            _ => {}
        }
        for (at, streamed) in STREAMED.iter().enumerate() {
            let StreamState { counters, queued, queued_bytes, is_subscribed } = queues.state(at);
            let StreamCounters { sent, limited, queue_full, unsubscribed, .. } = counters;
            let all = sent + limited + queue_full + unsubscribed + queued as u64;
            assert_eq!(all, offered.get(&at).copied().unwrap_or(0));
            assert!(
                queued_bytes >= queued * cost(0) && queued_bytes <= streamed.budget.queue_bytes
            );
            assert!(is_subscribed || queued == 0);
        }
    }
});
