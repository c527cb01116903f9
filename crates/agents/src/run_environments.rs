//! The environments of a run: those of a name, or a caller's own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardgraph_components::EnvironmentSpaces;
use shardgraph_environments::space::{Space, SpaceKind};
use shardgraph_environments::{
    Autoreset, ENVIRONMENTS, FunctionalEnvironment, FunctionalVector, ScaledObservations,
    VectorEnvironment, named_environment,
};

use crate::error::{Call, Error, ErrorKind};

/// Environments side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentConfig {
    /// One of those that come with the program, or what a caller calls his own ([`Environments`]).
    pub name: String,
    /// How many take their steps together; 1 by default.
    #[serde(default = "one")]
    pub n_environments: usize,
    /// Whether observations with bounds are scaled to -1 to 1; false by default.
    #[serde(default)]
    pub scale_observations: bool,
    /// Options of the environment; none by default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, serde_json::Value>,
}

fn one() -> usize {
    1
}

impl EnvironmentConfig {
    /// So many of one of those that come with the program, with their default options.
    pub fn named(name: &str, n_environments: usize) -> EnvironmentConfig {
        EnvironmentConfig {
            name: name.to_owned(),
            n_environments,
            scale_observations: false,
            options: BTreeMap::new(),
        }
    }
}

/// What makes a vector of so many environments.
type Make = dyn Fn(usize) -> Result<Box<dyn VectorEnvironment>, shardgraph_environments::Error>
    + Send
    + Sync;

/// What networks are built from: the spaces of an environment's observations and actions, and whether
/// some actions may not be taken in some states.
///
/// ```
/// use shardgraph_agents::Spaces;
/// use shardgraph_environments::space::Space;
///
/// let spaces = Spaces::new(Space::boxed(&[3], -1.0, 1.0)?, Space::discrete(5)?)?;
/// assert_eq!((spaces.n_features(), spaces.n_action_columns()), (3, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Spaces {
    observation: Space,
    action: Space,
    n_features: usize,
    n_action_columns: usize,
    has_mask: bool,
}

impl Spaces {
    /// Without masks.
    ///
    /// # Errors
    /// When one of them has no fixed width.
    pub fn new(observation: Space, action: Space) -> Result<Spaces, Error> {
        Ok(Spaces {
            n_features: observation.flat_width()?,
            n_action_columns: action.flat_width()?,
            observation,
            action,
            has_mask: false,
        })
    }

    /// The same with masks.
    pub fn with_masks(self) -> Spaces {
        Spaces {
            has_mask: true,
            ..self
        }
    }

    /// Of a vector of environments.
    fn of(vector: &dyn VectorEnvironment) -> Result<Spaces, Error> {
        let spaces = Spaces::new(vector.observation_space(), vector.action_space())?;
        Ok(match vector.action_mask() {
            None => spaces,
            Some(_) => spaces.with_masks(),
        })
    }

    /// The space of an observation.
    pub fn observation(&self) -> &Space {
        &self.observation
    }

    /// The space of an action.
    pub fn action(&self) -> &Space {
        &self.action
    }

    /// Both, in this order.
    pub(crate) fn both(&self) -> EnvironmentSpaces<'_> {
        EnvironmentSpaces::new(&self.observation, &self.action)
    }

    /// Floats of an observation.
    pub fn n_features(&self) -> usize {
        self.n_features
    }

    /// Columns of a mask, and of what a policy says: the numbers of all discrete actions together; the
    /// elements of a box.
    pub fn n_action_columns(&self) -> usize {
        self.n_action_columns
    }

    /// True if some actions may not be taken in some states.
    pub fn has_mask(&self) -> bool {
        self.has_mask
    }

    /// Whether an action is one of a box, and its numbers or elements.
    pub(crate) fn action_form(&self) -> (bool, usize) {
        match self.action.kind() {
            SpaceKind::Box { .. } => (true, self.n_action_columns),
            SpaceKind::Tuple { spaces } => (false, spaces.len()),
            _ => (false, 1),
        }
    }

    /// The number of actions.
    ///
    /// # Errors
    /// When the action is not one discrete number.
    pub(crate) fn n_actions(&self) -> Result<usize, Error> {
        match self.action.kind() {
            SpaceKind::Discrete { n } => Ok(*n as usize),
            other => {
                let what = "the action space, for an agent with action values";
                let (call, given) = (Call::new("Spaces", "action"), format!("{other:?}"));
                Err(call.mismatch(what, "a discrete one", given))
            }
        }
    }
}

/// Vectors of one environment, made when a run wants them, and the spaces that its networks are built
/// from.
///
/// ```
/// use shardgraph_agents::Environments;
/// use shardgraph_environments::{Autoreset, CartPoles};
///
/// let mine = Environments::new(|n| Ok(Box::new(CartPoles::new(n, Autoreset::SameStep)?)))?;
/// assert_eq!(mine.spaces().n_features(), 4);
/// assert_eq!(mine.vector(16)?.n_environments(), 16);
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
#[derive(Clone)]
pub struct Environments {
    make: Arc<Make>,
    spaces: Spaces,
}

impl Environments {
    /// A caller's own. `make` is given how many are to take their steps together; the vector must begin
    /// episodes within the step that ends one ([`Autoreset::SameStep`]).
    ///
    /// One is made at once, for its spaces.
    ///
    /// # Errors
    /// When `make` refuses, or the observation has no fixed width.
    pub fn new(
        make: impl Fn(usize) -> Result<Box<dyn VectorEnvironment>, shardgraph_environments::Error>
        + Send
        + Sync
        + 'static,
    ) -> Result<Environments, Error> {
        Ok(Environments {
            spaces: Spaces::of(make(1)?.as_ref())?,
            make: Arc::new(make),
        })
    }

    /// Copies of a functional environment, whose episodes are stopped after `step_limit` steps.
    ///
    /// # Errors
    /// As [`Environments::new`].
    pub fn functional<E>(environment: E, step_limit: Option<u32>) -> Result<Environments, Error>
    where
        E: FunctionalEnvironment + Sync + 'static,
    {
        Environments::new(move |n| {
            let (mode, copy) = (Autoreset::SameStep, environment.clone());
            Ok(Box::new(FunctionalVector::new(copy, n, mode, step_limit)?))
        })
    }

    /// Those that come with the program, by the name and the options of settings.
    ///
    /// # Errors
    /// When there is none of the name, or an option is unknown or cannot be right.
    pub fn named(config: &EnvironmentConfig) -> Result<Environments, Error> {
        if ENVIRONMENTS.iter().all(|known| known.name != config.name) {
            return Err(unknown(&config.name));
        }
        let (name, options) = (config.name.clone(), config.options.clone());
        if let Err(error) = named_environment(&name, &options, 1, Autoreset::SameStep) {
            let what = error.to_string();
            let what = what.trim_start_matches("named_environment: options: ");
            let text = format!("agent settings: `environment.options`: {what}");
            return Err(Error::input(text));
        }
        let is_scaled = config.scale_observations;
        Environments::new(move |n| {
            let vector = named_environment(&name, &options, n, Autoreset::SameStep)?;
            Ok(match is_scaled {
                false => vector,
                true => Box::new(ScaledObservations::new(vector)?),
            })
        })
    }

    /// So many that take their steps together.
    ///
    /// # Errors
    /// When there are none, the environment refuses, or the vector has other spaces or another number
    /// than it should.
    pub fn vector(&self, n_environments: usize) -> Result<Box<dyn VectorEnvironment>, Error> {
        let vector = (self.make)(n_environments)?;
        let is_right = vector.n_environments() == n_environments;
        if is_right && Spaces::of(vector.as_ref())? == self.spaces {
            return Ok(vector);
        }
        let expected =
            format!("{n_environments} environments with the spaces of the first one made");
        let given = format!("{} of others", vector.n_environments());
        Err(Call::new("Environments", "vector").mismatch("the vector", expected, given))
    }

    /// What networks are built from.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }
}

impl fmt::Debug for Environments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environments")
            .field("spaces", &self.spaces)
            .finish_non_exhaustive()
    }
}

#[cold]
fn unknown(name: &str) -> Error {
    ErrorKind::Setting {
        field: "environment.name",
        expected: ENVIRONMENTS.map(|known| known.name).join(", "),
        given: name.to_owned(),
    }
    .into()
}

/// Fills `out` with what the last step led to: of episodes that ended within it their last observations, of the others what is seen now.
///
/// # Errors
/// As [`final_observation`].
pub(crate) fn last_observations(
    vector: &dyn VectorEnvironment,
    out: &mut Vec<f32>,
) -> Result<(), Error> {
    out.clear();
    out.extend(vector.observations());
    let width = out.len() / vector.n_environments();
    for (idx, seen) in out.chunks_exact_mut(width).enumerate() {
        if vector.last_step().ended(idx) {
            seen.copy_from_slice(final_observation(vector, idx)?);
        }
    }
    Ok(())
}

/// The last observation of an episode that ended within the last step.
///
/// # Errors
/// When the vector does not begin episodes within the step that ends one.
pub(crate) fn final_observation(
    vector: &dyn VectorEnvironment,
    idx: usize,
) -> Result<&[f32], Error> {
    vector.final_observation(idx).ok_or_else(|| {
        let call = Call::new("VectorEnvironment", "final_observation");
        let what = format!("the last observation of environment {idx}, whose episode ended");
        call.mismatch(what, "one: agents want `Autoreset::SameStep`", "none")
    })
}

#[cfg(test)]
mod tests {
    use crate::config::AgentConfig;

    #[test]
    fn options_that_cannot_be_right_are_named_once() {
        for (name, option, expected) in [
            (
                "breakout",
                "sticky_actions = 2",
                "`environment.options`: expected sticky_actions = 0.1, ",
            ),
            ("cartpole", "wind = 1", "`environment.options`: "),
        ] {
            let text = format!(
                "environment = {{ name = '{name}', options = {{ {option} }} }}\nalgorithm = {{ name = 'ppo' }}"
            );
            let error = AgentConfig::from_toml(&text).unwrap().check().unwrap_err();
            let message = error.to_string();
            assert!(error.is_input() && message.contains(expected), "{message}");
            let given = option.split(' ').next().unwrap();
            assert!(
                message.matches("given").count() <= 1 && message.contains(given),
                "{message}"
            );
        }
    }
}
