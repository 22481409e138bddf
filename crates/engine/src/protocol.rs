//! Protocol tables: nodes that are registered by a number that packets carry, as an ethertype, an IP
//! protocol or a UDP port. The [graph](crate::graph_spec) adds the edges; a [`NumberTable`] finds them.

/// The most numbers in a table.
pub const MOST: usize = 192;

/// A table as it is declared.
#[derive(Clone, Debug)]
pub struct ProtocolSpec {
    /// What the numbers are.
    pub name: &'static str,
    /// The nodes that send packets by this table.
    pub users: &'static [&'static str],
    /// Numbers, and the node of each.
    pub entries: Vec<(u16, &'static str)>,
}

impl ProtocolSpec {
    /// A number that is registered twice, and the two nodes.
    pub fn duplicate(&self) -> Option<(u16, [&'static str; 2])> {
        self.entries.iter().enumerate().find_map(|(at, (number, node))| {
            let former = self.entries[..at].iter().find(|(other, _)| other == number)?;
            Some((*number, [former.1, node]))
        })
    }
}

/// Slots of a [`NumberTable`]: as many as a byte has values, and always some of them vacant.
const SLOTS: usize = 256;
const _: () = assert!(MOST < SLOTS);

/// What belongs to a number. A number below 256 has a slot of its own as long as all numbers are
/// below 256, so that a table of IP protocols is a plain array.
#[derive(Clone, Debug)]
pub struct NumberTable<T> {
    slots: Box<[Option<(u16, T)>; SLOTS]>,
}

impl<T: Copy> NumberTable<T> {
    /// A table of these entries; the last one of a number counts.
    ///
    /// # Panics
    /// With more than [`MOST`] numbers, which the graph has refused.
    pub fn new(entries: impl IntoIterator<Item = (u16, T)>) -> Self {
        let mut table = Self { slots: Box::new([None; SLOTS]) };
        let mut numbers = 0;
        for (number, value) in entries {
            let at = table.slot(number);
            numbers += usize::from(table.slots[at].is_none());
            assert!(numbers <= MOST, "a protocol table has more than {MOST} numbers");
            table.slots[at] = Some((number, value));
        }
        table
    }

    /// What belongs to a number.
    #[inline]
    pub fn get(&self, number: u16) -> Option<T> {
        self.slots[self.slot(number)].map(|(_, value)| value)
    }

    /// The slot of a number, or the vacant one where it would be. There is always a vacant one.
    #[inline]
    fn slot(&self, number: u16) -> usize {
        let mut at = (number ^ number >> 8) as u8;
        while self.slots[usize::from(at)].as_ref().is_some_and(|(other, _)| *other != number) {
            at = at.wrapping_add(1);
        }
        usize::from(at)
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::graph::GraphError;
    use crate::graph_spec::GraphSpec;
    use crate::node::{Next, Node, NodeSpec};
    use crate::{Context, Vector};

    struct Idle;

    impl Node for Idle {
        fn process(&mut self, _: &mut Context<'_>, _: &mut Vector) -> Next {
            Next::All(0)
        }
    }

    const fn node(name: &'static str, edges: &'static [&'static str]) -> NodeSpec<()> {
        NodeSpec { name, description: "", edges, make: |_, _| Box::new(Idle) }
    }

    static NODES: [NodeSpec<()>; 4] =
        [node("demux", &["error", "a"]), node("a", &[]), node("b", &[]), node("error", &[])];

    fn graph(entries: &[(u16, &'static str)]) -> Result<GraphSpec<()>, GraphError> {
        let table = ProtocolSpec { name: "port", users: &["demux"], entries: entries.to_vec() };
        GraphSpec::new(&NODES, &[])?.with_protocols(vec![table])
    }

    #[test]
    fn registered_nodes_have_edges() {
        let graph = graph(&[(47, "b"), (1, "a"), (4, "b")]).unwrap();
        let expected: &[(u16, u16)] = &[(47, 2), (1, 1), (4, 2)];
        assert_eq!(graph.protocol_edges("port", "demux"), Some(expected));
        assert_eq!(graph.nodes()[0].edges(), ["error", "a", "b"]);
        assert_eq!(graph.protocol_edges("port", "a"), None);
        assert_eq!(graph.protocol_edges("type", "demux"), None);
    }

    #[test]
    fn wrong_registrations_are_refused() {
        let error = |entries: &[_]| graph(entries).err().map(|error| error.to_string()).unwrap();
        assert_eq!(
            error(&[(0x806, "a"), (1, "a"), (0x806, "b")]),
            "port 2054 (0x0806) is registered for a and for b"
        );
        assert_eq!(
            error(&[(1, "c")]),
            "node demux has an edge to c, which is not in the list of nodes"
        );
        let many: Vec<_> = (0..=MOST as u16).map(|number| (number, "a")).collect();
        assert_eq!(error(&many), "port: 193 nodes are registered; the table holds 192");
        assert!(graph(&many[1..]).is_ok());
    }

    proptest! {
        #[test]
        fn a_table_is_a_map(
            entries in prop::collection::vec((prop_oneof![0..300_u16, any::<u16>()], any::<u16>()), 0..MOST),
            others in prop::collection::vec(any::<u16>(), 100),
        ) {
            let map: BTreeMap<_, _> = entries.iter().copied().collect();
            let table = NumberTable::new(entries.iter().copied());
            let numbers = entries.iter().map(|(number, _)| *number).chain(others).chain(0..=512);
            for number in numbers {
                prop_assert_eq!(table.get(number), map.get(&number).copied());
            }
        }
    }
}
