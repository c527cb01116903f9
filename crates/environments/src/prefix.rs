//! From a list of picks back to the state after them: how a replay memory that keeps picks alone rebuilds its states.

use shardgraph_graph::Graph;

use crate::error::{Error, ErrorKind};

/// A cover's state after some picks: the two integers per node that the first two layers of the policy read, and the mask.
///
/// # Shapes
/// One element per node in each list; 0 and 0 for a picked node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixState {
    /// The number of neighbours outside the cover.
    pub degrees: Vec<u32>,
    /// The sum of `degrees` over the neighbours outside the cover; beyond u32 on large dense graphs.
    pub d2: Vec<u64>,
    /// Which nodes were picked.
    pub in_cover: Vec<bool>,
    /// The largest of `degrees`.
    pub max_degree: u32,
}

impl PrefixState {
    /// Becomes the state of `graph` after `picks`, in the memory that is there.
    ///
    /// A pick whose edges are covered already is taken as it is, because a policy that picks several nodes a step makes such
    /// picks.
    ///
    /// # Errors
    /// When a pick is no node of `graph` or was picked before; the state is then unspecified.
    ///
    /// # Complexity
    /// O(n + m) time; no allocation once the lists have the graph's size.
    pub fn replay(&mut self, graph: &Graph, picks: &[u32]) -> Result<(), Error> {
        let n_nodes = graph.n_nodes();
        self.in_cover.clear();
        self.in_cover.resize(n_nodes as usize, false);
        self.degrees.clear();
        self.degrees.extend((0..n_nodes).map(|v| graph.degree(v)));
        for (step, &pick) in (0..).zip(picks) {
            self.pick(graph, pick, step)?;
        }
        self.max_degree = self.degrees.iter().copied().max().unwrap_or(0);
        self.sum_neighbors(graph);
        Ok(())
    }

    fn pick(&mut self, graph: &Graph, pick: u32, step: u32) -> Result<(), Error> {
        let n_nodes = graph.n_nodes();
        match self.in_cover.get_mut(pick as usize) {
            None => {
                return Err(ErrorKind::PickOutOfRange {
                    pick,
                    step,
                    n_nodes,
                }
                .into());
            }
            Some(true) => return Err(ErrorKind::PickRepeated { pick, step }.into()),
            Some(picked) => *picked = true,
        }
        self.degrees[pick as usize] = 0;
        for &u in graph.neighbors(pick) {
            if !self.in_cover[u as usize] {
                self.degrees[u as usize] -= 1;
            }
        }
        Ok(())
    }

    fn sum_neighbors(&mut self, graph: &Graph) {
        self.d2.clear();
        for v in 0..graph.n_nodes() {
            // A picked neighbour has degree 0 and a node without neighbours sums to 0, so only `v` itself needs its mask.
            let neighbors = match self.in_cover[v as usize] {
                true => &[],
                false => graph.neighbors(v),
            };
            let degrees = neighbors
                .iter()
                .map(|&u| u64::from(self.degrees[u as usize]));
            self.d2.push(degrees.sum());
        }
    }
}

/// The state of `graph` after `picks`; [`PrefixState::replay`] in new memory.
///
/// # Errors
/// When a pick is no node of `graph` or was picked before.
///
/// ```
/// use shardgraph_environments::replay_prefix;
/// use shardgraph_graph::Graph;
///
/// let path = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)])?;
/// let state = replay_prefix(&path, &[0])?;
/// assert_eq!((state.degrees, state.d2, state.max_degree), (vec![0, 1, 2, 1], vec![0, 2, 2, 2], 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn replay_prefix(graph: &Graph, picks: &[u32]) -> Result<PrefixState, Error> {
    let mut state = PrefixState::default();
    state.replay(graph, picks)?;
    Ok(state)
}
