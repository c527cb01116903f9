//! Counts of each rank's part of each layer, by which its arrays are made: found in one pass over
//! the messages, also for ranks that have no lists here.

use super::layout::Layout;

/// A rank's part of one layer in numbers: the messages that it computes, and the nodes that it
/// owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LayerCounts {
    /// Sources, pairs and edges of the messages that it computes, self loops among them.
    pub(crate) n_sources: u64,
    pub(crate) n_pairs: u64,
    pub(crate) n_sends: u64,
    /// Relations of those, the self loop not counted.
    pub(crate) n_relations: u64,
    /// Distinct pairs of a fixed block of sources and a relation: gradients that it adds up.
    pub(crate) n_block_relations: u64,
    /// Sources that it owns, their pairs, and how often ranks read them.
    pub(crate) n_own_sources: u64,
    pub(crate) n_own_pairs: u64,
    pub(crate) n_own_reads: u64,
    /// Nodes of the output that it owns, and all of them.
    pub(crate) n_own_nodes: u64,
    pub(crate) n_all_nodes: u64,
    /// Fixed blocks of nodes that it owns.
    pub(crate) n_own_blocks: u64,
    /// True if an earlier layer has the same messages, and so their lists.
    pub(crate) shares_lists: bool,
}

impl LayerCounts {
    /// Bytes of the lists of pairs and messages; where they are dealt by pair, also of the pairs of
    /// own sources, of the ranks that compute them, and of the sources that each rank reads.
    pub(super) fn list_bytes(&self, by_pair: bool) -> u64 {
        if self.shares_lists {
            return 0;
        }
        let computed = 4 * (self.n_sources + 1 + 2 * self.n_pairs + 1) + 8 * self.n_sends;
        if !by_pair {
            return computed;
        }
        let own = 4 * (self.n_own_sources + 1 + self.n_own_pairs);
        computed + own + 4 * self.n_own_reads + 2 * self.n_own_pairs
    }
}

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
