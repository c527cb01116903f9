//! [`Reduction`]: a kernel, what was decided on the way to it, and the way back.

use shardgraph_graph::Graph;

use crate::vertex_cover::Error;
use crate::vertex_cover::check::{indicator, listed};
use crate::vertex_cover::lower_bound::clique_cover_bound;
use crate::vertex_cover::rules::RuleCounts;

/// A change of edges that lifting takes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rewrite {
    /// A node of degree 2 and its neighbours, which live on as one node under the name `a`.
    Fold { middle: u32, a: u32, b: u32 },
    /// A node `v` and its neighbour `u`, of which one is in the cover: `u` where all of `only_v` are.
    Funnel { v: u32, u: u32, only_v: Vec<u32> },
    /// A node and its neighbours; the node that each pair of places in `nodes` became lives on under the name at the pair's own number.
    Struction {
        nodes: Vec<u32>,
        pairs: Vec<(u32, u32)>,
    },
}

/// Whether a node is in the cover; open where that follows from the cover of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Out,
    In,
    Open,
}

/// What is left of a graph, and how covers of that become covers of the graph. Made by [`crate::vertex_cover::reduce`].
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    pub(crate) kernel: Graph,
    pub(crate) old_ids: Vec<u32>,
    /// The nodes that a rule put into the cover, under the names of the time.
    pub(crate) in_cover: Vec<bool>,
    /// In the order in which they were made.
    pub(crate) rewrites: Vec<Rewrite>,
    pub(crate) offset: u32,
    pub(crate) counts: RuleCounts,
    pub(crate) is_complete: bool,
    /// Whether all halves is an optimum of the kernel's linear program.
    pub(crate) is_half_integral: bool,
}

impl Reduction {
    /// What is left: a graph with ids of its own, in the order of the graph's. Without weights.
    #[must_use]
    pub fn kernel(&self) -> &Graph {
        &self.kernel
    }

    /// The graph's node that each node of the kernel was; a folded node has the name of one of its three, and what a struction made
    /// that of one of the nodes in whose place it is.
    #[must_use]
    pub fn old_ids(&self) -> &[u32] {
        &self.old_ids
    }

    /// How many nodes a lifted cover has more than the cover of the kernel: the same for each.
    #[must_use]
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// How many nodes each rule removed.
    #[must_use]
    pub fn counts(&self) -> &RuleCounts {
        &self.counts
    }

    /// Whether no rule applies any more; false when the time limit came first. The way back is exact in both cases.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// A number of nodes that no cover of the graph is below: the offset, and half the kernel's nodes where the linear program was
    /// among the rules, or what [`crate::vertex_cover::clique_cover_bound`] says of the kernel. Nodes that the caller put into the cover count for
    /// nothing, as a cover of the graph may do without them. Not where the rules knew a cover smaller than any.
    #[must_use]
    pub fn lower_bound(&self) -> u32 {
        let half = match self.is_half_integral {
            true => self.kernel.n_nodes().div_ceil(2),
            false => 0,
        };
        let given = self.counts.given as u32;
        self.offset - given + half.max(clique_cover_bound(&self.kernel))
    }

    /// Nodes that are in every lifted cover, ascending: all of them where rules only removed nodes.
    #[must_use]
    pub fn forced(&self) -> Vec<u32> {
        let fate = |&is_in: &bool| if is_in { Fate::In } else { Fate::Out };
        let mut fates: Vec<Fate> = self.in_cover.iter().map(fate).collect();
        for &v in &self.old_ids {
            fates[v as usize] = Fate::Open;
        }
        for rewrite in self.rewrites.iter().rev() {
            rewrite.settle(&mut fates);
        }
        let is_forced: Vec<bool> = fates.iter().map(|fate| *fate == Fate::In).collect();
        listed(&is_forced)
    }

    /// Makes a cover of the graph, ascending, from a cover of the kernel: `offset` nodes larger, and smallest if that is
    /// (of the covers that hold the given nodes, after [`crate::vertex_cover::reduce_given`]).
    ///
    /// Any set of the kernel's nodes grows by `offset`; only covers become covers.
    ///
    /// # Errors
    /// `NoNode` and `Twice` for lists that are no set of the kernel's nodes.
    ///
    /// # Complexity
    /// O(n)
    pub fn lift(&self, cover_of_kernel: &[u32]) -> Result<Vec<u32>, Error> {
        indicator(self.kernel.n_nodes(), cover_of_kernel)?;
        Ok(self.grown(cover_of_kernel))
    }

    /// [`Reduction::lift`] of a set of the kernel's nodes.
    pub(crate) fn grown(&self, nodes: &[u32]) -> Vec<u32> {
        let mut in_cover = self.in_cover.clone();
        for &v in nodes {
            in_cover[self.old_ids[v as usize] as usize] = true;
        }
        for rewrite in self.rewrites.iter().rev() {
            rewrite.undo(&mut in_cover);
        }
        listed(&in_cover)
    }
}

impl Rewrite {
    /// A folded node in the cover stands for both neighbours, one outside for the node between them.
    fn undo(&self, in_cover: &mut [bool]) {
        match self {
            Rewrite::Fold { middle, a, b } => {
                let both = in_cover[*a as usize];
                in_cover[*b as usize] = both;
                in_cover[*middle as usize] = !both;
            }
            Rewrite::Funnel { v, u, only_v } => {
                let is_v_free = only_v.iter().all(|&w| in_cover[w as usize]);
                in_cover[*u as usize] = is_v_free;
                in_cover[*v as usize] = !is_v_free;
            }
            Rewrite::Struction { nodes, pairs } => {
                let names = nodes.iter().zip(pairs);
                let out = names.filter(|(name, _)| !in_cover[**name as usize]);
                let out: Vec<(u32, u32)> = out.map(|(_, pair)| *pair).collect();
                for (&node, is_out) in nodes.iter().zip(left_out(nodes.len(), &out)) {
                    in_cover[node as usize] = !is_out;
                }
            }
        }
    }

    /// The same for what is known whatever the cover.
    fn settle(&self, fates: &mut [Fate]) {
        if let Rewrite::Struction { nodes, pairs } = self {
            let mut names = nodes[..pairs.len()].iter();
            let are_all_in = names.all(|&name| fates[name as usize] == Fate::In);
            for (place, &node) in nodes.iter().enumerate() {
                fates[node as usize] = match (are_all_in, place) {
                    (true, 0) => Fate::Out,
                    (true, _) => Fate::In,
                    (false, _) => Fate::Open,
                };
            }
            return;
        }
        let (together, against, fate) = match self {
            Rewrite::Fold { middle, a, b } => (*b, *middle, fates[*a as usize]),
            Rewrite::Funnel { v, u, only_v } => {
                let mut others = only_v.iter().map(|&w| fates[w as usize]);
                let fate = match others.clone().all(|fate| fate == Fate::In) {
                    true => Fate::In,
                    false if others.any(|fate| fate == Fate::Out) => Fate::Out,
                    false => Fate::Open,
                };
                (*u, *v, fate)
            }
            Rewrite::Struction { .. } => return,
        };
        fates[together as usize] = fate;
        fates[against as usize] = match fate {
            Fate::In => Fate::Out,
            Fate::Out => Fate::In,
            Fate::Open => Fate::Open,
        };
    }
}

/// Which of a node and its neighbours are outside a cover that leaves out the new nodes of some pairs: the node itself where it leaves out
/// none, else the first neighbour of all these pairs and their second ones. Always one more than there are pairs, also for sets that are no covers.
fn left_out(n_nodes: usize, pairs: &[(u32, u32)]) -> Vec<bool> {
    let mut is_out = vec![false; n_nodes];
    let first = pairs.first().map_or(0, |pair| pair.0);
    is_out[first as usize] = true;
    for pair in pairs {
        is_out[pair.1 as usize] = true;
    }
    let mut n_missing = pairs.len() + 1 - is_out.iter().filter(|is_out| **is_out).count();
    for is_out in is_out.iter_mut().filter(|is_out| !**is_out) {
        if n_missing == 0 {
            break;
        }
        *is_out = true;
        n_missing -= 1;
    }
    is_out
}
