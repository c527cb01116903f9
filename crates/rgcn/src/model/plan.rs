//! Who sends what to whom in each layer, grouped by source and relation; and which nodes each layer needs.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::partition::{CostModel, Load, Loads, Method, Pair, Pairs, Partition};

use super::blocks::Blocks;
use super::csr::Csr;
use super::footprint::WorkExtents;
use super::incoming::Incoming;
use super::nodes::NodeSet;
use super::normaliser::normalisers;
use super::tiles::refill;
use crate::config::Normaliser;
use crate::{Error, ErrorKind, RelationalGraph};

/// One message: to which row of the output, times what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Send {
    pub(crate) target: u32,
    pub(crate) weight: f32,
}

/// A message's relation, its target's place and its weight.
pub(super) type Message = (u32, u32, f32);

/// The messages of a range of sources in one layer.
///
/// A pair is a source and a relation that occur together: all its messages carry the same vector.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerPlan {
    /// For each source, the first of its pairs; one more at the end.
    pub(crate) pair_starts: Vec<u32>,
    /// For each pair, its relation.
    pub(crate) relations: Vec<u32>,
    /// For each pair, the first of its messages; one more at the end.
    pub(crate) send_starts: Vec<u32>,
    /// The messages.
    pub(crate) sends: Vec<Send>,
}

impl LayerPlan {
    pub(crate) fn n_pairs(&self) -> usize {
        self.relations.len()
    }

    /// The pairs of a source, counted from the first of the range.
    pub(crate) fn pairs(&self, source: usize) -> Range<usize> {
        self.pair_starts[source] as usize..self.pair_starts[source + 1] as usize
    }

    /// The messages of a pair.
    pub(crate) fn sends(&self, pair: usize) -> &[Send] {
        &self.sends[self.send_starts[pair] as usize..self.send_starts[pair + 1] as usize]
    }

    /// Makes `other` the plan of some of the sources, counted from the first of them.
    pub(crate) fn copy_to(&self, sources: Range<usize>, other: &mut LayerPlan) {
        let pair_starts = &self.pair_starts[sources.start..=sources.end];
        let pairs = pair_starts[0] as usize..pair_starts[sources.len()] as usize;
        let send_starts = &self.send_starts[pairs.start..=pairs.end];
        let sends = send_starts[0] as usize..send_starts[pairs.len()] as usize;
        let counted_from = |starts: &[u32], from: &mut Vec<u32>| {
            refill(from, starts);
            from.iter_mut().for_each(|start| *start -= starts[0]);
        };
        counted_from(pair_starts, &mut other.pair_starts);
        counted_from(send_starts, &mut other.send_starts);
        refill(&mut other.relations, &self.relations[pairs]);
        refill(&mut other.sends, &self.sends[sends]);
    }

    /// The relations of some sources' pairs, each once.
    pub(crate) fn relations_of(&self, sources: Range<usize>) -> Vec<u32> {
        let pairs =
            self.pair_starts[sources.start] as usize..self.pair_starts[sources.end] as usize;
        let relations = &self.relations[pairs];
        let n_relations = relations.iter().max().map_or(0, |&last| last as usize + 1);
        let mut occurs = vec![false; n_relations];
        for &relation in relations {
            occurs[relation as usize] = true;
        }
        let relations = (0u32..).zip(occurs).filter(|(_, occurs)| *occurs);
        relations.map(|(relation, _)| relation).collect()
    }

    /// Adds the gradients of the rows that a pair's message went to, times their weights, to the message's.
    pub(crate) fn gather_pair(&self, pair: usize, made: &Incoming<'_>, gradient: &mut [f32]) {
        for send in self.sends(pair) {
            let Some(made) = made.row(send.target) else {
                continue;
            };
            for (sum, value) in gradient.iter_mut().zip(made) {
                *sum += send.weight * value;
            }
        }
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        let n_words = self.pair_starts.len() + self.relations.len() + self.send_starts.len();
        4 * n_words as u64 + 8 * self.sends.len() as u64
    }
}

/// What all ranks know of the job's graph: normalisers, the nodes of each layer, blocks and how they are dealt.
pub(crate) struct Layout<'a> {
    pub(crate) graph: &'a RelationalGraph,
    pub(crate) self_loop: bool,
    /// The nodes that layer l reads, and at the end those that the last one makes.
    pub(crate) sets: Vec<Arc<NodeSet>>,
    pub(crate) blocks: Blocks,
    /// The blocks whose nodes each rank owns: their rows, their units, and what is summed for them.
    pub(crate) dealt: Vec<Range<usize>>,
    /// Which rank sends what; none for one rank.
    pub(super) partition: Option<Arc<Partition>>,
    /// What each rank has to do in the first layer, where there are several.
    pub(crate) loads: Option<Arc<Loads>>,
    /// What a rank's device may hold; none: everything.
    pub(crate) budget: Option<u64>,
    /// Whether W_r of the first layer is built for all relations and nodes.
    pub(crate) builds_weights: bool,
    /// Ranks with neither a message nor a node.
    pub(crate) n_idle_ranks: usize,
    /// What each rank works on, once somebody has asked.
    pub(super) extents: OnceLock<Vec<Vec<WorkExtents>>>,
    normalisers: Arc<Vec<f32>>,
    by_source: Arc<Csr>,
}

/// How much there is of what, besides the graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) n_layers: usize,
    pub(crate) n_ranks: usize,
    pub(crate) max_blocks: u32,
    pub(crate) normaliser: Normaliser,
    pub(crate) method: Method,
    pub(crate) model: CostModel,
}

/// Refuses graphs of more messages than a plan can number.
pub(crate) fn check_size(graph: &RelationalGraph, self_loop: bool) -> Result<(), Error> {
    let n_loops = if self_loop {
        u64::from(graph.n_nodes())
    } else {
        0
    };
    let n_sends = graph.n_edges() as u64 + n_loops;
    if n_sends < u64::from(u32::MAX) && graph.n_relations() < u32::MAX {
        return Ok(());
    }
    let message = format!(
        "{n_sends} edges with self loops: expected fewer than {}",
        u32::MAX
    );
    Err(Error::new(ErrorKind::Graph, message))
}

impl<'a> Layout<'a> {
    /// The layout for `outputs`, the nodes whose last layer is wanted (absent: all of them, at every depth).
    pub(crate) fn new(
        graph: &'a RelationalGraph,
        self_loop: bool,
        outputs: Option<&[u32]>,
        extent: Extent,
    ) -> Result<Layout<'a>, Error> {
        check_size(graph, self_loop)?;
        let (sources, _, _) = graph.columns();
        let by_source = Csr::group(graph.n_nodes() as usize, sources);
        let blocks = Blocks::new(graph.n_nodes(), extent.max_blocks);
        let mut layout = Layout {
            graph,
            self_loop,
            sets: Vec::new(),
            blocks,
            dealt: Vec::new(),
            partition: None,
            loads: None,
            budget: None,
            builds_weights: false,
            n_idle_ranks: 0,
            extents: OnceLock::new(),
            normalisers: Arc::new(normalisers(graph, extent.normaliser)),
            by_source: Arc::new(by_source),
        };
        layout.find_sets(outputs, extent.n_layers);
        layout.deal(extent)?;
        Ok(layout)
    }

    /// The same graph and the same ranks for other outputs.
    pub(crate) fn with_outputs(&self, outputs: Option<&[u32]>) -> Layout<'a> {
        let mut layout = Layout {
            graph: self.graph,
            self_loop: self.self_loop,
            sets: Vec::new(),
            blocks: self.blocks,
            dealt: self.dealt.clone(),
            partition: self.partition.clone(),
            loads: self.loads.clone(),
            budget: self.budget,
            builds_weights: self.builds_weights,
            n_idle_ranks: self.n_idle_ranks,
            extents: OnceLock::new(),
            normalisers: Arc::clone(&self.normalisers),
            by_source: Arc::clone(&self.by_source),
        };
        layout.find_sets(outputs, self.n_layers());
        layout
    }

    /// Finds the nodes of each layer, from the last one back.
    fn find_sets(&mut self, outputs: Option<&[u32]>, n_layers: usize) {
        let n_nodes = self.graph.n_nodes();
        let last = match outputs {
            None => NodeSet::All(n_nodes),
            Some(nodes) => {
                let mut is_member = vec![false; n_nodes as usize];
                nodes
                    .iter()
                    .for_each(|&node| is_member[node as usize] = true);
                NodeSet::marked(&is_member)
            }
        };
        let mut sets = vec![Arc::new(last)];
        for layer in (0..n_layers).rev() {
            // In full mode every hidden layer makes all nodes; the first reads only the sources that there are.
            let set = match (outputs, layer) {
                (None, 1..) => Arc::clone(&sets[0]),
                _ => self.read_by(&sets[0]),
            };
            sets.insert(0, set);
        }
        self.sets = sets;
    }

    /// The nodes that send to some node of a set.
    fn read_by(&self, made: &Arc<NodeSet>) -> Arc<NodeSet> {
        let n_nodes = self.graph.n_nodes();
        let is_made = made.marks(n_nodes);
        let mut is_read = match self.self_loop {
            true => is_made.clone(),
            false => vec![false; n_nodes as usize],
        };
        for edge in self.graph.edges() {
            if is_made[edge.target as usize] {
                is_read[edge.source as usize] = true;
            }
        }
        let read = NodeSet::marked(&is_read);
        match read == **made {
            true => Arc::clone(made),
            false => Arc::new(read),
        }
    }

    /// Deals nodes and messages to the ranks. Only the first layer counts, which has the most messages.
    fn deal(&mut self, extent: Extent) -> Result<(), Error> {
        let n_blocks = self.blocks.count();
        if extent.n_ranks == 1 {
            self.dealt = std::iter::once(0..n_blocks).collect();
            return Ok(());
        }
        let (n_ranks, block) = (extent.n_ranks as u32, self.blocks.size());
        let pairs = self.first_pairs();
        let partition = Partition::new(&pairs, extent.method, n_ranks, extent.model, block)?;
        let border = |node: u32| node.div_ceil(block) as usize;
        let mut dealt: Vec<Range<usize>> = (0..n_ranks)
            .map(|rank| partition.own_nodes(rank))
            .map(|nodes| border(nodes.start)..border(nodes.end))
            .collect();
        // A graph without nodes has a block all the same.
        if let Some(last) = dealt.last_mut().filter(|_| self.graph.n_nodes() == 0) {
            last.end = n_blocks;
        }
        let loads = partition.loads(&pairs);
        // Of a rank's nodes those count that the layer makes: with pruning a rank may own others alone.
        let is_idle = |(load, rank): &(&Load, u32)| {
            load.n_pairs == 0 && pairs.n_made(partition.own_nodes(*rank)) == 0
        };
        self.n_idle_ranks = loads.as_slice().iter().zip(0..).filter(is_idle).count();
        self.loads = Some(Arc::new(loads));
        self.dealt = dealt;
        self.partition = Some(Arc::new(partition));
        Ok(())
    }

    /// The pairs that send in the first layer.
    fn first_pairs(&self) -> Pairs {
        let is_made = self.sets[1].marks(self.graph.n_nodes());
        let mut pairs = Vec::new();
        let mut relations = Vec::new();
        for place in 0..self.sets[0].len() {
            let source = self.sets[0].node(place);
            let edges = self.by_source.members(source as usize).iter();
            let edges = edges.map(|&edge| self.graph.edge(edge as usize));
            relations.clear();
            relations.extend(
                edges
                    .filter(|edge| is_made[edge.target as usize])
                    .map(|edge| edge.relation),
            );
            relations.sort_unstable();
            let equal = relations.chunk_by(|one, other| one == other);
            pairs.extend(equal.map(|equal| Pair {
                source,
                relation: equal[0],
                n_edges: equal.len() as u32,
            }));
        }
        Pairs::kept(self.graph, pairs, is_made)
    }

    pub(crate) fn n_layers(&self) -> usize {
        self.sets.len() - 1
    }

    pub(crate) fn n_ranks(&self) -> usize {
        self.dealt.len()
    }

    /// Relations of the model: the graph's, and the self loop as the last one.
    pub(crate) fn n_relations(&self) -> usize {
        self.graph.n_relations() as usize + usize::from(self.self_loop)
    }

    /// A rank's places in a set.
    pub(crate) fn places(&self, set: usize, rank: usize) -> Range<usize> {
        let blocks = &self.dealt[rank];
        let border = |block: usize| match block == self.blocks.count() {
            true => self.sets[set].len(),
            false => self.sets[set].places(&self.blocks.nodes(block)).start,
        };
        border(blocks.start)..border(blocks.end)
    }

    /// The places of each block of a rank in a set, counted from the rank's first.
    pub(crate) fn places_of_blocks(&self, set: usize, rank: usize) -> Vec<Range<usize>> {
        let first = self.places(set, rank).start;
        let places = |block| {
            let places = self.sets[set].places(&self.blocks.nodes(block));
            places.start - first..places.end - first
        };
        self.dealt[rank].clone().map(places).collect()
    }

    /// For each layer the first one that reads and makes the same nodes: they share plans.
    pub(super) fn twins(&self) -> Vec<usize> {
        let is_same = |a: usize, b: usize| Arc::ptr_eq(&self.sets[a], &self.sets[b]);
        let first = |layer: usize| {
            let same = |other: &usize| is_same(*other, layer) && is_same(*other + 1, layer + 1);
            (0..layer).find(same).unwrap_or(layer)
        };
        (0..self.n_layers()).map(first).collect()
    }

    /// The plans of a rank's own sources, layer by layer.
    pub(crate) fn plans(&self, rank: usize) -> Vec<Arc<LayerPlan>> {
        let mut plans: Vec<Arc<LayerPlan>> = Vec::new();
        for (layer, twin) in self.twins().into_iter().enumerate() {
            let plan = match twin < layer {
                true => Arc::clone(&plans[twin]),
                false => Arc::new(self.plan(layer, rank)),
            };
            plans.push(plan);
        }
        plans
    }

    /// The pairs of a rank's own sources in a layer, and their messages where it sends them itself.
    fn plan(&self, layer: usize, rank: usize) -> LayerPlan {
        let mut plan = LayerPlan::begin();
        self.each_source(layer, self.places(layer, rank), &mut |_, messages| {
            plan.add_source(messages);
        });
        if self.is_dealt_by_pair() {
            // Other ranks send them: the owner knows the pairs alone.
            (plan.sends, plan.send_starts) = (Vec::new(), Vec::new());
            return plan;
        }
        plan.end()
    }

    /// Calls for each source of some places of a layer, in their order, with its messages.
    ///
    /// # Complexity
    /// One pass over the sources' edges; those of a source are sorted by relation and target, so that their given order does not show.
    pub(super) fn each_source(
        &self,
        layer: usize,
        places: Range<usize>,
        call: &mut dyn FnMut(usize, &[Message]),
    ) {
        let (read, made) = (&self.sets[layer], &self.sets[layer + 1]);
        let place_of = made.table(self.graph.n_nodes());
        let loops = self.graph.n_relations();
        let mut messages: Vec<Message> = Vec::new();
        for source in places {
            let node = read.node(source);
            messages.clear();
            for &edge in self.by_source.members(node as usize) {
                let weight = self.normalisers[edge as usize];
                let edge = self.graph.edge(edge as usize);
                let target = place_of[edge.target as usize];
                if target != NodeSet::NONE {
                    messages.push((edge.relation, target, weight));
                }
            }
            messages.sort_unstable_by_key(|&(relation, target, _)| (relation, target));
            if self.self_loop && place_of[node as usize] != NodeSet::NONE {
                messages.push((loops, place_of[node as usize], 1.0));
            }
            call(source, &messages);
        }
    }
}

impl LayerPlan {
    /// A plan without a source, to be ended by [`LayerPlan::end`].
    pub(super) fn begin() -> LayerPlan {
        LayerPlan {
            pair_starts: vec![0],
            ..LayerPlan::default()
        }
    }

    pub(super) fn end(mut self) -> LayerPlan {
        self.send_starts.push(self.sends.len() as u32);
        self
    }

    /// Adds a source's messages, which are sorted by relation.
    pub(super) fn add_source(&mut self, messages: &[(u32, u32, f32)]) {
        let mut last = None;
        for &(relation, target, weight) in messages {
            if last != Some(relation) {
                self.relations.push(relation);
                self.send_starts.push(self.sends.len() as u32);
                last = Some(relation);
            }
            self.sends.push(Send { target, weight });
        }
        self.pair_starts.push(self.relations.len() as u32);
    }
}
