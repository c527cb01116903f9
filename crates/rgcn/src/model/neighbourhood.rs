//! Neighbourhoods of some nodes: the part of a graph that their outputs depend on, whole or with a
//! sample of each node's edges.

use shardgraph_random::KeyedRng;

use super::csr::Csr;
use crate::{Error, RelationalGraph};

/// The part of a graph that the outputs of some nodes depend on.
#[derive(Debug)]
pub(crate) struct Neighbourhood {
    /// Its nodes in ascending order.
    pub(crate) nodes: Vec<u32>,
    /// Its edges; ids of nodes are places in `nodes`, those of relations stay.
    pub(crate) graph: RelationalGraph,
}

/// The sample of a step: at most `most` edges of each relation into a node, drawn by the keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FanOut {
    pub(crate) most: u32,
    pub(crate) seed: u64,
    pub(crate) step: u32,
}

/// Finds neighbourhoods in a graph.
pub(crate) struct Sampler<'g> {
    graph: &'g RelationalGraph,
    by_target: Csr,
    /// The place of each node in the neighbourhood under way, else [`NONE`].
    places: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl<'g> Sampler<'g> {
    pub(crate) fn new(graph: &'g RelationalGraph) -> Sampler<'g> {
        let (_, _, targets) = graph.columns();
        Sampler {
            graph,
            by_target: Csr::group(graph.n_nodes() as usize, targets),
            places: vec![NONE; graph.n_nodes() as usize],
        }
    }

    /// The neighbourhood of distinct nodes over some layers; without a fan-out the whole of it.
    ///
    /// # Complexity
    /// The edges into its nodes; nothing of the graph's size is touched.
    /// # Source
    /// Hamilton et al., "Inductive representation learning on large graphs" (2017), algorithm 2;
    /// here with a sample for each relation, so that rare ones keep their messages.
    pub(crate) fn neighbourhood(
        &mut self,
        outputs: &[u32],
        n_layers: usize,
        fan_out: Option<FanOut>,
    ) -> Result<Neighbourhood, Error> {
        let (mut nodes, mut edges) = (outputs.to_vec(), Vec::new());
        nodes
            .iter()
            .for_each(|&node| self.places[node as usize] = 0);
        let mut begin = 0;
        for _ in 0..n_layers {
            let frontier = begin..nodes.len();
            begin = nodes.len();
            for at in frontier {
                let first = edges.len();
                self.add_edges(nodes[at], fan_out, &mut edges);
                for &edge in &edges[first..] {
                    let source = self.graph.edge(edge as usize).source;
                    if self.places[source as usize] == NONE {
                        self.places[source as usize] = 0;
                        nodes.push(source);
                    }
                }
            }
        }
        nodes.sort_unstable();
        for (place, &node) in (0..).zip(&nodes) {
            self.places[node as usize] = place;
        }
        edges.sort_unstable();
        let graph = self.renumbered(&edges, nodes.len() as u32);
        nodes
            .iter()
            .for_each(|&node| self.places[node as usize] = NONE);
        Ok(Neighbourhood {
            nodes,
            graph: graph?,
        })
    }

    /// Adds the edges along which messages go to a node.
    fn add_edges(&self, node: u32, fan_out: Option<FanOut>, edges: &mut Vec<u32>) {
        let all = self.by_target.members(node as usize);
        let Some(FanOut { most, seed, step }) = fan_out.filter(|fan_out| fan_out.most > 0) else {
            edges.extend_from_slice(all);
            return;
        };
        let relation = |edge: &u32| self.graph.edge(*edge as usize).relation;
        let mut all = all.to_vec();
        all.sort_by_key(relation);
        let key = u64::from(step) << 32 | u64::from(node);
        let mut stream = KeyedRng::new(seed, "rgcn neighbours", key);
        for same in all.chunk_by_mut(|a, b| relation(a) == relation(b)) {
            let n = same.len() as u32;
            // The first steps of a shuffle, where not all are taken.
            for place in 0..if n > most { most } else { 0 } {
                let other = place + stream.below_u32(n - place);
                same.swap(place as usize, other as usize);
            }
            edges.extend_from_slice(&same[..most.min(n) as usize]);
        }
    }

    /// Some edges between the nodes that have a place.
    fn renumbered(&self, edges: &[u32], n_nodes: u32) -> Result<RelationalGraph, Error> {
        let edges = edges.iter().map(|&edge| self.graph.edge(edge as usize));
        let place = |node: u32| self.places[node as usize];
        RelationalGraph::new(
            n_nodes,
            self.graph.n_relations(),
            edges.clone().map(|edge| place(edge.source)).collect(),
            edges.clone().map(|edge| edge.relation).collect(),
            edges.map(|edge| place(edge.target)).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Edge;

    /// Node 0 hears 1..=9 by relation 0 and 10 by relation 1; 1 hears 11, which hears 12.
    fn graph() -> RelationalGraph {
        let mut edges: Vec<[u32; 3]> = (1..10).map(|source| [source, 0, 0]).collect();
        edges.extend([[10, 1, 0], [11, 1, 1], [12, 0, 11], [0, 1, 5]]);
        let column = |at: usize| edges.iter().map(|edge| edge[at]).collect();
        RelationalGraph::new(14, 2, column(0), column(1), column(2)).unwrap()
    }

    fn edges(found: &Neighbourhood) -> BTreeSet<Edge> {
        let node = |place: u32| found.nodes[place as usize];
        let edge = |edge: Edge| Edge {
            source: node(edge.source),
            relation: edge.relation,
            target: node(edge.target),
        };
        found.graph.edges().map(edge).collect()
    }

    #[test]
    fn a_neighbourhood_has_what_the_outputs_depend_on() {
        let graph = graph();
        let mut sampler = Sampler::new(&graph);
        let one = sampler.neighbourhood(&[0], 1, None).unwrap();
        assert!(one.nodes.iter().copied().eq(0..11));
        let into = |targets: &[u32]| -> BTreeSet<Edge> {
            let edges = graph.edges();
            edges
                .filter(|edge| targets.contains(&edge.target))
                .collect()
        };
        assert_eq!(edges(&one), into(&[0]));
        let two = sampler.neighbourhood(&[0], 2, None).unwrap();
        assert!(two.nodes.iter().copied().eq(0..12));
        assert_eq!(edges(&two), into(&[0, 1, 5]));
        let alone = sampler.neighbourhood(&[13], 2, None).unwrap();
        assert_eq!((alone.nodes, alone.graph.n_edges()), (vec![13], 0));
    }

    #[test]
    fn a_fan_out_bounds_the_edges_of_each_relation() {
        let graph = graph();
        let mut sampler = Sampler::new(&graph);
        let mut sample = |most, step| {
            let fan_out = FanOut {
                most,
                seed: 1,
                step,
            };
            let found = sampler.neighbourhood(&[0], 1, Some(fan_out)).unwrap();
            edges(&found)
        };
        let mut seen = BTreeSet::new();
        for step in 0..40 {
            let found = sample(3, step);
            let of_relation = |relation| found.iter().filter(|e| e.relation == relation).count();
            assert_eq!((of_relation(0), of_relation(1)), (3, 1));
            assert_eq!(found, sample(3, step));
            seen.extend(found);
        }
        assert_eq!(seen.len(), 10);
        assert_eq!(sample(9, 0), seen);
    }
}
