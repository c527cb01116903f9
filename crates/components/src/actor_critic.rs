//! A policy and a value function over shared layers.

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{Axis, Ctx, ParamId, Params, Shape, Var};

use crate::error::Call;
use crate::gaussian_policy::n_elements;
use crate::initialiser::{Gains, add};
use crate::spaces::{EnvironmentSpaces, n_choices, n_features};
use crate::{Error, Initialiser, Linear, Lstm, LstmState, Mlp, Sequences};

/// The layers of an [`ActorCritic`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActorCriticShape {
    /// Widths of the hidden layers; default 64 and 64.
    pub hidden: Vec<usize>,
    /// Hidden units of a memory behind them; without it (the default) a policy sees one observation
    /// only.
    pub lstm: Option<usize>,
}

impl Default for ActorCriticShape {
    fn default() -> ActorCriticShape {
        ActorCriticShape {
            hidden: vec![64, 64],
            lstm: None,
        }
    }
}

/// The results of an [`ActorCritic`] for each observation.
#[derive(Debug, Clone, Copy)]
pub struct PolicyAndValue {
    /// `[n, n_actions]`: the policy's logits; of a tuple of actions, those of one behind the other.
    /// Of a box its means, then the logarithms of the deviations ([`crate::GaussianPolicy`]).
    pub logits: Var,
    /// `[n, 1]`: the values of the states.
    pub values: Var,
}

/// Hidden layers, perhaps a memory, and two linear heads.
///
/// With the orthogonal rule memory and heads have gains of their own ([`crate::Gains`]).
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Shape, Recorder};
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{EnvironmentSpaces, ActorCritic, ActorCriticShape, Initialiser};
///
/// let (observation, action) = (Space::boxed(&[4], -1.0, 1.0)?, Space::discrete(2)?);
/// let shape = ActorCriticShape { hidden: vec![16], lstm: None };
/// let mut params = Params::new();
/// let actor = ActorCritic::build(&mut params, "actor", EnvironmentSpaces::new(&observation, &action), &shape, Initialiser::default())?;
/// let mut ctx = Recorder::new(&params, 0, 1);
/// let x = ctx.input(Shape::new(32, 4), &[])?;
/// let out = actor.apply(&mut ctx, x)?;
/// assert_eq!((ctx.shape(out.logits), ctx.shape(out.values)), (Shape::new(32, 2), Shape::new(32, 1)));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ActorCritic {
    scope: String,
    torso: Mlp,
    core: Option<Lstm>,
    policy: Linear,
    /// Of continuous actions.
    log_deviations: Option<ParamId>,
    value: Linear,
}

impl ActorCritic {
    /// Adds the parameters of `scope/torso`, `scope/core` (with a memory), `scope/policy` and
    /// `scope/value`; for a box also `scope/log_deviations`, of zeros.
    ///
    /// # Errors
    /// When the observation has no fixed width, the action is neither discrete, a tuple of discrete
    /// ones, nor a box, a width is 0 or the scope is taken.
    pub fn build(
        params: &mut Params,
        scope: &str,
        spaces: EnvironmentSpaces<'_>,
        shape: &ActorCriticShape,
        initialiser: Initialiser,
    ) -> Result<ActorCritic, Error> {
        let EnvironmentSpaces {
            observation,
            action,
        } = spaces;
        let call = Call::new(scope, "ActorCritic::build");
        let n_inputs = n_features(call, observation)?;
        let of_box = n_elements(action);
        let n_outputs = match of_box {
            Some(n) => n,
            None => n_choices(call, action)?.iter().sum(),
        };
        let within = |name: &str| format!("{scope}/{name}");
        let hidden = &shape.hidden;
        let torso = Mlp::build(params, &within("torso"), n_inputs, hidden, initialiser)?;
        let mut width = torso.n_outputs();
        let mut core = None;
        if let Some(n_hidden) = shape.lstm {
            let lstm = Lstm::build(params, &within("core"), width, n_hidden, initialiser)?;
            core = Some(lstm);
            width = n_hidden;
        }
        let mut head = |name: &str, n_outputs: usize, gain: fn(&Gains) -> f32| {
            let initialiser = initialiser.with_gain_of(gain);
            Linear::build(params, &within(name), width, n_outputs, initialiser)
        };
        let policy = head("policy", n_outputs, |gains| gains.policy)?;
        let value = head("value", 1, |gains| gains.value)?;
        let deviations = |n: usize| {
            let name = within("log_deviations");
            add(params, call, &name, Shape::new(1, n), &vec![0.0; n])
        };
        Ok(ActorCritic {
            scope: scope.to_string(),
            torso,
            core,
            policy,
            log_deviations: of_box.map(deviations).transpose()?,
            value,
        })
    }

    /// Columns of its input: the observation space, flat.
    pub fn n_inputs(&self) -> usize {
        self.torso.n_inputs()
    }

    /// Columns of the logits; of a box twice its elements.
    pub fn n_actions(&self) -> usize {
        let n_parts = 1 + usize::from(self.log_deviations.is_some());
        n_parts * self.policy.n_outputs()
    }

    /// Columns of the memory's state, if there is a memory.
    pub fn n_hidden(&self) -> Option<usize> {
        self.core.as_ref().map(Lstm::n_hidden)
    }

    /// The policy and the values, of a network without a memory.
    ///
    /// # Shapes
    /// `[n, n_inputs]` to `[n, n_actions]` and `[n, 1]`.
    /// # Errors
    /// Where the observations have another width, or the network has a memory.
    pub fn apply(&self, ctx: &mut dyn Ctx, observations: Var) -> Result<PolicyAndValue, Error> {
        let call = Call::new(&self.scope, "ActorCritic::apply");
        if self.core.is_some() {
            let expected = "none; call unroll with its state";
            return Err(call.mismatch("the memory", expected, "one"));
        }
        call.expect_width(ctx, "the observations", observations, self.n_inputs())?;
        let features = self.torso.features(ctx, observations)?;
        self.heads(ctx, features)
    }

    /// The policy and the values over time, and the memory's state after the last step.
    ///
    /// # Shapes
    /// As [`Lstm::unroll`].
    /// # Errors
    /// Where the shapes do not fit, or the network has no memory.
    pub fn unroll(
        &self,
        ctx: &mut dyn Ctx,
        observations: Var,
        begins: Var,
        state: LstmState,
        rows: Sequences,
    ) -> Result<(PolicyAndValue, LstmState), Error> {
        let call = Call::new(&self.scope, "ActorCritic::unroll");
        let Some(core) = &self.core else {
            return Err(call.mismatch("the memory", "one; call apply without it", "none"));
        };
        call.expect_width(ctx, "the observations", observations, self.n_inputs())?;
        let features = self.torso.features(ctx, observations)?;
        let (features, state) = core.unroll(ctx, features, begins, state, rows)?;
        Ok((self.heads(ctx, features)?, state))
    }

    fn heads(&self, ctx: &mut dyn Ctx, features: Var) -> Result<PolicyAndValue, Error> {
        let mut logits = self.policy.apply(ctx, features)?;
        if let Some(id) = self.log_deviations {
            let row = ctx.param(id)?;
            let n_rows = ctx.shape(logits).rows;
            let rows = ctx.repeat_row(row, n_rows)?;
            logits = ctx.concat(logits, rows, Axis::Cols)?;
        }
        Ok(PolicyAndValue {
            logits,
            values: self.value.apply(ctx, features)?,
        })
    }
}
