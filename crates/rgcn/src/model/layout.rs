//! The layout of a run: the nodes that each layer needs, fixed blocks of them, and which rank owns
//! and computes what.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::blocks::Blocks;
use super::counts::LayerCounts;
use super::csr::Csr;
use super::nodes::NodeSet;
use super::normaliser::normalisers;
use crate::config::{Config, Normaliser};
use crate::layer::coefficients::RelationShape;
use crate::layer::plan::{LayerPlan, Message};
use crate::partition::{CostModel, Load, Method, Pair, Pairs, Partition};
use crate::{Error, RelationalGraph};

/// The knowledge of all ranks about the job's graph: normalisers, the nodes of each layer, blocks
/// and how they are dealt.
#[derive(Clone)]
pub(crate) struct Layout<'a> {
    pub(crate) graph: &'a RelationalGraph,
    pub(crate) self_loop: bool,
    /// The nodes that layer l reads, and at the end those that the last one makes.
    pub(crate) sets: Vec<Arc<NodeSet>>,
    pub(crate) blocks: Blocks,
    /// The blocks whose nodes each rank owns: their rows, their units, and what is summed for them.
    pub(crate) dealt: Vec<Range<usize>>,
    /// The partition of the messages; none for one rank.
    partition: Option<Arc<Partition>>,
    /// The most bytes that a rank's device may hold; none: no limit.
    pub(crate) budget: Option<u64>,
    /// True if W_r of the first layer is built for all relations and nodes.
    pub(crate) materialises: bool,
    /// Ranks with neither a message nor a node.
    pub(crate) n_idle_ranks: usize,
    /// The counts of [`Layout::counts`], once they were asked for.
    pub(crate) counts: OnceLock<Vec<Vec<LayerCounts>>>,
    normaliser: Normaliser,
    normalisers: Arc<Vec<f32>>,
    by_source: Arc<Csr>,
}

/// The sizes that shape a layout, besides the graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) n_layers: usize,
    pub(crate) n_ranks: usize,
    pub(crate) max_blocks: u32,
    pub(crate) normaliser: Normaliser,
    pub(crate) method: Method,
    pub(crate) model: CostModel,
}

/// The memory for the gradients of shared parameters, all blocks of a rank together.
const GRADIENT_BYTES: u64 = 64 << 20;

/// The number of blocks that keeps the gradients of shared parameters within bounds.
pub(crate) fn max_blocks(config: &Config, n_classes: u32, n_relations: usize) -> u32 {
    let layers = RelationShape::of_layers(config, n_classes).into_iter();
    let reduced = layers.map(|layer| n_relations * layer.reduced_row());
    let largest = reduced.max().unwrap_or(1).max(1) as u64;
    (GRADIENT_BYTES / (4 * largest)).clamp(1, 1 << 16) as u32
}

impl Extent {
    /// That of a model over a graph, on ranks that share it by a method.
    pub(crate) fn new(
        config: &Config,
        n_classes: u32,
        graph: &RelationalGraph,
        n_ranks: u32,
        method: Method,
    ) -> Extent {
        let n_relations = graph.n_relations() as usize + usize::from(config.self_loop);
        Extent {
            n_layers: config.hidden.len() + 1,
            n_ranks: n_ranks as usize,
            max_blocks: max_blocks(config, n_classes, n_relations),
            normaliser: config.normaliser,
            method,
            model: CostModel::of(config),
        }
    }
}

/// One rank of a run, and the model and layout that all ranks have.
#[derive(Clone, Copy)]
pub(crate) struct RankContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) layout: &'a Layout<'a>,
    pub(crate) rank: usize,
    pub(crate) n_classes: u32,
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
    Err(Error::new(Error::Graph, message))
}

impl<'a> Layout<'a> {
    /// The layout for `outputs`, the nodes whose last layer is wanted (absent: all of them, at
    /// every depth).
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
            budget: None,
            materialises: false,
            n_idle_ranks: 0,
            counts: OnceLock::new(),
            normaliser: extent.normaliser,
            normalisers: Arc::new(normalisers(graph, extent.normaliser, |_| true)),
            by_source: Arc::new(by_source),
        };
        layout.find_sets(outputs, extent.n_layers);
        layout.deal(extent)?;
        Ok(layout)
    }

    /// The same graph and the same ranks for other outputs.
    pub(crate) fn with_outputs(&self, outputs: Option<&[u32]>) -> Layout<'a> {
        let mut layout = Layout {
            sets: Vec::new(),
            counts: OnceLock::new(),
            ..self.clone()
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
            // In full mode every hidden layer makes all nodes; the first reads only the sources
            // that there are.
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

    /// Deals nodes and messages to the ranks. Only the first layer counts, which has the most
    /// messages.
    fn deal(&mut self, extent: Extent) -> Result<(), Error> {
        if extent.n_ranks == 1 {
            self.dealt = std::iter::once(0..self.blocks.count()).collect();
            return Ok(());
        }
        let (n_ranks, block) = (extent.n_ranks as u32, self.blocks.size());
        let pairs = self.first_pairs();
        let partition = Partition::new(&pairs, extent.method, n_ranks, extent.model, block)?;
        let loads = partition.loads(&pairs);
        // Of a rank's nodes those count that the layer makes: with pruning a rank may own others
        // alone.
        let is_idle = |(load, rank): &(&Load, u32)| {
            load.n_pairs == 0 && pairs.n_made(partition.own_nodes(*rank)) == 0
        };
        self.n_idle_ranks = loads.as_slice().iter().zip(0..).filter(is_idle).count();
        self.cut(partition);
        Ok(())
    }

    /// Cuts what one rank has by a partition between blocks.
    pub(crate) fn cut(&mut self, partition: Partition) {
        let (n_blocks, block) = (self.blocks.count(), self.blocks.size());
        let border = |node: u32| node.div_ceil(block) as usize;
        let mut dealt: Vec<Range<usize>> = (0..partition.n_parts())
            .map(|rank| partition.own_nodes(rank))
            .map(|nodes| border(nodes.start)..border(nodes.end))
            .collect();
        // A graph without nodes has a block all the same.
        if let Some(last) = dealt.last_mut().filter(|_| self.graph.n_nodes() == 0) {
            last.end = n_blocks;
        }
        self.dealt = dealt;
        self.partition = Some(Arc::new(partition));
        self.counts = OnceLock::new();
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

    /// True if ranks compute messages of other sources than their own.
    pub(crate) fn is_dealt_by_pair(&self) -> bool {
        let partition = self.partition.as_ref();
        partition.is_some_and(|partition| !partition.is_by_source())
    }

    /// True if each rank reads all rows and activations, as where relations are dealt and their
    /// inputs are copied to all.
    pub(crate) fn replicates(&self) -> bool {
        self.materialises && self.is_dealt_by_pair()
    }

    /// The rank that computes the message of a pair.
    pub(crate) fn computing_rank(&self, source: u32, relation: u32) -> u32 {
        let Some(partition) = &self.partition else {
            return 0;
        };
        match relation < self.graph.n_relations() {
            true => partition.part_of(source, relation),
            false => partition.owner_of(source), // a self loop
        }
    }

    /// Each rank's places in the output of the last layer.
    pub(crate) fn output_places(&self) -> Vec<Range<usize>> {
        let ranks = 0..self.n_ranks();
        ranks
            .map(|rank| self.places(self.n_layers(), rank))
            .collect()
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
    pub(crate) fn layers_with_same_messages(&self) -> Vec<usize> {
        let is_same = |a: usize, b: usize| Arc::ptr_eq(&self.sets[a], &self.sets[b]);
        let first = |layer: usize| {
            let same = |other: &usize| is_same(*other, layer) && is_same(*other + 1, layer + 1);
            (0..layer).find(same).unwrap_or(layer)
        };
        (0..self.n_layers()).map(first).collect()
    }

    /// The plans of a rank's own sources where some edges alone carry messages; their weights are
    /// those of a graph that has no others.
    pub(crate) fn plans_along(&self, rank: usize, is_kept: &[bool]) -> Vec<Arc<LayerPlan>> {
        let weights = normalisers(self.graph, self.normaliser, |edge| is_kept[edge]);
        let layout = Layout {
            normalisers: Arc::new(weights),
            ..self.clone()
        };
        layout.plans(rank)
    }

    /// Bytes of the divisors of all messages.
    pub(crate) fn normaliser_bytes(&self) -> u64 {
        4 * self.normalisers.len() as u64
    }

    /// Bytes of what all ranks share: the graph with its edges by source, and the divisors.
    pub(crate) fn n_bytes(&self) -> u64 {
        let (sources, relations, targets) = self.graph.columns();
        let columns = 4 * (sources.len() + relations.len() + targets.len()) as u64;
        columns + self.by_source.n_bytes() + self.normaliser_bytes()
    }

    /// The plans of a rank's own sources, layer by layer.
    pub(crate) fn plans(&self, rank: usize) -> Vec<Arc<LayerPlan>> {
        let mut plans: Vec<Arc<LayerPlan>> = Vec::new();
        for (layer, first) in self.layers_with_same_messages().into_iter().enumerate() {
            let plan = match first < layer {
                true => Arc::clone(&plans[first]),
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
    /// One pass over the sources' edges; those of a source are sorted by relation and target, so
    /// that their given order does not show.
    pub(crate) fn each_source(
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
                if target != NodeSet::NONE && weight > 0.0 {
                    messages.push(Message {
                        relation: edge.relation,
                        target,
                        weight,
                    });
                }
            }
            messages.sort_unstable_by_key(|message| (message.relation, message.target));
            if self.self_loop && place_of[node as usize] != NodeSet::NONE {
                messages.push(Message {
                    relation: loops,
                    target: place_of[node as usize],
                    weight: 1.0,
                });
            }
            call(source, &messages);
        }
    }
}
