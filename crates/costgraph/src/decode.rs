//! From random keys to a schedule: the chromosome of A.5 and the five ways to read one.

mod emission;
mod ledger;
mod list;
#[cfg(test)]
mod naive;
mod pair;
mod queues;
mod ranks;
#[cfg(test)]
mod tests;

use crate::{Outcome, Problem, Schedule, Step, accounts::Accounts};
use list::ListScheduler;
use queues::Queues;
use ranks::{RankSet, Ranking};

/// How keys become a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecoderKind {
    /// The paper's: devices by highest affinity, then one topological order of ops and transfers, highest key first.
    #[default]
    Paper,
    /// As `Paper`, but when two devices meet for a transfer, every other transfer between them that is ready goes along. Harmless
    /// for the runtime where transfers take no time; where they take time this is `Paper`.
    Flush,
    /// Devices by highest affinity; of what is ready, what can start first, and of those the highest key.
    TimeAware,
    /// `TimeAware` with the transfers of `Flush`.
    TimeAwareFlush,
    /// Keys are priorities only: list scheduling puts each op where it starts (over links that are not free: ends) first. Where that
    /// exceeds a device's memory, it is done once more with an eye on the limits, and the fitter of both schedules is taken.
    List,
}

impl DecoderKind {
    /// All kinds.
    pub const ALL: [DecoderKind; 5] = [
        DecoderKind::Paper,
        DecoderKind::Flush,
        DecoderKind::TimeAware,
        DecoderKind::TimeAwareFlush,
        DecoderKind::List,
    ];

    /// What command lines call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DecoderKind::Paper => "paper",
            DecoderKind::Flush => "flush",
            DecoderKind::TimeAware => "time-aware",
            DecoderKind::TimeAwareFlush => "time-aware-flush",
            DecoderKind::List => "list",
        }
    }
}

/// Decodes chromosomes of one problem; holds all the memory that this takes, so make one per thread.
///
/// A chromosome of a graph with o ops and t tensors on d devices is o x d affinities (op-major), o op priorities and t x d transfer
/// priorities (tensor-major): [`Problem::n_keys`]. Higher keys come first. Keys lie in [0, 1) and count in steps of 2^-24; of equal
/// keys, ops come before transfers and lower ids before higher ones. Of equal affinities the lower device wins.
///
/// ```
/// use shardgraph_costgraph::*;
///
/// // Fig. 9 of the paper: node 1 makes A and C for node 2 (and B for node 3); node 2 is placed on the second device.
/// let mut builder = GraphBuilder::new("figure 9");
/// let [n1, n2, n3] = ["1", "2", "3"].map(|name| builder.op(OpSpec::new(name, 10)));
/// builder.tensor(TensorSpec::new(n1, 4, &[n2])); // A
/// builder.tensor(TensorSpec::new(n1, 4, &[n3])); // B
/// builder.tensor(TensorSpec::new(n1, 4, &[n2])); // C
/// let graph = builder.build()?;
/// let problem = Problem::new(&graph, &DeviceSet::uniform(2, None)?, Objective::Runtime, ModelOptions::default())?;
/// let affinities = [0.9, 0.1, 0.2, 0.8, 0.7, 0.3];
/// let priorities = [0.8, 0.5, 0.1];
/// let transfers = [0.5, 0.6, 0.5, 0.5, 0.5, 0.9];
/// let keys = [&affinities[..], &priorities, &transfers].concat();
/// let mut decoder = Decoder::new(&problem, DecoderKind::Paper);
/// let schedule = decoder.schedule(&keys);
/// assert_eq!(schedule.placement, [0, 1, 0]);
/// let (a, c) = (Step::Transfer { tensor: 0, to: 1 }, Step::Transfer { tensor: 2, to: 1 });
/// assert_eq!(schedule.steps, [Step::Op(n1), c, a, Step::Op(n2), Step::Op(n3)]);
/// assert_eq!(decoder.decode(&keys), schedule.verify(&problem)?.outcome);
/// # Ok::<(), Error>(())
/// ```
///
/// # Determinism
/// The result is a function of the problem, the kind and the keys.
#[derive(Clone, Debug)]
pub struct Decoder<'p, 'g> {
    problem: &'p Problem<'g>,
    kind: DecoderKind,
    accounts: Accounts,
    ranking: Ranking,
    /// What is ready, but for the list scheduler.
    ready: RankSet,
    /// Of that, for the time-aware kinds, by [`emission::queue_of`].
    queues: Queues,
    /// Ready transfers by pair of devices, for the flushing kinds.
    parcels: Queues,
    /// How many inputs each op still waits for.
    waiting: Vec<u32>,
    n_inputs: Vec<u32>,
    /// The ops that wait for nothing.
    sources: Vec<u32>,
    steps: Vec<Step>,
    list: Option<Box<ListScheduler>>,
}

impl<'p, 'g> Decoder<'p, 'g> {
    /// A decoder of that kind with all the memory that it will need.
    #[must_use]
    pub fn new(problem: &'p Problem<'g>, kind: DecoderKind) -> Decoder<'p, 'g> {
        let (n_ops, n_tensors) = (problem.graph.n_ops(), problem.graph.n_tensors());
        let n_devices = problem.n_devices();
        let is_list = kind == DecoderKind::List;
        let n_codes = n_ops + if is_list { 0 } else { n_tensors * n_devices };
        // A tensor goes to every device but one at most.
        let n_items = n_ops
            + if is_list {
                0
            } else {
                n_tensors * (n_devices - 1)
            };
        let (is_time_aware, is_flushing) = traits(kind);
        let n_pairs = |is_needed| if is_needed { n_devices * n_devices } else { 0 };
        Decoder {
            problem,
            kind,
            accounts: Accounts::new(problem),
            ranking: Ranking::new(n_codes),
            ready: RankSet::new(n_items),
            queues: Queues::new(n_pairs(is_time_aware)),
            parcels: Queues::new(n_pairs(is_flushing)),
            waiting: vec![0; n_ops],
            n_inputs: (0..n_ops as u32)
                .map(|op| problem.graph.inputs(op).len() as u32)
                .collect(),
            sources: (0..n_ops as u32)
                .filter(|&op| problem.graph.inputs(op).is_empty())
                .collect(),
            steps: Vec::with_capacity(n_ops + n_tensors * (n_devices - 1)),
            list: is_list.then(|| Box::new(ListScheduler::new(problem))),
        }
    }

    /// The problem.
    #[must_use]
    pub fn problem(&self) -> &'p Problem<'g> {
        self.problem
    }

    /// Runtime and peak memory of the schedule that `keys` stand for.
    ///
    /// # Panics
    /// When there are not [`Problem::n_keys`] keys.
    ///
    /// # Complexity
    /// For near-uniform keys O(ops + uses + tensors x devices) with `Paper` and `Flush`. The time-aware kinds take a logarithm more
    /// for each item, and look for each at all queues (a device's ops, a link's transfers) that hold something. `List` takes
    /// O((ops + uses) x devices) over free links between equal devices, else O(ops x devices^2 + uses x devices); its second pass,
    /// within limits of memory, up to 64 times that, and for each op as many steps more as there are levels of memory to be kept in
    /// mind. Nothing is allocated once a few chromosomes were decoded.
    pub fn decode(&mut self, keys: &[f32]) -> Outcome {
        self.run::<true, false>(keys);
        self.accounts.outcome(self.problem)
    }

    /// The fitness under the problem's objective, to be minimised; memory is left out where it cannot matter.
    ///
    /// # Panics
    /// When there are not [`Problem::n_keys`] keys.
    pub fn fitness(&mut self, keys: &[f32]) -> (u64, u64) {
        if self.problem.memory_matters {
            return self.decode(keys).fitness(self.problem.objective);
        }
        self.run::<false, false>(keys);
        (0, self.accounts.runtime_ns())
    }

    /// The schedule that `keys` stand for.
    ///
    /// # Panics
    /// When there are not [`Problem::n_keys`] keys.
    pub fn schedule(&mut self, keys: &[f32]) -> Schedule {
        self.run::<false, true>(keys);
        Schedule {
            placement: self.accounts.placement.clone(),
            steps: self.steps.clone(),
        }
        .pinned(self.problem)
    }

    fn run<const MEMORY: bool, const RECORD: bool>(&mut self, keys: &[f32]) {
        assert_eq!(
            keys.len(),
            self.problem.n_keys(),
            "the length of a chromosome"
        );
        if let Some(mut list) = self.list.take() {
            self.run_list::<MEMORY>(&mut list, keys);
            self.list = Some(list);
            return;
        }
        if self.is_pair() {
            self.emit_pair::<MEMORY, RECORD>(keys);
            return;
        }
        match self.problem.n_devices() {
            2 => self.emit::<2, MEMORY, RECORD>(keys),
            _ => self.emit::<0, MEMORY, RECORD>(keys),
        }
    }

    fn run_list<const MEMORY: bool>(&mut self, list: &mut ListScheduler, keys: &[f32]) {
        let problem = self.problem;
        let keys = &keys[problem.graph.n_ops() * problem.n_devices()..];
        self.ranking.clear();
        for (op, &key) in (0..problem.graph.n_ops() as u32).zip(keys) {
            self.ranking.push(key, op);
        }
        self.ranking.sort();
        let (ranking, steps) = (&self.ranking, &mut self.steps);
        list.run(problem, ranking, &mut self.accounts, steps);
        if MEMORY || list.is_limited() {
            self.evaluate_steps();
        }
        if !list.is_limited() {
            return;
        }
        let outcome = self.accounts.outcome(problem);
        if outcome.excess_bytes == 0 {
            return;
        }
        // Of the two schedules, the fitter; the first again if the second is no better.
        let (ranking, steps) = (&self.ranking, &mut self.steps);
        list.run_within_limits(problem, ranking, &mut self.accounts, steps);
        self.evaluate_steps();
        let (objective, second) = (problem.objective, self.accounts.outcome(problem));
        if second.fitness(objective) >= outcome.fitness(objective) {
            let (ranking, steps) = (&self.ranking, &mut self.steps);
            list.run(problem, ranking, &mut self.accounts, steps);
            self.evaluate_steps();
        }
    }

    /// Runs the steps at hand for their memory.
    fn evaluate_steps(&mut self) {
        let problem = self.problem;
        self.accounts.start::<true>(problem, |_, _| {});
        for &step in &self.steps {
            match step {
                Step::Op(op) => {
                    let device = usize::from(self.accounts.placement[op as usize]);
                    self.accounts.op::<true>(problem, op, device);
                }
                Step::Transfer { tensor, to } => {
                    let producer = problem.graph.producer(tensor);
                    let from = usize::from(self.accounts.placement[producer as usize]);
                    self.accounts
                        .transfer::<true>(problem, tensor, from, usize::from(to));
                }
            }
        }
    }
}

/// Whether a kind is time-aware, and whether it flushes.
fn traits(kind: DecoderKind) -> (bool, bool) {
    match kind {
        DecoderKind::Paper | DecoderKind::List => (false, false),
        DecoderKind::Flush => (false, true),
        DecoderKind::TimeAware => (true, false),
        DecoderKind::TimeAwareFlush => (true, true),
    }
}
