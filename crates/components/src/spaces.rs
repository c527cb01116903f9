//! The widths of matrices that hold values of spaces.

use shardgraph_environments::space::{Space, SpaceKind};

use crate::Error;
use crate::error::Call;

/// The spaces of an environment, which a network is built for.
#[derive(Debug, Clone, Copy)]
pub struct EnvironmentSpaces<'a> {
    /// What is seen.
    pub observation: &'a Space,
    /// What may be done.
    pub action: &'a Space,
}

impl<'a> EnvironmentSpaces<'a> {
    /// Of an observation and an action space.
    #[must_use]
    pub fn new(observation: &'a Space, action: &'a Space) -> EnvironmentSpaces<'a> {
        EnvironmentSpaces {
            observation,
            action,
        }
    }
}

/// Columns of a row that holds a value of `space`.
pub(crate) fn n_features(call: Call<'_>, space: &Space) -> Result<usize, Error> {
    space.flat_width().map_err(|error| {
        let expected = "a space of fixed width";
        call.mismatch("the observation space", expected, error.to_string())
    })
}

/// Features of a node, at least one, and of an edge of a graph space.
pub(crate) fn graph_features(call: Call<'_>, space: &Space) -> Result<(usize, usize), Error> {
    match space.kind() {
        SpaceKind::Graph {
            node_features: of_node @ 1..,
            edge_features: of_edge,
        } => Ok((*of_node, *of_edge)),
        other => {
            let expected = "graphs whose nodes have features";
            Err(call.mismatch("the space of graphs", expected, format!("{other:?}")))
        }
    }
}

/// The number of choices of each part of an action: one part of a discrete space, one for each
/// member of a tuple of discrete spaces.
pub(crate) fn n_choices(call: Call<'_>, space: &Space) -> Result<Vec<usize>, Error> {
    let SpaceKind::Tuple { spaces } = space.kind() else {
        return Ok(vec![n_actions(call, space)?]);
    };
    spaces.iter().map(|part| n_actions(call, part)).collect()
}

/// The number of actions of a discrete space.
pub(crate) fn n_actions(call: Call<'_>, space: &Space) -> Result<usize, Error> {
    match space.kind() {
        SpaceKind::Discrete { n } => Ok(*n as usize),
        other => Err(call.mismatch("the action space", "a discrete one", format!("{other:?}"))),
    }
}
