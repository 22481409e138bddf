//! Listings over the contract, page by page, as fast as the client reads.

use std::time::Duration;

use stoa_api::flow::keep_first;
use stoa_api::nat::keep_oldest;
use stoa_api::v1;
use tokio::sync::mpsc::Sender;
use tonic::{Code, Status};

use super::RouteListing;
use super::acl::RowPosition;
use super::apply::Forwarder;
use super::forwarder_state::ForwarderState;
use super::service::{Service, full};
use crate::flow::selection::Selection;

/// Routes per page: about a millisecond of the control thread.
pub(super) const PAGE: usize = 1024;

/// Interfaces per page: about a millisecond or two.
const INTERFACES_PAGE: usize = 512;

/// Neighbours per page: less than a millisecond.
const NEIGHBORS_PAGE: usize = 1024;

/// Interfaces per page of the control-plane policers, each with some twenty rows: about a millisecond, and less than
/// two megabytes.
const PUNTS_PAGE: usize = 512;
/// Pages of them that wait for the client.
pub(super) const PUNTS_PAGES: usize = 2;

/// Attempts to get a page while the request queue is full, and the pause before each: ten seconds in all.
const PAGE_TRIES: u32 = 500;
const PAGE_PAUSE: Duration = Duration::from_millis(20);

/// Which flows of a page are sent.
#[derive(Clone, Copy)]
pub(super) struct First {
    /// 0: all.
    pub at_most: usize,
    pub order: v1::FlowOrder,
}

impl First {
    /// Keeps them; the first one knows how many others there are.
    fn keep(self, flows: &mut Vec<v1::FlowState>) {
        if self.at_most == 0 {
            return;
        }
        let all = flows.len();
        keep_first(flows, self.at_most, self.order);
        let left_out = all - flows.len();
        if let Some(one) = flows.first_mut() {
            one.left_out = left_out as u64;
        }
    }
}

impl Service {
    /// Runs a function on the control thread, and tries again while the request queue is full.
    async fn patiently<T, A>(&self, action: impl Fn() -> A + Send) -> Result<T, Status>
    where
        T: Send + 'static,
        A: FnOnce(&mut Forwarder) -> Result<T, Status> + Send + 'static,
    {
        for _ in 0..PAGE_TRIES {
            match self.on_control(action()).await {
                Err(status) if status.code() == Code::ResourceExhausted => {
                    tokio::time::sleep(PAGE_PAUSE).await;
                }
                result => return result,
            }
        }
        Err(full())
    }

    /// The interfaces of these names; all where there are none, or more than a page.
    pub(super) async fn interfaces(
        &self,
        names: Vec<String>,
    ) -> Result<Vec<v1::InterfaceState>, Status> {
        if names.is_empty() || names.len() > INTERFACES_PAGE {
            return self.all_interfaces().await;
        }
        self.read(move |state| state.list_interfaces_named(&names)).await
    }

    /// All interfaces by name. The control thread does other work between the pages, so an interface that
    /// is added or removed meanwhile may be listed or not.
    async fn all_interfaces(&self) -> Result<Vec<v1::InterfaceState>, Status> {
        let first = |state: &ForwarderState| state.list_interfaces_after("", INTERFACES_PAGE);
        let mut all = self.read(first).await?;
        let mut is_last = all.len() < INTERFACES_PAGE;
        while !is_last {
            let after = all.last().map(|last| last.name.clone()).unwrap_or_default();
            let page = self.patiently(|| {
                let after = after.clone();
                move |forwarder: &mut Forwarder| {
                    let state = forwarder.state();
                    let page = |state: &mut ForwarderState| {
                        state.list_interfaces_after(&after, INTERFACES_PAGE)
                    };
                    Ok(state.map(page).unwrap_or_default())
                }
            });
            let page = page.await?;
            is_last = page.len() < INTERFACES_PAGE;
            all.extend(page);
        }
        Ok(all)
    }

    /// Sends a listing page by page, until it ends or the client goes away. `page` returns the page at a position, and
    /// the position of the next one. Nothing is listed before the first configuration.
    async fn send_pages<P, T>(
        &self,
        first: P,
        page: impl Fn(&mut ForwarderState, P) -> (Vec<T>, Option<P>) + Copy + Send + Sync + 'static,
        sender: &Sender<Result<T, Status>>,
    ) where
        P: Clone + Send + Sync + 'static,
        T: Send + 'static,
    {
        let mut next = Some(first);
        while let Some(position) = next {
            let answer = self.patiently(|| {
                let position = position.clone();
                move |forwarder: &mut Forwarder| {
                    let page = forwarder.state().map(|state| page(state, position));
                    Ok(page.unwrap_or_else(|| (Vec::new(), None)))
                }
            });
            let (rows, rest) = match answer.await {
                Ok(page) => page,
                Err(status) => {
                    // The client may be gone.
                    let _ = sender.send(Err(status)).await;
                    return;
                }
            };
            for row in rows {
                if sender.send(Ok(row)).await.is_err() {
                    return;
                }
            }
            next = rest;
        }
    }

    /// Sends the neighbours. One that comes or goes meanwhile may be listed or not.
    pub(super) async fn list_neighbors_to(
        &self,
        sender: &Sender<Result<v1::NeighborState, Status>>,
    ) {
        let page = |state: &mut ForwarderState, after| {
            let (neighbors, last) = state.list_neighbors_after(after, NEIGHBORS_PAGE);
            (neighbors, last.map(Some))
        };
        self.send_pages(None, page, sender).await;
    }

    /// Sends the control-plane policers, some interfaces at a time, and the punt streams with the last of them.
    pub(super) async fn list_punts_to(&self, sender: &Sender<Result<v1::ListPuntsReply, Status>>) {
        let page = |state: &mut ForwarderState, first| {
            let (punts, next) = state.list_punts_from(first, PUNTS_PAGE);
            let streams = match next {
                None => state.list_punt_streams(),
                Some(_) => Vec::new(),
            };
            (vec![v1::ListPuntsReply { punts, streams }], next)
        };
        self.send_pages(0, page, sender).await;
    }

    /// Sends the rules of access lists, or of the list `only`, and behind them what matched none.
    pub(super) async fn list_acl_rules_to(
        &self,
        only: String,
        sender: &Sender<Result<v1::AclRuleState, Status>>,
    ) {
        let first = (only.clone(), (only.clone(), 0));
        let page = |state: &mut ForwarderState, (only, from): (String, (String, usize))| {
            let (rules, next) = state.list_acl_rules(&only, from);
            (rules, next.map(|next| (only, next)))
        };
        self.send_pages(first, page, sender).await;
        let page = |state: &mut ForwarderState, (only, from): (String, RowPosition)| {
            let (rows, next) = state.list_acl_rows(&only, from);
            (rows, next.map(|next| (only, Some(next))))
        };
        self.send_pages((only, None), page, sender).await;
    }

    /// Sends selected flows: of each page, the first ones.
    pub(super) async fn list_flows_to(
        &self,
        selection: Selection,
        first: First,
        sender: &Sender<Result<v1::FlowState, Status>>,
    ) {
        let page = move |state: &mut ForwarderState, from| {
            let (mut flows, next) = state.list_flows(&selection, from);
            first.keep(&mut flows);
            (flows, next)
        };
        self.send_pages((true, 0), page, sender).await;
    }

    /// Sends how many of the selected flows have each state, in parts.
    pub(super) async fn count_flows_to(
        &self,
        selection: Selection,
        sender: &Sender<Result<v1::FlowCount, Status>>,
    ) {
        let page = move |state: &mut ForwarderState, from| state.count_flows(&selection, from);
        self.send_pages((true, 0), page, sender).await;
    }

    /// Sends the dynamic mappings that meet a filter.
    pub(super) async fn list_nat_mappings_to(
        &self,
        filter: v1::NatMappingFilter,
        sender: &Sender<Result<v1::NatDynamicMapping, Status>>,
    ) {
        let page = |state: &mut ForwarderState, (filter, first): (v1::NatMappingFilter, u32)| {
            let (mut mappings, next) = state.list_nat_mappings(&filter, first);
            if filter.at_most > 0 {
                let all = mappings.len();
                keep_oldest(&mut mappings, filter.at_most as usize);
                let left_out = all - mappings.len();
                if let Some(one) = mappings.first_mut() {
                    one.left_out = left_out as u64;
                }
            }
            (mappings, next.map(|next| (filter, next)))
        };
        self.send_pages((filter, 0), page, sender).await;
    }

    /// Sends blocks of ports.
    pub(super) async fn list_nat_blocks_to(
        &self,
        filter: v1::NatBlockFilter,
        sender: &Sender<Result<v1::NatBlock, Status>>,
    ) {
        let page = |state: &mut ForwarderState, (filter, first): (v1::NatBlockFilter, u32)| {
            let (blocks, next) = state.list_nat_blocks(&filter, first);
            (blocks, next.map(|next| (filter, next)))
        };
        self.send_pages((filter, 0), page, sender).await;
    }

    /// Sends routes.
    pub(super) async fn list_routes_to(
        &self,
        listing: RouteListing,
        sender: &Sender<Result<v1::RouteState, Status>>,
    ) {
        let page = |state: &mut ForwarderState, mut listing: RouteListing| {
            let routes = state.list_more_routes(&mut listing, PAGE);
            (routes, (!listing.is_done()).then_some(listing))
        };
        self.send_pages(listing, page, sender).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::callers::Callers;
    use super::super::control_loop::ControlLoop;
    use super::super::desired::DesiredState;
    use super::*;

    /// A null port with so many sub-interfaces.
    fn desired(subs: u32) -> v1::Desired {
        let workers = v1::Workers {
            buffers: 1024,
            polling: v1::Polling::Interrupt.into(),
            huge_pages: v1::HugePages::Never.into(),
            ..Default::default()
        };
        let driver = Some(v1::port::Driver::Null(v1::Null {}));
        let port = v1::Port { interface: "a".into(), driver, ..Default::default() };
        let interface = |name: String| v1::Interface { name, enabled: true, ..Default::default() };
        let sub = |vid| v1::Interface {
            parent: "a".into(),
            outer: Some(v1::Tag { tpid: 0x8100, vid }),
            ..interface(format!("a.{vid}"))
        };
        let interfaces = [interface("a".into())].into_iter().chain((1..=subs).map(sub)).collect();
        let (workers, ports) = (Some(workers), vec![port]);
        v1::Desired { workers, ports, interfaces, ..Default::default() }
    }

    #[tokio::test]
    async fn policers_are_listed_page_by_page() {
        let (requests, control_loop) =
            ControlLoop::new(String::new(), stoa_ports::Folders::default()).unwrap();
        let thread = std::thread::spawn(move || control_loop.run());
        let service = Service { requests: requests.clone(), callers: Callers::default() };
        let desired = DesiredState::parse(&desired(600)).unwrap();
        let apply = |forwarder: &mut Forwarder| {
            let applied = forwarder.apply(desired);
            applied.map_err(|error| Status::internal(format!("{error:?}")))
        };
        service.on_control(apply).await.unwrap();
        let (sender, mut received) = tokio::sync::mpsc::channel(PUNTS_PAGES);
        let list = async {
            service.list_punts_to(&sender).await;
            drop(sender);
        };
        let collect = async {
            let (mut pages, mut all) = (0, stoa_api::punts::Listing::default());
            while let Some(page) = received.recv().await {
                pages += 1;
                all.add(page.unwrap());
            }
            (pages, all.into_rows())
        };
        let both = async { tokio::join!(list, collect) };
        let ((), (pages, rows)) =
            tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
        assert_eq!(pages, 2, "601 interfaces");
        let whole = service.read(ForwarderState::list_punts).await.unwrap();
        assert!(whole.iter().any(|row| row.class == "arp"));
        assert_eq!(rows, whole);
        requests.stop();
        thread.join().unwrap();
    }

    #[test]
    fn the_first_flows_of_a_page_know_how_many_are_left_out() {
        let flow = |bytes| v1::FlowState { bytes, ..v1::FlowState::default() };
        let kept = |at_most| {
            let mut flows = vec![flow(1), flow(3), flow(2)];
            First { at_most, order: v1::FlowOrder::FlowByBytes }.keep(&mut flows);
            flows.iter().map(|it| (it.bytes, it.left_out)).collect::<Vec<_>>()
        };
        assert_eq!(kept(0), [(1, 0), (3, 0), (2, 0)]);
        assert_eq!(kept(2), [(3, 1), (2, 0)]);
        assert_eq!(kept(5), [(3, 0), (2, 0), (1, 0)]);
    }

    #[tokio::test]
    async fn a_listing_retries_while_the_request_queue_is_full() {
        let (requests, control_loop) =
            ControlLoop::new(String::new(), stoa_ports::Folders::default()).unwrap();
        while requests.submit(Box::new(|_| {})) {}
        let service = Service { requests: requests.clone(), callers: Callers::default() };
        let (sender, mut received) = tokio::sync::mpsc::channel(PAGE);
        let listing = RouteListing::new(v1::ListRoutesRequest::default());
        // The control thread starts after the page was refused once.
        let begin = async {
            while requests.limit().refused < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            std::thread::spawn(move || control_loop.run())
        };
        let both = async { tokio::join!(service.list_routes_to(listing, &sender), begin) };
        let ((), thread) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
        requests.stop();
        thread.join().unwrap();
        drop(sender);
        // Nothing is configured: no route, and no error either.
        assert!(received.recv().await.is_none());
    }
}
