//! The policy that logits stand for.

use shardgraph_autodiff::{Axis, Ctx, Var};
use shardgraph_environments::space::Space;
use shardgraph_random::KeyedRng;

use crate::Error;
use crate::error::Call;
use crate::rows::row_sums;
use crate::spaces::n_choices;

/// `pi(a | s)` proportional to `e^logit`.
///
/// An action that is a tuple of discrete numbers has a policy for each of them, and its probability
/// is their product. Their logits lie behind each other in a row.
///
/// An action that must not be taken has a large negative logit, such as -1e9: its probability is
/// then 0. (Minus infinity makes the entropy not a number.)
///
/// ```
/// use shardgraph_components::SoftmaxPolicy;
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_random::KeyedRng;
///
/// let policy = SoftmaxPolicy::build("policy", &Space::discrete(3)?)?;
/// let logits = [0.0, -1e9, -1e9, 5.0, -1e9, 5.0];
/// let mut actions = Vec::new();
/// policy.sample_into(&logits, &mut KeyedRng::new(7, "act", 0), &mut actions)?;
/// assert!(actions[0] == 0 && actions[1] != 1);
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SoftmaxPolicy {
    scope: String,
    /// The number of choices of each part of an action.
    n_choices: Vec<usize>,
    /// Their sum.
    n_actions: usize,
}

impl SoftmaxPolicy {
    /// Over the actions of this space.
    ///
    /// # Errors
    /// When the space is neither discrete nor a tuple of discrete ones.
    pub fn build(scope: &str, action: &Space) -> Result<SoftmaxPolicy, Error> {
        let n_choices = n_choices(Call::new(scope, "SoftmaxPolicy::build"), action)?;
        Ok(SoftmaxPolicy {
            scope: scope.to_string(),
            n_actions: n_choices.iter().sum(),
            n_choices,
        })
    }

    /// The number of choices of each part of an action.
    pub fn n_choices(&self) -> &[usize] {
        &self.n_choices
    }

    /// Columns of the logits.
    pub fn n_actions(&self) -> usize {
        self.n_actions
    }

    /// The logarithms of all actions' probabilities.
    ///
    /// # Shapes
    /// `[n, n_actions]` to the same.
    /// # Errors
    /// Where the logits have another width.
    pub fn log_probabilities(&self, ctx: &mut dyn Ctx, logits: Var) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "SoftmaxPolicy::log_probabilities");
        call.expect_width(ctx, "the logits", logits, self.n_actions)?;
        let mut joined = None;
        let mut start = 0;
        for &n in &self.n_choices {
            let part = match n == self.n_actions {
                true => logits,
                false => ctx.slice(logits, Axis::Cols, start, n)?,
            };
            let part = ctx.log_softmax(part)?;
            joined = Some(match joined {
                None => part,
                Some(before) => ctx.concat(before, part, Axis::Cols)?,
            });
            start += n;
        }
        joined.ok_or_else(|| call.mismatch("the action", "at least one part", "none"))
    }

    /// The logarithms of the probabilities of the actions that were taken; `actions` is one-hot, in
    /// each part of an action.
    ///
    /// # Shapes
    /// Twice `[n, n_actions]` to `[n, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn of_actions(
        &self,
        ctx: &mut dyn Ctx,
        log_probabilities: Var,
        actions: Var,
    ) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "SoftmaxPolicy::of_actions");
        call.expect_width(ctx, "the actions", actions, self.n_actions)?;
        call.expect_shape(ctx, "the actions", actions, ctx.shape(log_probabilities))?;
        let taken = ctx.mul(log_probabilities, actions)?;
        Ok(row_sums(ctx, taken)?)
    }

    /// `-sum p log p` of each row, in nats.
    ///
    /// # Shapes
    /// `[n, n_actions]` to `[n, 1]`.
    /// # Errors
    /// Where the logarithms have another width.
    pub fn entropy(&self, ctx: &mut dyn Ctx, log_probabilities: Var) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "SoftmaxPolicy::entropy");
        call.expect_width(
            ctx,
            "the log probabilities",
            log_probabilities,
            self.n_actions,
        )?;
        let probabilities = ctx.exp(log_probabilities)?;
        let terms = ctx.mul(probabilities, log_probabilities)?;
        let sums = row_sums(ctx, terms)?;
        Ok(ctx.scale(sums, -1.0)?)
    }

    /// Draws an action for each row of logits (or log probabilities) behind those in `actions`: one
    /// number of the stream for each part of it, by the inverse of the cumulative distribution.
    ///
    /// # Errors
    /// When the logits are no whole number of rows, or a row has NaN, plus infinity, or nothing but
    /// minus infinity.
    /// # Determinism
    /// Equal logits and streams give equal actions on every machine.
    pub fn sample_into(
        &self,
        logits: &[f32],
        stream: &mut KeyedRng,
        actions: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let call = Call::new(&self.scope, "SoftmaxPolicy::sample_into");
        if !logits.len().is_multiple_of(self.n_actions) {
            let expected = format!("rows of {}", self.n_actions);
            let given = format!("{} numbers", logits.len());
            return Err(call.mismatch("the logits", expected, given));
        }
        for (i, row) in logits.chunks_exact(self.n_actions).enumerate() {
            let mut rest = row;
            for &n in &self.n_choices {
                let (part, behind) = rest.split_at(n);
                let largest = part.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                if !largest.is_finite() || part.iter().any(|logit| logit.is_nan()) {
                    let expected = "numbers, one of them finite";
                    return Err(call.mismatch(format!("row {i}"), expected, format!("{row:?}")));
                }
                actions.push(draw(part, largest, stream.uniform_f64()));
                rest = behind;
            }
        }
        Ok(())
    }
}

impl SoftmaxPolicy {
    /// The likeliest action of each row of logits, behind those in `actions`: the first of several,
    /// in each part.
    ///
    /// # Panics
    /// When the logits are no whole number of rows.
    pub fn best_into(&self, logits: &[f32], actions: &mut Vec<u32>) {
        assert!(
            logits.len().is_multiple_of(self.n_actions),
            "rows of logits"
        );
        for row in logits.chunks_exact(self.n_actions) {
            let mut rest = row;
            for &n in &self.n_choices {
                let (part, behind) = rest.split_at(n);
                actions.push(first_of_largest(part));
                rest = behind;
            }
        }
    }

    /// Writes actions as rows of zeros and ones, one for each part, behind those in `rows`.
    ///
    /// # Errors
    /// When they are no whole number of actions, or one is none of the policy's.
    pub fn one_hot_into(&self, actions: &[u32], rows: &mut Vec<f32>) -> Result<(), Error> {
        let call = Call::new(&self.scope, "SoftmaxPolicy::one_hot_into");
        if !actions.len().is_multiple_of(self.n_choices.len()) {
            let expected = format!("{} numbers an action", self.n_choices.len());
            return Err(call.mismatch("the actions", expected, actions.len().to_string()));
        }
        for action in actions.chunks_exact(self.n_choices.len()) {
            for (&choice, &n) in action.iter().zip(&self.n_choices) {
                let first = rows.len();
                rows.resize(first + n, 0.0);
                let Some(cell) = rows[first..].get_mut(choice as usize) else {
                    let expected = format!("0 to {}", n - 1);
                    return Err(call.mismatch("an action", expected, choice.to_string()));
                };
                *cell = 1.0;
            }
        }
        Ok(())
    }
}

fn first_of_largest(values: &[f32]) -> u32 {
    let mut best = 0;
    for (choice, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = choice;
        }
    }
    best as u32
}

/// The action at `uniform` of the cumulative distribution. Never one of probability 0: rounding may
/// leave the last sum short.
fn draw(logits: &[f32], largest: f32, uniform: f64) -> u32 {
    let weight = |&logit: &f32| libm::exp(f64::from(logit) - f64::from(largest));
    let wanted = uniform * logits.iter().map(weight).sum::<f64>();
    let (mut sum, mut last) = (0.0, 0);
    for (action, logit) in logits.iter().enumerate() {
        let weight = weight(logit);
        if weight > 0.0 {
            (sum, last) = (sum + weight, action);
        }
        if sum > wanted {
            break;
        }
    }
    last as u32
}
