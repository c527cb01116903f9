//! Random values of spaces, and the one nearest to zero.

use shardgraph_random::KeyedRng;

use super::{GraphValue, Space, SpaceKind, Value};

/// The most nodes of a graph that `Space::sample` makes.
const MOST_NODES: u32 = 10;

impl Space {
    /// A random value of this space.
    ///
    /// An element of a box is uniform between finite bounds; beside one finite bound it is
    /// exponential of mean 1, counted from the bound; without finite bounds it is standard normal.
    /// Discrete numbers and bits are uniform. A graph has 1 to 10 nodes, each number equally
    /// likely, then 0 to n (n - 1) edges between uniform nodes, loops and repetitions included, and
    /// standard normal features.
    ///
    /// # Determinism
    /// Equal streams give equal values, on every machine. Members take from the stream in the order
    /// of the leaves.
    ///
    /// # Source
    /// The `sample` of Gymnasium's spaces.
    ///
    /// ```
    /// use shardgraph_environments::space::Space;
    /// use shardgraph_random::KeyedRng;
    ///
    /// let space = Space::boxed(&[3], [0.0, -1.0, f32::NEG_INFINITY], [0.0, 1.0, f32::INFINITY])?;
    /// let value = space.sample(&mut KeyedRng::new(7, "space", 0));
    /// assert!(space.contains(&value).is_ok());
    /// # Ok::<(), shardgraph_environments::Error>(())
    /// ```
    pub fn sample(&self, stream: &mut KeyedRng) -> Value {
        match &self.kind {
            SpaceKind::Box { low, high, .. } => Value::F32(
                (0..self.width())
                    .map(|idx| sample_number(low.at(idx), high.at(idx), stream))
                    .collect(),
            ),
            SpaceKind::Discrete { n } => Value::U32(stream.below_u32(*n)),
            SpaceKind::MultiBinary { n } => {
                Value::Bits((0..*n).map(|_| stream.below(2) as u8).collect())
            }
            SpaceKind::Graph {
                node_features,
                edge_features,
            } => Value::Graph(sample_graph(*node_features, *edge_features, stream)),
            SpaceKind::Dict { spaces } => {
                let member = |(name, space): &(String, Space)| (name.clone(), space.sample(stream));
                Value::Dict(spaces.iter().map(member).collect())
            }
            SpaceKind::Tuple { spaces } => {
                Value::Tuple(spaces.iter().map(|space| space.sample(stream)).collect())
            }
        }
    }

    /// The value whose elements are 0, or the bound next to 0 where the bounds exclude it; graphs
    /// are without nodes.
    ///
    /// ```
    /// use shardgraph_environments::space::{Space, Value};
    ///
    /// let space = Space::boxed(&[2], [-1.0, 2.0], [1.0, 3.0])?;
    /// assert_eq!(space.zeros(), Value::F32(vec![0.0, 2.0]));
    /// # Ok::<(), shardgraph_environments::Error>(())
    /// ```
    pub fn zeros(&self) -> Value {
        match &self.kind {
            SpaceKind::Box { low, high, .. } => {
                let zero = |idx| 0f32.clamp(low.at(idx), high.at(idx));
                Value::F32((0..self.width()).map(zero).collect())
            }
            SpaceKind::Discrete { .. } => Value::U32(0),
            SpaceKind::MultiBinary { n } => Value::Bits(vec![0; *n]),
            SpaceKind::Graph { .. } => Value::Graph(GraphValue::default()),
            SpaceKind::Dict { spaces } => {
                let member = |(name, space): &(String, Space)| (name.clone(), space.zeros());
                Value::Dict(spaces.iter().map(member).collect())
            }
            SpaceKind::Tuple { spaces } => Value::Tuple(spaces.iter().map(Space::zeros).collect()),
        }
    }
}

fn sample_number(low: f32, high: f32, stream: &mut KeyedRng) -> f32 {
    let (from, to) = (f64::from(low), f64::from(high));
    let x = match (low.is_finite(), high.is_finite()) {
        (true, true) => from + (to - from) * stream.uniform_f64(),
        (true, false) => from + stream.exponential(),
        (false, true) => to - stream.exponential(),
        (false, false) => stream.normal(),
    };
    // Bounds are f32, so rounding to f32 may reach them but not step over them; the tails end long
    // before the largest f32.
    x as f32
}

fn sample_graph(node_features: usize, edge_features: usize, stream: &mut KeyedRng) -> GraphValue {
    let n_nodes = 1 + stream.below_u32(MOST_NODES);
    let n_edges = stream.below_u32(n_nodes * (n_nodes - 1) + 1);
    let mut end = || stream.below_u32(n_nodes);
    let edges: Vec<_> = (0..n_edges).map(|_| [end(), end()]).collect();
    let mut normals = |n: usize| (0..n).map(|_| stream.normal() as f32).collect();
    GraphValue {
        n_nodes,
        node_features: normals(n_nodes as usize * node_features),
        edge_features: normals(edges.len() * edge_features),
        edges,
    }
}
