//! Synthetic computation graphs by name: `costgraph:N`, or `costgraph:N:MIN:MAX` with other sizes than the paper's.

use std::fmt;
use std::str::FromStr;

use shardgraph_costgraph::generate::{Synthetic, synthetic_set};
use shardgraph_costgraph::{Error, ErrorKind, Graph};

use crate::exit::BadInput;

/// What every such name begins with.
pub(crate) const PREFIX: &str = "costgraph:";

/// So many graphs hold what anyone has asked for, and come to an end.
const MAX_GRAPHS: usize = 100_000;

/// A set of graphs after the recipe of REGAL's A.1.4.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CostGraphSpec {
    n_graphs: usize,
    recipe: Synthetic,
}

impl CostGraphSpec {
    /// How many graphs there are.
    pub(crate) fn n_graphs(&self) -> usize {
        self.n_graphs
    }

    /// The graphs, no two of one topology; the first ones are the same for any number of them.
    pub(crate) fn graphs(&self, seed: u64) -> anyhow::Result<Vec<Graph>> {
        // Small graphs repeat themselves: beyond this there may be no more of them.
        let most = 1000 + 100 * self.n_graphs as u64;
        let set = synthetic_set(&self.recipe, seed, self.n_graphs, most, &mut |_| true);
        Ok(set.map_err(|error| self.too_few(most, error))?.graphs)
    }

    fn too_few(&self, n_candidates: u64, error: Error) -> anyhow::Error {
        match error.kind() {
            ErrorKind::Argument => BadInput(format!(
                "{self}: {n_candidates} random graphs of these sizes have fewer than {} topologies: ask for fewer graphs, or for larger ones",
                self.n_graphs
            ))
            .into(),
            _ => error.into(),
        }
    }
}

impl FromStr for CostGraphSpec {
    type Err = BadInput;

    fn from_str(text: &str) -> Result<Self, BadInput> {
        let wrong = || {
            BadInput(format!(
                "`{text}` names no computation graphs: expected costgraph:N or costgraph:N:MIN:MAX, with N from 1 to {MAX_GRAPHS} and 1 <= MIN <= MAX nodes"
            ))
        };
        let rest = text.strip_prefix(PREFIX).ok_or_else(wrong)?;
        let numbers: Result<Vec<u32>, _> = rest.split(':').map(str::parse).collect();
        let mut recipe = Synthetic::default();
        let n_graphs = match numbers.as_deref() {
            Ok([n]) => *n as usize,
            Ok([n, min, max]) if (1..=*max).contains(min) && *max <= 1 << 20 => {
                (recipe.min_nodes, recipe.max_nodes) = (*min, *max);
                *n as usize
            }
            _ => return Err(wrong()),
        };
        match (1..=MAX_GRAPHS).contains(&n_graphs) {
            true => Ok(Self { n_graphs, recipe }),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for CostGraphSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Synthetic {
            min_nodes,
            max_nodes,
            ..
        } = self.recipe;
        write!(f, "{PREFIX}{}:{min_nodes}:{max_nodes}", self.n_graphs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        let spec: CostGraphSpec = "costgraph:3".parse().unwrap();
        assert_eq!(spec.to_string(), "costgraph:3:50:200");
        assert_eq!(spec.to_string().parse::<CostGraphSpec>().unwrap(), spec);
        let small: CostGraphSpec = "costgraph:2:5:5".parse().unwrap();
        let graphs = small.graphs(1).unwrap();
        assert_eq!(graphs.len(), 2);
        assert!(graphs.iter().all(|graph| graph.n_ops() == 7));
        let more: CostGraphSpec = "costgraph:3:5:5".parse().unwrap();
        assert_eq!(more.graphs(1).unwrap()[..2], graphs);
        assert_ne!(small.graphs(2).unwrap(), graphs);
    }

    #[test]
    fn what_is_none_is_told_the_forms() {
        for text in [
            "costgraph:",
            "costgraph:0",
            "costgraph:-1",
            "costgraph:1:2",
            "costgraph:1:9:5",
            "costgraph:1:0:5",
            "costgraph:1:5:4000000",
            "costgraph:1:2:3:4",
            "costgraph:9999999",
            "er:5:0.5",
        ] {
            let message = text.parse::<CostGraphSpec>().unwrap_err().to_string();
            assert!(message.contains("costgraph:N:MIN:MAX"), "{message}");
        }
    }
}
