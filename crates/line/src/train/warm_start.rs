//! Warm start: rows of an earlier embedding in place of random ones, found by the nodes' labels.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{Config, Embedding, Error, NodeLabels};

/// Rows to start from, by node.
#[derive(Debug)]
pub(super) struct WarmStart<'e> {
    embedding: &'e Embedding,
    /// Of each node, its row in the embedding.
    row_of: Vec<Option<u32>>,
}

impl<'e> WarmStart<'e> {
    /// Finds each node's row; nodes without one start at random.
    ///
    /// # Errors
    /// [`Error::Setting`] for another number of columns than the run has, and where no label is
    /// that of a node.
    pub(super) fn new(
        embedding: &'e Embedding,
        labels: &NodeLabels,
        config: &Config,
    ) -> Result<WarmStart<'e>, Error> {
        let (found, columns) = (embedding.dim(), config.columns());
        if found != columns {
            let given = format!("{found} columns");
            return Err(Error::setting("init", given, &format!("{columns}")));
        }
        let rows: BTreeMap<&str, u32> = embedding.labels().iter().zip(0..).collect();
        let row_of: Vec<Option<u32>> = labels
            .iter()
            .map(|label| rows.get(label).copied())
            .collect();
        if row_of.iter().all(Option::is_none) && !row_of.is_empty() {
            let given = "an embedding of other nodes";
            return Err(Error::setting(
                "init",
                given,
                "labels of this graph's nodes",
            ));
        }
        Ok(WarmStart { embedding, row_of })
    }

    /// The columns of a node's row from `first` on; none where the node is new.
    pub(super) fn row(&self, node: u32, first: usize) -> Option<&'e [f32]> {
        let row = (*self.row_of.get(node as usize)?)?;
        self.embedding.row(row).get(first..)
    }
}
