//! From states of graphs to a batch: what the paper calls tuples to graphs, without a copy of any graph.
//!
//! The states of one graph are columns side by side: its rows, its degrees and its neighbours are read once for all of them.

use std::ops::{AddAssign, Range};
use std::sync::Arc;

use shardgraph_device::{Buffer, Device};
use shardgraph_graph::Graph;
use shardgraph_layers::{BatchLayout, Group, Propagation, RowShard};
use shardgraph_layers::{Path, StateBatch};

use shardgraph_shard::Partition;

use super::counted::{WholeGroup, neighbor_degrees as neighbor_degrees_on};
use super::grid::Grid;
use crate::problem::Episode;
use crate::rows::{StateRows, without_rows};
use crate::{AdjacencyScale, Error};

/// How states become batches.
pub(super) struct BatchRules {
    pub(super) scale: AdjacencyScale,
    pub(super) path: Path,
    pub(super) n_layers: usize,
    pub(super) grid: Grid,
    /// The most states of one graph that are columns of one product.
    pub(super) states_per_product: usize,
    /// Whether neighbours' degrees are counted by the device that evaluates the batch ([`Plan::count_on`]).
    pub(super) counts_on_device: bool,
}

impl BatchRules {
    /// Whether the path leaves neighbour sums to be made.
    pub(super) fn needs_sums(&self) -> bool {
        needs_sums(self.path, self.n_layers)
    }
}

/// Whether a path leaves neighbour sums to be made.
pub(super) fn needs_sums(path: Path, n_layers: usize) -> bool {
    match path {
        Path::Collapsed => n_layers > 2,
        _ => true,
    }
}

/// Which states stand side by side, and which ranks have them.
pub(super) struct Plan {
    groups: Vec<PlannedGroup>,
    layout: Arc<BatchLayout>,
    /// For each given state its group and its number in the group.
    places: Vec<(usize, usize)>,
}

/// A graph of a batch, and how it is cut.
pub(super) struct Cut<'p> {
    pub(super) graph_id: u64,
    pub(super) graph: &'p Graph,
    pub(super) partition: &'p Partition,
    pub(super) rank: u32,
    /// Whether this rank's row of the grid has it. There the rank's part is the same in every batch.
    pub(super) is_own: bool,
}

/// States of one graph.
struct PlannedGroup {
    graph_id: u64,
    graph: Arc<Graph>,
    /// Their numbers among the given ones.
    states: Vec<usize>,
    /// Whether this rank's row of the grid has them.
    is_own: bool,
}

impl Plan {
    /// States of the same graph side by side, graphs in order of first sight.
    pub(super) fn new(states: &[(u64, Arc<Graph>)], rules: &BatchRules) -> Plan {
        let mut groups: Vec<PlannedGroup> = Vec::new();
        let mut places = Vec::with_capacity(states.len());
        for (i, (graph_id, graph)) in states.iter().enumerate() {
            let has_room = |g: &PlannedGroup| {
                g.graph_id == *graph_id && g.states.len() < rules.states_per_product
            };
            let at = groups.iter().position(has_room).unwrap_or_else(|| {
                groups.push(PlannedGroup {
                    graph_id: *graph_id,
                    graph: Arc::clone(graph),
                    states: Vec::new(),
                    is_own: false,
                });
                groups.len() - 1
            });
            places.push((at, groups[at].states.len()));
            groups[at].states.push(i);
        }
        let costs: Vec<u64> = groups.iter().map(PlannedGroup::cost).collect();
        let rows = rules.grid.share(&costs);
        for (group, &row) in groups.iter_mut().zip(&rows) {
            group.is_own = row == rules.grid.own_row();
        }
        let layout_group = |(group, &row): (&PlannedGroup, &u32)| Group {
            partition: rules.grid.partition(group.graph.n_nodes(), row),
            n_states: group.states.len(),
        };
        let layout_groups = groups.iter().zip(&rows).map(layout_group).collect();
        Plan {
            groups,
            layout: Arc::new(BatchLayout::new(layout_groups, rules.grid.rank())),
            places,
        }
    }

    /// The given states that this rank has rows of: it needs their episodes.
    pub(super) fn own_states(&self) -> impl Iterator<Item = usize> + '_ {
        let own = self.groups.iter().filter(|group| group.is_own);
        own.flat_map(|group| group.states.iter().copied())
    }

    /// The scaled sums of neighbours' degrees of all rows, counted on a device; `shards` are those of [`Plan::cuts`], and this rank has
    /// all rows of its groups.
    pub(super) fn count_on(
        &self,
        device: &Device,
        episodes: &[Option<&Episode>],
        shards: &[RowShard],
        rules: &BatchRules,
    ) -> Result<Arc<Buffer>, Error> {
        let mut whole = Vec::new();
        for (i, (group, shard)) in self.groups.iter().zip(shards).enumerate() {
            if group.is_own {
                whole.push(WholeGroup {
                    states: state_rows(group, episodes, rules)?,
                    shard: shard.clone(),
                    first_row: self.layout.group_rows(i).start,
                });
            }
        }
        neighbor_degrees_on(device, &whole, self.layout.n_rows())
    }

    /// The number of states of each group.
    #[cfg(test)]
    pub(super) fn states_of_groups(&self) -> impl Iterator<Item = usize> + '_ {
        self.groups.iter().map(|group| group.states.len())
    }

    /// What is cut for each group.
    pub(super) fn cuts(&self) -> impl Iterator<Item = Cut<'_>> + '_ {
        let groups = self.groups.iter().zip(self.layout.groups());
        groups.map(|(group, laid_out)| Cut {
            graph_id: group.graph_id,
            graph: &group.graph,
            partition: &laid_out.partition,
            rank: self.layout.rank(),
            is_own: group.is_own,
        })
    }

    /// The row of a node in given state `i`, if this rank has it.
    pub(super) fn row(&self, i: usize, node: u32) -> Option<usize> {
        let (group, state) = self.places[i];
        self.layout.row(group, node, state)
    }

    /// Where given state `i` stands among the states of the batch.
    pub(super) fn state(&self, i: usize) -> usize {
        let (group, state) = self.places[i];
        self.layout.group_states(group).start + state
    }

    /// The node of each own row.
    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.layout.groups().iter().flat_map(|group| {
            let own = group.partition.range(self.layout.rank());
            own.flat_map(|node| std::iter::repeat_n(node, group.n_states))
        })
    }
}

impl PlannedGroup {
    /// Entries read and rows multiplied, in entries.
    fn cost(&self) -> u64 {
        let a_state = 2 * self.graph.n_edges() + 8 * u64::from(self.graph.n_nodes());
        a_state * self.states.len() as u64
    }
}

/// A batch on one rank.
pub(super) struct Batch {
    pub(super) states: StateBatch,
    /// For each own row whether its node is a candidate.
    pub(super) candidate: Vec<bool>,
}

impl Batch {
    /// `episodes` has those of [`Plan::own_states`]; `shards` are those of [`Plan::cuts`], where the path makes neighbour
    /// sums.
    pub(super) fn new(
        plan: &Plan,
        episodes: &[Option<&Episode>],
        shards: Option<Vec<RowShard>>,
        rules: &BatchRules,
    ) -> Result<Self, Error> {
        let (layout, counts_on_device) = (&plan.layout, rules.counts_on_device);
        let mut batch = Self {
            states: without_rows(layout),
            candidate: Vec::with_capacity(layout.n_rows()),
        };
        let (mut keep, mut scale) = (Vec::new(), Vec::new());
        for (group, laid_out) in plan.groups.iter().zip(layout.groups()) {
            let n_keep = match shards {
                Some(_) => group.graph.n_nodes() as usize * group.states.len(),
                None => 0,
            };
            if !group.is_own {
                // Other ranks make these sums.
                keep.push(vec![0.0; n_keep]);
                scale.extend(group.states.iter().map(|_| 1.0));
                continue;
            }
            let rows = state_rows(group, episodes, rules)?;
            let own = laid_out.partition.range(layout.rank());
            batch.push_rows(&rows, own, counts_on_device);
            keep.push(match shards {
                Some(_) => presence(&rows, n_keep),
                None => Vec::new(),
            });
            scale.extend(rows.iter().map(|state| state.scale));
        }
        if counts_on_device {
            batch.states.neighbor_degree = Vec::new(); // zeros: see `Plan::count_on`
        }
        if let Some(shards) = shards {
            let propagation = Propagation::new(Arc::clone(layout), shards, keep, scale)?;
            batch.states.propagation = Some(Arc::new(propagation));
        }
        Ok(batch)
    }

    fn push_rows(&mut self, states: &[StateRows<'_>], own: Range<u32>, counts_on_device: bool) {
        let is_collapsed = states.iter().all(|state| state.path == Path::Collapsed);
        let d2 = match is_collapsed && !counts_on_device {
            true => neighbor_degrees(states, own.clone()),
            false => Vec::new(),
        };
        let mut d2 = d2.into_iter();
        for node in own {
            for state in states {
                state.push_with(node, d2.next().unwrap_or(0), &mut self.states);
                self.candidate.push(state.episode.is_candidate(node));
            }
        }
    }
}

fn state_rows<'a>(
    group: &'a PlannedGroup,
    episodes: &[Option<&'a Episode>],
    rules: &BatchRules,
) -> Result<Vec<StateRows<'a>>, Error> {
    let of_state = |&state: &usize| {
        let missing = || Error::internal("a state of a batch has no episode");
        let episode = episodes[state].ok_or_else(missing)?;
        Ok(StateRows::new(
            &group.graph,
            episode,
            rules.scale,
            rules.path,
        ))
    };
    group.states.iter().map(of_state).collect()
}

/// `[n_nodes, n_states]`: 1 where a node is present, else 0.
fn presence(states: &[StateRows<'_>], len: usize) -> Vec<f32> {
    let mut keep = vec![0.0; len];
    for (b, state) in states.iter().enumerate() {
        let column = keep.iter_mut().skip(b).step_by(states.len());
        for (slot, present) in column.zip(state.keep()) {
            *slot = present;
        }
    }
    keep
}

/// Columns that are summed in one pass over the lists: with degrees of 16 bits, one vector register of any x86-64.
const LANES: usize = 8;

/// The largest degree that is added in 16 bits: so small that 16 and more add up before they have to be widened.
const MOST_OF_16_BITS: u32 = 0x0fff;

/// `[own nodes, n_states]`: the sum of degrees over present neighbours, 0 for a node that is not present.
///
/// # Complexity
/// One pass over the lists of the own nodes for each eight states, with a gather of 16 B an entry; of 32 B where a degree is above 4095.
fn neighbor_degrees(states: &[StateRows<'_>], own: Range<u32>) -> Vec<u64> {
    let n_states = states.len();
    let mut sums = vec![0; own.len() * n_states];
    for (chunk_idx, chunk) in states.chunks(LANES).enumerate() {
        let sums = sums.get_mut(chunk_idx * LANES..).unwrap_or_default();
        if chunk.len() <= 2 {
            for (node, sums) in own.clone().zip(sums.chunks_mut(n_states)) {
                let d2 = |state: &StateRows<'_>| match state.residual.is_present(node) {
                    true => state.d2(node),
                    false => 0,
                };
                chunk
                    .iter()
                    .zip(sums)
                    .for_each(|(state, sum)| *sum = d2(state));
            }
            continue;
        }
        let own = own.clone();
        match largest_degree(chunk) {
            0..=MOST_OF_16_BITS => {
                sum_chunk(chunk, &interleaved::<u16>(chunk), own, sums, n_states);
            }
            _ => sum_chunk(chunk, &interleaved::<u32>(chunk), own, sums, n_states),
        }
    }
    sums
}

/// The sums of up to [`LANES`] states, the first in the first of each `n_states` numbers.
fn sum_chunk<T: Degree>(
    chunk: &[StateRows<'_>],
    lanes: &[[T; LANES]],
    own: Range<u32>,
    sums: &mut [u64],
    n_states: usize,
) {
    let n_safe = (T::MOST / largest_degree(chunk).max(1)) as usize;
    for (node, sums) in own.zip(sums.chunks_mut(n_states)) {
        let total = sum_lanes(lanes, chunk[0].graph.neighbors(node), n_safe);
        for ((state, sum), total) in chunk.iter().zip(sums).zip(total) {
            *sum = if state.residual.is_present(node) {
                total
            } else {
                0
            };
        }
    }
}

/// A number that degrees are added in.
trait Degree: Copy + Default + AddAssign + Into<u64> {
    /// The largest.
    const MOST: u32;

    /// The same number, where it is at most [`Degree::MOST`].
    fn of(degree: u32) -> Self;
}

impl Degree for u16 {
    const MOST: u32 = u16::MAX as u32;

    fn of(degree: u32) -> Self {
        debug_assert!(degree <= Self::MOST);
        degree as u16
    }
}

impl Degree for u32 {
    const MOST: u32 = u32::MAX;

    fn of(degree: u32) -> Self {
        degree
    }
}

/// Sums of rows of `lanes`; `n_safe` of its numbers add up within T.
fn sum_lanes<T: Degree>(lanes: &[[T; LANES]], neighbors: &[u32], n_safe: usize) -> [u64; LANES] {
    let mut total = [0; LANES];
    for part in neighbors.chunks(n_safe) {
        let mut sum = [T::default(); LANES];
        for &u in part {
            let degrees = lanes[u as usize];
            for lane in 0..LANES {
                sum[lane] += degrees[lane];
            }
        }
        for (total, sum) in total.iter_mut().zip(sum) {
            *total += sum.into();
        }
    }
    total
}

fn largest_degree(states: &[StateRows<'_>]) -> u32 {
    let degrees = states.iter().flat_map(|state| state.residual.degrees());
    degrees.copied().max().unwrap_or(0)
}

/// The degrees of all nodes, the states side by side.
fn interleaved<T: Degree>(states: &[StateRows<'_>]) -> Vec<[T; LANES]> {
    let n_nodes = states.first().map_or(0, |state| state.graph.n_nodes());
    let mut lanes = vec![[T::default(); LANES]; n_nodes as usize];
    for (b, state) in states.iter().enumerate() {
        for (lane, &degree) in lanes.iter_mut().zip(state.residual.degrees()) {
            lane[b] = T::of(degree);
        }
    }
    lanes
}
