//! What a rank holds, predicted, where messages are dealt by pair and not by source.

use super::built::n_built;
use super::exchange::{N_PIECES, PIECE};
use super::memory::{Sizes, bytes_a_sum, copies, rows_of};
use super::network::forms;
use super::plan::Layout;
use crate::config::{Config, Sums};

/// A rank's part of one layer in numbers: what it works on, and what it owns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkExtents {
    n_sources: u64,
    n_pairs: u64,
    n_sends: u64,
    n_own_sources: u64,
    n_own_pairs: u64,
    n_own_reads: u64,
    n_block_relations: u64,
    n_relations: u64,
}

impl Layout<'_> {
    /// Those of all ranks, layer by layer, found once.
    ///
    /// # Complexity
    /// A pass over the edges for each layer that has nodes of its own.
    fn work_extents(&self) -> &[Vec<WorkExtents>] {
        self.extents.get_or_init(|| {
            let mut extents: Vec<Vec<WorkExtents>> = Vec::new();
            for (layer, twin) in self.twins().into_iter().enumerate() {
                let of_layer = match twin < layer {
                    true => extents[twin].clone(),
                    false => self.extents_of_layer(layer),
                };
                extents.push(of_layer);
            }
            extents
        })
    }

    fn extents_of_layer(&self, layer: usize) -> Vec<WorkExtents> {
        let ranks = 0..self.n_ranks();
        let mut extents: Vec<WorkExtents> = ranks
            .map(|rank| WorkExtents {
                n_own_sources: self.places(layer, rank).len() as u64,
                ..WorkExtents::default()
            })
            .collect();
        let mut last_sources = vec![usize::MAX; extents.len()];
        let mut last_blocks = vec![LastBlocks::new(self); extents.len()];
        let mut owner = 0;
        self.each_source(layer, 0..self.sets[layer].len(), &mut |place, messages| {
            while place >= self.places(layer, owner).end {
                owner += 1;
            }
            let source = self.sets[layer].node(place);
            let block = self.blocks.of(source);
            for pair in messages.chunk_by(|one, other| one.0 == other.0) {
                let worker = self.worker_of(source, pair[0].0) as usize;
                let is_new = u64::from(last_sources[worker] != place);
                last_sources[worker] = place;
                extents[owner].n_own_pairs += 1;
                extents[owner].n_own_reads += is_new;
                let of_worker = &mut extents[worker];
                of_worker.n_pairs += 1;
                of_worker.n_sends += pair.len() as u64;
                of_worker.n_sources += is_new;
                of_worker.n_block_relations += last_blocks[worker].note(pair[0].0, block);
            }
        });
        if self.replicates() {
            for extent in &mut extents {
                extent.n_sources = self.sets[layer].len() as u64;
                extent.n_own_reads = extent.n_own_sources * self.n_ranks() as u64;
            }
        }
        for (extent, seen) in extents.iter_mut().zip(&last_blocks) {
            extent.n_relations = seen.n_seen(self.graph.n_relations());
        }
        extents
    }

    /// Relations of the first layer that a rank works on, the self loop not counted.
    pub(super) fn n_relations_of_work(&self, rank: usize) -> u64 {
        self.work_extents()[0][rank].n_relations
    }
}

/// The last block of sources in which each relation was seen.
#[derive(Clone)]
pub(super) struct LastBlocks(Vec<u32>);

impl LastBlocks {
    pub(super) fn new(layout: &Layout<'_>) -> LastBlocks {
        LastBlocks(vec![u32::MAX; layout.n_relations()])
    }

    /// How many of the first relations were seen.
    fn n_seen(&self, n_relations: u32) -> u64 {
        let seen = self.0[..n_relations as usize].iter();
        seen.filter(|&&block| block != u32::MAX).count() as u64
    }

    /// 1 where the relation was not seen in that block yet; blocks ascend.
    pub(super) fn note(&mut self, relation: u32, block: u32) -> u64 {
        let last = std::mem::replace(&mut self.0[relation as usize], block);
        u64::from(last != block)
    }
}

impl WorkExtents {
    /// Bytes of the lists of pairs and messages, of own sources and of the work.
    fn list_bytes(&self) -> u64 {
        let own = 4 * (self.n_own_sources + 1 + self.n_own_pairs);
        let work = 4 * (self.n_sources + 1 + 2 * self.n_pairs + 1) + 8 * self.n_sends;
        own + work + 4 * self.n_own_reads + 2 * self.n_own_pairs
    }

    /// Numbers of the gradients of messages, there and back, and of the pieces on their way.
    fn n_messages(&self, width: u64) -> u64 {
        let pieces = N_PIECES as u64 * (self.n_pairs * width).min(PIECE as u64);
        (self.n_pairs + self.n_own_pairs) * width + pieces
    }
}

/// A rank's part of one layer, with what decides its size.
struct LayerWork<'a> {
    config: &'a Config,
    layout: &'a Layout<'a>,
    layer: usize,
    extent: WorkExtents,
    width: u64,
    /// Numbers of a row, or of the units, that the layer reads.
    read_len: u64,
    /// Rows that the work reads, and rows that the rank owns.
    n_read: u64,
    n_own: u64,
    /// Numbers of what the layer makes for the rank's nodes.
    n_units: u64,
    n_own_blocks: u64,
    sizes: Sizes,
    /// Numbers of W_r that are built.
    n_built: u64,
}

impl<'a> LayerWork<'a> {
    fn new(
        config: &'a Config,
        layout: &'a Layout<'a>,
        (rank, n_classes): (usize, u32),
        layer: usize,
    ) -> LayerWork<'a> {
        let forms = forms(config, n_classes);
        let (row_len, by_pair) = rows_of(config, &forms);
        let extent = layout.work_extents()[layer][rank];
        let width = forms[layer].1.width as u64;
        let (n_read, n_own) = match (layer, by_pair) {
            (0, true) => (extent.n_pairs, extent.n_own_pairs),
            _ => (extent.n_sources, extent.n_own_sources),
        };
        let is_built = layer == 0 && layout.builds_weights;
        LayerWork {
            config,
            layout,
            layer,
            extent,
            width,
            read_len: match layer {
                0 => row_len as u64,
                _ => forms[layer - 1].1.width as u64,
            },
            n_read,
            n_own,
            n_units: layout.places(layer + 1, rank).len() as u64 * width,
            n_own_blocks: layout.dealt[rank].len() as u64,
            sizes: Sizes::of(config, layout, layer, forms[layer]),
            n_built: match is_built {
                true => n_built(config, layout, rank, n_classes),
                false => 0,
            },
        }
    }

    fn n_bias(&self) -> u64 {
        if self.config.bias { self.width } else { 0 }
    }

    /// Bytes that stay: parameters, rows and their copies, what is made and built; lists are those of the layer that has them first.
    fn held(&self, has_lists: bool) -> u64 {
        let n_copies = copies(self.config);
        let n_own_copies = match (self.layer, self.config.features) {
            (0, true) => 1, // Given features take no steps.
            (0, false) => n_copies,
            _ => 0, // Units that are read are those that another layer made.
        };
        let rows = (n_own_copies * self.n_own + self.n_read) * self.read_len;
        let shared = n_copies * (self.sizes.params + self.n_bias()) + self.sizes.table;
        let lists = if has_lists {
            self.extent.list_bytes()
        } else {
            0
        };
        4 * (rows + shared + self.n_units + self.n_built) + lists
    }

    /// Bytes that are there for a part of a step.
    fn moment(&self) -> u64 {
        // Rows take their steps as their gradients come; units and embeddings have theirs beside them.
        let has_gradients = self.layer > 0 || self.config.embedding > 0;
        let gradients = match has_gradients {
            true => self.n_own * self.read_len,
            false => 0,
        };
        let rows = self.extent.n_block_relations * self.sizes.reduced_row;
        let partials = rows + self.n_own_blocks * self.n_bias() + self.sizes.table;
        let messages = match self.layer == 0 && self.layout.replicates() {
            true => (self.n_read + self.n_own) * self.read_len,
            false => self.extent.n_messages(self.width),
        };
        let backward = 4 * (self.n_units + gradients + partials + messages + self.n_built);
        match self.config.sums {
            Sums::Exact => backward.max(8 * self.n_units),
            Sums::Float => backward,
        }
    }
}

/// Bytes of a rank at the fullest moment of a step.
pub(super) fn of_work(
    config: &Config,
    layout: &Layout<'_>,
    (rank, n_classes): (usize, u32),
) -> u64 {
    let twins = layout.twins();
    let (mut held, mut fullest, mut sums) = (0, 0, 0);
    for (layer, twin) in twins.into_iter().enumerate() {
        let work = LayerWork::new(config, layout, (rank, n_classes), layer);
        held += work.held(twin == layer);
        fullest = fullest.max(work.moment());
        sums = sums.max(layout.sets[layer + 1].len() as u64 * work.width);
    }
    held + fullest + sums * bytes_a_sum(config, false)
}
