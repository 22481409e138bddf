//! The packets of one stream: which packet is next, and how it is written into a buffer.

use std::sync::Arc;

use stoa_engine::pool::{FRAME_MAX, HEADROOM};
use stoa_engine::{PoolCache, Vector, clock};
use stoa_ports::pcap::Capture;
use stoa_wire::BuildError;

use super::pace::Pace;
use super::template::{FCS, Field, FieldLocation, Headers, Template, Width};
use super::values::Walk;
use crate::clock::Clock;
use crate::signature::{Key, LENGTH, Signature};

/// Packets that share a time stamp: reading the counter costs as much as building a packet.
const STAMPED: usize = 16;
/// The backlog up to which a stream still sends all packets.
const BACKLOG: u64 = 1024;
/// The same in seconds, for streams that are faster than a million packets per second.
const BACKLOG_SECONDS: f64 = 0.001;

/// Packets that differ only in their fields.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Headers of the first packet.
    pub headers: Headers,
    /// Bytes of a frame, FCS included.
    pub size: u16,
    /// The group of the stream's fields that varies in these packets.
    pub group: u8,
}

/// A shape with its template.
struct BuiltShape {
    template: Template,
    group: u8,
    /// The positions of the group's fields, in order.
    locations: Vec<FieldLocation>,
    /// Checksums without the fields and the checksum itself.
    ip_sum: u32,
    transport_sum: u32,
    is_ip_changed: bool,
    is_transport_changed: bool,
    /// Identifies buffers that contain this shape.
    mark: u32,
}

/// Transmit counters of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets that the port accepted.
    pub packets: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// Due packets that were dropped because the port had no space for a while.
    pub not_taken: u64,
    /// Due packets that were dropped because this program was not scheduled for a while.
    pub late: u64,
}

/// A stream that is being sent.
pub(crate) struct TxStream {
    pub(crate) id: u16,
    shapes: Vec<BuiltShape>,
    /// The shapes of the packets in order, repeated.
    order: Vec<u8>,
    place: usize,
    walks: Vec<Vec<Walk>>,
    pace: Pace,
    count: u64,
    is_free: bool,
    backlog: u64,
    replay: Option<Arc<Capture>>,
    /// Whether all packets have one shape without varying fields and fit plain buffers.
    is_plain: bool,
    pub(crate) sent: Sent,
}

/// The configuration of a stream.
pub(crate) struct StreamConfig<'a> {
    pub(crate) id: u16,
    pub(crate) shapes: &'a [Shape],
    pub(crate) order: &'a [u8],
    /// Fields by group.
    pub(crate) fields: &'a [Vec<(Field, Walk)>],
    /// Packets per second; `None`: as many as the port accepts.
    pub(crate) rate: Option<f64>,
    pub(crate) pace: Pace,
    /// Total number of packets.
    pub(crate) count: u64,
    /// Mark of the stream's first shape; the others follow consecutively.
    pub(crate) first_mark: u32,
    /// Frames to send unmodified, in place of shapes.
    pub(crate) replay: Option<Arc<Capture>>,
}

impl TxStream {
    /// A stream positioned at its first packet.
    pub(crate) fn new(config: StreamConfig<'_>, key: &Key) -> Result<Self, BuildError> {
        let mut shapes = Vec::new();
        for (shape, mark) in config.shapes.iter().zip(config.first_mark..) {
            let template = Template::new(&shape.headers, shape.size.into(), key.sum())?;
            let fields = config.fields.get(usize::from(shape.group)).map_or(&[][..], Vec::as_slice);
            let locations =
                fields.iter().filter_map(|(field, _)| template.locate(*field)).collect();
            shapes.push(BuiltShape::new(template, shape.group, locations, mark));
        }
        let walks = config.fields.iter();
        let walks = walks.map(|group| group.iter().map(|(_, walk)| walk.clone()).collect());
        let is_plain = shapes.len() == 1
            && config.order == [0]
            && shapes[0].locations.is_empty()
            && shapes[0].template.bytes.len() <= FRAME_MAX;
        let backlog = config.rate.map_or(0.0, |rate| rate * BACKLOG_SECONDS) as u64;
        Ok(Self {
            id: config.id,
            shapes,
            order: config.order.to_vec(),
            place: 0,
            walks: walks.collect(),
            pace: config.pace,
            count: config.count,
            is_free: config.rate.is_none(),
            // A burst is due at once, whatever its length.
            backlog: backlog.max(BACKLOG) + config.pace.burst(),
            replay: config.replay,
            is_plain,
            sent: Sent::default(),
        })
    }

    /// Packets to send now. Packets beyond the backlog are dropped: a burst that catches up would
    /// be a different load. `is_full`: the port had no space at the last attempt.
    #[inline(always)]
    pub(crate) fn waiting(&mut self, now: u64, is_full: bool) -> u64 {
        let left = self.count - self.sent.packets;
        let done = self.sent.packets + self.sent.not_taken + self.sent.late;
        let waiting = self.pace.due(now).saturating_sub(done);
        if waiting <= self.backlog || self.is_free || left == 0 {
            return waiting.min(left);
        }
        // `count` limits sent packets, so a drop only delays the end. No more than the remaining
        // packets can be dropped.
        let reason = if is_full { &mut self.sent.not_taken } else { &mut self.sent.late };
        *reason += (waiting - self.backlog).min(left.saturating_sub(self.backlog));
        self.backlog.min(left)
    }

    /// Writes the next packets into fresh lanes from `first` on and returns their number, which is
    /// lower when buffers for large frames run out. `written` holds the shape of each buffer.
    #[inline]
    pub(crate) fn write(
        &mut self,
        vector: &mut Vector,
        first: usize,
        cache: &mut PoolCache,
        written: &mut [u32],
        (key, clock): (&Key, &Clock),
    ) -> usize {
        if self.replay.is_some() {
            return self.write_replay(vector, first, written);
        }
        if self.is_plain {
            return self.write_alike(vector, first, written, (key, clock));
        }
        let mut time = 0;
        for lane in first..vector.len() {
            if (lane - first).is_multiple_of(STAMPED) {
                time = clock.units(clock::tsc()) as u32;
            }
            let Some(shape) = self.order.get(self.place) else { return lane - first };
            let Some(shape) = self.shapes.get_mut(usize::from(*shape)) else { return lane - first };
            let length = shape.template.bytes.len();
            if length > FRAME_MAX && !cache.enlarge(vector, lane) {
                return lane - first;
            }
            vector.length[lane] = length as u16;
            let id = vector.buffers()[lane] as usize;
            let frame = vector.bytes_mut(lane);
            match written.get_mut(id) {
                Some(mark) if *mark == shape.mark => {}
                mark => {
                    frame.copy_from_slice(&shape.template.bytes);
                    if let Some(mark) = mark {
                        *mark = shape.mark;
                    }
                }
            }
            if let Some(walks) = self.walks.get_mut(usize::from(shape.group)) {
                shape.vary(frame, walks);
            }
            let sequence = self.sent.packets as u32;
            let signature = key.seal(Signature { stream: self.id, sequence, time });
            if let Some(end) = frame.last_chunk_mut::<LENGTH>() {
                *end = signature;
            }
            self.sent.packets += 1;
            self.sent.bytes += (length + FCS) as u64;
            self.place += 1;
            if self.place == self.order.len() {
                self.place = 0;
            }
        }
        vector.len() - first
    }

    /// The same for packets that differ only in their signatures.
    #[inline(always)]
    fn write_alike(
        &mut self,
        vector: &mut Vector,
        first: usize,
        written: &mut [u32],
        (key, clock): (&Key, &Clock),
    ) -> usize {
        let (Some(shape), count) = (self.shapes.first(), vector.len() - first) else { return 0 };
        let length = shape.template.bytes.len().min(FRAME_MAX);
        let at = HEADROOM + length - LENGTH;
        vector.length[first..first + count].fill(length as u16);
        let mut lane = first;
        while lane < first + count {
            let (sequence, time) = (self.sent.packets as u32, clock.units(clock::tsc()) as u32);
            let signature = Signature { stream: self.id, sequence, time };
            let signatures = key.seal_run::<STAMPED>(signature);
            let now = STAMPED.min(first + count - lane);
            for (lane, signature) in (lane..lane + now).zip(&signatures) {
                let id = vector.buffers()[lane] as usize;
                let slot = vector.slot_mut(lane);
                if written.get(id) != Some(&shape.mark) {
                    slot[HEADROOM..HEADROOM + length].copy_from_slice(&shape.template.bytes);
                    if let Some(mark) = written.get_mut(id) {
                        *mark = shape.mark;
                    }
                }
                slot[at..at + LENGTH].copy_from_slice(signature);
            }
            self.sent.packets += now as u64;
            lane += now;
        }
        self.sent.bytes += (count * (length + FCS)) as u64;
        count
    }

    /// Copies the next frames of a file into lanes.
    fn write_replay(&mut self, vector: &mut Vector, first: usize, written: &mut [u32]) -> usize {
        let Some(frames) = &self.replay else { return 0 };
        for lane in first..vector.len() {
            let Some(frame) = frames.frame(self.place) else { return lane - first };
            vector.length[lane] = frame.len() as u16;
            if let Some(mark) = written.get_mut(vector.buffers()[lane] as usize) {
                *mark = 0;
            }
            vector.bytes_mut(lane).copy_from_slice(frame);
            self.sent.packets += 1;
            self.sent.bytes += (frame.len() + FCS) as u64;
            self.place = if self.place + 1 < frames.len() { self.place + 1 } else { 0 };
        }
        vector.len() - first
    }

    /// Repeats the last packet, which the port did not accept.
    pub(crate) fn step_back(&mut self) {
        if let Some(frames) = &self.replay {
            self.place = self.place.checked_sub(1).unwrap_or(frames.len() - 1);
            self.sent.packets -= 1;
            self.sent.bytes -= frames.frame(self.place).map_or(0, |frame| frame.len() + FCS) as u64;
            return;
        }
        self.place = if self.place == 0 { self.order.len() - 1 } else { self.place - 1 };
        let shape = &self.shapes[usize::from(self.order[self.place])];
        if let Some(walks) = self.walks.get_mut(usize::from(shape.group)) {
            walks.iter_mut().for_each(Walk::step_back);
        }
        self.sent.packets -= 1;
        self.sent.bytes -= (shape.template.bytes.len() + FCS) as u64;
    }

    /// Ends the run: drops what was due until then.
    pub(crate) fn finish(&mut self, end: u64, is_full: bool) {
        if self.is_free {
            return;
        }
        self.backlog = 0;
        // A packet due at the end belongs to the next interval.
        self.waiting(end.saturating_sub(1), is_full);
    }
}

impl BuiltShape {
    fn new(template: Template, group: u8, locations: Vec<FieldLocation>, mark: u32) -> Self {
        let word =
            |at: usize| u32::from(u16::from_be_bytes([template.bytes[at], template.bytes[at + 1]]));
        // The rest of a checksum without the fields: the complement of the checksum minus the
        // fields' values.
        let rest = |at: Option<u16>, covers: fn(&FieldLocation) -> bool| {
            let whole = at.map_or(0, |at| u32::from(!(word(at.into()) as u16)));
            locations.iter().filter(|locate| covers(locate)).fold(whole, |sum, locate| {
                let at = usize::from(locate.at);
                let words = (at..at + locate.width.bytes()).step_by(2);
                let value = words.fold(0, |sum, at| sum + word(at));
                fold(sum + u32::from(!fold(value))).into()
            })
        };
        let ip_sum = rest(template.ip_checksum_at, |locate| locate.in_ip);
        let transport_sum = rest(template.transport_checksum_at, |locate| locate.in_transport);
        let is_ip_changed = locations.iter().any(|locate| locate.in_ip);
        let is_transport_changed = locations.iter().any(|locate| locate.in_transport);
        Self {
            template,
            group,
            locations,
            ip_sum,
            transport_sum,
            is_ip_changed,
            is_transport_changed,
            mark,
        }
    }

    /// Writes the fields of the next packet and updates the checksums.
    #[inline(always)]
    fn vary(&self, frame: &mut [u8], walks: &mut [Walk]) {
        let (mut ip, mut transport) = (self.ip_sum, self.transport_sum);
        for (locate, walk) in self.locations.iter().zip(walks.iter_mut()) {
            let value = walk.value();
            walk.step();
            let sum = locate.put(frame, value);
            ip += if locate.in_ip { sum } else { 0 };
            transport += if locate.in_transport { sum } else { 0 };
        }
        if let Some(at) = self.template.ip_checksum_at.filter(|_| self.is_ip_changed) {
            put(frame, at, &(!fold(ip)).to_be_bytes());
        }
        if let Some(at) = self.template.transport_checksum_at.filter(|_| self.is_transport_changed)
        {
            let checksum = match !fold(transport) {
                0 if self.template.is_udp => 0xffff,
                checksum => checksum,
            };
            put(frame, at, &checksum.to_be_bytes());
        }
    }
}

impl Width {
    fn bytes(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
            Self::Six => 6,
            Self::Sixteen => 16,
        }
    }
}

impl FieldLocation {
    /// Writes a value and returns the sum of its words.
    #[inline(always)]
    fn put(&self, frame: &mut [u8], value: u128) -> u32 {
        match self.width {
            Width::Two => {
                put(frame, self.at, &(value as u16).to_be_bytes());
                u32::from(value as u16)
            }
            Width::Four => {
                let value = value as u32;
                put(frame, self.at, &value.to_be_bytes());
                (value >> 16) + (value & 0xffff)
            }
            Width::Six => {
                put(frame, self.at, &(value as u64).to_be_bytes()[2..]);
                0
            }
            Width::Sixteen => {
                put(frame, self.at, &value.to_be_bytes());
                let words = [0, 16, 32, 48, 64, 80, 96, 112];
                words.iter().map(|shift| u32::from((value >> shift) as u16)).sum()
            }
        }
    }
}

#[inline(always)]
fn put(frame: &mut [u8], at: u16, bytes: &[u8]) {
    let at = usize::from(at);
    if let Some(place) = frame.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

#[inline(always)]
fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

#[cfg(test)]
mod tests;
