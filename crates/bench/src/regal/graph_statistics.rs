//! Numbers that describe a data set of graphs: sizes, diameters and depths, as in the paper's figures 5 and 6 and table 2.

use std::collections::BTreeSet;

use shardgraph_costgraph::{Graph, topology};

/// What figures 5 and 6 show of one graph, and a little more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GraphStatistics {
    /// Nodes: ops.
    pub(super) n_ops: u64,
    /// Tensors, control tensors included.
    pub(super) n_tensors: u64,
    /// Edges: (tensor, consumer) pairs.
    pub(super) n_uses: u64,
    /// The longest of all shortest paths between two ops that are connected, directions aside.
    pub(super) diameter: u64,
    /// Ops on the longest directed path.
    pub(super) depth: u64,
    /// Ops that cost nothing on devices of class 0.
    pub(super) n_free_ops: u64,
    /// [`topology::in_degree_hash`]
    pub(super) in_degree_hash: u64,
    /// [`topology::structural_hash`]
    pub(super) structural_hash: u64,
}

impl GraphStatistics {
    /// The statistics of one graph.
    ///
    /// # Complexity
    /// The diameter takes a breadth-first search from each op at worst, and a few dozen of them on real graphs.
    pub(super) fn of(graph: &Graph) -> GraphStatistics {
        let ops = 0..graph.n_ops() as u32;
        GraphStatistics {
            n_ops: graph.n_ops() as u64,
            n_tensors: graph.n_tensors() as u64,
            n_uses: graph.n_uses() as u64,
            diameter: diameter(graph),
            depth: depth(graph),
            n_free_ops: ops.filter(|&op| graph.cost_ns(0, op) == 0).count() as u64,
            in_degree_hash: topology::in_degree_hash(graph),
            structural_hash: topology::structural_hash(graph),
        }
    }
}

/// The spread of one number over a set of graphs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    /// The smallest.
    pub(super) min: u64,
    /// A tenth of the values lie at or below it.
    pub(super) p10: u64,
    /// Half of the values lie at or below it.
    pub(super) p50: u64,
    /// Nine tenths of the values lie at or below it.
    pub(super) p90: u64,
    /// The largest.
    pub(super) max: u64,
    /// The mean.
    pub(super) mean: f64,
}

impl Spread {
    /// The spread of `values`; percentiles are values that occur (nearest rank). `None` when there are none.
    pub(super) fn of(values: impl Iterator<Item = u64>) -> Option<Spread> {
        let mut sorted: Vec<u64> = values.collect();
        sorted.sort_unstable();
        let (&min, &max) = sorted.first().zip(sorted.last())?;
        let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
        let total: u128 = sorted.iter().map(|&v| u128::from(v)).sum();
        Some(Spread {
            min,
            p10: rank(10),
            p50: rank(50),
            p90: rank(90),
            max,
            mean: total as f64 / sorted.len() as f64,
        })
    }
}

/// A set of graphs in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SetStatistics {
    /// How many graphs there are.
    pub(super) n_graphs: u64,
    /// How many different in-degree sequences they have: the paper's count of topologies.
    pub(super) n_in_degree_sequences: u64,
    /// How many different structures they have.
    pub(super) n_structures: u64,
    /// Nodes (figure 5, left).
    pub(super) n_ops: Spread,
    /// Edges (figure 5, right).
    pub(super) n_uses: Spread,
    /// Diameters (figure 6).
    pub(super) diameter: Spread,
    /// Ops on the longest path.
    pub(super) depth: Spread,
}

impl SetStatistics {
    /// The statistics of a set from those of its graphs; `None` when there are none.
    pub(super) fn of(graphs: &[GraphStatistics]) -> Option<SetStatistics> {
        let spread = |number: fn(&GraphStatistics) -> u64| Spread::of(graphs.iter().map(number));
        let distinct = |number: fn(&GraphStatistics) -> u64| {
            let values: BTreeSet<u64> = graphs.iter().map(number).collect();
            values.len() as u64
        };
        Some(SetStatistics {
            n_graphs: graphs.len() as u64,
            n_in_degree_sequences: distinct(|g| g.in_degree_hash),
            n_structures: distinct(|g| g.structural_hash),
            n_ops: spread(|g| g.n_ops)?,
            n_uses: spread(|g| g.n_uses)?,
            diameter: spread(|g| g.diameter)?,
            depth: spread(|g| g.depth)?,
        })
    }
}

/// Ops on the longest directed path.
fn depth(graph: &Graph) -> u64 {
    let mut depths = vec![0u64; graph.n_ops()];
    for &op in graph.topological_order() {
        let inputs = graph.inputs(op).iter();
        let before = inputs.map(|&t| depths[graph.producer(t) as usize]);
        depths[op as usize] = before.max().unwrap_or(0) + 1;
    }
    depths.into_iter().max().unwrap_or(0)
}

/// Ops next to each other, directions aside, in compact rows.
struct Neighbours {
    offsets: Vec<usize>,
    ops: Vec<u32>,
}

impl Neighbours {
    fn of(graph: &Graph) -> Neighbours {
        let mut pairs = Vec::with_capacity(2 * graph.n_uses());
        for tensor in 0..graph.n_tensors() as u32 {
            let producer = graph.producer(tensor);
            for &consumer in graph.consumers(tensor) {
                pairs.extend([(producer, consumer), (consumer, producer)]);
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut offsets = vec![0; graph.n_ops() + 1];
        for &(op, _) in &pairs {
            offsets[op as usize + 1] += 1;
        }
        for op in 0..graph.n_ops() {
            offsets[op + 1] += offsets[op];
        }
        let ops = pairs.into_iter().map(|(_, other)| other).collect();
        Neighbours { offsets, ops }
    }

    fn n_ops(&self) -> usize {
        self.offsets.len() - 1
    }

    fn at(&self, op: u32) -> &[u32] {
        let op = op as usize;
        &self.ops[self.offsets[op]..self.offsets[op + 1]]
    }
}

const UNSEEN: u32 = u32::MAX;

/// A breadth-first search that uses its memory again.
struct Search {
    distance: Vec<u32>,
    /// The ops reached, nearest first.
    order: Vec<u32>,
}

impl Search {
    fn new(n_ops: usize) -> Search {
        Search {
            distance: vec![UNSEEN; n_ops],
            order: Vec::with_capacity(n_ops),
        }
    }

    /// Searches from `start` and returns how far the farthest op is.
    fn run(&mut self, neighbours: &Neighbours, start: u32) -> u32 {
        for &op in &self.order {
            self.distance[op as usize] = UNSEEN;
        }
        self.order.clear();
        self.order.push(start);
        self.distance[start as usize] = 0;
        let mut next = 0;
        while let Some(&op) = self.order.get(next) {
            next += 1;
            let distance = self.distance[op as usize] + 1;
            for &other in neighbours.at(op) {
                if self.distance[other as usize] == UNSEEN {
                    self.distance[other as usize] = distance;
                    self.order.push(other);
                }
            }
        }
        self.farthest().1
    }

    fn farthest(&self) -> (u32, u32) {
        let last = self.order[self.order.len() - 1];
        (last, self.distance[last as usize])
    }
}

/// The largest diameter of a connected part.
///
/// # Source
/// Crescenzi et al., "On computing the diameter of real-world undirected graphs" (iFUB): searches from the ops farthest from a
/// central one, and stops when no pair of nearer ops can be farther apart than what is found.
fn diameter(graph: &Graph) -> u64 {
    let neighbours = Neighbours::of(graph);
    let n_ops = neighbours.n_ops();
    let mut is_done = vec![false; n_ops];
    let mut search = Search::new(n_ops);
    let mut best = 0;
    for start in 0..n_ops as u32 {
        if is_done[start as usize] {
            continue;
        }
        let (centre, bound) = centre(&neighbours, &mut search, start);
        best = best.max(bound);
        search.run(&neighbours, centre);
        let fringe: Vec<(u32, u32)> = search
            .order
            .iter()
            .map(|&op| (search.distance[op as usize], op))
            .collect();
        for &(_, op) in &fringe {
            is_done[op as usize] = true;
        }
        for &(distance, op) in fringe.iter().rev() {
            // Two ops at most this far from the centre are at most twice as far from each other.
            if 2 * distance <= best {
                break;
            }
            best = best.max(search.run(&neighbours, op));
        }
    }
    u64::from(best)
}

/// An op in the middle of a long path, and the path's length: from any op to the farthest, from there to the farthest again.
fn centre(neighbours: &Neighbours, search: &mut Search, start: u32) -> (u32, u32) {
    search.run(neighbours, start);
    let (end, _) = search.farthest();
    let length = search.run(neighbours, end);
    let (mut at, mut distance) = search.farthest();
    while distance > length / 2 {
        let is_nearer = |&&other: &&u32| search.distance[other as usize] < distance;
        match neighbours.at(at).iter().find(is_nearer) {
            Some(&other) => at = other,
            None => break,
        }
        distance -= 1;
    }
    (at, length)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use shardgraph_costgraph::generate::{RandomGraph, Synthetic, synthetic};
    use shardgraph_costgraph::{GraphBuilder, OpSpec, TensorSpec};
    use shardgraph_costgraph_io::{ReadOptions, read_graphs};

    use super::*;

    /// Floyd and Warshall, so simple that it is plainly right.
    fn naive_diameter(graph: &Graph) -> u64 {
        let n = graph.n_ops();
        let mut distance = vec![vec![u64::from(UNSEEN); n]; n];
        for (op, row) in distance.iter_mut().enumerate() {
            row[op] = 0;
        }
        for tensor in 0..graph.n_tensors() as u32 {
            let a = graph.producer(tensor) as usize;
            for &b in graph.consumers(tensor) {
                distance[a][b as usize] = 1;
                distance[b as usize][a] = 1;
            }
        }
        for via in 0..n {
            for a in 0..n {
                for b in 0..n {
                    let path = distance[a][via] + distance[via][b];
                    distance[a][b] = distance[a][b].min(path);
                }
            }
        }
        let all = distance.into_iter().flatten();
        all.filter(|&d| d < u64::from(UNSEEN)).max().unwrap_or(0)
    }

    #[test]
    fn diameters_are_those_of_floyd_and_warshall() {
        let recipe = Synthetic {
            models: vec![
                RandomGraph::ErdosRenyi { p: 0.06 },
                RandomGraph::WattsStrogatz { k: 2, p: 0.1 },
            ],
            min_nodes: 1,
            max_nodes: 60,
        };
        for index in 0..60 {
            let whole = synthetic(&recipe, 5, index).unwrap();
            for graph in [without_ends(&whole), whole] {
                assert_eq!(diameter(&graph), naive_diameter(&graph), "{}", graph.name());
            }
        }
    }

    /// The same graph without source and sink, so that it is long and falls apart.
    fn without_ends(graph: &Graph) -> Graph {
        let mut builder = GraphBuilder::new("parts");
        let last = graph.n_ops() as u32 - 1;
        for op in 1..last {
            builder.op(OpSpec::new(graph.op_name(op), 1));
        }
        for tensor in 0..graph.n_tensors() as u32 {
            let inner = |&op: &u32| (op > 0 && op < last).then(|| op - 1);
            let Some(producer) = inner(&graph.producer(tensor)) else {
                continue;
            };
            let consumers: Vec<u32> = graph.consumers(tensor).iter().filter_map(inner).collect();
            builder.tensor(TensorSpec::new(producer, 1, &consumers));
        }
        builder.build().unwrap()
    }

    #[test]
    fn a_fork_has_depth_and_diameter_two() {
        let mut builder = GraphBuilder::new("fork");
        for (name, cost) in [("a", 0), ("b", 5), ("c", 5)] {
            builder.op(OpSpec::new(name, cost));
        }
        builder.tensor(TensorSpec::new(0, 8, &[1, 2]));
        let statistics = GraphStatistics::of(&builder.build().unwrap());
        assert_eq!((statistics.diameter, statistics.depth), (2, 2));
        assert_eq!(statistics.n_free_ops, 1);
    }

    #[test]
    fn extremes_of_tensorflows_graphs_are_the_known_ones() {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
        let folder = Path::new(data).join("costgraphs/tf_costgraph");
        let Ok(files) = fs::read_dir(&folder) else {
            println!("SKIPPED: costgraphs/tf_costgraph is not in the data folder");
            return;
        };
        let statistics = files.map(|file| {
            let graphs = read_graphs(&file.unwrap().path(), &ReadOptions::default()).unwrap();
            let graphs = graphs.map(|imported| imported.unwrap().graph);
            graphs
                .map(|graph| GraphStatistics::of(&graph))
                .collect::<Vec<_>>()
        });
        let set = SetStatistics::of(&statistics.flatten().collect::<Vec<_>>()).unwrap();
        let extremes = (set.n_ops.max, set.diameter.max, set.depth.max);
        assert_eq!(extremes, (20833, 121, 4018));
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let spread = Spread::of(1..=10).unwrap();
        assert_eq!((spread.p10, spread.p50, spread.p90), (1, 5, 9));
        assert!((spread.mean - 5.5).abs() < 1e-12);
        assert_eq!(Spread::of(std::iter::empty()), None);
    }
}
