//! The two action-value networks of soft actor-critic.

use shardgraph_autodiff::{Axis, Ctx, Params, Var};

use crate::constant_parameters::ConstantParameters;
use crate::error::Call;
use crate::gaussian_policy::n_elements;
use crate::rows::minimum;
use crate::spaces::{EnvironmentSpaces, n_actions, n_features};
use crate::{Error, Initialiser, Mlp};

/// Two networks of equal layers and different weights; the smaller of their values is what counts.
///
/// For actions of a box each reads the observation and the action, and gives one value. For
/// discrete actions each reads the observation and gives the values of all actions.
///
/// # Source
/// Fujimoto, van Hoof and Meger, "Addressing function approximation error in actor-critic methods",
/// 2018 (clipped double Q-learning), as in Haarnoja et al., "Soft actor-critic algorithms and
/// applications", 2018.
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Recorder, Shape};
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{EnvironmentSpaces, Initialiser, TwinCritic};
///
/// let (observation, action) = (Space::boxed(&[3], -1.0, 1.0)?, Space::boxed(&[2], -1.0, 1.0)?);
/// let spaces = EnvironmentSpaces::new(&observation, &action);
/// let mut params = Params::new();
/// let critics = TwinCritic::build(&mut params, "critics", spaces, &[16], Initialiser::default())?;
/// let mut ctx = Recorder::new(&params, 0, 1);
/// let (observations, actions) = (ctx.input(Shape::new(8, 3), &[])?, ctx.input(Shape::new(8, 2), &[])?);
/// let smaller = critics.minimum(&mut ctx, observations, Some(actions))?;
/// assert_eq!(ctx.shape(smaller), Shape::new(8, 1));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TwinCritic {
    scope: String,
    critics: [Mlp; 2],
    n_observation_columns: usize,
    /// Elements of an action that the networks read; 0 where they value all discrete ones.
    n_action_columns: usize,
}

impl TwinCritic {
    /// Adds the parameters of `scope/0` and `scope/1`, with hidden layers of these widths.
    ///
    /// # Errors
    /// When the observation has no fixed width, the action is neither discrete nor a box, a width is
    /// 0 or the scope is taken.
    pub fn build(
        params: &mut Params,
        scope: &str,
        spaces: EnvironmentSpaces<'_>,
        hidden: &[usize],
        initialiser: Initialiser,
    ) -> Result<TwinCritic, Error> {
        let call = Call::new(scope, "TwinCritic::build");
        let n_observation_columns = n_features(call, spaces.observation)?;
        let (n_action_columns, n_values) = match n_elements(spaces.action) {
            Some(n) => (n, 1),
            None => (0, n_actions(call, spaces.action)?),
        };
        let n_inputs = n_observation_columns + n_action_columns;
        let widths = [hidden, &[n_values]].concat();
        let mut build = |name: &str| {
            let scope = format!("{scope}/{name}");
            Mlp::build(params, &scope, n_inputs, &widths, initialiser)
        };
        Ok(TwinCritic {
            scope: scope.to_string(),
            critics: [build("0")?, build("1")?],
            n_observation_columns,
            n_action_columns,
        })
    }

    /// True if the networks read actions, and do not value all of them.
    pub fn reads_actions(&self) -> bool {
        self.n_action_columns > 0
    }

    /// The values by both networks.
    ///
    /// # Shapes
    /// Of a box: `[n, n_inputs]` and `[n, w]` to `[n, 1]`. Of discrete actions, which are not given:
    /// `[n, n_inputs]` to `[n, n_actions]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn values(
        &self,
        ctx: &mut dyn Ctx,
        observations: Var,
        actions: Option<Var>,
    ) -> Result<[Var; 2], Error> {
        let call = Call::new(&self.scope, "TwinCritic::values");
        let width = self.n_observation_columns;
        call.expect_width(ctx, "the observations", observations, width)?;
        let read = match (actions, self.n_action_columns) {
            (None, 0) => observations,
            (Some(actions), n @ 1..) => {
                call.expect_width(ctx, "the actions", actions, n)?;
                ctx.concat(observations, actions, Axis::Cols)?
            }
            (actions, n) => {
                let given = actions.map_or("none".to_owned(), |at| ctx.shape(at).to_string());
                return Err(call.mismatch("the actions", format!("{n} columns"), given));
            }
        };
        let [first, second] = &self.critics;
        Ok([first.apply(ctx, read)?, second.apply(ctx, read)?])
    }

    /// The smaller of both values, element by element.
    ///
    /// # Shapes
    /// As [`TwinCritic::values`].
    /// # Errors
    /// As [`TwinCritic::values`].
    pub fn minimum(
        &self,
        ctx: &mut dyn Ctx,
        observations: Var,
        actions: Option<Var>,
    ) -> Result<Var, Error> {
        let [first, second] = self.values(ctx, observations, actions)?;
        Ok(minimum(ctx, first, second)?)
    }

    /// The same with weights that count as constants: a gradient flows to the actions alone.
    ///
    /// # Shapes
    /// As [`TwinCritic::values`].
    /// # Errors
    /// As [`TwinCritic::values`].
    pub fn minimum_of_constants(
        &self,
        ctx: &mut dyn Ctx,
        observations: Var,
        actions: Option<Var>,
    ) -> Result<Var, Error> {
        self.minimum(&mut ConstantParameters(ctx), observations, actions)
    }
}
