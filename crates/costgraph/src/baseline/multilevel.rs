//! Multilevel partitioning: ops are coarsened by heavy edges, divided among devices, and refined on the way back.

use super::cluster_search::placed_list;
use super::components::components;
use crate::{Problem, Schedule};
use shardgraph_random::KeyedRng;

/// Coarsening ends with this many clusters for each device.
const CLUSTERS_PER_DEVICE: usize = 8;
/// A net with more pins than this joins nothing: it says too little about any two of them.
const MAX_PINS: usize = 64;
/// Moves of a refinement pass without a new best state before the pass ends.
const MAX_STALLED_MOVES: usize = 60;
const MAX_PASSES: usize = 8;

/// Clusters of ops at several levels: level 0 has an op each, every further level joins clusters that exchange much.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    levels: Vec<Level>,
    /// Levels beyond those, without a cap on the work of a cluster.
    uncapped: Vec<Level>,
}

/// One level of a [`Hierarchy`]: clusters 0.. and their ops.
#[derive(Clone, Debug)]
pub struct Level {
    of_op: Vec<u32>,
    offsets: Vec<u32>,
    ops: Vec<u32>,
}

impl Level {
    pub(super) fn new(of_op: Vec<u32>, n_clusters: usize) -> Level {
        let mut offsets = vec![0u32; n_clusters + 1];
        for &cluster in &of_op {
            offsets[cluster as usize + 1] += 1;
        }
        for at in 0..n_clusters {
            offsets[at + 1] += offsets[at];
        }
        let mut next = offsets.clone();
        let mut ops = vec![0; of_op.len()];
        for (op, &cluster) in of_op.iter().enumerate() {
            ops[next[cluster as usize] as usize] = op as u32;
            next[cluster as usize] += 1;
        }
        Level {
            of_op,
            offsets,
            ops,
        }
    }

    /// The level after one sweep that matches clusters.
    fn coarser(&self, problem: &Problem<'_>, work: &[u64], cap: u64, dice: &mut KeyedRng) -> Level {
        let of_cluster = matched(problem, self, work, cap, dice);
        let n_coarse = of_cluster.iter().max().map_or(0, |&c| c as usize + 1);
        let of_op = self.of_op.iter().map(|&c| of_cluster[c as usize]);
        Level::new(of_op.collect(), n_coarse)
    }

    /// How many clusters there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True for the level of a graph without ops.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cluster of `op`.
    ///
    /// # Panics
    /// When there is no such op.
    #[must_use]
    pub fn cluster_of(&self, op: u32) -> u32 {
        self.of_op[op as usize]
    }

    /// The ops of a cluster, ascending.
    ///
    /// # Panics
    /// When there is no such cluster.
    #[must_use]
    pub fn ops(&self, cluster: u32) -> &[u32] {
        let at = cluster as usize;
        &self.ops[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }
}

impl Hierarchy {
    /// Coarsens until 8 clusters for each device are left, or nothing more can be joined.
    ///
    /// Each sweep matches every cluster with the neighbour of the largest exchange between them. No cluster gets more than half
    /// of a device's share of the work. Further levels without that cap follow ([`Hierarchy::uncapped`]), down to one cluster for each
    /// connected component.
    ///
    /// # Complexity
    /// O(uses log uses) time for each level, of which there are O(log ops).
    #[must_use]
    pub fn new(problem: &Problem<'_>, seed: u64) -> Hierarchy {
        let n_ops = problem.graph().n_ops();
        let work: Vec<u64> = (0..n_ops as u32).map(|op| load(problem, op)).collect();
        let total: u64 = work.iter().sum();
        let cap = total / (2 * problem.n_devices() as u64) + 1;
        let enough = (CLUSTERS_PER_DEVICE * problem.n_devices()).max(2);
        let mut levels = vec![Level::new((0..n_ops as u32).collect(), n_ops)];
        let mut dice = KeyedRng::new(seed, "coarsening", 0);
        while let Some(finest) = levels.last().filter(|level| level.len() > enough) {
            let coarse = finest.coarser(problem, &work, cap, &mut dice);
            if coarse.len() * 20 > finest.len() * 19 {
                break;
            }
            levels.push(coarse);
        }
        let mut uncapped: Vec<Level> = Vec::new();
        let mut dice = KeyedRng::new(seed, "coarsening", 1);
        while let Some(finest) = uncapped.last().or(levels.last()) {
            let coarse = finest.coarser(problem, &work, u64::MAX, &mut dice);
            // One cluster for all ops is nothing to move.
            if coarse.len() < 2 || coarse.len() * 20 > finest.len() * 19 {
                break;
            }
            uncapped.push(coarse);
        }
        let components = components(problem);
        let coarsest = uncapped.last().or(levels.last()).map_or(0, Level::len);
        if (2..coarsest).contains(&components.len()) {
            uncapped.push(components);
        }
        Hierarchy { levels, uncapped }
    }

    /// The levels, finest first.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Coarser levels, whose clusters may hold more than a device's share of the work; the last one has the connected components,
    /// where there are several.
    ///
    /// Over links that are slow beside the ops, the best plan moves such clusters as a whole.
    #[must_use]
    pub fn uncapped(&self) -> &[Level] {
        &self.uncapped
    }
}

/// What an op adds to the load of its device: its mean cost, or its bytes where memory is minimised.
pub(super) fn load(problem: &Problem<'_>, op: u32) -> u64 {
    let graph = problem.graph();
    match problem.objective() {
        crate::Objective::Runtime => {
            let n = problem.n_devices();
            let costs = (0..n).map(|device| problem.cost_ns(op, device));
            costs.sum::<u64>() / n as u64
        }
        crate::Objective::Memory => {
            let made: u64 = graph.outputs(op).map(|t| graph.tensor_bytes(t)).sum();
            made + graph.persistent_bytes(op)
        }
    }
}

/// What it costs when a tensor is sent once: its mean time, or its bytes where that is nothing.
fn net_weight(problem: &Problem<'_>, tensor: u32) -> u64 {
    if !problem.is_transferred(tensor) {
        return 0;
    }
    let bytes = problem.graph().tensor_bytes(tensor);
    if problem.free_links || problem.n_devices() < 2 {
        return bytes + 1;
    }
    problem
        .transfer_ns(tensor, 0, 1)
        .max(problem.transfer_ns(tensor, 1, 0))
        + 1
}

/// The new cluster of each cluster of a level.
fn matched(
    problem: &Problem<'_>,
    level: &Level,
    work: &[u64],
    cap: u64,
    dice: &mut KeyedRng,
) -> Vec<u32> {
    const FREE: u32 = u32::MAX;
    let n = level.len();
    let neighbours = exchanges(problem, level);
    let weight = |c: u32| {
        level
            .ops(c)
            .iter()
            .map(|&op| work[op as usize])
            .sum::<u64>()
    };
    let weights: Vec<u64> = (0..n as u32).map(weight).collect();
    let mut visits: Vec<u32> = (0..n as u32).collect();
    dice.shuffle(&mut visits);
    let mut new_of = vec![FREE; n];
    let mut n_new = 0;
    for &cluster in &visits {
        if new_of[cluster as usize] != FREE {
            continue;
        }
        let begin = neighbours.partition_point(|&(a, _, _)| a < cluster);
        let row = neighbours[begin..]
            .iter()
            .take_while(|&&(a, _, _)| a == cluster);
        let own = weights[cluster as usize];
        let fits = |&&(_, b, _): &&(u32, u32, u64)| {
            let other = weights[b as usize];
            new_of[b as usize] == FREE
                && (own == 0 || other == 0 || own.saturating_add(other) <= cap)
        };
        let mate = row
            .filter(fits)
            .max_by_key(|&&(_, b, w)| (w, std::cmp::Reverse(b)));
        new_of[cluster as usize] = n_new;
        if let Some(&(_, mate, _)) = mate {
            new_of[mate as usize] = n_new;
        }
        n_new += 1;
    }
    new_of
}

/// (cluster, other, weight of what they exchange), both ways, sorted.
fn exchanges(problem: &Problem<'_>, level: &Level) -> Vec<(u32, u32, u64)> {
    let graph = problem.graph();
    let mut edges: Vec<(u32, u32, u64)> = Vec::new();
    let mut pins: Vec<u32> = Vec::new();
    for tensor in 0..graph.n_tensors() as u32 {
        let weight = net_weight(problem, tensor);
        if weight == 0 {
            continue;
        }
        let home = level.cluster_of(graph.producer(tensor));
        pins.clear();
        pins.extend(
            graph
                .consumers(tensor)
                .iter()
                .map(|&op| level.cluster_of(op)),
        );
        pins.sort_unstable();
        pins.dedup();
        pins.retain(|&pin| pin != home);
        if pins.len() < MAX_PINS {
            let share = weight / (pins.len() as u64).max(1) + 1;
            let pairs = pins
                .iter()
                .flat_map(|&pin| [(home, pin, share), (pin, home, share)]);
            edges.extend(pairs);
        }
    }
    edges.sort_unstable();
    edges.dedup_by(|next, kept| {
        let is_same = (next.0, next.1) == (kept.0, kept.1);
        if is_same {
            kept.2 += next.2;
        }
        is_same
    });
    edges
}

/// Divides the ops among the first `n_parts` devices so that little time goes into transfers.
///
/// Every device gets at most `1 + slack` times its share of the load, as far as single ops allow. Clusters of the coarsest level are
/// dealt in topological order, and at every level moves of single clusters lower the sum over tensors of transfers times their
/// duration, with hill climbing: a pass moves the best cluster again and again and keeps the best state that it saw.
///
/// # Panics
/// For no parts, or more than there are devices.
///
/// # Complexity
/// O(levels x passes x moves x clusters) time, with at most 60 moves behind the last improvement of a pass.
///
/// # Source
/// Hendrickson and Leland, "A multilevel algorithm for partitioning graphs", 1995; Fiduccia and Mattheyses, "A linear-time heuristic
/// for improving network partitions", 1982, for more than two parts.
#[must_use]
pub fn multilevel_partition(
    problem: &Problem<'_>,
    hierarchy: &Hierarchy,
    n_parts: usize,
    slack: f64,
) -> Vec<u8> {
    assert!(
        (1..=problem.n_devices()).contains(&n_parts),
        "as many parts as devices"
    );
    let mut placement = vec![0u8; problem.graph().n_ops()];
    if n_parts == 1 {
        return placement;
    }
    let mut is_first = true;
    for level in hierarchy.levels.iter().rev() {
        let mut cut = Cut::new(problem, level, &placement, n_parts, slack);
        if std::mem::take(&mut is_first) {
            cut.deal(problem);
        }
        for _ in 0..MAX_PASSES {
            if !cut.pass() {
                break;
            }
        }
        for (op, device) in placement.iter_mut().enumerate() {
            *device = cut.part[level.cluster_of(op as u32) as usize];
        }
    }
    placement
}

/// The partition over all devices, with a tenth of slack, in the order of list scheduling by upward rank.
///
/// # Source
/// As of [`multilevel_partition`], then [`placed_list`].
#[must_use]
pub fn multilevel(problem: &Problem<'_>, seed: u64) -> Schedule {
    let hierarchy = Hierarchy::new(problem, seed);
    let placement = multilevel_partition(problem, &hierarchy, problem.n_devices(), 0.1);
    placed_list(problem, &placement)
}

/// A partition of one level's clusters and what crosses it.
struct Cut<'l> {
    level: &'l Level,
    /// Pins of net j, clusters: `pins[pin_offsets[j]..pin_offsets[j + 1]]`.
    pin_offsets: Vec<u32>,
    pins: Vec<u32>,
    net_weights: Vec<u64>,
    /// Nets of cluster c, as above.
    net_offsets: Vec<u32>,
    nets: Vec<u32>,
    loads: Vec<u64>,
    part: Vec<u8>,
    /// By net and part: how many pins are there.
    n_pins: Vec<u32>,
    part_loads: Vec<u64>,
    /// The most that a part may hold.
    most: u64,
    n_parts: usize,
}

impl<'l> Cut<'l> {
    fn new(
        problem: &Problem<'_>,
        level: &'l Level,
        placement: &[u8],
        n_parts: usize,
        slack: f64,
    ) -> Cut<'l> {
        let graph = problem.graph();
        let n = level.len();
        let mut loads = vec![0u64; n];
        let mut part = vec![0u8; n];
        for op in 0..graph.n_ops() as u32 {
            let cluster = level.cluster_of(op) as usize;
            loads[cluster] += load(problem, op);
            part[cluster] = placement[op as usize];
        }
        let (mut pin_offsets, mut pins, mut net_weights) = (vec![0u32], Vec::new(), Vec::new());
        let mut of_net: Vec<u32> = Vec::new();
        let mut n_nets_of = vec![0u32; n + 1];
        for tensor in 0..graph.n_tensors() as u32 {
            let weight = net_weight(problem, tensor);
            of_net.clear();
            of_net.push(level.cluster_of(graph.producer(tensor)));
            of_net.extend(
                graph
                    .consumers(tensor)
                    .iter()
                    .map(|&op| level.cluster_of(op)),
            );
            of_net.sort_unstable();
            of_net.dedup();
            if weight > 0 && of_net.len() > 1 {
                of_net.iter().for_each(|&c| n_nets_of[c as usize + 1] += 1);
                pins.extend_from_slice(&of_net);
                pin_offsets.push(pins.len() as u32);
                net_weights.push(weight);
            }
        }
        for at in 0..n {
            n_nets_of[at + 1] += n_nets_of[at];
        }
        let net_offsets = n_nets_of;
        let mut next = net_offsets.clone();
        let mut nets = vec![0; pins.len()];
        for net in 0..net_weights.len() {
            for &pin in &pins[pin_offsets[net] as usize..pin_offsets[net + 1] as usize] {
                nets[next[pin as usize] as usize] = net as u32;
                next[pin as usize] += 1;
            }
        }
        let total: u64 = loads.iter().sum();
        let largest = loads.iter().copied().max().unwrap_or(0);
        let share = total as f64 / n_parts as f64;
        let mut cut = Cut {
            level,
            pin_offsets,
            pins,
            net_offsets,
            nets,
            loads,
            part,
            n_pins: vec![0; net_weights.len() * n_parts],
            net_weights,
            part_loads: vec![0; n_parts],
            most: ((share * (1.0 + slack)) as u64).max(largest) + 1,
            n_parts,
        };
        cut.count();
        cut
    }

    fn count(&mut self) {
        self.n_pins.fill(0);
        self.part_loads.fill(0);
        for (net, range) in self.pin_offsets.windows(2).enumerate() {
            for &pin in &self.pins[range[0] as usize..range[1] as usize] {
                self.n_pins[net * self.n_parts + usize::from(self.part[pin as usize])] += 1;
            }
        }
        for (&load, &part) in self.loads.iter().zip(&self.part) {
            self.part_loads[usize::from(part)] += load;
        }
    }

    /// Parts filled one after the other, by where the clusters' first ops stand in the topological order.
    fn deal(&mut self, problem: &Problem<'_>) {
        let mut order: Vec<u32> = Vec::with_capacity(self.level.len());
        let mut is_seen = vec![false; self.level.len()];
        for &op in problem.graph().topological_order() {
            let cluster = self.level.cluster_of(op);
            if !std::mem::replace(&mut is_seen[cluster as usize], true) {
                order.push(cluster);
            }
        }
        let total: u128 = self.loads.iter().map(|&load| u128::from(load)).sum();
        let mut before = 0u128;
        for &cluster in &order {
            let load = u128::from(self.loads[cluster as usize]);
            let part = (before + load / 2) * self.n_parts as u128 / total.max(1);
            self.part[cluster as usize] = part.min(self.n_parts as u128 - 1) as u8;
            before += load;
        }
        self.count();
    }

    /// The weight that no longer crosses, less what newly does, if `cluster` went to `to`.
    fn gain(&self, cluster: u32, to: usize) -> i64 {
        let from = usize::from(self.part[cluster as usize]);
        let at = cluster as usize;
        let range = self.net_offsets[at] as usize..self.net_offsets[at + 1] as usize;
        let mut gain = 0;
        for &net in &self.nets[range] {
            let row = net as usize * self.n_parts;
            let weight = self.net_weights[net as usize] as i64;
            gain += i64::from(self.n_pins[row + from] == 1) * weight;
            gain -= i64::from(self.n_pins[row + to] == 0) * weight;
        }
        gain
    }

    fn move_to(&mut self, cluster: u32, to: usize) {
        let at = cluster as usize;
        let from = usize::from(self.part[at]);
        let range = self.net_offsets[at] as usize..self.net_offsets[at + 1] as usize;
        for &net in &self.nets[range] {
            let row = net as usize * self.n_parts;
            self.n_pins[row + from] -= 1;
            self.n_pins[row + to] += 1;
        }
        self.part_loads[from] -= self.loads[at];
        self.part_loads[to] += self.loads[at];
        self.part[at] = to as u8;
    }

    /// The best part for a cluster that has room for it, with the gain.
    fn best_move(&self, cluster: u32) -> Option<(i64, usize)> {
        let from = usize::from(self.part[cluster as usize]);
        let load = self.loads[cluster as usize];
        let is_over = self.part_loads[from] > self.most;
        let fits = |&to: &usize| {
            let after = self.part_loads[to] + load;
            to != from && (after <= self.most || (is_over && after < self.part_loads[from]))
        };
        let parts = (0..self.n_parts).filter(fits);
        parts
            .map(|to| (self.gain(cluster, to), to))
            .max_by_key(|&(gain, to)| (gain, std::cmp::Reverse(self.part_loads[to])))
    }

    /// How far the fullest part is beyond what it may hold.
    fn overload(&self) -> u64 {
        let loads = self.part_loads.iter();
        loads
            .map(|&load| load.saturating_sub(self.most))
            .max()
            .unwrap_or(0)
    }

    /// One pass of moves; true when it lowered what crosses or the overload.
    fn pass(&mut self) -> bool {
        let n = self.level.len();
        let mut moves: Vec<Option<(i64, usize)>> =
            (0..n as u32).map(|c| self.best_move(c)).collect();
        let mut is_locked = vec![false; n];
        let mut done: Vec<(u32, u8)> = Vec::new();
        let start = (self.overload(), 0i64);
        let (mut sum, mut best, mut n_best) = (0, start, 0);
        while done.len() - n_best < MAX_STALLED_MOVES {
            let open = (0..n).filter(|&c| !is_locked[c]);
            let next = open.filter_map(|c| moves[c].map(|(gain, to)| (gain, c, to)));
            let Some((_, cluster, _)) =
                next.max_by_key(|&(gain, c, _)| (gain, std::cmp::Reverse(c)))
            else {
                break;
            };
            // Loads have changed since this move was found.
            let Some((gain, to)) = self.best_move(cluster as u32) else {
                moves[cluster] = None;
                continue;
            };
            done.push((cluster as u32, self.part[cluster]));
            is_locked[cluster] = true;
            self.move_to(cluster as u32, to);
            sum -= gain;
            if (self.overload(), sum) < best {
                (best, n_best) = ((self.overload(), sum), done.len());
            }
            self.update_around(cluster, &is_locked, &mut moves);
        }
        for &(cluster, from) in done[n_best..].iter().rev() {
            self.move_to(cluster, usize::from(from));
        }
        best < start
    }

    fn update_around(
        &self,
        cluster: usize,
        is_locked: &[bool],
        moves: &mut [Option<(i64, usize)>],
    ) {
        let nets = self.net_offsets[cluster] as usize..self.net_offsets[cluster + 1] as usize;
        for &net in &self.nets[nets] {
            let net = net as usize;
            let range = self.pin_offsets[net] as usize..self.pin_offsets[net + 1] as usize;
            if range.len() > MAX_PINS {
                continue;
            }
            for &pin in &self.pins[range] {
                if !is_locked[pin as usize] {
                    moves[pin as usize] = self.best_move(pin);
                }
            }
        }
    }
}
