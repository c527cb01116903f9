//! From (graph, picks) pairs to a batch of states: what the paper calls tuples to graphs, without a copy of any graph.

use std::sync::Arc;

use shardgraph_environments::PrefixState;
use shardgraph_graph::Graph;
use shardgraph_layers::autodiff::{BatchLayout, Group, Propagation, RowShard};
use shardgraph_layers::{Path, StateBatch};
use shardgraph_shard::Partition;

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
    states: Vec<PrefixState>,
}

impl Batch {
    pub(super) fn new(refs: &[StateRef<'_>], rules: &BatchRules) -> Result<Self, Error> {
        let (groups, places) = group_by_graph(refs)?;
        let layout_group = |g: &GraphStates| Group {
            partition: Partition::by_rows(g.graph.n_nodes(), rules.n_ranks),
            n_states: g.states.len(),
        };
        let layout_groups = groups.iter().map(layout_group).collect();
        let layout = Arc::new(BatchLayout::new(layout_groups, rules.rank));
        let mut batch = Self {
            states: StateBatch {
                layout: Arc::clone(&layout),
                node: Vec::with_capacity(layout.n_rows()),
                edge: Vec::with_capacity(2 * layout.n_rows()),
                neighbor_degree: Vec::with_capacity(layout.n_rows()),
                propagation: None,
            },
            places,
            candidate: Vec::with_capacity(layout.n_rows()),
        };
        for (i, group) in groups.iter().enumerate() {
            let own = layout.groups()[i].partition.range(rules.rank);
            for node in own {
                batch.push_node(group, node as usize, rules.scale);
            }
        }
        if rules.needs_sums() {
            batch.states.propagation = Some(Arc::new(propagation(&groups, &layout, rules)?));
        }
        Ok(batch)
    }

    fn push_node(&mut self, group: &GraphStates, node: usize, scale: AdjacencyScale) {
        for state in &group.states {
            let scale = scale.of(state.max_degree);
            let picked = state.in_cover[node];
            self.states.node.push(f32::from(u8::from(picked)));
            let degree = state.degrees[node] as f32 * scale;
            self.states.edge.extend([degree, 0.0]);
            let d2 = state.d2[node] as f32 * (scale * scale);
            self.states.neighbor_degree.push(d2);
            self.candidate.push(state.degrees[node] > 0);
        }
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
fn group_by_graph(refs: &[StateRef<'_>]) -> Result<Grouped, Error> {
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
        let mut prefix = PrefixState::default();
        prefix.replay(&state.graph, state.picks)?;
        places.push((at, groups[at].states.len()));
        groups[at].states.push(prefix);
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
        let n_nodes = group.graph.n_nodes() as usize;
        let present = (0..n_nodes).flat_map(|node| {
            let states = group.states.iter();
            states.map(move |state| f32::from(u8::from(!state.in_cover[node])))
        });
        keep.push(present.collect());
        scale.extend(group.states.iter().map(|s| rules.scale.of(s.max_degree)));
    }
    Ok(Propagation::new(Arc::clone(layout), shards, keep, scale)?)
}
