//! Bytes that training of links holds at its fullest moment, added up before anything is made.

use super::config::{LinkConfig, LinkLoss};
use super::data::LinkData;
use super::kvsall::N_BLOCKS;
use super::options::LinkOptions;
use super::ranking::queries_of_product;
use crate::Error;
use crate::layer::optimiser::n_moments;
use crate::model::layout::{Layout, RankContext};
use crate::train::memory::check_room;

/// Refuses a run that does not fit; the bytes that it holds, those of all ranks together.
///
/// # Errors
/// [`Error::Memory`] with the bytes that are needed and those that there are.
pub(super) fn check(
    data: &LinkData,
    config: &LinkConfig,
    layout: Option<&Layout<'_>>,
    options: &LinkOptions,
) -> Result<u64, Error> {
    let needed = predicted_bytes(data, config, layout, options)?;
    let cure =
        "choose a smaller --dim or --batch, fewer --ranks, or sampled nodes with --loss softmax";
    check_room(needed, options.memory, "", cure)?;
    Ok(needed)
}

/// The bytes of triples, parameters, plans and buffers of all ranks; names and the file are not
/// among them.
fn predicted_bytes(
    data: &LinkData,
    config: &LinkConfig,
    layout: Option<&Layout<'_>>,
    options: &LinkOptions,
) -> Result<u64, Error> {
    let sizes = Sizes::new(data, config, options);
    let n_ranks = u64::from(options.n_ranks);
    let all = data.all().count() as u64;
    // The triples, and both sorted lists of known ends.
    let mut shared = 12 * all + 24 * all;
    if config.loss == LinkLoss::KvsAll {
        shared += sizes.question_bytes();
    }
    if layout.is_some() {
        // The graph of both directions with its order by source and its divisors.
        shared += sizes.n_edges * (12 + 4 + 4) + 4 * sizes.n_nodes;
    }
    let of_rank = |rank| -> Result<u64, Error> {
        let context = layout.map(|layout| RankContext {
            config: &config.encoder,
            layout,
            rank,
            n_classes: config.width as u32,
        });
        let encoder = context.map(|context| sizes.encoder_floats(context));
        let encoder = encoder.transpose()?.unwrap_or(0);
        Ok(sizes.kept_floats() + encoder + sizes.step_floats().max(sizes.ranking_floats()))
    };
    let ranks: Result<u64, Error> = (0..n_ranks as usize).map(of_rank).sum();
    Ok(shared + 4 * (ranks? + sizes.checkpoint_floats(options.folder.is_some())))
}

/// The sizes that decide bytes. All counts that end in `floats` are of numbers of four bytes.
struct Sizes<'a> {
    config: &'a LinkConfig,
    n_nodes: u64,
    n_triples: u64,
    n_edges: u64,
    n_ranks: u64,
    width: u64,
    /// Numbers of all nodes' vectors, and of all relations'.
    nodes: u64,
    relations: u64,
    /// Numbers that there are for each parameter.
    copies: u64,
    /// Questions of the largest step.
    batch: u64,
}

impl<'a> Sizes<'a> {
    fn new(data: &LinkData, config: &'a LinkConfig, options: &LinkOptions) -> Sizes<'a> {
        let (width, n_nodes) = (config.width as u64, u64::from(data.n_nodes()));
        let n_triples = data.train().len() as u64;
        let n_relations = u64::from(data.n_relations()) * (1 + u64::from(config.reciprocal));
        let most = |batch: u32| match batch {
            0 => 2 * n_triples,
            batch => u64::from(batch).min(2 * n_triples),
        };
        let of_messages = if config.encode {
            most(config.message_batch)
        } else {
            0
        };
        Sizes {
            config,
            n_nodes,
            n_triples,
            n_edges: 2 * n_triples,
            n_ranks: u64::from(options.n_ranks),
            width,
            nodes: n_nodes * width,
            relations: n_relations * width,
            copies: 1 + n_moments(config.encoder.optimiser) as u64,
            batch: most(config.batch).max(of_messages),
        }
    }

    /// Bytes of the questions, each triple as two at most, with the buffer that sorts them.
    fn question_bytes(&self) -> u64 {
        2 * self.n_triples * (12 + 8 + 16)
    }

    /// Parameters with their means, and the best ones.
    fn kept_floats(&self) -> u64 {
        let best = u64::from(self.config.patience > 0);
        let of_nodes = match self.config.encode {
            true => self.nodes, // the units; the vectors are the encoder's
            false => self.nodes + (self.copies - 1) * self.nodes / self.n_ranks,
        };
        of_nodes + best * (self.nodes + self.relations) + self.copies * self.relations
    }

    /// What a rank's encoder holds: its network, the plans of a step beside those of all triples, and
    /// gradients of all units.
    fn encoder_floats(&self, context: RankContext<'_>) -> Result<u64, Error> {
        let bytes = context.dry_run(None)?;
        let divisors = self.n_edges + self.n_edges / 4;
        Ok(bytes.total().div_ceil(4) + bytes.edges / 4 + divisors + self.nodes)
    }

    /// Buffers and gradients of a step.
    fn step_floats(&self) -> u64 {
        if self.config.loss != LinkLoss::KvsAll {
            let drawn = u64::from(self.config.negatives) * self.width;
            return self.nodes + self.relations + 4 * drawn;
        }
        let (questions, n_ranks) = (self.batch * self.width, self.n_ranks);
        let blocks = N_BLOCKS as u64;
        let of_queries = questions * blocks.div_ceil(n_ranks);
        let gathered = if n_ranks > 1 { questions * blocks } else { 0 };
        // Queries, their gradients, copies of own units and their gradients, scores.
        3 * questions
            + of_queries
            + gathered
            + (2 * self.nodes + self.batch * self.n_nodes) / n_ranks
            + self.nodes / blocks
            + 2 * self.relations
    }

    /// A copy of all units, and the scores of a product; the buffers of a step stay.
    fn ranking_floats(&self) -> u64 {
        let queries = queries_of_product(self.n_nodes as usize) as u64;
        let of_step = match self.config.loss {
            LinkLoss::KvsAll => self.step_floats() - 2 * self.relations,
            _ => 0,
        };
        of_step + self.nodes + queries * (self.width + self.n_nodes)
    }

    /// What rank 0 gathers and writes.
    fn checkpoint_floats(&self, has_folder: bool) -> u64 {
        let best = u64::from(self.config.patience > 0);
        match has_folder {
            true => 2 * (self.copies + best) * (self.nodes + self.relations),
            false => 0,
        }
    }
}
