//! Embedding: a row of numbers for each node, with the nodes' labels.

pub mod eval;
pub mod formats;
pub mod nodes;

use crate::{Error, NodeLabels};

/// A vector for each node.
///
/// ```
/// use shardgraph_line::{Embedding, NodeLabels};
///
/// let rows = vec![1.0, 0.0, 0.9, 0.1, 0.0, 2.0];
/// let embedding = Embedding::new(2, rows, NodeLabels::new(["ann", "bob", "cid"]))?;
/// let near = embedding.nearest(0, 2);
/// assert_eq!((near[0].node, near[1].node), (1, 2));
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    dim: usize,
    values: Vec<f32>,
    labels: NodeLabels,
}

/// A node and how near it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// The node's id.
    pub node: u32,
    /// The cosine of the angle between the two rows.
    pub cosine: f32,
}

impl Embedding {
    /// Rows of `dim` numbers, one for each label.
    ///
    /// # Errors
    /// [`Error::File`] where lengths do not fit, or a number is infinite or none.
    pub fn new(dim: usize, values: Vec<f32>, labels: NodeLabels) -> Result<Embedding, Error> {
        let fits = dim.checked_mul(labels.len()) == Some(values.len());
        if dim == 0 {
            let message = "rows of 0 numbers: expected 1 or more";
            return Err(Error::File(message.to_owned()));
        }
        if !fits {
            let (n_values, n_labels) = (values.len(), labels.len());
            let message = format!(
                "{n_values} numbers are no {n_labels} rows of {dim}: expected a row for each label"
            );
            return Err(Error::File(message));
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let (row, value) = (at / dim, values[at]);
            let label = labels.get(row);
            let message = format!("row {row} (`{label}`): expected finite numbers, found {value}");
            return Err(Error::File(message));
        }
        Ok(Embedding {
            dim,
            values,
            labels,
        })
    }

    /// Columns.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Rows.
    #[must_use]
    pub fn n_nodes(&self) -> usize {
        self.labels.len()
    }

    /// All rows, one after the other.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All rows, without their labels.
    #[must_use]
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }

    /// What the nodes are called.
    #[must_use]
    pub fn labels(&self) -> &NodeLabels {
        &self.labels
    }

    /// The row of a node.
    ///
    /// # Panics
    /// When there is no such node.
    #[must_use]
    pub fn row(&self, node: u32) -> &[f32] {
        &self.values[node as usize * self.dim..][..self.dim]
    }

    /// The same nodes with the columns of both.
    ///
    /// # Errors
    /// [`Error::File`] for embeddings of different nodes.
    pub fn join(&self, other: &Embedding) -> Result<Embedding, Error> {
        if self.labels != other.labels {
            let message = "embeddings of different nodes cannot be joined";
            return Err(Error::File(message.to_owned()));
        }
        let mut values = Vec::with_capacity(self.values.len() + other.values.len());
        for node in 0..self.n_nodes() as u32 {
            values.extend_from_slice(self.row(node));
            values.extend_from_slice(other.row(node));
        }
        Embedding::new(self.dim + other.dim, values, self.labels.clone())
    }

    /// The `k` other nodes of the largest cosine to a node, nearest first; equal ones by id. Exact.
    ///
    /// A row of zeros has cosine 0 to all.
    ///
    /// # Complexity
    /// O(n dim).
    #[must_use]
    pub fn nearest(&self, node: u32, k: usize) -> Vec<Neighbor> {
        let own = self.row(node);
        let own_norm = dot(own, own).sqrt();
        let cosine = |other: u32| {
            let row = self.row(other);
            let norms = own_norm * dot(row, row).sqrt();
            let cosine = if norms > 0.0 {
                dot(own, row) / norms
            } else {
                0.0
            };
            Neighbor {
                node: other,
                cosine: cosine as f32,
            }
        };
        let others = (0..self.n_nodes() as u32).filter(|&other| other != node);
        let mut all: Vec<Neighbor> = others.map(cosine).collect();
        let nearer =
            |a: &Neighbor, b: &Neighbor| b.cosine.total_cmp(&a.cosine).then(a.node.cmp(&b.node));
        if k < all.len() {
            all.select_nth_unstable_by(k, nearer);
            all.truncate(k);
        }
        all.sort_by(nearer);
        all
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(&a, &b)| f64::from(a) * f64::from(b))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_is_the_sorted_list_cut_short() {
        let mut stream = shardgraph_random::KeyedRng::new(1, "test", 0);
        let values: Vec<f32> = (0..65 * 3).map(|_| stream.normal() as f32).collect();
        let embedding = Embedding::new(3, values, NodeLabels::numbers(65)).unwrap();
        let all = embedding.nearest(7, 64);
        assert!(all.windows(2).all(|pair| pair[0].cosine >= pair[1].cosine));
        assert_eq!(all.len(), 64);
        for k in [0, 1, 10, 63] {
            assert_eq!(embedding.nearest(7, k), all[..k]);
        }
        assert_eq!(embedding.nearest(7, 1000), all);
    }

    #[test]
    fn lengths_must_fit() {
        let message = Embedding::new(2, vec![0.0; 3], NodeLabels::numbers(2))
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "3 numbers are no 2 rows of 2: expected a row for each label"
        );
    }

    #[test]
    fn joined_rows_have_both() {
        let of =
            |values: [f32; 2]| Embedding::new(1, values.to_vec(), NodeLabels::numbers(2)).unwrap();
        let joined = of([1.0, 2.0]).join(&of([3.0, 4.0])).unwrap();
        assert_eq!(joined.values(), [1.0, 3.0, 2.0, 4.0]);
        let other = Embedding::new(1, vec![0.0], NodeLabels::numbers(1)).unwrap();
        assert!(joined.join(&other).is_err());
    }
}
