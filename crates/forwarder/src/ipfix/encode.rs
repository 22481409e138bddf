//! From records to messages: one message at a time is filled, for all collectors, and given to each.

use std::time::Instant;

use stoa_tables::flow_table::Tuple;
use stoa_wire::ipfix::element::UNIFORM_PROBABILISTIC;
use stoa_wire::ipfix::{Fields, Message, Template};

use super::collector::{Collector, Records};
use super::record::{Denial, FlowRecord, NatEvent, Side6, subscriber6};
use super::settings::Settings;
use super::templates;
use crate::nat64::hosts::Hosts;

/// Records that were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Of flows.
    pub flows: u64,
    /// Of address translation.
    pub nat: u64,
    /// Of refused packets.
    pub denials: u64,
    /// Of statistics and sampling.
    pub others: u64,
}

/// When records are made: the clock of flows, and that of collectors.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The tick of flow tables.
    pub tick: u32,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// For connections.
    pub instant: Instant,
}

impl Moment {
    /// Milliseconds since 1970 of a tick that was not long ago.
    pub fn ms_of(&self, tick: u32) -> u64 {
        let ago = self.tick.wrapping_sub(tick).cast_signed().max(0).cast_unsigned();
        self.unix_ms.saturating_sub(u64::from(ago) * 1_000)
    }

    fn seconds(&self) -> u32 {
        (self.unix_ms / 1_000) as u32
    }
}

/// Fills messages, and sends them to collectors.
pub struct Encoder {
    settings: Settings,
    message: Message,
    /// Records of flows in it.
    flows: u32,
    /// For templates and statistics, which are of one collector.
    own: Message,
    /// The collectors.
    pub collectors: Vec<Collector>,
    /// Records that were made.
    pub made: Made,
}

impl Encoder {
    /// Without collectors.
    pub fn new(settings: &Settings) -> Self {
        let mut encoder = Self {
            settings: Settings::default(),
            message: Message::new(0),
            flows: 0,
            own: Message::new(0),
            collectors: Vec::new(),
            made: Made::default(),
        };
        encoder.follow(settings);
        encoder
    }

    /// Has other settings. Collectors that stay keep their connection and their counters.
    pub fn follow(&mut self, settings: &Settings) {
        let size = settings.message_size;
        (self.message, self.own) = (Message::new(size), Message::new(size));
        let mut former = std::mem::take(&mut self.collectors);
        if settings.domain != self.settings.domain {
            // Templates and sequence numbers are of a domain.
            former.clear();
        }
        for desired in &settings.collectors {
            let same = former.iter().position(|it| it.settings() == desired);
            let collector = same.map(|at| former.swap_remove(at));
            self.collectors.push(collector.unwrap_or_else(|| Collector::new(desired)));
        }
        self.settings = settings.clone();
    }

    /// Connects collectors, and sends templates and what waits.
    pub fn service(&mut self, now: Moment) {
        let with = (now.seconds(), self.settings.domain, now.instant);
        for collector in &mut self.collectors {
            collector.service(now.instant);
            collector.send_templates(templates::ALL, &mut self.own, with);
            collector.service(now.instant);
        }
    }

    /// Sends the message, if it has records.
    pub fn flush(&mut self, now: Moment) {
        if self.message.is_empty() {
            return;
        }
        let records = Records { all: self.message.records(), flows: self.flows };
        let message = self.message.finish(now.seconds(), 0, self.settings.domain);
        for collector in &mut self.collectors {
            collector.send(message, records, now.instant);
        }
        self.message.clear();
        self.flows = 0;
    }

    fn add(&mut self, template: &Template, now: Moment, write: impl Fn(&mut Fields<'_>)) {
        if !self.message.record(template, &write) {
            self.flush(now);
            // An empty message has room for each record: a test of the templates.
            self.message.record(template, &write);
        }
    }

    fn add_flow(&mut self, template: &Template, now: Moment, write: impl Fn(&mut Fields<'_>)) {
        self.add(template, now, write);
        // Behind it: the message before may have been full.
        self.flows += 1;
        self.made.flows += 1;
    }

    /// Adds a record of a flow, from `from_ms` on, since 1970. `hosts`: those of NAT64.
    pub fn flow(&mut self, (record, hosts): (&FlowRecord, &Hosts), from_ms: u64, now: Moment) {
        let is_biflow = self.settings.is_biflow;
        let until_ms = now.ms_of(record.seen).max(from_ms);
        let (times, side) = ([from_ms, until_ms], Side6::of(record, hosts));
        if is_biflow {
            let template = templates::of_flow(record, side, true);
            let write = |fields: &mut Fields<'_>| {
                let icmp = templates::icmp(record, false);
                templates::put_flow(fields, (record, side, icmp), times, &record.counters);
            };
            return self.add_flow(template, now, write);
        }
        let [there, back] = record.counters;
        let icmp = [false, true].map(|is_reply| templates::icmp(record, is_reply));
        let of_replies = (reversed(record), side.map(Side6::reversed));
        for ((record, side), counters, icmp) in
            [((*record, side), there, icmp[0]), (of_replies, back, icmp[1])]
        {
            if counters.packets > 0 {
                let template = templates::of_flow(&record, side, false);
                self.add_flow(template, now, |fields| {
                    templates::put_flow(fields, (&record, side, icmp), times, &[counters]);
                });
            }
        }
    }

    /// Adds begin or end of a translated flow; others have no session.
    pub fn session(&mut self, (record, hosts): (&FlowRecord, &Hosts), is_begin: bool, now: Moment) {
        let (Tuple::Ip4(before), Some(after)) = (record.key.tuple, record.translated) else {
            return;
        };
        self.made.nat += 1;
        if let Some(side) = Side6::of(record, hosts) {
            let (both, side) = match side.before {
                Some(_) => ((record, before, after), side),
                None => ((record, after.reversed(), before.reversed()), side.reversed()),
            };
            let at = (now.unix_ms, is_begin);
            let template = match side.behind {
                Some(_) => &templates::SESSION66,
                None => &templates::SESSION64,
            };
            return self.add(template, now, |fields| {
                templates::put_session64(fields, both, side, at);
            });
        }
        let (template, ends) = (&templates::SESSION, (record, before, after));
        self.add(template, now, |fields| {
            templates::put_session(fields, ends, now.unix_ms, is_begin);
        });
    }

    /// Adds an event of address translation.
    pub fn event(&mut self, (event, hosts): (&NatEvent, &Hosts), now: Moment) {
        self.made.nat += 1;
        let host = subscriber6(hosts, event.subscriber);
        self.add(templates::of_event(event, host), now, |fields| {
            templates::put_event(fields, (event, host), now.unix_ms);
        });
    }

    /// Adds a refused packet.
    pub fn denial(&mut self, denial: &Denial, now: Moment) {
        let is_ip4 = denial.ends.iter().all(std::net::IpAddr::is_ipv4);
        if !is_ip4 && denial.ends.iter().any(std::net::IpAddr::is_ipv4) {
            return;
        }
        let template = if is_ip4 { &templates::DENIED4 } else { &templates::DENIED6 };
        self.made.denials += 1;
        self.add(template, now, |fields| templates::put_denial(fields, denial, now.unix_ms));
    }

    /// Sends templates over UDP again, and to each collector what was sent to it, and what was not: of `unmade` flows,
    /// no record was even made. Records that are no flows are not counted (IANA, exportedFlowRecordTotalCount).
    pub fn statistics(&mut self, unmade: u64, now: Moment) {
        self.flush(now);
        let Settings { domain, sampling, .. } = self.settings;
        let with = (now.seconds(), domain, now.instant);
        for collector in &mut self.collectors {
            collector.renew_templates();
            collector.send_templates(templates::ALL, &mut self.own, with);
            let counts = collector.counts();
            self.own.clear();
            self.own.record(&templates::STATISTICS, |fields| {
                fields.u32(std::process::id());
                fields.u64(counts.messages);
                fields.u64(counts.flows);
                fields.u64(counts.bytes);
                fields.u64(counts.lost_flows + unmade);
            });
            if sampling > 1 {
                self.own.record(&templates::SAMPLING, |fields| {
                    fields.u32(domain);
                    fields.u16(UNIFORM_PROBABILISTIC);
                    fields.u64((1.0 / f64::from(sampling)).to_bits());
                });
            }
            let records = Records { all: self.own.records(), flows: 0 };
            self.made.others += u64::from(records.all);
            collector.send(self.own.finish(with.0, 0, domain), records, now.instant);
            self.own.clear();
        }
    }
}

/// The flow as its replies are: those of a translated one come to the translated address.
fn reversed(record: &FlowRecord) -> FlowRecord {
    match (record.translated, record.key.tuple) {
        (Some(after), Tuple::Ip4(before)) => {
            let key = stoa_tables::flow_table::FlowKey::ip4(after.reversed(), record.key.vrf);
            FlowRecord { key, translated: Some(before.reversed()), ..*record }
        }
        _ => FlowRecord { key: record.key.reversed(), ..*record },
    }
}
