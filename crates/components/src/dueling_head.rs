//! Action values as the state's value plus each action's advantage.

use shardgraph_autodiff::{Ctx, Params, Shape, Var};

use crate::error::Call;
use crate::rows::constant;
use crate::{Error, Initialiser, Mlp};

/// `Q(s, a) = V(s) + A(s, a) - mean over actions of A(s, .)`.
///
/// # Source
/// Wang et al., "Dueling network architectures for deep reinforcement learning" (2016), equation 9.
#[derive(Debug, Clone)]
pub struct DuelingHead {
    scope: String,
    value: Mlp,
    advantage: Mlp,
}

impl DuelingHead {
    /// Adds two streams, `scope/value` and `scope/advantage`, each with these hidden layers.
    ///
    /// # Errors
    /// When a width is 0 or the scope is taken.
    pub fn build(
        params: &mut Params,
        scope: &str,
        n_inputs: usize,
        hidden: &[usize],
        n_actions: usize,
        initialiser: Initialiser,
    ) -> Result<DuelingHead, Error> {
        let mut stream = |name: &str, n_outputs: usize| {
            let widths = [hidden, &[n_outputs]].concat();
            let scope = format!("{scope}/{name}");
            let of_last = initialiser.with_gain_of(|gains| gains.value);
            Mlp::build_with_last(params, &scope, n_inputs, &widths, initialiser, of_last)
        };
        Ok(DuelingHead {
            scope: scope.to_string(),
            value: stream("value", 1)?,
            advantage: stream("advantage", n_actions)?,
        })
    }

    /// The values of all actions.
    ///
    /// # Shapes
    /// `[n, n_inputs]` to `[n, n_actions]`.
    /// # Errors
    /// Where the features have another width.
    /// # Complexity
    /// Beside both streams a few operations for each action of each row.
    pub fn q_values(&self, ctx: &mut dyn Ctx, features: Var) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "DuelingHead::q_values");
        call.expect_width(ctx, "the features", features, self.value.n_inputs())?;
        let n = self.advantage.n_outputs();
        let value = self.value.apply(ctx, features)?;
        let advantage = self.advantage.apply(ctx, features)?;
        // What a row's advantages are all moved by is one number; a product with a row of ones
        // spreads it.
        let part = constant(ctx, Shape::new(n, 1), 1.0 / n as f32)?;
        let mean = ctx.matmul(advantage, part)?;
        let offset = ctx.sub(value, mean)?;
        let everywhere = constant(ctx, Shape::new(1, n), 1.0)?;
        let offset = ctx.matmul(offset, everywhere)?;
        Ok(ctx.add(advantage, offset)?)
    }
}
