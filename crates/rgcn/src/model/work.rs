//! What a rank sends in a layer where the messages are not dealt by source: pairs of any sources, whose rows their owners hold.
//!
//! The owner of a source has its row (or its units) and takes the row's step; the rank that works on a pair (source, relation) needs
//! the row before it makes the message, and gives back the gradient of the message afterwards. The owner turns the gradients of all
//! pairs of a source into the row's, in the order of the relations: so the sum has the bits that it has on one rank.

use std::ops::Range;
use std::sync::Arc;

use super::plan::{LayerPlan, Layout};

/// One rank's work in one layer, and what it hands to the others for theirs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// The pairs that this rank works on, by source and relation; of its sources, which are numbered from 0.
    pub(crate) plan: LayerPlan,
    /// The sources of each fixed block.
    pub(crate) blocks: Vec<Range<usize>>,
    /// How many of those sources each rank owns.
    pub(crate) sources_of_owner: Vec<usize>,
    /// How many of those pairs are of sources that each rank owns.
    pub(crate) pairs_of_owner: Vec<usize>,
    /// For each rank, those of this rank's own sources that it works on.
    pub(crate) read_by: Vec<Vec<u32>>,
    /// For each pair of this rank's own sources, the rank that works on it.
    pub(crate) workers: Vec<u16>,
    /// How many pairs of own sources each rank works on.
    pub(crate) pairs_of_worker: Vec<usize>,
}

impl Work {
    pub(crate) fn n_sources(&self) -> usize {
        self.plan.pair_starts.len() - 1
    }

    /// Bytes of all lists.
    pub(crate) fn n_bytes(&self) -> u64 {
        let n_read: usize = self.read_by.iter().map(Vec::len).sum();
        self.plan.n_bytes() + 4 * n_read as u64 + 2 * self.workers.len() as u64
    }
}

impl Layout<'_> {
    /// Whether ranks work on other sources than their own.
    pub(crate) fn is_dealt_by_pair(&self) -> bool {
        let partition = self.partition.as_ref();
        partition.is_some_and(|partition| partition.source_cut().is_none())
    }

    /// A rank's work, layer by layer; empty where ranks work on their own sources.
    pub(crate) fn works(&self, rank: usize) -> Vec<Arc<Work>> {
        if !self.is_dealt_by_pair() {
            return Vec::new();
        }
        let mut works: Vec<Arc<Work>> = Vec::new();
        for (layer, twin) in self.twins().into_iter().enumerate() {
            let work = match twin < layer {
                true => Arc::clone(&works[twin]),
                false => Arc::new(self.work(layer, rank)),
            };
            works.push(work);
        }
        works
    }

    /// By layer, how many relations the blocks of nodes have that a rank works on, all blocks together.
    pub(super) fn n_partials(
        &self,
        rank: usize,
        (plans, works): (&[Arc<LayerPlan>], &[Arc<Work>]),
    ) -> Vec<usize> {
        let count = |plan: &LayerPlan, blocks: &[Range<usize>]| {
            let blocks = blocks.iter();
            blocks
                .map(|block| plan.relations_of(block.clone()).len())
                .sum()
        };
        let of_layer = |layer: usize| match works.get(layer) {
            Some(work) => count(&work.plan, &work.blocks),
            None => count(&plans[layer], &self.places_of_blocks(layer, rank)),
        };
        (0..plans.len()).map(of_layer).collect()
    }

    /// The rank that works on a pair.
    pub(super) fn worker_of(&self, source: u32, relation: u32) -> u32 {
        let Some(partition) = &self.partition else {
            return 0;
        };
        match relation < self.graph.n_relations() {
            true => partition.part_of(source, relation),
            false => partition.owner_of(source), // a self loop
        }
    }

    fn work(&self, layer: usize, rank: usize) -> Work {
        let own = self.places(layer, rank);
        let n_read_by_all = if self.replicates() { own.len() } else { 0 };
        let mut work = Work::begin(self.n_ranks(), n_read_by_all);
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
            for pair in messages.chunk_by(|one, other| one.0 == other.0) {
                let worker = self.worker_of(source, pair[0].0) as usize;
                if worker == rank {
                    mine.extend_from_slice(pair);
                    work.pairs_of_owner[owner] += 1;
                }
                if own.contains(&place) {
                    work.note_worker(worker, (place - own.start) as u32);
                }
            }
            if !mine.is_empty() || self.replicates() {
                plan.add_source(&mine);
                places.push(place);
                work.sources_of_owner[owner] += 1;
            }
        });
        work.plan = plan.end();
        work.blocks = self.sources_of_blocks(layer, &places);
        work
    }

    /// Which of some ascending places of a layer are in each block.
    fn sources_of_blocks(&self, layer: usize, places: &[usize]) -> Vec<Range<usize>> {
        let first_from = |place: usize| places.partition_point(|&other| other < place);
        let nodes = (0..self.blocks.count()).map(|block| self.blocks.nodes(block));
        let of_blocks = nodes.map(|nodes| self.sets[layer].places(&nodes));
        of_blocks
            .map(|places| first_from(places.start)..first_from(places.end))
            .collect()
    }
}

impl Work {
    /// No work yet, where every rank reads the first so many sources of each.
    fn begin(n_ranks: usize, n_read_by_all: usize) -> Work {
        Work {
            read_by: vec![(0..n_read_by_all as u32).collect(); n_ranks],
            sources_of_owner: vec![0; n_ranks],
            pairs_of_owner: vec![0; n_ranks],
            pairs_of_worker: vec![0; n_ranks],
            ..Work::default()
        }
    }

    /// The next pair of own sources is of `source`, and `worker` works on it.
    fn note_worker(&mut self, worker: usize, source: u32) {
        self.workers.push(worker as u16);
        self.pairs_of_worker[worker] += 1;
        // Ascending; where all ranks read all, the last one is there from the beginning.
        if self.read_by[worker]
            .last()
            .is_none_or(|&last| last < source)
        {
            self.read_by[worker].push(source);
        }
    }
}
