//! [`Instance`]: a weighted graph in rows, with integer weights, so that sums and gains are exact.

use shardgraph_graph::Graph;

/// Sums of weights stay below this, so that differences of gains fit.
const MAX_SUM: i64 = 1 << 52;

/// Rows of neighbours, ascending, with integer weights; a cut of the instance is a cut of the graph, times [`Instance::scale`].
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) offsets: Vec<usize>,
    pub(crate) columns: Vec<u32>,
    pub(crate) weights: Vec<i64>,
    /// Units of an edge of weight 1: a power of two.
    pub(crate) scale: f64,
    /// Whether every weight of the graph is a whole number of units.
    pub(crate) is_exact: bool,
}

impl Instance {
    /// The graph with weights in units of a power of two: exact where 52 bits hold their sum, else rounded.
    pub(crate) fn from_graph(graph: &Graph) -> Instance {
        let values = graph.weights().unwrap_or(&[]);
        let sum: f64 = match graph.weights() {
            None => graph.n_entries() as f64,
            Some(values) => values.iter().map(|w| f64::from(w.abs())).sum(),
        };
        let mut scale = 1.0;
        let is_whole = |scale: f64| {
            values
                .iter()
                .all(|&w| (f64::from(w) * scale).fract() == 0.0)
        };
        while !is_whole(scale) && sum * scale * 2.0 < MAX_SUM as f64 {
            scale *= 2.0;
        }
        // Weights too large to sum exactly: the smallest bits are rounded away.
        while sum * scale >= MAX_SUM as f64 {
            scale /= 2.0;
        }
        let weights = match graph.weights() {
            None => vec![1; graph.columns().len()],
            Some(values) => {
                let units = |&w: &f32| (f64::from(w) * scale).round() as i64;
                values.iter().map(units).collect()
            }
        };
        Instance {
            offsets: graph.offsets().iter().map(|&at| at as usize).collect(),
            columns: graph.columns().to_vec(),
            weights,
            scale,
            is_exact: is_whole(scale),
        }
    }

    /// An instance of these edges `(u, v, weight)` with `u < v`, ascending, each once.
    pub(crate) fn from_edges(
        n_nodes: usize,
        edges: &[(u32, u32, i64)],
        like: &Instance,
    ) -> Instance {
        let mut offsets = vec![0; n_nodes + 1];
        for &(u, v, _) in edges {
            offsets[u as usize + 1] += 1;
            offsets[v as usize + 1] += 1;
        }
        for v in 0..n_nodes {
            offsets[v + 1] += offsets[v];
        }
        let mut next = offsets.clone();
        let mut columns = vec![0; 2 * edges.len()];
        let mut weights = vec![0; 2 * edges.len()];
        for &(u, v, weight) in edges {
            for (from, to) in [(u, v), (v, u)] {
                columns[next[from as usize]] = to;
                weights[next[from as usize]] = weight;
                next[from as usize] += 1;
            }
        }
        Instance {
            offsets,
            columns,
            weights,
            scale: like.scale,
            is_exact: like.is_exact,
        }
    }

    /// The instance of these nodes, ascending, of which no edge leads to others.
    pub(crate) fn induced(&self, nodes: &[usize]) -> Instance {
        let mut position = vec![0u32; self.n_nodes()];
        for (at, &v) in (0u32..).zip(nodes) {
            position[v] = at;
        }
        let mut induced = Instance {
            offsets: vec![0],
            columns: Vec::new(),
            weights: Vec::new(),
            ..*self
        };
        for &v in nodes {
            for (u, weight) in self.row(v) {
                induced.columns.push(position[u]);
                induced.weights.push(weight);
            }
            induced.offsets.push(induced.columns.len());
        }
        induced
    }

    pub(crate) fn n_nodes(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The neighbours of `v` with the weights of their edges.
    pub(crate) fn row(&self, v: usize) -> impl Iterator<Item = (usize, i64)> + '_ {
        let range = self.offsets[v]..self.offsets[v + 1];
        let columns = self.columns[range.clone()].iter();
        columns
            .zip(&self.weights[range])
            .map(|(&u, &weight)| (u as usize, weight))
    }

    /// Every edge once, as `(u, v, weight)` with `u < v`.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (usize, usize, i64)> + '_ {
        (0..self.n_nodes()).flat_map(move |u| {
            let row = self.row(u);
            row.filter(move |(v, _)| *v > u)
                .map(move |(v, w)| (u, v, w))
        })
    }

    /// The weight of the cut with these sides.
    pub(crate) fn cut(&self, sides: &[bool]) -> i64 {
        let edges = self.edges();
        edges
            .filter(|(u, v, _)| sides[*u] != sides[*v])
            .map(|(_, _, weight)| weight)
            .sum()
    }

    /// The sum of the positive weights, which no cut exceeds.
    pub(crate) fn positive_weight(&self) -> i64 {
        self.edges().map(|(_, _, weight)| weight.max(0)).sum()
    }
}
