//! What a pass does, in order: steps of jobs, and the share of the samples that each bucket has.

use shardgraph_graph::random::Stream;

use super::options::Layout;
use crate::schedule::GroupPair;
use crate::walk::{Pair, latin_rounds, tournament_rounds};
use crate::{Error, ErrorKind, Store};

/// The samples of one bucket, with `vertex` in the role of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leg {
    pub(crate) vertex: u32,
    pub(crate) context: u32,
    /// Edges are taken from target to source: the bucket is (context, vertex).
    pub(crate) is_reversed: bool,
    /// Tells this visit of this bucket from all others of the run.
    pub(crate) number: u64,
    /// Samples of the run before this leg's first, which decide the learning rate.
    pub(crate) first_sample: u64,
    pub(crate) n_samples: u64,
}

impl Leg {
    pub(crate) fn bucket(self) -> Pair {
        match self.is_reversed {
            false => (self.vertex, self.context),
            true => (self.context, self.vertex),
        }
    }
}

/// What one thread does with a pair of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) pair: Pair,
    pub(crate) legs: Vec<Leg>,
}

impl Job {
    pub(crate) fn n_samples(&self) -> u64 {
        self.legs.iter().map(|leg| leg.n_samples).sum()
    }
}

/// Jobs on different parts, all of the two groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) groups: GroupPair,
    pub(crate) jobs: Vec<Job>,
}

/// The plan of each pass of one order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planner<'s> {
    pub(crate) store: &'s Store,
    /// 1 or 2.
    pub(crate) order: u32,
    pub(crate) seed: u64,
    pub(crate) layout: Layout,
}

impl Planner<'_> {
    /// Refuses runs whose samples would not all have numbers of their own: 32 bits for the visit, 32 within it.
    pub(crate) fn check(&self, epochs: u32) -> Result<(), Error> {
        let n_buckets = u64::from(self.store.n_parts()).pow(2);
        if u64::from(epochs) * n_buckets > 1 << 32 {
            let most = (1u64 << 32) / n_buckets;
            let expected = format!("at most {most} with {} parts", self.store.n_parts());
            return Err(Error::config("epochs", epochs, &expected));
        }
        let parts = 0..self.store.n_parts();
        let pairs = parts
            .clone()
            .flat_map(|i| parts.clone().map(move |j| (i, j)));
        match pairs.map(|(i, j)| self.store.n_samples(i, j)).max() {
            Some(largest) if largest >= 1 << 32 => {
                let message = format!(
                    "a bucket of {largest} samples, at most 2^32 - 1: import the graph in more parts"
                );
                Err(Error::new(ErrorKind::Graph, message))
            }
            _ => Ok(()),
        }
    }

    /// The steps of a pass. Every bucket is visited once.
    ///
    /// Undirected edges, and all edges where order 1 has one table for both ends, are taken in the other direction in every
    /// second pass.
    pub(crate) fn pass(&self, pass: u32) -> Vec<Step> {
        let mut stream = Stream::new(self.seed, "line walk", u64::from(pass));
        let is_reversed = pass % 2 == 1 && (self.order == 1 || !self.store.is_directed());
        let mut done = u64::from(pass) * self.samples_of_a_pass();
        let mut steps = Vec::new();
        let Layout {
            schedule,
            n_groups,
            capacity,
        } = self.layout;
        for groups in schedule.visits(self.order, n_groups, capacity) {
            for round in self.rounds(groups, &mut stream) {
                let jobs = round.into_iter().map(|pair| {
                    let legs = self.legs(pair, pass, is_reversed, &mut done);
                    Job { pair, legs }
                });
                let jobs = jobs.filter(|job| job.n_samples() > 0).collect();
                steps.push(Step { groups, jobs });
            }
        }
        steps
    }

    /// Samples of one pass.
    pub(crate) fn samples_of_a_pass(&self) -> u64 {
        let parts = 0..self.store.n_parts();
        let buckets = parts
            .clone()
            .flat_map(|i| parts.clone().map(move |j| (i, j)));
        buckets.map(|(i, j)| self.store.n_samples(i, j)).sum()
    }

    /// The parts of a group.
    pub(crate) fn parts(&self, group: u32) -> Vec<u32> {
        let size = self.store.n_parts() / self.layout.n_groups;
        (group * size..(group + 1) * size).collect()
    }

    fn rounds(&self, (a, b): GroupPair, stream: &mut Stream) -> Vec<Vec<Pair>> {
        match self.order == 1 && a == b {
            true => tournament_rounds(&self.parts(a), stream),
            false => latin_rounds(&self.parts(a), &self.parts(b), stream),
        }
    }

    fn legs(&self, (a, b): Pair, pass: u32, is_reversed: bool, done: &mut u64) -> Vec<Leg> {
        let n_parts = u64::from(self.store.n_parts());
        let mut leg = |vertex: u32, context: u32| {
            let (i, j) = if is_reversed {
                (context, vertex)
            } else {
                (vertex, context)
            };
            let n_samples = self.store.n_samples(i, j);
            let first_sample = std::mem::replace(done, *done + n_samples);
            Leg {
                vertex,
                context,
                is_reversed,
                number: u64::from(pass) * n_parts * n_parts + u64::from(i) * n_parts + u64::from(j),
                first_sample,
                n_samples,
            }
        };
        match self.order == 1 && a != b {
            true => vec![leg(a, b), leg(b, a)],
            false => vec![leg(a, b)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeLabels;
    use crate::schedule::Schedule;
    use std::collections::BTreeSet;

    #[test]
    fn a_pass_takes_every_edge_once_whatever_the_groups() {
        let edges: Vec<(u32, u32)> = (0..200)
            .map(|k| (k % 40, (k * 7 + 1) % 40))
            .filter(|(u, v)| u != v)
            .collect();
        let store = Store::from_edges(40, &edges, 8, NodeLabels::numbers(40)).unwrap();
        for order in [1, 2] {
            for (n_groups, capacity) in [(1, 2), (2, 2), (4, 2), (8, 3), (8, 4)] {
                for schedule in [Schedule::Auto, Schedule::RowMajor] {
                    let planner = Planner {
                        store: &store,
                        order,
                        seed: 1,
                        layout: Layout {
                            schedule,
                            n_groups,
                            capacity,
                        },
                    };
                    for pass in [0, 1] {
                        check_pass(&planner, pass, edges.len() as u64);
                    }
                }
            }
        }
    }

    fn check_pass(planner: &Planner<'_>, pass: u32, n_edges: u64) {
        let mut buckets = BTreeSet::new();
        let mut next = u64::from(pass) * n_edges;
        for step in planner.pass(pass) {
            let mut parts = BTreeSet::new();
            for job in &step.jobs {
                let (a, b) = job.pair;
                let is_free = parts.insert((0, a))
                    && ((planner.order == 1 && a == b) || parts.insert((planner.order - 1, b)));
                assert!(is_free, "a part is in two jobs of a step");
                for leg in &job.legs {
                    assert!(buckets.insert(leg.bucket()));
                    assert_eq!(leg.first_sample, next);
                    next += leg.n_samples;
                }
            }
        }
        assert_eq!(next, (u64::from(pass) + 1) * n_edges, "{planner:?}");
    }
}
