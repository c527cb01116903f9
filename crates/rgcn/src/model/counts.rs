//! Counts of each rank's part of each layer: the input of the byte formula, found in one pass over
//! the messages.

use super::bytes::{Bytes, LayerCounts, MemoryModel};
use super::layout::{Layout, RankContext};
use crate::layer::coefficients::RelationShape;

impl Layout<'_> {
    /// The counts of all ranks, layer by layer, found once.
    ///
    /// # Complexity
    /// A pass over the edges for each layer that has messages of its own; nothing of their size is
    /// held.
    pub(crate) fn counts(&self) -> &[Vec<LayerCounts>] {
        self.counts.get_or_init(|| {
            let mut counts: Vec<Vec<LayerCounts>> = Vec::new();
            for (layer, first) in self.layers_with_same_messages().into_iter().enumerate() {
                let mut of_layer = match first < layer {
                    true => counts[first].clone(),
                    false => self.count_layer(layer),
                };
                let is_shared = |counts: &mut LayerCounts| counts.shares_lists = first < layer;
                of_layer.iter_mut().for_each(is_shared);
                counts.push(of_layer);
            }
            counts
        })
    }

    fn count_layer(&self, layer: usize) -> Vec<LayerCounts> {
        let ranks = 0..self.n_ranks();
        let begin = |rank| LayerCounts {
            n_own_sources: self.places(layer, rank).len() as u64,
            n_own_nodes: self.places(layer + 1, rank).len() as u64,
            n_all_nodes: self.sets[layer + 1].len() as u64,
            n_own_blocks: self.dealt[rank].len() as u64,
            ..LayerCounts::default()
        };
        let mut counts: Vec<LayerCounts> = ranks.map(begin).collect();
        let mut last_sources = vec![usize::MAX; counts.len()];
        let mut last_blocks = vec![LastBlocks::new(self); counts.len()];
        let mut owner = 0;
        self.each_source(layer, 0..self.sets[layer].len(), &mut |place, messages| {
            while place >= self.places(layer, owner).end {
                owner += 1;
            }
            let source = self.sets[layer].node(place);
            let block = self.blocks.of(source);
            for pair in messages.chunk_by(|one, other| one.relation == other.relation) {
                let relation = pair[0].relation;
                let rank = self.computing_rank(source, relation) as usize;
                let is_new = u64::from(last_sources[rank] != place);
                last_sources[rank] = place;
                counts[owner].n_own_pairs += 1;
                counts[owner].n_own_reads += is_new;
                let computing = &mut counts[rank];
                computing.n_pairs += 1;
                computing.n_sends += pair.len() as u64;
                computing.n_sources += is_new;
                computing.n_block_relations += last_blocks[rank].note(relation, block);
            }
        });
        for (counts, seen) in counts.iter_mut().zip(&last_blocks) {
            counts.n_relations = seen.n_seen(self.graph.n_relations());
            if self.replicates() {
                counts.n_sources = self.sets[layer].len() as u64;
                counts.n_own_reads = counts.n_own_sources * self.n_ranks() as u64;
            } else if !self.is_dealt_by_pair() {
                // Plans have a place for each own source, with a message or without.
                counts.n_sources = counts.n_own_sources;
            }
        }
        counts
    }

    /// Numbers of W_r that a rank builds: alone over all relations and its sources; else over the
    /// relations dealt to it and all sources, and the self loops of its own.
    pub(crate) fn n_materialised(&self, rank: usize, width: usize) -> u64 {
        if !self.materialises {
            return 0;
        }
        let n_own = self.places(0, rank).len() as u64;
        let n_rows = match self.is_dealt_by_pair() {
            true => {
                let n_relations = self.counts()[0][rank].n_relations;
                let n_loops = if self.self_loop { n_own } else { 0 };
                self.sets[0].len() as u64 * n_relations + n_loops
            }
            false => n_own * self.n_relations() as u64,
        };
        n_rows * width as u64
    }
}

impl RankContext<'_> {
    /// The rank's bytes; with tiles, the input's rows come and go with their gradients.
    pub(crate) fn bytes(&self, is_tiled: bool) -> Bytes {
        let RankContext {
            config,
            layout,
            rank,
            n_classes,
        } = *self;
        let layers = RelationShape::of_layers(config, n_classes);
        let model = MemoryModel {
            config,
            n_relations: layout.n_relations(),
            is_alone: layout.n_ranks() == 1,
            by_pair: layout.is_dealt_by_pair(),
            replicates: layout.replicates(),
            n_materialised: layout.n_materialised(rank, layers[0].shape.width),
            is_tiled,
            layers,
        };
        let of_layers: Vec<LayerCounts> = layout.counts().iter().map(|of| of[rank]).collect();
        model.bytes(&of_layers)
    }
}

/// The last block of sources in which each relation was seen.
#[derive(Clone)]
struct LastBlocks(Vec<u32>);

impl LastBlocks {
    fn new(layout: &Layout<'_>) -> LastBlocks {
        LastBlocks(vec![u32::MAX; layout.n_relations()])
    }

    /// The number of the first relations that were seen.
    fn n_seen(&self, n_relations: u32) -> u64 {
        let seen = self.0[..n_relations as usize].iter();
        seen.filter(|&&block| block != u32::MAX).count() as u64
    }

    /// 1 where the relation was not seen in that block yet; blocks ascend.
    fn note(&mut self, relation: u32, block: u32) -> u64 {
        let last = std::mem::replace(&mut self.0[relation as usize], block);
        u64::from(last != block)
    }
}
