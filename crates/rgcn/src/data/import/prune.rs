//! Data made smaller before training, as the papers do it: rare relations, named relations, and
//! what lies far from the labels.

use std::ops::Range;

use super::Import;
use crate::{Edge, Error, RelationalGraph};

/// No node: it was pruned.
const GONE: u32 = u32::MAX;

impl Import {
    /// Drops the relations with fewer than `min_edges` edges; the others are numbered anew, in
    /// their order. Nodes stay.
    ///
    /// # Errors
    /// [`Error::Config`] where no relation is left.
    pub fn keep_frequent_relations(self, min_edges: u64) -> Result<Import, Error> {
        let counts = self.graph.edges_by_relation();
        let is_kept: Vec<bool> = counts.iter().map(|&count| count >= min_edges).collect();
        if !is_kept.contains(&true) {
            let most = counts.iter().max().copied().unwrap_or(0);
            return Err(Error::config(
                "min_relation_edges",
                min_edges,
                &format!("at most {most}, the edges of the largest relation"),
            ));
        }
        self.keep_relations(&is_kept)
    }

    /// Drops relations by name, such as those that tell the label. Nodes stay.
    ///
    /// # Errors
    /// [`Error::Config`] for a name that no relation has, or where no relation is left.
    pub fn without_relations(self, names: &[String]) -> Result<Import, Error> {
        let mut is_kept = vec![true; self.graph.n_relations() as usize];
        for name in names {
            let Some(relation) = self.relations.find(name) else {
                let expected = "the name of a relation, as the file has it without brackets";
                return Err(Error::config("drop_relation", name, expected));
            };
            is_kept[relation as usize] = false;
        }
        if !is_kept.contains(&true) {
            let message = "all relations are dropped: expected one to be left";
            return Err(Error::new(Error::Config, message));
        }
        self.keep_relations(&is_kept)
    }

    fn keep_relations(mut self, is_kept: &[bool]) -> Result<Import, Error> {
        let kept: Vec<u32> = (0..self.graph.n_relations())
            .filter(|&relation| is_kept[relation as usize])
            .collect();
        let new_ids = new_ids(&kept, self.graph.n_relations());
        let n_edges = self.graph.n_edges();
        self.report.relations_dropped += (is_kept.len() - kept.len()) as u64;
        self.relations = self.relations.subset(&kept);
        let edge = |edge: Edge| {
            let relation = new_ids[edge.relation as usize];
            (relation != GONE).then_some(Edge { relation, ..edge })
        };
        self.rebuild(self.graph.n_nodes(), kept.len() as u32, edge)?;
        self.report.relation_edges_dropped += (n_edges - self.graph.n_edges()) as u64;
        self.report.count(&self.graph);
        Ok(self)
    }

    /// Drops nodes that no path of at most `n_hops` edges, in either direction, leads to from a
    /// node of `seeds`.
    ///
    /// The nodes that stay keep their order; the answer's second part says what each old node is
    /// called now.
    ///
    /// # Panics
    /// When a seed is not a node.
    ///
    /// # Errors
    /// [`Error::Config`] where no edge is left.
    pub fn within_hops(mut self, seeds: &[u32], n_hops: u32) -> Result<(Import, NewIds), Error> {
        let is_near = near(&self.graph, seeds, n_hops);
        let kept: Vec<u32> = (0..self.graph.n_nodes())
            .filter(|&node| is_near[node as usize])
            .collect();
        let ids = new_ids(&kept, self.graph.n_nodes());
        let (n_nodes, n_edges) = (self.graph.n_nodes(), self.graph.n_edges());
        let n_relations = self.graph.n_relations();
        let edge = |edge: Edge| {
            let (source, target) = (ids[edge.source as usize], ids[edge.target as usize]);
            let moved = Edge {
                source,
                target,
                ..edge
            };
            (source != GONE && target != GONE).then_some(moved)
        };
        self.rebuild(kept.len() as u32, n_relations, edge)?;
        self.nodes = self.nodes.subset(&kept);
        self.report.nodes_pruned += u64::from(n_nodes) - kept.len() as u64;
        self.report.edges_pruned += (n_edges - self.graph.n_edges()) as u64;
        self.report.count(&self.graph);
        if self.graph.n_edges() == 0 {
            let expected = "more: no edge lies so near to a labelled node";
            return Err(Error::config("hops", n_hops, expected));
        }
        Ok((self.without_empty_relations()?, NewIds(ids)))
    }

    fn without_empty_relations(self) -> Result<Import, Error> {
        let counts = self.graph.edges_by_relation();
        match counts.contains(&0) {
            true => self.keep_frequent_relations(1),
            false => Ok(self),
        }
    }

    /// The edges that `edge` keeps, as it changes them, file by file.
    fn rebuild(
        &mut self,
        n_nodes: u32,
        n_relations: u32,
        edge: impl Fn(Edge) -> Option<Edge>,
    ) -> Result<(), Error> {
        let mut columns = [Vec::new(), Vec::new(), Vec::new()];
        let mut files: Vec<Range<usize>> = Vec::new();
        for range in &self.files {
            let start = columns[0].len();
            for kept in range.clone().filter_map(|idx| edge(self.graph.edge(idx))) {
                columns[0].push(kept.source);
                columns[1].push(kept.relation);
                columns[2].push(kept.target);
            }
            files.push(start..columns[0].len());
        }
        let [sources, relations, targets] = columns;
        self.graph = RelationalGraph::new(n_nodes, n_relations, sources, relations, targets)?;
        self.files = files;
        Ok(())
    }
}

/// The new id of each node of the graph before pruning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewIds(Vec<u32>);

impl NewIds {
    /// The new id of an old node, unless it was pruned.
    ///
    /// # Panics
    /// When `node` was no node of the graph before.
    #[must_use]
    pub fn get(&self, node: u32) -> Option<u32> {
        Some(self.0[node as usize]).filter(|&id| id != GONE)
    }
}

/// The new id of each of `kept`, [`GONE`] for all others below `n`.
fn new_ids(kept: &[u32], n: u32) -> Vec<u32> {
    let mut ids = vec![GONE; n as usize];
    for (new, &old) in (0..).zip(kept) {
        ids[old as usize] = new;
    }
    ids
}

/// One flag a node: true for those at most `n_hops` edges from a seed, whatever their direction.
///
/// # Complexity
/// Time O(nodes + edges) whatever the number of hops, memory 8 B an edge and 17 B a node.
fn near(graph: &RelationalGraph, seeds: &[u32], n_hops: u32) -> Vec<bool> {
    let n_nodes = graph.n_nodes() as usize;
    let ends = || {
        let both = |edge: Edge| [(edge.source, edge.target), (edge.target, edge.source)];
        graph.edges().flat_map(both)
    };
    let mut starts = vec![0usize; n_nodes + 1];
    for (from, _) in ends() {
        starts[from as usize + 1] += 1;
    }
    for node in 0..n_nodes {
        starts[node + 1] += starts[node];
    }
    let mut neighbors = vec![0u32; starts[n_nodes]];
    let mut places = starts.clone();
    for (from, to) in ends() {
        neighbors[places[from as usize]] = to;
        places[from as usize] += 1;
    }
    let mut is_near = vec![false; n_nodes];
    let mut reached: Vec<u32> = Vec::new();
    for &seed in seeds {
        if !std::mem::replace(&mut is_near[seed as usize], true) {
            reached.push(seed);
        }
    }
    let (mut begin, mut hop) = (0, 0);
    while hop < n_hops && begin < reached.len() {
        let end = reached.len();
        for idx in begin..end {
            let node = reached[idx] as usize;
            for &next in &neighbors[starts[node]..starts[node + 1]] {
                if !std::mem::replace(&mut is_near[next as usize], true) {
                    reached.push(next);
                }
            }
        }
        (begin, hop) = (end, hop + 1);
    }
    is_near
}
