//! The graph as it is declared: a list of nodes and a list of feature arcs. Together they give all
//! nodes in the order in which packets pass them, and the edges of each.

use crate::arc::{ArcHook, ArcSpec};
use crate::graph::{GraphError, OUTPUT};
use crate::node::NodeSpec;

/// Nodes that the scheduler holds, without `port-output`.
const NODES: usize = 127;

/// A node with all its edges.
pub struct GraphNode<S: 'static> {
    spec: &'static NodeSpec<S>,
    edges: Vec<&'static str>,
    /// By arc of which it is the start or a feature: name, and how it continues there.
    hooks: Vec<(&'static str, ArcHook)>,
    /// Edges of arcs that no packet takes: to features that precede this one.
    unused: Vec<usize>,
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

    /// Makes the instance of one worker.
    pub(crate) fn make(&self, shared: &S, worker: usize) -> Box<dyn crate::Node> {
        (self.spec.make)(shared, worker)
    }
}

/// All nodes and arcs of a graph.
pub struct GraphSpec<S: 'static> {
    nodes: Vec<GraphNode<S>>,
    arcs: &'static [ArcSpec<S>],
}

impl<S> GraphSpec<S> {
    /// Inserts the features of `arcs` behind the nodes where their arcs start, and adds the edges.
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
        };
        let mut all = Vec::new();
        for node in nodes {
            all.push(plain(node));
            let arcs = arcs.iter().filter(|arc| arc.start == node.name);
            all.extend(arcs.flat_map(|arc| arc.features).map(|feature| plain(&feature.node)));
        }
        if all.len() > NODES {
            return Err(GraphError::TooMany(all.len()));
        }
        let mut graph = Self { nodes: all, arcs };
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
        if self.index_of(arc.start).is_none() {
            return Err(GraphError::UnknownEdge { node: arc.name, edge: arc.start });
        }
        for node in &mut self.nodes {
            let position = arc.position(node.name());
            if position.is_none() && node.name() != arc.start {
                continue;
            }
            let first = node.edges.len();
            node.edges.extend(arc.edges());
            node.unused.extend(first..first + position.map_or(0, |at| at + 1));
            node.hooks.push((arc.name, ArcHook::new(first, position)));
        }
        Ok(())
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

    /// The index of a node; `port-output` follows after the last.
    pub fn index_of(&self, name: &str) -> Option<u16> {
        if name == OUTPUT {
            return Some(self.nodes.len() as u16);
        }
        self.nodes.iter().position(|node| node.name() == name).map(|at| at as u16)
    }
}
