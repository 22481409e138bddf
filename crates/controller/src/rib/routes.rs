//! Routes in order, in blocks that later configurations share: a copy with one other route copies one block.

use std::collections::HashSet;
use std::sync::Arc;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;

/// Routes of a block after a rebuild. A block with twice as many is divided.
const BLOCK: usize = 256;

/// The order of routes: VRF, family, address and length of the prefix.
type Place<'a> = (&'a str, usize, &'a [u8], u32);

fn place(route: &v1::Route) -> Place<'_> {
    let (address, length) =
        route.prefix.as_ref().map_or((&[][..], 0), |it| (it.address.as_slice(), it.length));
    (&route.vrf, address.len(), address, length)
}

/// Routes, sorted by VRF, family, address and length of their prefixes, of which each occurs once.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// None is empty.
    blocks: Vec<Arc<Vec<v1::Route>>>,
    length: usize,
}

impl Routes {
    /// All routes in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &v1::Route> {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A copy of all routes.
    pub fn to_vec(&self) -> Vec<v1::Route> {
        self.iter().cloned().collect()
    }

    /// Whether both are the same routes in memory.
    pub fn is_same(&self, other: &Routes) -> bool {
        self.blocks.len() == other.blocks.len()
            && self.blocks.iter().zip(&other.blocks).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The route to exactly this prefix.
    pub fn get(&self, vrf: &str, prefix: &IpNet) -> Option<&v1::Route> {
        let (block, at) = self.find_prefix(vrf, prefix);
        Some(&self.blocks[block][at.ok()?])
    }

    /// Sets the route to its prefix.
    pub fn set(&mut self, route: v1::Route) {
        let (block, at) = self.find(place(&route));
        if self.blocks.is_empty() {
            self.blocks.push(Arc::default());
        }
        if at.is_ok_and(|at| self.blocks[block][at] == route) {
            return;
        }
        let routes = Arc::make_mut(&mut self.blocks[block]);
        match at {
            Ok(at) => routes[at] = route,
            Err(at) => {
                routes.insert(at, route);
                self.length += 1;
            }
        }
        if routes.len() >= 2 * BLOCK {
            let second = routes.split_off(routes.len() / 2);
            self.blocks.insert(block + 1, Arc::new(second));
        }
    }

    /// Removes the route to a prefix, if there is one.
    pub fn remove(&mut self, vrf: &str, prefix: &IpNet) {
        let (block, Ok(at)) = self.find_prefix(vrf, prefix) else { return };
        let routes = Arc::make_mut(&mut self.blocks[block]);
        routes.remove(at);
        self.length -= 1;
        if routes.is_empty() {
            self.blocks.remove(block);
        }
    }

    /// The routes of both that are not in blocks which both share: all that may differ.
    pub fn apart<'a>(&'a self, other: &'a Routes) -> [Vec<&'a v1::Route>; 2] {
        let of = |routes: &Routes| -> HashSet<*const Vec<v1::Route>> {
            routes.blocks.iter().map(Arc::as_ptr).collect()
        };
        let [own, others] = [self, other].map(of);
        let rest = |routes: &'a Routes, shared: &HashSet<_>| {
            let left = routes.blocks.iter().filter(|block| !shared.contains(&Arc::as_ptr(block)));
            left.flat_map(|block| block.iter()).collect()
        };
        [rest(self, &others), rest(other, &own)]
    }

    /// As [`Self::find`], of the route to a prefix.
    fn find_prefix(&self, vrf: &str, prefix: &IpNet) -> (usize, Result<usize, usize>) {
        let address = ip_bytes(prefix.network());
        self.find((vrf, address.len(), &address, prefix.prefix_len().into()))
    }

    /// The block that a route belongs to, and its place there: taken, or where it is inserted.
    fn find(&self, sought: Place<'_>) -> (usize, Result<usize, usize>) {
        let after = self
            .blocks
            .partition_point(|block| block.first().is_some_and(|first| place(first) <= sought));
        let block = after.saturating_sub(1);
        let routes = self.blocks.get(block).map_or(&[][..], |block| block.as_slice());
        (block, routes.binary_search_by(|route| place(route).cmp(&sought)))
    }
}

impl From<Vec<v1::Route>> for Routes {
    /// Of several routes to one prefix the last one stays.
    fn from(mut routes: Vec<v1::Route>) -> Routes {
        if !routes.is_sorted_by(|one, next| place(one) < place(next)) {
            routes.reverse();
            routes.sort_by(|one, other| place(one).cmp(&place(other)));
            routes.dedup_by(|next, one| place(next) == place(one));
        }
        let mut all = Routes { length: routes.len(), ..Routes::default() };
        let mut routes = routes.into_iter();
        loop {
            let block: Vec<v1::Route> = routes.by_ref().take(BLOCK).collect();
            if block.is_empty() {
                return all;
            }
            all.blocks.push(Arc::new(block));
        }
    }
}

impl PartialEq for Routes {
    fn eq(&self, other: &Routes) -> bool {
        self.is_same(other) || self.length == other.length && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn net(number: u32) -> IpNet {
        IpNet::new(std::net::Ipv4Addr::from(number << 8).into(), 24).unwrap()
    }

    fn route((number, protocol): (u32, i32)) -> v1::Route {
        let prefix = Some(crate::prefix::prefix_to_proto(&net(number)));
        v1::Route { prefix, protocol, ..v1::Route::default() }
    }

    proptest! {
        #[test]
        fn edits_are_those_of_a_map(
            first in prop::collection::btree_map(0..2_000_u32, 0..3, 0..1_500),
            edits in prop::collection::vec((0..2_000_u32, prop::option::of(0..3)), 0..900),
        ) {
            let mut model: BTreeMap<u32, i32> = first;
            let before = Routes::from(model.clone().into_iter().map(route).collect::<Vec<_>>());
            let (old, mut routes) = (before.to_vec(), before.clone());
            for (number, protocol) in edits {
                match protocol {
                    Some(protocol) => {
                        model.insert(number, protocol);
                        routes.set(route((number, protocol)));
                    }
                    None => {
                        model.remove(&number);
                        routes.remove("", &net(number));
                    }
                }
                prop_assert_eq!(routes.get("", &net(number)).map(|it| it.protocol), protocol);
            }
            let expected: Vec<_> = model.into_iter().map(route).collect();
            prop_assert_eq!(routes.len(), expected.len());
            prop_assert_eq!(&routes, &Routes::from(expected.clone()));
            prop_assert_eq!(routes.to_vec(), expected);
            // The first one has not changed, and what both do not share makes the difference.
            prop_assert_eq!(before.to_vec(), old);
            let [gone, new] = before.apart(&routes);
            let mut made: BTreeMap<_, _> = before.iter().map(|it| (place(it), it)).collect();
            for it in gone {
                made.remove(&place(it));
            }
            made.extend(new.iter().map(|it| (place(it), *it)));
            prop_assert!(made.into_values().eq(routes.iter()));
        }
    }

    #[test]
    fn one_other_route_among_many_is_in_one_block() {
        let before = Routes::from((0..100_000).map(|at| route((at, 0))).collect::<Vec<_>>());
        let mut after = before.clone();
        after.set(route((70_000, 1)));
        let [gone, new] = before.apart(&after);
        assert_eq!((gone.len(), new.len()), (BLOCK, BLOCK));
        // The same again changes nothing.
        let same = after.clone();
        after.set(route((70_000, 1)));
        assert!(after.is_same(&same) && !after.is_same(&before));
    }
}
