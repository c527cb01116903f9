//! Steps of training: batches of triples against sampled nodes, with and without an encoder, and
//! questions against all nodes.

use std::sync::Arc;

use super::config::LinkConfig;
use super::decoder::{Chunk, Decoder, DecoderGradients, LossScale};
use super::encoder::{Encoder, Messages};
use super::kvsall::{KvsAll, Model, OwnGradients, StepScale};
use super::questions::{Asked, Questions};
use super::sampling::{self, EdgeDraw};
use super::trainer::{LinkTrainer, NodeVectors, layout_of};
use crate::error::diverged;
use crate::layer::optimiser::Rule;
use crate::layer::values::squares;
use crate::memory::{Array, Purpose};
use crate::model::backward::StepRules;
use crate::model::comm::RankComm;
use crate::{Config, Edge, Error};

impl LinkTrainer<'_> {
    /// A pass over the training triples; the sum of their losses.
    pub(super) fn pass(&mut self, epoch: u32, ranks: &mut RankComm<'_>) -> Result<f64, Error> {
        let tables = Arc::clone(&self.tables);
        if let (Some(mut pass), Some(questions)) = (self.all_nodes.take(), &tables.questions) {
            let loss = self.pass_over_questions(&mut pass, questions, epoch, ranks);
            self.all_nodes = Some(pass);
            return loss;
        }
        let train = self.data.train();
        let order = sampling::order(self.config.encoder.seed, epoch, train.len());
        let batch = batch_size(self.config.batch, train.len());
        let first = u64::from(epoch) * order.len().div_ceil(batch) as u64;
        let mut loss = 0.0;
        let most = self.most_steps();
        for (step, batch) in (first..).zip(order.chunks(batch)).take(most) {
            let triples: Vec<Edge> = batch.iter().map(|&idx| train[idx as usize]).collect();
            loss += self.step(step, &triples, ranks)?;
        }
        Ok(loss)
    }

    /// A pass over the questions of the training triples; the mean loss of a question's direction
    /// summed over triples.
    fn pass_over_questions(
        &mut self,
        pass: &mut KvsAll,
        questions: &Questions,
        epoch: u32,
        ranks: &mut RankComm<'_>,
    ) -> Result<f64, Error> {
        let order = questions.order(self.config.encoder.seed, epoch);
        let EpochPlan {
            batch,
            first,
            has_messages,
        } = EpochPlan::new(self.config, epoch, questions.len());
        // The same for all steps: the mean over a batch of average questions.
        let scale = questions.len() as f32 / (batch as f32 * questions.n_ends() as f32);
        let mut loss = 0.0;
        let most = self.most_steps();
        for (step, batch) in (first..).zip(order.chunks(batch)).take(most) {
            let asked: Vec<Asked<'_>> = batch.iter().map(|&idx| questions.get(idx)).collect();
            let question_step = QuestionStep {
                asked: &asked,
                scale: StepScale {
                    scale,
                    dropout: self.config.encoder.dropout,
                    seed: self.config.encoder.seed,
                    step,
                },
                n_steps: self.n_steps(step)?,
                has_messages,
            };
            loss += self.step_over_all_nodes(pass, question_step, ranks)?;
        }
        Ok(0.5 * loss)
    }
}

/// One step over all nodes.
pub(super) struct QuestionStep<'a> {
    pub(super) asked: &'a [Asked<'a>],
    pub(super) scale: StepScale,
    /// Steps with this one.
    pub(super) n_steps: u32,
    /// True if an encoder's messages go.
    pub(super) has_messages: bool,
}

/// Triples, or questions, of a step: at most `most`, or 0 for all `n`.
fn batch_size(most: u32, n: usize) -> usize {
    match most {
        0 => n,
        batch => n.min(batch as usize),
    }
}

/// The steps of an epoch over questions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct EpochPlan {
    /// Questions of a step.
    batch: usize,
    /// The number of the first step, counted over all epochs.
    first: u64,
    /// True if an encoder's messages go.
    has_messages: bool,
}

impl EpochPlan {
    fn new(config: &LinkConfig, epoch: u32, n_questions: usize) -> EpochPlan {
        let alone = batch_size(config.batch, n_questions);
        let encoded = match config.encode {
            true => batch_size(config.message_batch, n_questions),
            false => alone,
        };
        let n_steps =
            |n_epochs: u32, batch: usize| u64::from(n_epochs) * n_questions.div_ceil(batch) as u64;
        let warm = epoch.min(config.warm_epochs);
        let has_messages = config.encode && epoch >= config.warm_epochs;
        EpochPlan {
            batch: if has_messages { encoded } else { alone },
            first: n_steps(warm, alone) + n_steps(epoch - warm, encoded),
            has_messages,
        }
    }
}

impl LinkTrainer<'_> {
    /// The most steps of an epoch: of a dry run one, since the first batch is as large as any.
    fn most_steps(&self) -> usize {
        match self.memory.is_dry() {
            true => 1,
            false => usize::MAX,
        }
    }

    fn n_steps(&self, step: u64) -> Result<u32, Error> {
        u32::try_from(step + 1).map_err(|_| {
            let expected = "fewer than 2^32 steps in all";
            Error::config("epochs", self.config.encoder.epochs, expected)
        })
    }

    /// One batch of questions: scores of all nodes, gradients, step. The sum of its ends' losses.
    pub(super) fn step_over_all_nodes(
        &mut self,
        pass: &mut KvsAll,
        step: QuestionStep<'_>,
        ranks: &mut RankComm<'_>,
    ) -> Result<f64, Error> {
        if let NodeVectors::Encoded(encoder) = &mut self.nodes {
            let draw = EdgeDraw {
                seed: step.scale.seed,
                step: step.scale.step,
                dropout: self.config.edge_dropout,
            };
            step.encode(encoder, draw, self.data.train().len(), ranks)?;
        }
        let model = Model {
            decoder: &self.decoder,
            units: self.units(),
        };
        let (loss, mut gradients) = pass.gradients(model, step.asked, step.scale, ranks)?;
        if !loss.is_finite() {
            return Err(diverged());
        }
        let n3 = self.config.n3 * step.scale.scale;
        if n3 > 0.0 {
            pass.add_n3(n3, model, step.asked, &mut gradients);
        }
        let OwnGradients { units, relations } = gradients;
        let rules = self.rules(step.n_steps);
        match &mut self.nodes {
            NodeVectors::Embedded(embeddings) => embeddings.step(rules.rows, &units, ranks)?,
            NodeVectors::Encoded(_) if self.config.freeze_encoder => {}
            NodeVectors::Encoded(encoder) => {
                let width = self.decoder.width;
                let all = (pass.blocks).gather_rows(&units, width, ranks, &self.memory)?;
                let QuestionStep {
                    has_messages,
                    n_steps,
                    ..
                } = step;
                let gradients = encoder.gradients(&all, has_messages, n_steps, ranks)?;
                encoder.step(rules, &gradients);
            }
        }
        self.decoder.step(rules.rows, relations, 1.0);
        Ok(loss)
    }

    /// The rules of a step: the layers have their own rate where one is given.
    fn rules(&self, n_steps: u32) -> StepRules {
        let encoder = &self.config.encoder;
        let rows = Rule::new(encoder, n_steps);
        let layers = match self.config.layer_rate > 0.0 {
            false => rows,
            true => Rule::new(
                &Config {
                    rate: self.config.layer_rate,
                    ..encoder.clone()
                },
                n_steps,
            ),
        };
        StepRules { rows, layers }
    }

    /// One batch: messages, scores, gradients, step. The sum of its triples' losses.
    pub(super) fn step(
        &mut self,
        step: u64,
        triples: &[Edge],
        ranks: &mut RankComm<'_>,
    ) -> Result<f64, Error> {
        let n_steps = self.n_steps(step)?;
        if let NodeVectors::Encoded(encoder) = &mut self.nodes {
            let seed = self.config.encoder.seed;
            let dropout = match self.memory.is_dry() {
                true => 0.0, // the most edges
                false => self.config.edge_dropout,
            };
            let kept = sampling::kept(seed, step, triples, dropout);
            let graph = self.data.messages(&kept)?;
            let layout = layout_of(&graph, self.config, 1)?;
            let _graph = self.memory.hold(Purpose::Edges, layout.n_bytes());
            let plans = layout.plans(0);
            encoder.encode(Messages::Planned(plans), Some(n_steps - 1), ranks)?;
        }
        let (loss, decoded) = self.decode(step, triples);
        if !loss.is_finite() {
            return Err(diverged());
        }
        let DecoderGradients {
            mut units,
            relations,
        } = decoded;
        let rules = self.rules(n_steps);
        let clip = self.config.clip;
        let factor = match &mut self.nodes {
            NodeVectors::Encoded(_) if self.config.freeze_encoder => {
                factor_of_clip(clip, squares(&relations))
            }
            NodeVectors::Encoded(encoder) => {
                let mut gradients = encoder.gradients(&units, true, n_steps, ranks)?;
                let squares = match self.memory.is_dry() {
                    true => 0.0,
                    false => encoder.network.squares_of(&gradients) + squares(&relations),
                };
                let factor = factor_of_clip(clip, squares);
                if factor < 1.0 {
                    gradients.scale(factor);
                }
                encoder.step(rules, &gradients);
                factor
            }
            NodeVectors::Embedded(embeddings) => {
                let factor = factor_of_clip(clip, squares(&units) + squares(&relations));
                units.iter_mut().for_each(|gradient| *gradient *= factor);
                embeddings.step(rules.rows, &units, ranks)?;
                factor
            }
        };
        self.decoder.step(rules.rows, relations, factor);
        Ok(loss)
    }

    /// The triples that a step asks about: with reciprocal relations each in both directions.
    fn asked(&self, triples: &[Edge]) -> Vec<Edge> {
        let Some(n_relations) = self.decoder.n_reciprocal else {
            return triples.to_vec();
        };
        let both = |&triple: &Edge| {
            let inverse = Edge {
                source: triple.target,
                relation: triple.relation + n_relations,
                target: triple.source,
            };
            [triple, inverse]
        };
        triples.iter().flat_map(both).collect()
    }

    /// The sum of the losses of triples, and the gradient of their mean with the decoder's L2.
    fn decode(&self, step: u64, triples: &[Edge]) -> (f64, DecoderGradients) {
        let units = self.units();
        let zeros = |len| self.memory.zeros(Purpose::Gradients, len);
        let mut gradients = DecoderGradients {
            units: zeros(self.n_units()),
            relations: zeros(self.decoder.relations.len()),
        };
        let LinkConfig {
            negatives,
            share,
            loss,
            ..
        } = *self.config;
        let seed = self.config.encoder.seed;
        let scale = 1.0 / triples.len() as f32;
        let mut sum = 0.0;
        let asked = self.asked(triples);
        for (idx, triples) in asked.chunks(share as usize).enumerate() {
            let n_nodes = self.data.n_nodes();
            let drawn = sampling::negatives(seed, step, idx, negatives, n_nodes);
            let chunk = Chunk {
                triples,
                negatives: &drawn,
            };
            let scale = LossScale { loss, scale };
            sum += self.decoder.chunk(units, chunk, scale, &mut gradients);
        }
        let n3 = self.config.n3 / asked.len() as f32;
        if n3 > 0.0 && !self.memory.is_dry() {
            self.decoder.add_n3(n3, units, &asked, &mut gradients);
        }
        let l2 = self.config.decoder_l2;
        add_decay(l2, units, &mut gradients.units);
        add_decay(l2, &self.decoder.relations, &mut gradients.relations);
        (sum, gradients)
    }
}

impl QuestionStep<'_> {
    /// Makes the units that the step's questions are scored with: messages go along all triples but
    /// those that are asked about, as at a test.
    fn encode(
        &self,
        encoder: &mut Encoder<'_>,
        draw: EdgeDraw,
        n_triples: usize,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        if !self.has_messages {
            return encoder.encode(Messages::None, None, ranks);
        }
        let asked = self.asked.iter().flat_map(|asked| asked.triples);
        let memory = &encoder.network.memory;
        let is_kept = match memory.is_dry() {
            true => vec![true; 2 * n_triples], // the most edges
            false => sampling::kept_edges(draw, n_triples, asked.copied()),
        };
        let _flags = memory.hold(Purpose::Edges, is_kept.len() as u64);
        encoder.encode(Messages::Along(&is_kept), Some(self.n_steps - 1), ranks)
    }
}

/// The factor that cuts gradients of a sum of squares to the greatest length; 0: none does.
fn factor_of_clip(clip: f32, squares: f64) -> f32 {
    match clip > 0.0 {
        true => (f64::from(clip) / squares.sqrt()).min(1.0) as f32,
        false => 1.0,
    }
}

impl Decoder {
    /// Steps the relations' vectors along `factor` times their gradient.
    fn step(&mut self, rule: Rule, mut gradient: Array<f32>, factor: f32) {
        gradient.iter_mut().for_each(|value| *value *= factor);
        let whole = 0..gradient.len();
        rule.step(&mut self.relations, &gradient, self.moments.of(whole));
    }
}

impl Decoder {
    /// Adds the gradient of `n3` times the sums of cubes of the triples' vectors.
    ///
    /// # Source
    /// Lacroix et al., "Canonical tensor decomposition for knowledge base completion" (2018).
    fn add_n3(&self, n3: f32, units: &[f32], triples: &[Edge], gradients: &mut DecoderGradients) {
        let width = self.width;
        let add = |values: &[f32], idx: u32, gradient: &mut [f32]| {
            let begin = idx as usize * width;
            let values = &values[begin..][..width];
            for (gradient, x) in gradient[begin..][..width].iter_mut().zip(values) {
                *gradient += 3.0 * n3 * x * x.abs();
            }
        };
        for triple in triples {
            add(units, triple.source, &mut gradients.units);
            add(units, triple.target, &mut gradients.units);
            add(&self.relations, triple.relation, &mut gradients.relations);
        }
    }
}

/// Adds the gradient of `l2` times the mean square.
fn add_decay(l2: f32, values: &[f32], gradient: &mut [f32]) {
    let factor = 2.0 * l2 / values.len() as f32;
    if factor > 0.0 {
        for (gradient, value) in gradient.iter_mut().zip(values) {
            *gradient += factor * value;
        }
    }
}
