//! Listings over the contract: routes page by page, as fast as the client reads, and interfaces.

use std::time::Duration;

use stoa_api::v1;
use tonic::{Code, Status};

use super::Listing;
use super::apply::Forwarder;
use super::forwarder_state::ForwarderState;
use super::punts::PuntRows;
use super::service::{Service, full};

/// Routes per page: about a millisecond of the control thread.
pub(super) const PAGE: usize = 1024;

/// Interfaces per page: about a millisecond or two.
const INTERFACES_PAGE: usize = 512;

/// Neighbours per page: less than a millisecond.
const NEIGHBORS_PAGE: usize = 1024;

/// Interfaces per page of the control-plane policers, each with some twenty counters: about a millisecond.
const PUNTS_PAGE: usize = 512;

/// Attempts to get a page while the request queue is full, and the pause before each: ten seconds in all.
const PAGE_TRIES: u32 = 500;
const PAGE_PAUSE: Duration = Duration::from_millis(20);

impl Service {
    /// The next page of a listing and the rest of it; `None` before the first configuration. Retries while
    /// the request queue is full: a listing in progress is not aborted.
    async fn page(
        &self,
        listing: &Listing,
    ) -> Result<Option<(Vec<v1::RouteState>, Listing)>, Status> {
        self.patiently(|| {
            let mut listing = listing.clone();
            move |forwarder: &mut Forwarder| {
                let Some(state) = forwarder.state() else { return Ok(None) };
                let routes = state.list_more_routes(&mut listing, PAGE);
                Ok(Some((routes, listing)))
            }
        })
        .await
    }

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

    /// All interfaces by name. The control thread does other work between the pages, so an interface that
    /// is added or removed meanwhile may be listed or not.
    pub(super) async fn all_interfaces(&self) -> Result<Vec<v1::InterfaceState>, Status> {
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

    /// Sends the neighbours page by page, until the client goes away. One that comes or goes meanwhile may be listed or
    /// not.
    pub(super) async fn list_neighbors_to(
        &self,
        sender: &tokio::sync::mpsc::Sender<Result<v1::NeighborState, Status>>,
    ) {
        let mut after = None;
        loop {
            let page = self.patiently(|| {
                move |forwarder: &mut Forwarder| {
                    let state = forwarder.state();
                    let page = state.map(|it| it.list_neighbors_after(after, NEIGHBORS_PAGE));
                    Ok(page.unwrap_or_default())
                }
            });
            let (neighbors, last) = match page.await {
                Ok(page) => page,
                Err(status) => {
                    // The client may be gone.
                    let _ = sender.send(Err(status)).await;
                    return;
                }
            };
            for neighbor in neighbors {
                if sender.send(Ok(neighbor)).await.is_err() {
                    return;
                }
            }
            match last {
                Some(_) => after = last,
                None => return,
            }
        }
    }

    /// The control-plane policers, interface by interface, and the punt streams.
    pub(super) async fn all_punts(&self) -> Result<v1::ListPuntsReply, Status> {
        let (mut punts, mut first) = (PuntRows::default(), 0);
        while let Some(from) = self.more_punts(&mut punts, first).await? {
            first = from;
        }
        let streams = self.read(ForwarderState::list_punt_streams).await?;
        Ok(v1::ListPuntsReply { punts: punts.rows(), streams })
    }

    /// Adds the next page, from an interface on. Returns where the one after it begins.
    async fn more_punts(
        &self,
        punts: &mut PuntRows,
        first: usize,
    ) -> Result<Option<usize>, Status> {
        let page = self.patiently(|| {
            move |forwarder: &mut Forwarder| {
                let state = forwarder.state();
                let page = state.map(|it| it.list_punts_from(first, PUNTS_PAGE));
                Ok(page.unwrap_or_default())
            }
        });
        let (page, next) = page.await?;
        punts.add(page);
        Ok(next)
    }

    /// Sends routes page by page, until the listing ends or the client goes away.
    pub(super) async fn list_routes_to(
        &self,
        mut listing: Listing,
        sender: &tokio::sync::mpsc::Sender<Result<v1::RouteState, Status>>,
    ) {
        loop {
            let routes = match self.page(&listing).await {
                Ok(Some((routes, rest))) => {
                    listing = rest;
                    routes
                }
                Ok(None) => return,
                Err(status) => {
                    // The client may be gone.
                    let _ = sender.send(Err(status)).await;
                    return;
                }
            };
            for route in routes {
                if sender.send(Ok(route)).await.is_err() {
                    return;
                }
            }
            if listing.is_done() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::callers::Callers;
    use super::super::control_loop::ControlLoop;
    use super::*;

    #[tokio::test]
    async fn a_listing_retries_while_the_request_queue_is_full() {
        let (requests, control_loop) =
            ControlLoop::new(String::new(), stoa_ports::Folders::default()).unwrap();
        while requests.submit(Box::new(|_| {})) {}
        let service = Service { requests: requests.clone(), callers: Callers::default() };
        let (sender, mut received) = tokio::sync::mpsc::channel(PAGE);
        let listing = Listing::new(v1::ListRoutesRequest::default());
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
