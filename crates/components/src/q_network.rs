//! A network of action values.

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{Ctx, Params, Var};

use crate::error::Call;
use crate::spaces::{EnvironmentSpaces, n_actions, n_features};
use crate::{DuelingHead, Error, Initialiser, Linear, Mlp};

/// The layers of a [`QNetwork`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QNetworkShape {
    /// Widths of the hidden layers; default 120 and 84.
    pub hidden: Vec<usize>,
    /// Widths of the hidden layers of both dueling streams; without them (the default) one linear
    /// head.
    pub dueling: Option<Vec<usize>>,
}

impl Default for QNetworkShape {
    fn default() -> QNetworkShape {
        QNetworkShape {
            hidden: vec![120, 84],
            dueling: None,
        }
    }
}

/// Action values of observations: hidden layers, then a plain or a dueling head.
///
/// ```
/// use shardgraph_components::autodiff::{Ctx, Params, Shape, Recorder};
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{EnvironmentSpaces, Initialiser, QNetwork, QNetworkShape};
///
/// let (observation, action) = (Space::boxed(&[4], -1.0, 1.0)?, Space::discrete(2)?);
/// let shape = QNetworkShape { hidden: vec![16], dueling: Some(vec![8]) };
/// let mut params = Params::new();
/// let network = QNetwork::build(&mut params, "online", EnvironmentSpaces::new(&observation, &action), &shape, Initialiser::default())?;
/// let mut ctx = Recorder::new(&params, 0, 1);
/// let x = ctx.input(Shape::new(32, 4), &[])?;
/// let q = network.q_values(&mut ctx, x)?;
/// assert_eq!(ctx.shape(q), Shape::new(32, 2));
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct QNetwork {
    scope: String,
    torso: Mlp,
    head: Head,
    n_actions: usize,
}

#[derive(Debug, Clone)]
enum Head {
    Plain(Linear),
    Dueling(DuelingHead),
}

impl QNetwork {
    /// Adds the parameters of `scope/torso` and `scope/head` for observations of one space and
    /// actions of another.
    ///
    /// # Errors
    /// When the observation has no fixed width, the action is not discrete, a width is 0 or the
    /// scope is taken.
    pub fn build(
        params: &mut Params,
        scope: &str,
        spaces: EnvironmentSpaces<'_>,
        shape: &QNetworkShape,
        initialiser: Initialiser,
    ) -> Result<QNetwork, Error> {
        let EnvironmentSpaces {
            observation,
            action,
        } = spaces;
        let call = Call::new(scope, "QNetwork::build");
        let (n_inputs, n_actions) = (n_features(call, observation)?, n_actions(call, action)?);
        let torso = format!("{scope}/torso");
        let torso = Mlp::build(params, &torso, n_inputs, &shape.hidden, initialiser)?;
        let (width, head) = (torso.n_outputs(), format!("{scope}/head"));
        let head = match &shape.dueling {
            None => {
                let start = initialiser.with_gain_of(|gains| gains.value);
                let linear = Linear::build(params, &head, width, n_actions, start)?;
                Head::Plain(linear)
            }
            Some(hidden) => {
                let dueling =
                    DuelingHead::build(params, &head, width, hidden, n_actions, initialiser)?;
                Head::Dueling(dueling)
            }
        };
        Ok(QNetwork {
            scope: scope.to_string(),
            torso,
            head,
            n_actions,
        })
    }

    /// Columns of its input: the observation space, flat.
    pub fn n_inputs(&self) -> usize {
        self.torso.n_inputs()
    }

    /// Columns of its result.
    pub fn n_actions(&self) -> usize {
        self.n_actions
    }

    /// The values of all actions.
    ///
    /// # Shapes
    /// `[n, n_inputs]` to `[n, n_actions]`.
    /// # Errors
    /// Where the observations have another width.
    pub fn q_values(&self, ctx: &mut dyn Ctx, observations: Var) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "QNetwork::q_values");
        call.expect_width(ctx, "the observations", observations, self.n_inputs())?;
        let features = self.torso.features(ctx, observations)?;
        match &self.head {
            Head::Plain(head) => head.apply(ctx, features),
            Head::Dueling(head) => head.q_values(ctx, features),
        }
    }
}
