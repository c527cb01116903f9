//! A rank's messages in a layer where they are not dealt by source: pairs of any sources, whose
//! rows their owners hold.
//!
//! The owner of a source has its row (or its activations) and takes the row's step; the rank that
//! computes a pair (source, relation) needs the row before it makes the message, and gives back the
//! gradient of the message afterwards. The owner turns the gradients of all pairs of a source into
//! the row's, in the order of the relations: so the sum has the bits that it has on one rank.

use std::ops::Range;
use std::sync::Arc;

use super::layout::Layout;
use crate::layer::plan::LayerPlan;

/// The messages that one rank computes in one layer, and the inputs that it hands to the others for
/// theirs.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankMessages {
    /// The pairs that this rank computes, by source and relation; of its sources, which are
    /// numbered from 0.
    pub(crate) plan: LayerPlan,
    /// The sources of each fixed block.
    pub(crate) blocks: Vec<Range<usize>>,
    /// The number of those sources that each rank owns.
    pub(crate) sources_by_owner: Vec<usize>,
    /// The number of those pairs whose source each rank owns.
    pub(crate) pairs_by_owner: Vec<usize>,
    /// For each rank, those of this rank's own sources that it reads.
    pub(crate) read_by: Vec<Vec<u32>>,
    /// For each pair of this rank's own sources, the rank that computes it.
    pub(crate) computing_ranks: Vec<u16>,
    /// The number of pairs of own sources that each rank computes.
    pub(crate) pairs_by_computing_rank: Vec<usize>,
}

impl RankMessages {
    pub(crate) fn n_sources(&self) -> usize {
        self.plan.n_sources()
    }

    /// Bytes of all lists.
    pub(crate) fn n_bytes(&self) -> u64 {
        let n_read: usize = self.read_by.iter().map(Vec::len).sum();
        self.plan.n_bytes() + 4 * n_read as u64 + 2 * self.computing_ranks.len() as u64
    }
}

impl Layout<'_> {
    /// A rank's messages, layer by layer; empty where ranks compute those of their own sources.
    pub(crate) fn rank_messages(&self, rank: usize) -> Vec<Arc<RankMessages>> {
        if !self.is_dealt_by_pair() {
            return Vec::new();
        }
        let mut all: Vec<Arc<RankMessages>> = Vec::new();
        for (layer, first) in self.layers_with_same_messages().into_iter().enumerate() {
            let of_layer = match first < layer {
                true => Arc::clone(&all[first]),
                false => Arc::new(self.messages_of(layer, rank)),
            };
            all.push(of_layer);
        }
        all
    }

    fn messages_of(&self, layer: usize, rank: usize) -> RankMessages {
        let own = self.places(layer, rank);
        let n_read_by_all = if self.replicates() { own.len() } else { 0 };
        let mut share = RankMessages::begin(self.n_ranks(), n_read_by_all);
        let (mut plan, mut places) = (LayerPlan::begin(), Vec::new());
        let mut mine = Vec::new();
        let mut owner = 0;
        let all = 0..self.sets[layer].len();
        self.each_source(layer, all, &mut |place, messages| {
            while place >= self.places(layer, owner).end {
                owner += 1;
            }
            let source = self.sets[layer].node(place);
            mine.clear();
            for pair in messages.chunk_by(|one, other| one.relation == other.relation) {
                let computing = self.computing_rank(source, pair[0].relation) as usize;
                if computing == rank {
                    mine.extend_from_slice(pair);
                    share.pairs_by_owner[owner] += 1;
                }
                if own.contains(&place) {
                    share.note_computing_rank(computing, (place - own.start) as u32);
                }
            }
            if !mine.is_empty() || self.replicates() {
                plan.add_source(&mine);
                places.push(place);
                share.sources_by_owner[owner] += 1;
            }
        });
        share.plan = plan.end();
        share.blocks = self.sources_of_blocks(layer, &places);
        share
    }

    /// The ranges of some ascending places of a layer that are in each block.
    fn sources_of_blocks(&self, layer: usize, places: &[usize]) -> Vec<Range<usize>> {
        let first_from = |place: usize| places.partition_point(|&other| other < place);
        let nodes = (0..self.blocks.count()).map(|block| self.blocks.nodes(block));
        let of_blocks = nodes.map(|nodes| self.sets[layer].places(&nodes));
        of_blocks
            .map(|places| first_from(places.start)..first_from(places.end))
            .collect()
    }
}

impl RankMessages {
    /// None yet; every rank reads the first `n_read_by_all` own sources.
    fn begin(n_ranks: usize, n_read_by_all: usize) -> RankMessages {
        RankMessages {
            read_by: vec![(0..n_read_by_all as u32).collect(); n_ranks],
            sources_by_owner: vec![0; n_ranks],
            pairs_by_owner: vec![0; n_ranks],
            pairs_by_computing_rank: vec![0; n_ranks],
            ..RankMessages::default()
        }
    }

    /// The next pair of own sources is of `source`, and rank `computing` computes it.
    fn note_computing_rank(&mut self, computing: usize, source: u32) {
        self.computing_ranks.push(computing as u16);
        self.pairs_by_computing_rank[computing] += 1;
        // Ascending; where all ranks read all, the last one is there from the beginning.
        if self.read_by[computing]
            .last()
            .is_none_or(|&last| last < source)
        {
            self.read_by[computing].push(source);
        }
    }
}
