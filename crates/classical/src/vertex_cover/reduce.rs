//! [`reduce`]: the rules, applied until none of them applies.

use shardgraph_graph::Graph;

use crate::budget::{Budget, Stopwatch};
use crate::vertex_cover::Error;
use crate::vertex_cover::check::indicator;
use crate::vertex_cover::domination::dominating_neighbors;
use crate::vertex_cover::dynamic::Dynamic;
use crate::vertex_cover::funnel::{Funnel, funnel};
use crate::vertex_cover::linear_program::{Value, extreme_half_integral};
use crate::vertex_cover::marks::Marks;
use crate::vertex_cover::reduction::{Reduction, Rewrite};
use crate::vertex_cover::rules::{RuleCounts, Rules};
use crate::vertex_cover::struction::{Struction, struction};
use crate::vertex_cover::unconfined::UnconfinedTest;
use crate::vertex_cover::waiting::{ByDegree, Guess, Waiting};

/// Nodes that are looked at between two looks at the clock, at most.
const LOOKS_PER_TICK: u32 = 256;
/// Entries that domination and removals read between two looks at the clock, but for the last node's.
const READ_PER_TICK: u64 = 1 << 16;

/// Shrinks a graph by the given rules until none of them applies, or the time is over.
///
/// # Complexity
/// Memory: about 70 B a node and 8 B an edge. The rules of degree 0, 1 and 2 take O(n + m) together; domination, unconfined and funnels look at
/// nodes near what has changed and once more at all, mostly a few rows each; a clique goes in one look, in time linear in its edges; the linear program takes O(m sqrt(n)) for each time that
/// nothing else applies. A time limit is looked at between some hundred looks at a node, and before each of the O(sqrt(n)) phases of the linear
/// program, which take O(m).
///
/// # Determinism
/// The same kernel for the same graph and rules, without a time_limit.
///
/// # Source
/// See [`Rules`].
///
/// ```
/// use shardgraph_graph::Graph;
/// use shardgraph_classical::Budget;
/// use shardgraph_classical::vertex_cover::{Rules, reduce};
///
/// // A cycle of five nodes is folded away: its smallest covers have three.
/// let cycle = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])?;
/// let reduction = reduce(&cycle, &Rules::all(), &Budget::unlimited());
/// assert_eq!((reduction.kernel().n_nodes(), reduction.offset()), (0, 3));
/// // So is it by removing nodes alone: each node is in some smallest cover, which "unconfined" proves.
/// let removed = reduce(&cycle, &Rules::removing(), &Budget::unlimited());
/// assert_eq!((removed.kernel().n_nodes(), removed.offset()), (0, 3));
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
#[must_use]
pub fn reduce(graph: &Graph, rules: &Rules, budget: &Budget<'_>) -> Reduction {
    let mut reducer = Reducer::new(graph, rules);
    let is_complete = reducer.run(&Stopwatch::begin(budget));
    reducer.finish(is_complete)
}

/// As [`reduce`], once the listed nodes are in the cover.
///
/// # Errors
/// `NoNode` and `Twice` for a list that is no set of nodes.
///
/// ```
/// use shardgraph_graph::Graph;
/// use shardgraph_classical::Budget;
/// use shardgraph_classical::vertex_cover::{Rules, reduce_given};
///
/// let cycle = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])?;
/// let reduction = reduce_given(&cycle, &[2], &Rules::removing(), &Budget::unlimited())?;
/// assert_eq!(reduction.lift(&[])?.len(), 3);
/// assert!(reduction.forced().contains(&2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn reduce_given(
    graph: &Graph,
    taken: &[u32],
    rules: &Rules,
    budget: &Budget<'_>,
) -> Result<Reduction, Error> {
    indicator(graph.n_nodes(), taken)?;
    let mut reducer = Reducer::new(graph, rules);
    for &v in taken {
        reducer.counts.given += 1;
        reducer.take(v);
    }
    let is_complete = reducer.run(&Stopwatch::begin(budget));
    Ok(reducer.finish(is_complete))
}

/// A graph while it is reduced.
pub(crate) struct Reducer {
    rules: Rules,
    graph: Dynamic,
    in_cover: Vec<bool>,
    rewrites: Vec<Rewrite>,
    offset: u32,
    /// What structions may make of it: the edges at the start.
    most_edges: u64,
    counts: RuleCounts,
    waiting: Waiting,
    marks: Marks,
    unconfined: UnconfinedTest,
    /// Entries that were read since the last look at the clock.
    n_read: u64,
    /// Whether the rules that see far look at all nodes again after a change.
    sees_far: bool,
    /// The nodes that were put into the cover while they had an edge, in order, where that is asked for.
    log: Option<Vec<u32>>,
}

impl Reducer {
    pub(crate) fn new(graph: &Graph, rules: &Rules) -> Reducer {
        let n = graph.n_nodes() as usize;
        Reducer {
            rules: *rules,
            graph: Dynamic::new(graph),
            in_cover: vec![false; n],
            rewrites: Vec::new(),
            offset: 0,
            most_edges: graph.n_edges(),
            counts: RuleCounts::default(),
            waiting: Waiting::all_of(graph),
            marks: Marks::new(n),
            unconfined: UnconfinedTest::new(n),
            n_read: 0,
            sees_far: true,
            log: None,
        }
    }

    /// As [`Reducer::new`], with a log of what is put into the cover.
    pub(crate) fn logged(graph: &Graph, rules: &Rules) -> Reducer {
        Reducer {
            log: Some(Vec::new()),
            ..Reducer::new(graph, rules)
        }
    }

    /// What the log holds, which is empty then.
    pub(crate) fn take_log(&mut self) -> Vec<u32> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Puts a node that is still there into the cover.
    pub(crate) fn give(&mut self, v: u32) {
        if self.graph.is_alive(v) {
            self.counts.given += 1;
            self.take(v);
        }
    }

    /// From here on without what costs a pass over the graph each time that nothing else applies.
    pub(crate) fn stay_near(&mut self) {
        self.rules.linear_program = false;
        self.rules.known_cover = None;
        self.sees_far = false;
    }

    /// From here on in the order of guesses.
    pub(crate) fn guess(&mut self, graph: &Graph, guess: Guess) {
        self.waiting.by_degree = Some(ByDegree::new(graph, guess));
    }

    pub(crate) fn counts(&self) -> &RuleCounts {
        &self.counts
    }

    /// False when the time was over first.
    pub(crate) fn run(&mut self, stopwatch: &Stopwatch<'_>) -> bool {
        let mut n_looks = 0;
        loop {
            n_looks += 1;
            if n_looks == LOOKS_PER_TICK || self.n_read >= READ_PER_TICK {
                (n_looks, self.n_read) = (0, 0);
                if stopwatch.is_late() {
                    return false;
                }
            }
            if self.look_at_one() || self.look_again_at_all() || self.high_degree() {
                continue;
            }
            if stopwatch.is_late() {
                return false;
            }
            match self.see_everything(stopwatch) {
                None => return false,
                Some(false) => return true,
                Some(true) => {}
            }
        }
    }

    /// Applies the cheapest rule that has a node waiting; false when none has.
    fn look_at_one(&mut self) -> bool {
        if let Some(v) = self.waiting.few_neighbors.pop() {
            self.few_neighbors(v);
            return true;
        }
        if self.rules.domination
            && let Some(v) = self.waiting.dominated.pop()
        {
            self.domination(v);
            return true;
        }
        if (self.rules.unconfined || self.rules.funnel)
            && let Some(v) = self.waiting.far.pop()
        {
            self.look_far(v);
            return true;
        }
        false
    }

    fn look_far(&mut self, v: u32) {
        if !self.graph.is_alive(v) {
            return;
        }
        if self.rules.unconfined && self.unconfined.is_unconfined(&self.graph, v) {
            self.counts.unconfined += 1;
            self.take(v);
        } else if self.rules.funnel
            && let Some(funnel) = funnel(&self.graph, v, &mut self.marks)
        {
            self.close_funnel(v, funnel);
        }
    }

    /// Structions, where no other rule applies: they take from the others what those would remove. False when there is none, none when the
    /// time was over first.
    fn structions(&mut self, stopwatch: &Stopwatch<'_>) -> Option<bool> {
        let (mut has_changed, mut n_looks) = (false, 0);
        if !self.rules.struction {
            return Some(false);
        }
        if self.sees_far && std::mem::take(&mut self.waiting.is_open_stale) {
            let all = (0..self.graph.n_nodes()).filter(|&v| self.graph.is_alive(v));
            all.for_each(|v| self.waiting.open.push(v));
        }
        while let Some(v) = self.waiting.open.pop() {
            n_looks += 1;
            if n_looks % LOOKS_PER_TICK == 0 && stopwatch.is_late() {
                return None;
            }
            if self.graph.is_alive(v)
                && let Some(found) = struction(&self.graph, v, self.most_edges, &mut self.marks)
            {
                self.apply_struction(found);
                has_changed = true;
            }
        }
        Some(has_changed)
    }

    /// Puts the new nodes in the place of the old ones, under names of these.
    fn apply_struction(&mut self, found: Struction) {
        let (n_gone, n_new) = (found.nodes.len(), found.pairs.len());
        self.offset += (n_gone - 1 - n_new) as u32;
        self.counts.struction += (n_gone - n_new) as u64;
        self.marks.clear();
        let mut around = Vec::new();
        for &gone in &found.nodes {
            let marks = &mut self.marks;
            self.graph.remove(gone, &mut |w, _| {
                if marks.mark(w) {
                    around.push(w);
                }
            });
        }
        around.retain(|&w| self.graph.is_alive(w));
        self.graph.revive(&found.nodes[..n_new], &around);
        for (name, beyond) in found.nodes.iter().zip(&found.beyond) {
            beyond.iter().for_each(|&w| self.graph.join(*name, w));
        }
        for (x, y) in found.joined() {
            self.graph.join(found.nodes[x], found.nodes[y]);
        }
        for &w in around.iter().chain(&found.nodes[..n_new]) {
            self.waiting.push(w, self.graph.degree(w));
        }
        let (nodes, pairs) = (found.nodes, found.pairs);
        self.rewrites.push(Rewrite::Struction { nodes, pairs });
    }

    /// One of `v` and `u` is in the cover; who sees both is too; who sees the one is joined with who sees the other.
    fn close_funnel(&mut self, v: u32, funnel: Funnel) {
        let Funnel {
            only_v,
            only_u,
            both,
            u,
        } = funnel;
        self.offset += 1;
        self.counts.funnel += 2;
        let waiting = &mut self.waiting;
        for gone in [v, u] {
            self.graph
                .remove(gone, &mut |w, degree| waiting.push(w, degree));
        }
        for &w in &both {
            self.counts.funnel += 1;
            self.take(w);
        }
        for &x in &only_v {
            for &y in &only_u {
                if x != y && !self.graph.has_edge(x, y) {
                    self.graph.join(x, y);
                }
            }
        }
        for &w in only_v.iter().chain(&only_u) {
            self.waiting.push(w, self.graph.degree(w));
        }
        self.rewrites.push(Rewrite::Funnel { v, u, only_v });
    }

    fn look_again_at_all(&mut self) -> bool {
        let is_used = self.rules.unconfined || self.rules.funnel;
        if !self.sees_far || !is_used || !self.waiting.is_far_stale {
            return false;
        }
        self.waiting.is_far_stale = false;
        for v in 0..self.graph.n_nodes() {
            if self.graph.is_alive(v) {
                self.waiting.far.push(v);
            }
        }
        true
    }

    fn few_neighbors(&mut self, v: u32) {
        if !self.graph.is_alive(v) || self.graph.degree(v) > 2 {
            return;
        }
        let first_two = {
            let mut neighbors = self.graph.neighbors(v);
            (neighbors.next(), neighbors.next())
        };
        match first_two {
            (None, _) => {
                self.counts.degree_zero += 1;
                self.graph.remove(v, &mut |_, _| {});
            }
            (Some(u), None) if self.rules.degree_one => {
                self.counts.degree_one += 1;
                self.take(u);
            }
            (Some(_), None) => {}
            (Some(a), Some(b)) => self.two_neighbors(v, a, b),
        }
    }

    fn two_neighbors(&mut self, v: u32, a: u32, b: u32) {
        if self.graph.has_edge(a, b) {
            if self.rules.triangle {
                self.counts.triangle += 2;
                self.take(a);
                self.take(b);
            }
        } else if self.rules.fold {
            // The longer row stays in place.
            let (a, b) = match self.graph.degree(a) >= self.graph.degree(b) {
                true => (a, b),
                false => (b, a),
            };
            self.fold(v, a, b);
        }
    }

    fn fold(&mut self, v: u32, a: u32, b: u32) {
        let waiting = &mut self.waiting;
        let lost_one = &mut |w, degree| waiting.push(w, degree);
        self.graph.fold(v, a, b, &mut self.marks, lost_one);
        self.rewrites.push(Rewrite::Fold { middle: v, a, b });
        self.offset += 1;
        self.counts.fold += 2;
        waiting.push(a, self.graph.degree(a));
        if self.rules.look_beyond_degrees() {
            self.graph.neighbors(a).for_each(|w| waiting.push_beside(w));
        }
    }

    fn domination(&mut self, u: u32) {
        if !self.graph.is_alive(u) {
            return;
        }
        let dominating = dominating_neighbors(&self.graph, u, &mut self.marks);
        self.n_read += dominating.n_read;
        for v in dominating.nodes {
            self.counts.domination += 1;
            self.take(v);
        }
    }

    /// The node that is guessed next; none when none is left.
    pub(crate) fn next_guess(&mut self) -> Option<u32> {
        let graph = &self.graph;
        let degree = |v| graph.is_alive(v).then(|| graph.degree(v));
        self.waiting.by_degree.as_mut()?.pop(degree)
    }

    /// Takes all nodes that a cover no larger than the known one cannot leave out; false when there is none.
    fn high_degree(&mut self) -> bool {
        let Some(known_cover) = self.rules.known_cover else {
            return false;
        };
        let mut has_taken = false;
        for v in 0..self.graph.n_nodes() {
            let room = known_cover.saturating_sub(self.offset);
            if self.graph.is_alive(v) && self.graph.degree(v) > room {
                self.counts.high_degree += 1;
                self.take(v);
                has_taken = true;
            }
        }
        has_taken
    }

    /// The rules for when no other has anything to do; false when they have nothing either, none when the time was over first.
    fn see_everything(&mut self, stopwatch: &Stopwatch<'_>) -> Option<bool> {
        match self.linear_program(stopwatch)? {
            true => Some(true),
            false => self.structions(stopwatch),
        }
    }

    /// False when the linear program leaves everything at one half, none when the time was over first.
    fn linear_program(&mut self, stopwatch: &Stopwatch<'_>) -> Option<bool> {
        if !self.rules.linear_program {
            return Some(false);
        }
        let (rows, old_ids) = self.graph.compact();
        let values = extreme_half_integral(&rows, stopwatch)?;
        // What is set to 0 loses all its neighbours and then goes as a node without an edge.
        let mut has_taken = false;
        for (&v, value) in old_ids.iter().zip(values) {
            if value == Value::One {
                self.counts.linear_program += 1;
                self.take(v);
                has_taken = true;
            }
        }
        Some(has_taken)
    }

    pub(crate) fn neighbors(&self, v: u32) -> impl Iterator<Item = u32> + '_ {
        self.graph.neighbors(v)
    }

    /// Puts `v` into the cover.
    pub(crate) fn take(&mut self, v: u32) {
        self.in_cover[v as usize] = true;
        self.offset += 1;
        let degree = self.graph.degree(v);
        self.n_read += u64::from(degree);
        if let Some(log) = self.log.as_mut().filter(|_| degree > 0) {
            log.push(v);
        }
        let waiting = &mut self.waiting;
        self.graph
            .remove(v, &mut |u, degree| waiting.push(u, degree));
    }

    pub(crate) fn finish(self, is_complete: bool) -> Reduction {
        let (rows, old_ids) = self.graph.compact();
        Reduction {
            kernel: rows.into_graph(),
            old_ids,
            in_cover: self.in_cover,
            rewrites: self.rewrites,
            offset: self.offset,
            counts: self.counts,
            is_complete,
            is_half_integral: is_complete && self.rules.linear_program,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// Every pair but 2i and 2i + 1, or every pair.
    fn nearly_complete(n: u32, lacks_pairs: bool) -> Graph {
        let lacks = |u: u32, v: u32| lacks_pairs && u / 2 == v / 2;
        let below = |u: u32| (0..u).filter(move |&v| !lacks(u, v)).map(move |v| (v, u));
        let edges: Vec<(u32, u32)> = (0..n).flat_map(below).collect();
        Graph::from_edges(n, &edges).unwrap()
    }

    fn domination() -> Rules {
        Rules {
            domination: true,
            ..Rules::none()
        }
    }

    /// How often the clock is looked at: about once for every [`READ_PER_TICK`] entries, or [`LOOKS_PER_TICK`] looks.
    fn n_clock_looks(graph: &Graph) -> (u64, Reduction) {
        let n_looks = AtomicU64::new(0);
        let clock = || {
            n_looks.fetch_add(1, Relaxed);
            0.0
        };
        let budget = Budget {
            clock: &clock,
            time_limit: Some(1.0),
            ..Budget::unlimited()
        };
        let reduction = reduce(graph, &domination(), &budget);
        (n_looks.load(Relaxed), reduction)
    }

    /// A look reads every row of the clique once, and takes all but the node that it looks at.
    #[test]
    fn a_clique_goes_in_one_look() {
        let n = 600;
        let mut reducer = Reducer::new(&nearly_complete(n, false), &domination());
        assert!(reducer.look_at_one());
        assert_eq!(
            (reducer.offset, reducer.counts.domination),
            (n - 1, u64::from(n - 1))
        );
        // Rows, candidates and removals: each at most all entries.
        let n_entries = u64::from(n) * u64::from(n - 1);
        assert!(reducer.n_read <= 3 * n_entries, "{}", reducer.n_read);
    }

    /// The clock is looked at as entries are read, also where few nodes are looked at.
    #[test]
    fn the_clock_is_looked_at_by_what_is_read() {
        let n = 200u32;
        let (n_looks, reduction) = n_clock_looks(&nearly_complete(n, true));
        assert_eq!(reduction.offset(), 0);
        // Half the rows of a node's neighbours at least before the last candidate is gone, for each node.
        let n_read = u64::from(n) * u64::from(n - 2) / 2 * u64::from(n - 2);
        assert!(n_looks >= n_read / (2 * READ_PER_TICK), "{n_looks}");
    }
}
