//! [`Rules`]: which reductions are applied, and [`RuleCounts`]: what each of them removed.

use serde::{Deserialize, Serialize};

/// The reductions to apply. Nodes without an edge always go.
///
/// Each keeps an optimum: the smallest cover of the kernel, lifted, is a smallest cover of the graph.
///
/// # Source
/// Akiba and Iwata, "Branch-and-reduce exponential/FPT algorithms in practice" (2016), which collects them; unconfined and funnels: Xiao and
/// Nagamochi (2013); struction: Ebenegger, Hammer and de Werra (1984); the linear program: Nemhauser and Trotter (1975), its extreme solution: Iwata, Oka and Yoshida (2014); high
/// degree: Buss and Goldsmith (1993).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// The neighbour of a node of degree 1 is in the cover.
    pub degree_one: bool,
    /// The two neighbours of a node of degree 2 that are joined are in the cover.
    pub triangle: bool,
    /// A node of degree 2 and its two neighbours that are not joined become one node. Changes edges.
    pub fold: bool,
    /// Of a node whose neighbours but one are a clique and that one, exactly one is in the cover. Changes edges, where that makes the
    /// graph no larger.
    pub funnel: bool,
    /// A node and its neighbours become a node for each two neighbours that are not joined, where these are fewer: what remains open is
    /// which of the neighbours stay out. Changes edges, of which the graph never has more than at the start.
    pub struction: bool,
    /// A node whose closed neighbourhood holds that of a neighbour is in the cover.
    pub domination: bool,
    /// A node is in the cover where leaving it out leads to a set that another is as good as. Holds domination.
    pub unconfined: bool,
    /// What the half-integral optimum of the linear program with fewest halves sets to 1 is in the cover, and what it sets to 0
    /// is not. Holds crowns.
    pub linear_program: bool,
    /// The size of a cover that is known: a node with more neighbours than this, less what is in the cover already, is in it too.
    ///
    /// Where no cover is as small, lifted covers are covers still, but the optimum may be lost.
    pub known_cover: Option<u32>,
}

impl Rules {
    /// Every rule that needs no known cover.
    #[must_use]
    pub fn all() -> Rules {
        Rules {
            fold: true,
            funnel: true,
            struction: true,
            ..Rules::removing()
        }
    }

    /// Every rule that only removes nodes: the kernel is a part of the graph, under a mask.
    #[must_use]
    pub fn removing() -> Rules {
        Rules {
            degree_one: true,
            triangle: true,
            fold: false,
            funnel: false,
            struction: false,
            domination: true,
            unconfined: true,
            linear_program: true,
            known_cover: None,
        }
    }

    /// The rules for nodes with at most two neighbours, which take O(n + m) together.
    #[must_use]
    pub fn few_neighbors() -> Rules {
        Rules {
            degree_one: true,
            triangle: true,
            fold: true,
            ..Rules::none()
        }
    }

    /// Whether a rule reads more of a node than its degree and, up to degree 2, its neighbours.
    pub(crate) fn look_beyond_degrees(&self) -> bool {
        self.domination || self.unconfined || self.funnel || self.struction
    }

    /// Only nodes without an edge go.
    #[must_use]
    pub fn none() -> Rules {
        Rules {
            degree_one: false,
            triangle: false,
            fold: false,
            funnel: false,
            struction: false,
            domination: false,
            unconfined: false,
            linear_program: false,
            known_cover: None,
        }
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules::all()
    }
}

/// How many nodes each rule removed; together the graph's nodes less the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleCounts {
    /// Nodes without an edge, left out of the cover; many lost their edges to another rule.
    pub degree_zero: u64,
    /// Neighbours of nodes of degree 1.
    pub degree_one: u64,
    /// Joined neighbours of nodes of degree 2.
    pub triangle: u64,
    /// Two for each fold.
    pub fold: u64,
    /// Both ends of funnels, and who saw both.
    pub funnel: u64,
    /// By how many nodes structions made the graph smaller.
    pub struction: u64,
    /// Nodes that dominate a neighbour.
    pub domination: u64,
    /// Unconfined nodes.
    pub unconfined: u64,
    /// Nodes that the linear program set to 1.
    pub linear_program: u64,
    /// Nodes with more neighbours than the known cover leaves room for.
    pub high_degree: u64,
    /// Nodes that the caller put into the cover.
    pub given: u64,
}

impl RuleCounts {
    /// Names and counts, in the order of the fields.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 11] {
        [
            ("degree zero", self.degree_zero),
            ("degree one", self.degree_one),
            ("triangle", self.triangle),
            ("fold", self.fold),
            ("funnel", self.funnel),
            ("struction", self.struction),
            ("domination", self.domination),
            ("unconfined", self.unconfined),
            ("linear program", self.linear_program),
            ("high degree", self.high_degree),
            ("the caller", self.given),
        ]
    }

    /// All nodes removed.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }
}
