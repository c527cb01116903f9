//! A model of classes in memory: fit and predict without a folder.

use shardgraph_collectives::Timeout;

use super::evaluation::Evaluation;
use super::folder::Saved;
use super::options::RunOptions;
use super::report::{Outcome, Prediction};
use super::{classes, train};
use crate::{Config, Error, Labels, RelationalGraph};

/// A trained R-GCN that classifies nodes.
///
/// ```
/// use shardgraph_rgcn::{Config, Labels, RelationalClassifier, RelationalGraph};
///
/// // Papers 0..4 are written by authors 4 and 5; each author has a subject.
/// let graph = RelationalGraph::new(6, 1, vec![0, 1, 2, 3], vec![0; 4], vec![4, 4, 5, 5])?.with_inverses()?;
/// let labels = Labels::new(2, vec![(0, 0), (2, 1)], vec![], vec![])?;
/// let model = RelationalClassifier::fit(&graph, &labels, &Config::default())?;
/// assert_eq!(model.predict(&graph, &[3, 1])?, [1, 0]);
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RelationalClassifier {
    saved: Saved,
    evaluation: Evaluation,
}

impl RelationalClassifier {
    /// Learns from labelled nodes. With [`Config::patience`] the nodes to validate on say when
    /// training ends.
    ///
    /// # Errors
    /// As [`train`](crate::train).
    /// # Complexity
    /// As [`train`](crate::train), and a copy of all parameters.
    pub fn fit(
        graph: &RelationalGraph,
        labels: &Labels,
        config: &Config,
    ) -> Result<RelationalClassifier, Error> {
        let options = RunOptions {
            keeps_model: true,
            ..RunOptions::default()
        };
        let outcome = train(graph, labels, config, &options, &mut |_| ())?;
        RelationalClassifier::from_outcome(outcome)
    }

    /// The model that a run has kept, on its first rank.
    ///
    /// # Errors
    /// [`Error::Config`] where [`RunOptions::keeps_model`] was false.
    pub fn from_outcome(outcome: Outcome) -> Result<RelationalClassifier, Error> {
        let evaluation = outcome.evaluation;
        let saved = outcome.model.ok_or_else(|| {
            let expected = "true, for a model in memory";
            Error::config("keeps_model", false, expected)
        })?;
        Ok(RelationalClassifier { saved, evaluation })
    }

    /// The scores of the labelled nodes.
    #[must_use]
    pub fn evaluation(&self) -> &Evaluation {
        &self.evaluation
    }

    /// The likeliest class of each of some nodes.
    ///
    /// # Errors
    /// Where a node is not in the graph, or the graph is not that of the training: with
    /// [`Config::features`] any of its relations, else the same one.
    pub fn predict(&self, graph: &RelationalGraph, nodes: &[u32]) -> Result<Vec<u32>, Error> {
        let found = self.predict_probabilities(graph, nodes)?;
        Ok(found.into_iter().map(|of| of.class).collect())
    }

    /// As [`RelationalClassifier::predict`], with the probabilities of all classes.
    ///
    /// # Errors
    /// As [`RelationalClassifier::predict`].
    pub fn predict_probabilities(
        &self,
        graph: &RelationalGraph,
        nodes: &[u32],
    ) -> Result<Vec<Prediction>, Error> {
        self.saved.check_graph(graph, "the model")?;
        classes::probabilities(graph, &self.saved, nodes, Timeout::default())
    }
}
