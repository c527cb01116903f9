//! [`Reduction`]: a kernel, what was decided on the way to it, and the way back.

use shardgraph_graph::Graph;

use crate::Error;
use crate::check::{indicator, listed};
use crate::lower_bound::clique_cover_bound;
use crate::rules::RuleCounts;

/// A node of degree 2 and its neighbours, which live on as one node under the name `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    pub(crate) middle: u32,
    pub(crate) a: u32,
    pub(crate) b: u32,
}

/// What is left of a graph, and how covers of that become covers of the graph. Made by [`crate::reduce`].
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    pub(crate) kernel: Graph,
    pub(crate) old_ids: Vec<u32>,
    /// The nodes that a rule put into the cover, under the names of the time.
    pub(crate) in_cover: Vec<bool>,
    /// In the order in which they were made.
    pub(crate) folds: Vec<Fold>,
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

    /// The graph's node that each node of the kernel was; a folded node has the name of one of its three.
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

    /// Whether no rule applies any more; false when the deadline came first. The way back is exact in both cases.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// A number of nodes that no cover of the graph is below: the offset, and half the kernel's nodes where the linear program was
    /// among the rules, or what [`crate::clique_cover_bound`] says of the kernel. Not where the rules knew a cover smaller than any.
    #[must_use]
    pub fn lower_bound(&self) -> u32 {
        let half = match self.is_half_integral {
            true => self.kernel.n_nodes().div_ceil(2),
            false => 0,
        };
        self.offset + half.max(clique_cover_bound(&self.kernel))
    }

    /// The nodes that are in every lifted cover, ascending.
    #[must_use]
    pub fn forced(&self) -> Vec<u32> {
        // Each node follows one node of the kernel, or none.
        let with_none = self.unfold(self.in_cover.clone());
        let mut with_all = self.in_cover.clone();
        for &v in &self.old_ids {
            with_all[v as usize] = true;
        }
        let with_all = self.unfold(with_all);
        let in_both: Vec<bool> = with_none.iter().zip(&with_all).map(|(x, y)| *x && *y).collect();
        listed(&in_both)
    }

    /// Makes a cover of the graph, ascending, from a cover of the kernel: `offset` nodes larger, and smallest if that is.
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
        listed(&self.unfold(in_cover))
    }

    /// The last fold first: a folded node in the cover stands for both neighbours, one outside for the node between them.
    fn unfold(&self, mut in_cover: Vec<bool>) -> Vec<bool> {
        for fold in self.folds.iter().rev() {
            let both = in_cover[fold.a as usize];
            in_cover[fold.b as usize] = both;
            in_cover[fold.middle as usize] = !both;
        }
        in_cover
    }
}
