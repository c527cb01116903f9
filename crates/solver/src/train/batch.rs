//! From (graph, picks) pairs to a batch of states: what the paper calls tuples to graphs, without a copy of any graph.

use std::sync::Arc;

use shardgraph_graph::Graph;
use shardgraph_layers::autodiff::{BatchLayout, Group, Propagation, RowShard};
use shardgraph_layers::{Path, StateBatch};
use shardgraph_shard::Partition;

use crate::problem::{Episode, Problem};
use crate::rows::{StateRows, without_rows};
use crate::{AdjacencyScale, Error};

/// A state as a replay memory remembers it.
pub(super) struct StateRef<'a> {
    pub(super) graph_id: u64,
    pub(super) graph: Arc<Graph>,
    /// The rank's rows of the graph; needed where the path makes neighbour sums.
    pub(super) shard: Option<RowShard>,
    pub(super) picks: &'a [u32],
}

/// A batch on one rank, with the place of each state in it.
pub(super) struct Batch {
    pub(super) states: StateBatch,
    /// For each given state its group and its number in the group.
    places: Vec<(usize, usize)>,
    /// For each own row whether its node is a candidate.
    pub(super) candidate: Vec<bool>,
}

/// How states become batches.
pub(super) struct BatchRules {
    pub(super) problem: &'static dyn Problem,
    pub(super) scale: AdjacencyScale,
    pub(super) path: Path,
    pub(super) n_layers: usize,
    pub(super) rank: u32,
    pub(super) n_ranks: u32,
}

impl BatchRules {
    /// Whether the path leaves neighbour sums to be made.
    pub(super) fn needs_sums(&self) -> bool {
        match self.path {
            Path::Collapsed => self.n_layers > 2,
            _ => true,
        }
    }
}

/// The states of one graph.
struct GraphStates {
    graph_id: u64,
    graph: Arc<Graph>,
    shard: Option<RowShard>,
    states: Vec<Box<dyn Episode>>,
}

impl GraphStates {
    fn rows<'a>(&'a self, rules: &BatchRules) -> Vec<StateRows<'a>> {
        let of_state = |episode: &'a dyn Episode| StateRows {
            graph: &self.graph,
            episode,
            scale: episode.scale(rules.scale),
            path: rules.path,
        };
        let states = self.states.iter();
        states.map(|episode| of_state(&**episode)).collect()
    }
}

impl Batch {
    pub(super) fn new(refs: &[StateRef<'_>], rules: &BatchRules) -> Result<Self, Error> {
        let (groups, places) = group_by_graph(refs, rules)?;
        let layout_group = |g: &GraphStates| Group {
            partition: Partition::by_rows(g.graph.n_nodes(), rules.n_ranks),
            n_states: g.states.len(),
        };
        let layout_groups = groups.iter().map(layout_group).collect();
        let layout = Arc::new(BatchLayout::new(layout_groups, rules.rank));
        let mut batch = Self {
            states: without_rows(&layout),
            places,
            candidate: Vec::with_capacity(layout.n_rows()),
        };
        for (i, group) in groups.iter().enumerate() {
            let rows = group.rows(rules);
            for node in layout.groups()[i].partition.range(rules.rank) {
                for state in &rows {
                    state.push(node, &mut batch.states);
                    batch.candidate.push(state.episode.is_candidate(node));
                }
            }
        }
        if rules.needs_sums() {
            batch.states.propagation = Some(Arc::new(propagation(&groups, &layout, rules)?));
        }
        Ok(batch)
    }

    /// The row of a node in given state `i`, if this rank has it.
    pub(super) fn row(&self, i: usize, node: u32) -> Option<usize> {
        let (group, state) = self.places[i];
        self.states.layout.row(group, node, state)
    }

    /// Where given state `i` stands among the states of the batch.
    pub(super) fn state(&self, i: usize) -> usize {
        let (group, state) = self.places[i];
        self.states.layout.group_states(group).start + state
    }
}

/// The graphs of a batch, and for each given state its graph and its number there.
type Grouped = (Vec<GraphStates>, Vec<(usize, usize)>);

/// States of the same graph side by side, graphs in order of first sight.
fn group_by_graph(refs: &[StateRef<'_>], rules: &BatchRules) -> Result<Grouped, Error> {
    let mut groups: Vec<GraphStates> = Vec::new();
    let mut places = Vec::with_capacity(refs.len());
    for state in refs {
        let known = groups.iter().position(|g| g.graph_id == state.graph_id);
        let at = known.unwrap_or_else(|| {
            groups.push(GraphStates {
                graph_id: state.graph_id,
                graph: Arc::clone(&state.graph),
                shard: state.shard.clone(),
                states: Vec::new(),
            });
            groups.len() - 1
        });
        let mut episode = rules.problem.begin(Arc::clone(&state.graph));
        for &pick in state.picks {
            episode.pick(pick)?;
        }
        places.push((at, groups[at].states.len()));
        groups[at].states.push(episode);
    }
    Ok((groups, places))
}

fn propagation(
    groups: &[GraphStates],
    layout: &Arc<BatchLayout>,
    rules: &BatchRules,
) -> Result<Propagation, Error> {
    let (mut shards, mut keep, mut scale) = (Vec::new(), Vec::new(), Vec::new());
    for group in groups {
        let missing = || Error::internal("a state of a batch has no shard");
        shards.push(group.shard.clone().ok_or_else(missing)?);
        let is_present = |node: u32| {
            let states = group.states.iter();
            states.map(move |state| f32::from(u8::from(state.is_present(node))))
        };
        let nodes = 0..group.graph.n_nodes();
        keep.push(nodes.flat_map(is_present).collect());
        scale.extend(group.rows(rules).iter().map(|state| state.scale));
    }
    Ok(Propagation::new(Arc::clone(layout), shards, keep, scale)?)
}
