//! The graph as it is declared: a list of nodes, a list of feature arcs and the protocol tables.
//! Together they give all nodes in the order in which packets pass them, and the edges of each.

use std::any::Any;

use crate::arc::{ArcHook, ArcSpec};
use crate::graph::OUTPUT;
use crate::node::NodeSpec;
use crate::protocol::{MOST, ProtocolSpec};

/// Nodes that the scheduler holds, without `port-output`.
const NODES: usize = 127;

/// Why a list of nodes is no graph.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum GraphError {
    /// An edge names no node.
    #[error("node {node} has an edge to {edge}, which is not in the list of nodes")]
    UnknownEdge {
        /// The node.
        node: &'static str,
        /// The name that is not there.
        edge: &'static str,
    },
    /// A feature is not where it demands to be.
    #[error("arc {arc}: {node} and {wrong} are in the wrong order, or {wrong} is not in the arc")]
    Disorder {
        /// The arc.
        arc: &'static str,
        /// The feature whose demand is not met.
        node: &'static str,
        /// What it names in `after` or `before`.
        wrong: &'static str,
    },
    /// Two nodes are registered for one number.
    #[error("{table} {number} ({number:#06x}) is registered for {} and for {}", nodes[0], nodes[1])]
    DuplicateProtocol {
        /// The protocol table.
        table: &'static str,
        /// The number.
        number: u16,
        /// The nodes.
        nodes: [&'static str; 2],
    },
    /// A protocol table is too large.
    #[error("{table}: {entries} nodes are registered; the table holds {MOST}")]
    TooManyProtocols {
        /// The protocol table.
        table: &'static str,
        /// Its entries.
        entries: usize,
    },
    /// Two nodes have one name.
    #[error("node {0} is twice in the list of nodes")]
    Twice(&'static str),
    /// More nodes than the scheduler holds.
    #[error("{0} nodes; the scheduler holds 127")]
    TooMany(usize),
}

/// A node with all its edges.
pub struct GraphNode<S: 'static> {
    spec: &'static NodeSpec<S>,
    edges: Vec<&'static str>,
    /// By arc of which it is the start or a feature: name, and how it continues there.
    hooks: Vec<(&'static str, ArcHook)>,
    /// Edges of arcs that no packet takes: to features that precede this one.
    unused: Vec<usize>,
    /// By protocol table that it uses: name, numbers and their edges.
    protocols: Vec<(&'static str, Vec<(u16, u16)>)>,
}

impl<S> GraphNode<S> {
    /// Name, layer first, with dashes.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// What it does.
    pub fn description(&self) -> &'static str {
        self.spec.description
    }

    /// The nodes that it can send to, by edge: its own edges, then those of arcs.
    pub fn edges(&self) -> &[&'static str] {
        &self.edges
    }

    /// The nodes that packets go to from here, each once.
    pub fn next_nodes(&self) -> Vec<&'static str> {
        let mut next = Vec::new();
        for (at, edge) in self.edges.iter().enumerate() {
            if !self.unused.contains(&at) && !next.contains(edge) {
                next.push(*edge);
            }
        }
        next
    }

    /// The edge to a node: one of its own, or of a table, or a new one.
    fn edge_to(&mut self, node: &'static str, first: usize) -> u16 {
        let own = self.spec.edges.iter().position(|edge| *edge == node);
        let added = || self.edges[first..].iter().position(|edge| *edge == node);
        let known = own.or_else(|| added().map(|at| first + at));
        let at = known.unwrap_or_else(|| {
            self.edges.push(node);
            self.edges.len() - 1
        });
        at as u16
    }

    /// Makes the instance of one worker.
    pub(crate) fn make(&self, shared: &S, worker: usize) -> Box<dyn crate::Node> {
        (self.spec.make)(shared, worker)
    }
}

/// All nodes and arcs of a graph.
pub struct GraphSpec<S: 'static> {
    nodes: Vec<GraphNode<S>>,
    arcs: &'static [ArcSpec<S>],
    protocols: Vec<ProtocolSpec>,
    local: fn(&S, usize) -> Box<dyn Any + Send>,
}

impl<S> GraphSpec<S> {
    /// Inserts the features of `arcs` behind the last node where their arc starts, and adds the edges.
    ///
    /// # Errors
    /// If the lists do not make a graph.
    pub fn new(
        nodes: &'static [NodeSpec<S>],
        arcs: &'static [ArcSpec<S>],
    ) -> Result<Self, GraphError> {
        let plain = |spec: &'static NodeSpec<S>| GraphNode {
            spec,
            edges: spec.edges.to_vec(),
            hooks: Vec::new(),
            unused: Vec::new(),
            protocols: Vec::new(),
        };
        let mut all = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            all.push(plain(node));
            let starts = |arc: &&ArcSpec<S>| {
                nodes.iter().rposition(|node| arc.starts.contains(&node.name)) == Some(at)
            };
            let arcs = arcs.iter().filter(starts);
            all.extend(arcs.flat_map(|arc| arc.features).map(|feature| plain(&feature.node)));
        }
        if all.len() > NODES {
            return Err(GraphError::TooMany(all.len()));
        }
        let local: fn(&S, usize) -> Box<dyn Any + Send> = |_, _| Box::new(());
        let mut graph = Self { nodes: all, arcs, protocols: Vec::new(), local };
        for (at, node) in graph.nodes.iter().enumerate() {
            if graph.nodes[..at].iter().any(|other| other.name() == node.name()) {
                return Err(GraphError::Twice(node.name()));
            }
        }
        for arc in arcs {
            graph.add_edges(arc)?;
        }
        graph.check_edges()?;
        Ok(graph)
    }

    /// Adds the edges of an arc to its nodes.
    fn add_edges(&mut self, arc: &'static ArcSpec<S>) -> Result<(), GraphError> {
        if let Some((node, wrong)) = arc.disorder() {
            return Err(GraphError::Disorder { arc: arc.name, node, wrong });
        }
        if let Some(start) = arc.starts.iter().find(|start| self.index_of(start).is_none()) {
            return Err(GraphError::UnknownEdge { node: arc.name, edge: start });
        }
        for node in &mut self.nodes {
            let position = arc.position(node.name());
            if position.is_none() && !arc.starts.contains(&node.name()) {
                continue;
            }
            let first = node.edges.len();
            node.edges.extend(arc.edges());
            node.unused.extend(first..first + position.map_or(0, |at| at + 1));
            node.hooks.push((arc.name, ArcHook::new(first, position)));
        }
        Ok(())
    }

    /// Adds protocol tables, and edges from the nodes that use each of them to the registered nodes.
    ///
    /// # Errors
    /// If a number is registered twice, a table is too large, or a node is not in the list.
    pub fn with_protocols(mut self, protocols: Vec<ProtocolSpec>) -> Result<Self, GraphError> {
        for table in &protocols {
            if table.entries.len() > MOST {
                let entries = table.entries.len();
                return Err(GraphError::TooManyProtocols { table: table.name, entries });
            }
            if let Some((number, nodes)) = table.duplicate() {
                return Err(GraphError::DuplicateProtocol { table: table.name, number, nodes });
            }
            if let Some(user) = table.users.iter().find(|user| self.index_of(user).is_none()) {
                return Err(GraphError::UnknownEdge { node: table.name, edge: user });
            }
            for node in &mut self.nodes {
                if table.users.contains(&node.name()) {
                    let first = node.edges.len();
                    let mut edges = Vec::new();
                    for (number, to) in &table.entries {
                        edges.push((*number, node.edge_to(to, first)));
                    }
                    node.protocols.push((table.name, edges));
                }
            }
        }
        self.protocols = protocols;
        self.check_edges()?;
        Ok(self)
    }

    /// Makes for each worker a value that all of its nodes share ([`crate::Context::local`]).
    #[must_use]
    pub fn with_local(mut self, local: fn(&S, usize) -> Box<dyn Any + Send>) -> Self {
        self.local = local;
        self
    }

    /// What the nodes of a worker share.
    pub(crate) fn make_local(&self, shared: &S, worker: usize) -> Box<dyn Any + Send> {
        (self.local)(shared, worker)
    }

    fn check_edges(&self) -> Result<(), GraphError> {
        for node in &self.nodes {
            for edge in &node.edges {
                if self.index_of(edge).is_none() {
                    return Err(GraphError::UnknownEdge { node: node.name(), edge });
                }
            }
        }
        Ok(())
    }

    /// All nodes but `port-output`, in the order in which packets pass them.
    pub fn nodes(&self) -> &[GraphNode<S>] {
        &self.nodes
    }

    /// The declared arcs.
    pub fn arcs(&self) -> &'static [ArcSpec<S>] {
        self.arcs
    }

    /// The arc with this name.
    pub fn arc(&self, name: &str) -> Option<&'static ArcSpec<S>> {
        self.arcs.iter().find(|arc| arc.name == name)
    }

    /// How a node continues in an arc; `None`: it does not belong to the arc.
    pub fn hook(&self, arc: &str, node: &str) -> Option<ArcHook> {
        let node = self.nodes.iter().find(|other| other.name() == node)?;
        node.hooks.iter().find(|(name, _)| *name == arc).map(|(_, hook)| *hook)
    }

    /// The protocol tables.
    pub fn protocols(&self) -> &[ProtocolSpec] {
        &self.protocols
    }

    /// The numbers of a protocol table and their edges from a node; `None`: it does not use the table.
    pub fn protocol_edges(&self, table: &str, node: &str) -> Option<&[(u16, u16)]> {
        let node = self.nodes.iter().find(|other| other.name() == node)?;
        let edges = node.protocols.iter().find(|(name, _)| *name == table);
        edges.map(|(_, edges)| &edges[..])
    }

    /// The index of a node; `port-output` follows after the last.
    pub fn index_of(&self, name: &str) -> Option<u16> {
        if name == OUTPUT {
            return Some(self.nodes.len() as u16);
        }
        self.nodes.iter().position(|node| node.name() == name).map(|at| at as u16)
    }
}
