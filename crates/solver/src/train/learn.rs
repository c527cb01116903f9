//! The learning part of a step: draw transitions, rebuild their states, take optimiser steps (algorithm 5, lines 18 to 26).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shardgraph_components::{DqnBatch, DqnLoss};
use shardgraph_layers::autodiff::{Ctx, Shape, Var};

use shardgraph_random::KeyedRng;

use super::TargetRule;
use super::batch::{Batch, BatchRules, Plan};
use super::memory::{Drawn, Place};
use super::trainer::Trainer;
use crate::Error;
use crate::problem::Episode;
use crate::residual::Ranks;

/// Rebuilt states.
type Played = BTreeMap<Place, Episode>;

/// States that are rebuilt to become a batch.
struct Wanted {
    places: Vec<Place>,
    plan: Plan,
}

impl Wanted {
    /// The states that this rank has rows of.
    fn own(&self) -> impl Iterator<Item = Place> + '_ {
        self.plan.own_states().map(|i| self.places[i])
    }

    fn episodes<'p>(&self, played: &'p Played) -> Vec<Option<&'p Episode>> {
        let episode = |place: &Place| played.get(place);
        self.places.iter().map(episode).collect()
    }
}

/// What the network is to say of the picks of a batch, in the batch's order of states.
struct Lesson {
    /// The pick's own row, or `u32::MAX` where another rank has it.
    rows: Arc<[u32]>,
    targets: Vec<f32>,
    /// Importance weights; empty where draws are uniform.
    weights: Vec<f32>,
}

impl Trainer {
    /// Draws a batch and takes optimiser steps on it; gives the loss before the last.
    pub(super) fn learn(&mut self, ranks: &mut Ranks<'_>) -> Result<Option<f32>, Error> {
        let batch_size = self.config.batch_size;
        if self.memory.len() < batch_size {
            return Ok(None);
        }
        let mut stream = KeyedRng::new(self.config.seed, "sample", self.step);
        let drawn = self.memory.draw(batch_size, self.step, &mut stream)?;
        let rules = self.batch_rules(ranks)?;
        let now = drawn
            .iter()
            .map(|drawn| drawn.place_at(drawn.transition.step));
        let now = self.wanted(now.collect(), &rules)?;
        let later = self.later(&drawn, &rules)?;
        let own = later.iter().flat_map(|later| later.states.own());
        let played = self.play(now.own().chain(own).collect())?;
        let targets = match later {
            Some(later) => self.recomputed(later, &played, &rules, ranks)?,
            None => drawn
                .iter()
                .map(|drawn| self.memory.target(drawn))
                .collect::<Result<_, _>>()?,
        };
        let batch = self.batch(&now.plan, &now.episodes(&played), &rules)?;
        drop(played);
        let lesson = self.lesson(&drawn, &targets, &now.plan)?;
        let (mut loss, mut first_errors) = (None, None);
        for _ in 0..self.config.gradient_iterations {
            let (value, errors) = self.descend(&batch, &lesson, ranks)?;
            loss = Some(value);
            first_errors.get_or_insert(errors);
        }
        if let Some(errors) = first_errors.filter(|_| self.memory.is_weighted()) {
            let in_order = (0..drawn.len()).map(|i| errors[now.plan.state(i)]);
            self.memory.set_errors(&in_order.collect::<Vec<f32>>())?;
        }
        Ok(loss)
    }

    fn wanted(&self, places: Vec<Place>, rules: &BatchRules) -> Result<Wanted, Error> {
        let mut states = Vec::with_capacity(places.len());
        for place in &places {
            states.push((place.graph_id, self.dataset.graph(place.graph_id)?));
        }
        let plan = Plan::new(&states, rules);
        Ok(Wanted { places, plan })
    }

    /// The states that were drawn, played anew: each episode once, as far as its last state.
    fn play(&self, places: BTreeSet<Place>) -> Result<Played, Error> {
        let mut played = Played::new();
        let mut last: Option<(Place, Episode)> = None;
        for place in places {
            let is_same = |(before, _): &(Place, _)| {
                (before.environment, before.episode) == (place.environment, place.episode)
            };
            let mut state = match last.take().filter(is_same) {
                Some((_, state)) => state,
                None => self.problem.begin(self.dataset.graph(place.graph_id)?),
            };
            let done = state.picks().len();
            for &pick in &self.memory.picks(place)?[done..] {
                state.pick(pick)?;
            }
            played.insert(place, state.clone());
            last = Some((place, state));
        }
        Ok(played)
    }

    /// What the recomputed targets read; none where they are stored.
    fn later(&self, drawn: &[Drawn], rules: &BatchRules) -> Result<Option<Later>, Error> {
        if self.config.target == TargetRule::Stored {
            return Ok(None);
        }
        let (n, gamma) = (self.config.n_step, self.config.gamma);
        let (mut returns, mut open) = (Vec::with_capacity(drawn.len()), Vec::new());
        let mut places = Vec::new();
        for (i, drawn) in drawn.iter().enumerate() {
            let found = self.memory.n_step(drawn, n, gamma)?;
            if let Some(step) = found.bootstrap_step {
                open.push((i, found.discount));
                places.push(drawn.place_at(step));
            }
            returns.push(found.reward_sum);
        }
        Ok(Some(Later {
            returns,
            open,
            states: self.wanted(places, rules)?,
        }))
    }

    /// The target values: rewards, and the value of the state after them by the target network.
    fn recomputed(
        &mut self,
        later: Later,
        played: &Played,
        rules: &BatchRules,
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<f32>, Error> {
        let Later {
            returns: mut targets,
            open,
            states,
        } = later;
        if open.is_empty() {
            return Ok(targets);
        }
        let batch = self.batch(&states.plan, &states.episodes(played), rules)?;
        let best = self.best_values(&batch, &self.target, ranks)?;
        for (k, (i, discount)) in open.into_iter().enumerate() {
            targets[i] += discount * best[states.plan.state(k)];
        }
        Ok(targets)
    }

    fn lesson(&self, drawn: &[Drawn], targets: &[f32], plan: &Plan) -> Result<Lesson, Error> {
        let n_states = drawn.len();
        let mut rows = vec![u32::MAX; n_states];
        let (mut wanted, mut weights) = (vec![0.0; n_states], vec![1.0; n_states]);
        for (i, drawn) in drawn.iter().enumerate() {
            let state = plan.state(i);
            let row = plan.row(i, self.memory.pick(drawn)?);
            rows[state] = row.map_or(u32::MAX, |row| row as u32);
            wanted[state] = targets[i];
            weights[state] = drawn.weight;
        }
        if !self.memory.is_weighted() {
            weights.clear();
        }
        Ok(Lesson {
            rows: rows.into(),
            targets: wanted,
            weights,
        })
    }

    /// One optimiser step; gives the loss before it and the error of each state.
    fn descend(
        &mut self,
        batch: &Batch,
        lesson: &Lesson,
        ranks: &mut Ranks<'_>,
    ) -> Result<(f32, Vec<f32>), Error> {
        let mut ctx = self.eager(&self.policy.params, ranks);
        let model = &self.policy.model;
        let layout = &batch.states.layout;
        let embed = model.embedding.embed(&mut ctx, &batch.states, self.path)?;
        let rows = Arc::clone(&lesson.rows);
        let q = model.head.scores_of(&mut ctx, embed, layout, rows)?;
        let loss = self.loss(&mut ctx, q, lesson)?;
        let value = ctx.values(loss)?[0];
        let errors = ctx.values(q)?;
        let errors = errors.iter().zip(&lesson.targets).map(|(q, y)| q - y);
        let errors = errors.collect();
        let mut gradient = ctx.resident_gradient(loss)?;
        self.spare.put(ctx.into_pool());
        if !value.is_finite() {
            return Err(self.diverged("the loss", value));
        }
        let stepped =
            self.optimiser
                .step_with(&self.device, &mut self.policy.params, &mut gradient);
        stepped.map_err(|error| match error {
            shardgraph_components::Error::Diverged { .. } => self.diverged("the loss", value),
            _ => error.into(),
        })?;
        Ok((value, errors))
    }

    fn loss(&self, ctx: &mut dyn Ctx, q: Var, lesson: &Lesson) -> Result<Var, Error> {
        let td_loss = self.config.td_loss();
        let column = Shape::new(lesson.targets.len(), 1);
        let targets = ctx.input(column, &lesson.targets)?;
        if lesson.weights.is_empty() {
            return Ok(td_loss.mean(ctx, q, targets)?);
        }
        // A network with one action, whose value is that of the pick.
        let ones = ctx.input(column, &vec![1.0; column.rows])?;
        let batch = DqnBatch {
            observations: targets,
            actions: ones,
            rewards: targets,
            discounts: ones,
            next_observations: targets,
            weights: Some(ctx.input(column, &lesson.weights)?),
            next_mask: None,
        };
        let double = false;
        let output = DqnLoss { td_loss, double }.of_values(ctx, q, targets, &batch)?;
        Ok(output.loss)
    }
}

/// The n-step returns of drawn transitions, and the states that they bootstrap from.
struct Later {
    /// For each transition the sum of its rewards.
    returns: Vec<f32>,
    /// The transitions that go on after them, with the discount of what follows.
    open: Vec<(usize, f32)>,
    /// For each of `open` the state.
    states: Wanted,
}
