//! The residual graph over adjacency lists.

use std::ops::Range;

use shardgraph_collectives::Op;
use shardgraph_graph::Graph;
use shardgraph_layers::ScoreTable;
use shardgraph_shard::{CsrShard, Partition};

use super::degree_order::DegreeOrder;
use super::degrees::Degrees;
use super::ranking::{NeighborDegrees, Ranking, Scored};
use super::{Counts, Ranks, Residual};
use crate::Error;
use crate::select::TopD;

/// For each node its neighbours among the own nodes: what increments read.
pub(crate) enum NeighborLists<'a> {
    /// A world of one rank owns every node: the graph's own lists.
    Whole(&'a Graph),
    /// All rows restricted to own columns ([`CsrShard::by_columns`]), and the own nodes' degrees.
    Columns(CsrShard, Vec<u32>),
}

impl<'a> NeighborLists<'a> {
    pub(crate) fn cut(graph: &'a Graph, partition: &Partition, rank: u32) -> Self {
        if partition.n_ranks() == 1 {
            return Self::Whole(graph);
        }
        let own = partition.range(rank);
        let degrees = own.clone().map(|u| graph.degree(u)).collect();
        Self::Columns(CsrShard::by_columns(graph, own), degrees)
    }

    fn own_degrees(&self) -> Vec<u32> {
        match self {
            Self::Whole(graph) => (0..graph.n_nodes()).map(|u| graph.degree(u)).collect(),
            Self::Columns(_, degrees) => degrees.clone(),
        }
    }

    #[inline]
    fn of(&self, node: u32) -> &[u32] {
        match self {
            Self::Whole(graph) => graph.neighbors(node),
            Self::Columns(shard, _) => shard.row(node),
        }
    }
}

/// Degrees of all nodes and neighbour degrees of own nodes, over lists.
pub(crate) struct ListsResidual<'a> {
    lists: NeighborLists<'a>,
    own: Range<u32>,
    degrees: Degrees,
    /// By own node. Empty where it is not counted.
    d2: NeighborDegrees,
    order: DegreeOrder,
    ranking: Ranking,
    neighbors: Vec<u32>,
    /// The lists of `neighbors`, one after the other.
    second: Vec<u32>,
}

impl<'a> ListsResidual<'a> {
    pub(crate) fn new(
        lists: NeighborLists<'a>,
        partition: &Partition,
        counts: Counts,
        ranks: &mut Ranks<'_>,
    ) -> Result<Self, Error> {
        let own = partition.range(ranks.comm.rank());
        let degrees = gather_degrees(lists.own_degrees(), partition, ranks)?;
        let mut d2 = Vec::new();
        if counts == Counts::WithNeighborDegrees {
            d2.resize(own.len(), 0);
            for (u, &degree) in (0..).zip(&degrees) {
                for &w in lists.of(u) {
                    d2[(w - own.start) as usize] += u64::from(degree);
                }
            }
        }
        Ok(Self {
            lists,
            order: DegreeOrder::new(&degrees[own.start as usize..own.end as usize]),
            degrees: Degrees::new(degrees),
            d2: NeighborDegrees::new(d2),
            ranking: Ranking::default(),
            own,
            neighbors: Vec::new(),
            second: Vec::new(),
        })
    }

    /// The residual neighbours of each pick that are own, and how many for each pick.
    fn own_neighbors(&self, picks: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let (mut counts, mut nodes) = (Vec::new(), Vec::new());
        for &pick in picks {
            let before = nodes.len();
            let residual = |&&u: &&u32| self.degrees.get(u as usize) > 0;
            nodes.extend(self.lists.of(pick).iter().filter(residual));
            counts.push((nodes.len() - before) as u32);
        }
        (counts, nodes)
    }

    fn remove_one(&mut self, pick: u32) {
        let pick_degree = self.degrees.get(pick as usize);
        self.degrees.clear(pick as usize);
        if self.own.contains(&pick) {
            let local = pick - self.own.start;
            (1..=pick_degree)
                .rev()
                .for_each(|degree| self.order.fall(local, degree));
            self.ranking.drop_node(local, &mut self.d2);
        }
        let counts_d2 = !self.d2.is_empty();
        // Copied first, so that the reads of lists far apart do not wait for the sums.
        self.second.clear();
        if counts_d2 {
            for &u in &self.neighbors {
                self.second.extend_from_slice(self.lists.of(u));
            }
        }
        for &u in &self.neighbors {
            if self.own.contains(&u) {
                let local = u - self.own.start;
                self.order.fall(local, self.degrees.get(u as usize));
                if counts_d2 {
                    self.d2.lower(local, u64::from(pick_degree));
                }
            }
            self.degrees.decrement(u as usize);
        }
        for &w in &self.second {
            self.d2.lower(w - self.own.start, 1);
        }
    }
}

/// Own degrees of every rank, in node order.
pub(crate) fn gather_degrees(
    own: Vec<u32>,
    partition: &Partition,
    ranks: &mut Ranks<'_>,
) -> Result<Vec<u32>, Error> {
    if ranks.comm.size() == 1 {
        return Ok(own);
    }
    let mut all = vec![0u32; partition.n_rows() as usize];
    let op = Op::AllGatherV {
        send: (&own[..]).into(),
        recv: (&mut all[..]).into(),
        counts: &partition.counts(),
    };
    ranks.comm.run(op, ranks.timeout)?;
    Ok(all)
}

/// Lists of every rank for every pick: `(counts[rank * n_picks + pick], nodes)`, rank by rank.
fn gather_lists(
    own: (Vec<u32>, Vec<u32>),
    ranks: &mut Ranks<'_>,
) -> Result<(Vec<u32>, Vec<u32>), Error> {
    let (own_counts, own_nodes) = own;
    let size = ranks.comm.size() as usize;
    if size == 1 {
        return Ok((own_counts, own_nodes));
    }
    let n_picks = own_counts.len();
    let mut counts = vec![0u32; n_picks * size];
    let op = Op::AllGather {
        send: (&own_counts[..]).into(),
        recv: (&mut counts[..]).into(),
    };
    ranks.comm.run(op, ranks.timeout)?;
    let of_rank = |rank: &[u32]| rank.iter().map(|&count| count as usize).sum();
    let per_rank: Vec<usize> = counts.chunks(n_picks).map(of_rank).collect();
    let mut nodes = vec![0u32; per_rank.iter().sum()];
    let op = Op::AllGatherV {
        send: (&own_nodes[..]).into(),
        recv: (&mut nodes[..]).into(),
        counts: &per_rank,
    };
    ranks.comm.run(op, ranks.timeout)?;
    Ok((counts, nodes))
}

impl Residual for ListsResidual<'_> {
    fn n_candidates(&self) -> u32 {
        self.degrees.n_candidates()
    }

    fn max_degree(&self) -> u32 {
        self.degrees.max()
    }

    fn for_each_own(&self, f: &mut dyn FnMut(u32, u32, u64)) {
        let counts_d2 = !self.d2.is_empty();
        for (local, node) in (0..).zip(self.own.clone()) {
            let degree = self.degrees.get(node as usize);
            if degree > 0 {
                let d2 = if counts_d2 { self.d2.get(local) } else { 0 };
                f(node, degree, d2);
            }
        }
    }

    fn offer(&mut self, table: &ScoreTable, scale: f32, top: &mut TopD) {
        let scored = Scored {
            degrees: &self.degrees,
            order: &self.order,
            first: self.own.start,
            table,
            scale,
        };
        self.ranking.offer(&scored, &mut self.d2, top);
    }

    fn remove(
        &mut self,
        picks: &[u32],
        keep_isolated: bool,
        ranks: &mut Ranks<'_>,
        cover: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let (counts, nodes) = gather_lists(self.own_neighbors(picks), ranks)?;
        let starts: Vec<usize> = counts
            .iter()
            .scan(0, |end, &count| {
                let start = *end;
                *end += count as usize;
                Some(start)
            })
            .collect();
        for (i, &pick) in picks.iter().enumerate() {
            if self.degrees.get(pick as usize) == 0 && !keep_isolated {
                continue;
            }
            self.neighbors.clear();
            for list in (i..counts.len()).step_by(picks.len()) {
                let own = &nodes[starts[list]..][..counts[list] as usize];
                // An earlier pick of this step, or a node that it left without an edge, is a neighbour no more.
                let residual = |&&u: &&u32| self.degrees.get(u as usize) > 0;
                self.neighbors.extend(own.iter().filter(residual));
            }
            self.remove_one(pick);
            cover.push(pick);
        }
        Ok(())
    }
}
