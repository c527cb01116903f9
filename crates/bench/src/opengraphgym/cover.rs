//! A second opinion on vertex covers: its own reader of Matrix Market files, its own check and greedy.
//!
//! Shares no line with the solver, so that a mistake there cannot hide itself here.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};

/// A simple undirected graph with node labels 1..=n, as Matrix Market numbers them.
pub(crate) struct EdgeList {
    pub(crate) n_nodes: usize,
    pub(crate) edges: BTreeSet<(usize, usize)>,
}

/// Reads a Matrix Market coordinate file.
pub(crate) fn read_matrix_market(text: &str) -> Result<EdgeList> {
    let mut lines = text
        .lines()
        .filter(|line| !line.starts_with('%') && !line.trim().is_empty());
    let size = numbers(lines.next().context("the file is empty")?)?;
    ensure!(
        size.len() == 3 && size[0] == size[1],
        "expected `n n entries`, found {size:?}"
    );
    let mut edges = BTreeSet::new();
    for line in lines {
        // A third column is a weight, which covers do not look at.
        let ends: Vec<&str> = line.split_whitespace().take(2).collect();
        let ends = numbers(&ends.join(" "))?;
        ensure!(
            ends.len() == 2 && ends.iter().all(|end| (1..=size[0]).contains(end)),
            "not an edge: {line}"
        );
        if ends[0] != ends[1] {
            edges.insert((ends[0].min(ends[1]), ends[0].max(ends[1])));
        }
    }
    Ok(EdgeList {
        n_nodes: size[0],
        edges,
    })
}

/// The number of nodes in a cover file, once every edge of the graph has an end in it.
pub(crate) fn check_cover(graph: &EdgeList, cover_file: &str) -> Result<usize> {
    let lines: Vec<&str> = cover_file
        .lines()
        .filter(|line| !line.starts_with(['#', '%']))
        .collect();
    let cover: BTreeSet<usize> = numbers(&lines.join(" "))?.into_iter().collect();
    ensure!(
        cover.len() == lines.len(),
        "the cover file has a node twice or an empty line"
    );
    ensure!(
        cover.iter().all(|node| (1..=graph.n_nodes).contains(node)),
        "the cover file has an unknown node"
    );
    let open = graph
        .edges
        .iter()
        .find(|(u, v)| !cover.contains(u) && !cover.contains(v));
    ensure!(open.is_none(), "the edge {open:?} has no end in the cover");
    Ok(cover.len())
}

fn numbers(text: &str) -> Result<Vec<usize>> {
    let words = text.split_whitespace();
    words
        .map(|word| {
            word.parse()
                .with_context(|| format!("{word:?} is not a node number"))
        })
        .collect()
}

/// The cover size of the greedy rule: always the node of highest residual degree, the first of equals.
pub(crate) fn max_degree_greedy(graph: &EdgeList) -> usize {
    let mut neighbors = vec![BTreeSet::new(); graph.n_nodes + 1];
    for &(u, v) in &graph.edges {
        neighbors[u].insert(v);
        neighbors[v].insert(u);
    }
    let mut n_covered = 0;
    loop {
        let best = (1..=graph.n_nodes)
            .rev()
            .max_by_key(|&node| neighbors[node].len());
        let Some(best) = best.filter(|&node| !neighbors[node].is_empty()) else {
            return n_covered;
        };
        for neighbor in std::mem::take(&mut neighbors[best]) {
            neighbors[neighbor].remove(&best);
        }
        n_covered += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH_OF_FIVE: &str = "%%MatrixMarket matrix coordinate pattern symmetric\n% c\n5 5 6\n2 1\n3 2\n4 3\n5 4\n\
        1 2\n3 3\n";

    #[test]
    fn reads_a_file_once_per_edge() {
        let graph = read_matrix_market(PATH_OF_FIVE).unwrap();
        assert_eq!((graph.n_nodes, graph.edges.len()), (5, 4));
        for bad in [
            "",
            "5 5\n",
            "5 4 1\n1 2\n",
            "2 2 1\n1 3\n",
            "2 2 1\n1\n",
            "2 2 1\n0 1\n",
        ] {
            assert!(read_matrix_market(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_cover_with_a_hole_is_found() {
        let graph = read_matrix_market(PATH_OF_FIVE).unwrap();
        assert_eq!(check_cover(&graph, "2\n4\n").unwrap(), 2);
        for bad in ["2\n", "2\n4\n4\n", "2\n4\n6\n", "2\nx\n", "2\n\n4\n"] {
            assert!(check_cover(&graph, bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn greedy_takes_the_highest_degree_and_the_first_of_equals() {
        assert_eq!(
            max_degree_greedy(&read_matrix_market(PATH_OF_FIVE).unwrap()),
            2
        );
        let star = read_matrix_market("4 4 3\n1 4\n2 4\n3 4\n").unwrap();
        assert_eq!(max_degree_greedy(&star), 1);
        let none = EdgeList {
            n_nodes: 3,
            edges: BTreeSet::new(),
        };
        assert_eq!(max_degree_greedy(&none), 0);
    }
}
