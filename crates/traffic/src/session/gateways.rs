//! Before the first run: resolves the gateways, and sends a few packets of each stream so that
//! devices on the path learn the ports' addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use stoa_wire::vlan::Stack;

use super::{RunError, Session, Watch};
use crate::generate::Shape;
use crate::generate::template::{Network, Template};
use crate::plan::Link;
use crate::signature::{Key, LEARNING, Signature};

/// Interval between requests to a gateway that does not reply.
const RETRY: Duration = Duration::from_millis(500);
/// Time for the learning packets, and the requests that they cause, to arrive.
const WARM_UP: Duration = Duration::from_millis(200);
/// Learning packets of each stream.
const WARM_UP_PACKETS: u32 = 3;

/// A gateway to resolve: index of the port, its address, and the tags (type, VLAN) of the stream.
type GatewayRequest = (usize, IpAddr, Vec<(u16, u16)>);

impl Session {
    /// Resolves the MAC addresses that the plan does not give.
    pub(super) fn resolve_gateways(&mut self, watch: Watch<'_>) -> Result<(), RunError> {
        let gateway_requests = self.gateway_requests();
        let began = Instant::now();
        let mut requested_at: Option<Instant> = None;
        loop {
            self.handles.iter_mut().for_each(super::PortHandle::answer_neighbors);
            let missing = gateway_requests
                .iter()
                .find(|(port, gateway, _)| self.gateway_mac(*port, *gateway).is_none());
            let Some((port, gateway, _)) = missing else { break };
            if began.elapsed().as_secs_f64() > self.plan.patience {
                let port = self.plan.ports[*port].name.clone();
                return Err(RunError::NoGateway { port, gateway: *gateway });
            }
            if requested_at.is_none_or(|requested_at| requested_at.elapsed() > RETRY) {
                requested_at = Some(Instant::now());
                gateway_requests.iter().try_for_each(|(port, gateway, vlans)| {
                    self.send_request(*port, *gateway, vlans)
                })?;
            }
            self.handles.iter_mut().for_each(super::PortHandle::service);
            self.go_on(&mut *watch)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        self.fill_addresses();
        Ok(())
    }

    /// All gateways to resolve.
    fn gateway_requests(&self) -> BTreeSet<GatewayRequest> {
        let mut gateway_requests = BTreeSet::new();
        for stream in self.plan.streams.iter().filter(|stream| !stream.link.has_destination) {
            for shape in &stream.shapes {
                if let Some(gateway) = self.gateway(stream.from, shape) {
                    let tags = shape.headers.tags.iter().map(|tag| (tag.tpid, tag.tci.0)).collect();
                    gateway_requests.insert((stream.from, gateway, tags));
                }
            }
        }
        gateway_requests
    }

    fn gateway(&self, port: usize, shape: &Shape) -> Option<IpAddr> {
        let is_ip4 = match shape.headers.network {
            Network::None(_) => return None,
            Network::Ip4 { .. } => true,
            Network::Ip6 { .. } => false,
        };
        self.plan.ports[port].gateways.iter().find(|one| one.is_ipv4() == is_ip4).copied()
    }

    fn gateway_mac(&self, port: usize, gateway: IpAddr) -> Option<[u8; 6]> {
        self.handles[port].io.as_ref()?.responder.known.get(&gateway).copied()
    }

    fn send_request(
        &mut self,
        port: usize,
        gateway: IpAddr,
        vlans: &[(u16, u16)],
    ) -> Result<(), RunError> {
        let mut tags = Stack::EMPTY;
        for (tpid, tci) in vlans {
            // The tags came from a stack of the same size.
            let _ =
                tags.push(stoa_wire::vlan::Tag { tpid: *tpid, tci: stoa_wire::vlan::Tci(*tci) });
        }
        let handle = &mut self.handles[port];
        let Some(io) = &handle.io else { return Ok(()) };
        let Some(request) = io.responder.request(gateway, &tags) else {
            return Err(
                handle.error(format!("no address to ask for {gateway} from: give the port one"))
            );
        };
        handle.send(&request);
        Ok(())
    }

    /// Writes MAC addresses into the shapes.
    fn fill_addresses(&mut self) {
        for at in 0..self.plan.streams.len() {
            let stream = &self.plan.streams[at];
            let Link { has_source, has_destination } = stream.link;
            let (from, to) = (self.handles[stream.from].mac, self.handles[stream.to].mac);
            let gateways: Vec<[u8; 6]> = stream
                .shapes
                .iter()
                .map(|shape| {
                    let gateway = self.gateway(stream.from, shape);
                    gateway.and_then(|gateway| self.gateway_mac(stream.from, gateway)).unwrap_or(to)
                })
                .collect();
            for (shape, hop) in self.plan.streams[at].shapes.iter_mut().zip(gateways) {
                if !has_source {
                    shape.headers.source = from;
                }
                if !has_destination {
                    shape.headers.destination = hop;
                }
            }
        }
    }

    /// Sends some packets of each stream, and replies to neighbour requests. Their arrival is not
    /// checked: the run measures loss.
    pub(super) fn warm_up(&mut self) {
        let key = Key::of_run(self.run);
        for lesson in 0..WARM_UP_PACKETS {
            for at in 0..self.plan.streams.len() {
                let stream = &self.plan.streams[at];
                let signature = Signature { stream: LEARNING, sequence: lesson, time: 0 };
                let mut frames = Vec::new();
                let mut groups = BTreeSet::new();
                for shape in stream.shapes.iter().filter(|shape| groups.insert(shape.group)) {
                    let size = usize::from(shape.size);
                    if let Ok(mut template) = Template::new(&shape.headers, size, key.sum()) {
                        if let Some(end) = template.bytes.last_chunk_mut() {
                            *end = key.seal(signature);
                        }
                        frames.push(template.bytes);
                    }
                }
                let from = stream.from;
                frames.iter().for_each(|frame| self.handles[from].send(frame));
            }
            let began = Instant::now();
            while began.elapsed() < WARM_UP / WARM_UP_PACKETS {
                self.handles.iter_mut().for_each(super::PortHandle::answer_neighbors);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
