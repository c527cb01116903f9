//! Graph partitioning: ops are divided among the devices so that few bytes cross.

use std::collections::BinaryHeap;

use crate::{Objective, Problem};

/// How far a half may be from its share: a tenth of what one device is to get, or one unit.
const SLACK: u64 = 10;

/// The most passes over all ops; each ends with the best state that it went through.
const MAX_PASSES: usize = 20;

/// Divides the ops among the devices in about equal shares so that few bytes cross between them.
///
/// The shares are of cost, or of the bytes that ops make for [`Objective::Memory`]; unequal devices get equal shares. More than two
/// devices are divided in halves again and again. The halves start as the front and the back of the topological order.
///
/// # Complexity
/// O(passes x uses x log ops) time for each halving.
///
/// # Source
/// Kernighan and Lin, "An efficient heuristic procedure for partitioning graphs", 1970, in the form with single moves over
/// hyperedges by Fiduccia and Mattheyses, "A linear-time heuristic for improving network partitions", 1982.
#[must_use]
pub fn partition(problem: &Problem<'_>) -> Vec<u8> {
    let mut placement = vec![0u8; problem.graph().n_ops()];
    let mut parts = vec![(0, problem.n_devices())];
    while let Some((first, n)) = parts.pop() {
        if n > 1 {
            let left = n / 2;
            Halving::new(problem, &placement, first as u8).run(
                &mut placement,
                (left, n),
                (first + left) as u8,
            );
            parts.extend([(first, left), (first + left, n - left)]);
        }
    }
    // The halves are as good the other way round.
    problem.pin(&mut placement);
    placement
}

struct Halving<'p, 'g> {
    problem: &'p Problem<'g>,
    /// The ops to be divided, in topological order.
    ops: Vec<u32>,
    is_member: Vec<bool>,
    is_right: Vec<bool>,
    /// Ends of each tensor (producer and consumers that are members) in the left and in the right half.
    ends: Vec<[u32; 2]>,
}

impl<'p, 'g> Halving<'p, 'g> {
    fn new(problem: &'p Problem<'g>, placement: &[u8], part: u8) -> Halving<'p, 'g> {
        let graph = problem.graph();
        let is_member: Vec<bool> = placement.iter().map(|&device| device == part).collect();
        let ops = graph.topological_order().iter().copied();
        Halving {
            problem,
            ops: ops.filter(|&op| is_member[op as usize]).collect(),
            is_right: vec![false; is_member.len()],
            is_member,
            ends: vec![[0; 2]; graph.n_tensors()],
        }
    }

    fn weight(&self, op: u32) -> u64 {
        let graph = self.problem.graph();
        // One more, so that ops without any are divided too.
        1 + match self.problem.objective() {
            Objective::Runtime => graph.cost_ns(0, op),
            Objective::Memory => graph.outputs(op).map(|t| graph.tensor_bytes(t)).sum(),
        }
    }

    /// Halves in proportion `share.0 / share.1` and puts the right half on device `right`.
    fn run(mut self, placement: &mut [u8], share: (usize, usize), right: u8) {
        let total: u128 = self.ops.iter().map(|&op| u128::from(self.weight(op))).sum();
        let target = (total * share.0 as u128 / share.1 as u128) as u64;
        let mut left = 0;
        for at in 0..self.ops.len() {
            let (op, weight) = (self.ops[at], self.weight(self.ops[at]));
            let goes_right = left + weight / 2 > target;
            self.is_right[op as usize] = goes_right;
            left += if goes_right { 0 } else { weight };
        }
        self.count_ends();
        let slack = (total as u64 / (SLACK * share.1 as u64)).max(1);
        for _ in 0..MAX_PASSES {
            if !self.pass(&mut left, target, slack) {
                break;
            }
        }
        for &op in self.ops.iter().filter(|&&op| self.is_right[op as usize]) {
            placement[op as usize] = right;
        }
    }

    fn count_ends(&mut self) {
        let graph = self.problem.graph();
        for (tensor, ends) in (0..graph.n_tensors() as u32).zip(&mut self.ends) {
            let producer = [graph.producer(tensor)];
            for &op in producer.iter().chain(graph.consumers(tensor)) {
                if self.is_member[op as usize] {
                    ends[usize::from(self.is_right[op as usize])] += 1;
                }
            }
        }
    }

    /// The tensors at an op: those that it makes and those that it reads.
    fn tensors(&self, op: u32) -> impl Iterator<Item = u32> + use<'g> {
        let graph = self.problem.graph();
        graph.outputs(op).chain(graph.inputs(op).iter().copied())
    }

    /// Bytes that no longer cross, less those that newly do, if `op` changed sides.
    fn gain(&self, op: u32) -> i128 {
        let side = usize::from(self.is_right[op as usize]);
        let gain = |tensor: u32| {
            let bytes = i128::from(self.problem.graph().tensor_bytes(tensor));
            let [own, other] = [
                self.ends[tensor as usize][side],
                self.ends[tensor as usize][1 - side],
            ];
            match (own, other) {
                (1, 0) => 0,
                (1, _) => bytes,
                (_, 0) => -bytes,
                _ => 0,
            }
        };
        self.tensors(op).map(gain).sum()
    }

    fn move_op(&mut self, op: u32) {
        let side = usize::from(self.is_right[op as usize]);
        self.is_right[op as usize] = side == 0;
        for tensor in self.tensors(op) {
            self.ends[tensor as usize][side] -= 1;
            self.ends[tensor as usize][1 - side] += 1;
        }
    }

    /// Moves every op once, best first as far as the balance allows, then takes back what came after the best state.
    fn pass(&mut self, left: &mut u64, target: u64, slack: u64) -> bool {
        let mut moves = Moves::new(self);
        let (mut sum, mut best, mut n_best) = (0i128, 0i128, 0);
        let mut moved = Vec::new();
        while let Some((gain, op, after)) = moves.next(self, *left, target, slack) {
            *left = after;
            self.move_op(op);
            moved.push(op);
            sum += gain;
            if sum > best {
                (best, n_best) = (sum, moved.len());
            }
            self.update_neighbours(op, &mut moves);
        }
        for &op in &moved[n_best..] {
            *left = self.left_after(op, *left);
            self.move_op(op);
        }
        best > 0
    }

    /// The weight of the left half if `op` changed sides.
    fn left_after(&self, op: u32, left: u64) -> u64 {
        if self.is_right[op as usize] {
            left + self.weight(op)
        } else {
            left - self.weight(op)
        }
    }

    fn update_neighbours(&self, op: u32, moves: &mut Moves) {
        let graph = self.problem.graph();
        for tensor in self.tensors(op) {
            let ends = self.ends[tensor as usize];
            // With this many ends on both sides before and after the move, no gain changed.
            if ends[0] > 2 && ends[1] > 2 {
                continue;
            }
            let producer = [graph.producer(tensor)];
            for &other in producer.iter().chain(graph.consumers(tensor)) {
                if moves.is_free[other as usize] {
                    moves.push(other, self.gain(other), self.is_right[other as usize]);
                }
            }
        }
    }
}

/// The moves that are left in a pass, by side; entries of former gains are skipped when they come up.
struct Moves {
    heaps: [BinaryHeap<(i128, u32)>; 2],
    gains: Vec<i128>,
    is_free: Vec<bool>,
}

impl Moves {
    fn new(halving: &Halving<'_, '_>) -> Moves {
        let mut moves = Moves {
            heaps: [BinaryHeap::new(), BinaryHeap::new()],
            gains: vec![i128::MIN; halving.is_member.len()],
            is_free: halving.is_member.clone(),
        };
        for &op in &halving.ops {
            moves.push(op, halving.gain(op), halving.is_right[op as usize]);
        }
        moves
    }

    fn push(&mut self, op: u32, gain: i128, is_right: bool) {
        if std::mem::replace(&mut self.gains[op as usize], gain) != gain {
            self.heaps[usize::from(is_right)].push((gain, op));
        }
    }

    /// The best move that the balance allows, with what the left half weighs after it; a tie goes to the heavier side.
    fn next(
        &mut self,
        halving: &Halving<'_, '_>,
        left: u64,
        target: u64,
        slack: u64,
    ) -> Option<(i128, u32, u64)> {
        loop {
            let firsts = [0, 1].map(|side| self.first(side));
            let is_allowed = |op: u32| {
                let after = halving.left_after(op, left);
                // A move that leaves the balance must at least not take it further away.
                after.abs_diff(target) <= slack.max(left.abs_diff(target))
            };
            let heavier = usize::from(left < target);
            let candidates = [heavier, 1 - heavier].into_iter().filter_map(|side| {
                let (gain, op) = firsts[side]?;
                Some((is_allowed(op), gain, side == heavier, op, side))
            });
            let (allowed, gain, _, op, side) = candidates.max()?;
            self.heaps[side].pop();
            self.is_free[op as usize] = false;
            if allowed {
                return Some((gain, op, halving.left_after(op, left)));
            }
        }
    }

    fn first(&mut self, side: usize) -> Option<(i128, u32)> {
        while let Some(&(gain, op)) = self.heaps[side].peek() {
            if self.is_free[op as usize] && self.gains[op as usize] == gain {
                return Some((gain, op));
            }
            self.heaps[side].pop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Halving;
    use crate::tests::random_problems::for_problems;
    use shardgraph_random::KeyedRng;

    /// Bytes of the tensors with members on both sides.
    fn cut(halving: &Halving<'_, '_>) -> i128 {
        let graph = halving.problem.graph();
        let crosses = |&tensor: &u32| {
            let producer = [graph.producer(tensor)];
            let ends = producer.iter().chain(graph.consumers(tensor));
            let mut sides = ends.map(|&op| halving.is_right[op as usize]);
            let first = sides.next();
            sides.any(|side| Some(side) != first)
        };
        let tensors = (0..graph.n_tensors() as u32).filter(crosses);
        tensors.map(|t| i128::from(graph.tensor_bytes(t))).sum()
    }

    #[test]
    fn a_gain_is_what_the_cut_loses() {
        for_problems(300, 40, |problem, seed| {
            let mut dice = KeyedRng::new(seed, "test", 0);
            let n_ops = problem.graph().n_ops();
            let mut halving = Halving::new(problem, &vec![0; n_ops], 0);
            halving.is_right.fill_with(|| dice.index(2) == 0);
            halving.count_ends();
            for _ in 0..20 {
                let op = dice.index(n_ops) as u32;
                let (before, gain) = (cut(&halving), halving.gain(op));
                halving.move_op(op);
                assert_eq!(before - cut(&halving), gain, "op {op}");
            }
        });
    }
}
