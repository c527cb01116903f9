//! Graphs from compressed sparse rows that another library has made.

use crate::error::{Error, ErrorKind};
use crate::graph::{Graph, MAX_NODES};

impl Graph {
    /// The graph of rows that are simple and symmetric already; the lists become the graph's without a copy.
    ///
    /// Weights are finite, and equal at both entries of an edge.
    ///
    /// # Shapes
    /// `offsets` has a number for each node and one more; row v is `columns[offsets[v]..offsets[v + 1]]`, ascending.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for offsets that do not ascend from 0 to the number of entries, a row that does not ascend or has its own
    /// node, and an entry without its twin of equal weight; [`ErrorKind::TooLarge`] for more than [`MAX_NODES`] nodes.
    ///
    /// # Complexity
    /// O(n + m); 8 B a node beside the lists.
    ///
    /// ```
    /// use shardgraph_graph::Graph;
    ///
    /// let path = Graph::from_csr(vec![0, 1, 3, 4], vec![1, 0, 2, 1], None)?;
    /// assert_eq!(path, Graph::from_edges(3, &[(0, 1), (1, 2)])?);
    /// assert!(Graph::from_csr(vec![0, 1, 1], vec![1], None).is_err()); // no entry from 1 to 0
    /// # Ok::<(), shardgraph_graph::Error>(())
    /// ```
    pub fn from_csr(
        offsets: Vec<u64>,
        columns: Vec<u32>,
        weights: Option<Vec<f32>>,
    ) -> Result<Graph, Error> {
        check_offsets(&offsets, columns.len() as u64)?;
        let is_finite = |weights: &Vec<f32>| weights.iter().all(|weight| weight.is_finite());
        if weights
            .as_ref()
            .is_some_and(|w| w.len() != columns.len() || !is_finite(w))
        {
            return Err(wrong("expected a finite weight for each entry"));
        }
        check_rows(&offsets, &columns, weights.as_deref())?;
        Ok(Graph::from_sorted_rows(offsets, columns, weights))
    }
}

#[cold]
fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Argument, message)
}

fn check_offsets(offsets: &[u64], n_entries: u64) -> Result<(), Error> {
    let n_nodes = offsets.len().saturating_sub(1);
    if n_nodes > MAX_NODES as usize {
        let message = format!("{n_nodes} nodes: expected at most {MAX_NODES}");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let is_sound =
        offsets.first() == Some(&0) && offsets.last() == Some(&n_entries) && offsets.is_sorted();
    match is_sound {
        true => Ok(()),
        false => Err(wrong(format!(
            "offsets have to ascend from 0 to the number of entries, {n_entries}"
        ))),
    }
}

/// Refuses rows that do not ascend, and entries without a twin.
///
/// Rows are visited in order. `next[v]` is the first entry of row v whose twin was not seen yet, so that the entries of row v below v
/// are met one by one.
fn check_rows(offsets: &[u64], columns: &[u32], weights: Option<&[f32]>) -> Result<(), Error> {
    let n_nodes = offsets.len() - 1;
    let mut next: Vec<u64> = offsets[..n_nodes].to_vec();
    for u in 0..n_nodes {
        let (begin, end) = (offsets[u] as usize, offsets[u + 1] as usize);
        let row = &columns[begin..end];
        if !row.is_sorted_by(|a, b| a < b) {
            return Err(wrong(format!("row {u} does not ascend")));
        }
        let first = begin + row.partition_point(|&v| (v as usize) < u);
        if next[u] as usize != first {
            let v = columns[next[u] as usize];
            return Err(wrong(format!("entry ({u}, {v}) has no twin")));
        }
        for entry in first..end {
            let v = columns[entry] as usize;
            if v == u || v >= n_nodes {
                let expected = format!("another node below {n_nodes}");
                return Err(wrong(format!("row {u} has {v}: expected {expected}")));
            }
            let twin = next[v] as usize;
            let is_twin = twin < offsets[v + 1] as usize
                && columns[twin] as usize == u
                && weights
                    .is_none_or(|weights| weights[twin].to_bits() == weights[entry].to_bits());
            if !is_twin {
                return Err(wrong(format!(
                    "entry ({u}, {v}) has no twin of equal weight"
                )));
            }
            next[v] += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lists(graph: &Graph) -> (Vec<u64>, Vec<u32>, Option<Vec<f32>>) {
        let weights = graph.weights().map(<[f32]>::to_vec);
        (graph.offsets().to_vec(), graph.columns().to_vec(), weights)
    }

    proptest! {
        #[test]
        fn rows_of_a_graph_are_the_graph_and_one_changed_entry_is_refused(
            n in 1u32..70,
            pairs in proptest::collection::vec((0u32..70, 0u32..70), 0..150),
            at in any::<proptest::sample::Index>(),
            to in 0u32..80,
        ) {
            let edges: Vec<(u32, u32)> = pairs.into_iter().map(|(u, v)| (u % n, v % n)).collect();
            let graph = Graph::from_edges(n, &edges).unwrap();
            let (offsets, mut columns, _) = lists(&graph);
            let same = Graph::from_csr(offsets.clone(), columns.clone(), None).unwrap();
            prop_assert_eq!(&same, &graph);
            if !columns.is_empty() {
                let entry = at.index(columns.len());
                if columns[entry] != to {
                    columns[entry] = to;
                    prop_assert!(Graph::from_csr(offsets, columns, None).is_err());
                }
            }
        }
    }

    #[test]
    fn weights_are_finite_and_those_of_twins_equal() {
        let graph = Graph::from_weighted_edges(3, &[(0, 1, 2.0), (1, 2, 0.5)]).unwrap();
        let (offsets, columns, weights) = lists(&graph);
        let same = Graph::from_csr(offsets.clone(), columns.clone(), weights.clone()).unwrap();
        assert_eq!(same, graph);
        let mut other = weights.unwrap();
        other[0] = 3.0;
        assert!(Graph::from_csr(offsets.clone(), columns.clone(), Some(other)).is_err());
        assert!(Graph::from_csr(offsets.clone(), columns.clone(), Some(vec![1.0])).is_err());
        assert!(Graph::from_csr(offsets, columns, Some(vec![f32::NAN; 4])).is_err());
    }

    #[test]
    fn offsets_ascend_from_0_to_the_number_of_entries() {
        for offsets in [vec![], vec![1, 1], vec![0, 1], vec![0, 2, 1, 0]] {
            assert!(
                Graph::from_csr(offsets.clone(), vec![], None).is_err(),
                "{offsets:?}"
            );
        }
        assert_eq!(Graph::from_csr(vec![0], vec![], None).unwrap().n_nodes(), 0);
    }
}
