//! Plan of a pass: steps of jobs, and the samples of each bucket.

use std::collections::VecDeque;

use shardgraph_random::KeyedRng;

use super::layout::Layout;
use super::rounds::{Pair, latin_rounds, staying_rounds, tournament_rounds};
use super::visits::Visit;
use crate::edges::PassSamples;
use crate::{Error, Store};

/// Samples of one bucket, with `vertex` in the role of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketPass {
    pub(crate) vertex: u32,
    pub(crate) context: u32,
    /// Edges go from target to source: the bucket is (context, vertex).
    pub(crate) is_reversed: bool,
    /// Unique number of this visit of this bucket in the run.
    pub(crate) number: u64,
    /// Samples of the run before the first of these; they decide the learning rate.
    pub(crate) first_sample: u64,
    pub(crate) n_samples: u64,
}

impl BucketPass {
    pub(crate) fn bucket(self) -> Pair {
        match self.is_reversed {
            false => (self.vertex, self.context),
            true => (self.context, self.vertex),
        }
    }
}

/// Work of one thread, on parts that no other job of its round has.
///
/// Order 2 takes several vertex parts, one after the other, with one context part: six of the
/// seven rows of a sample are contexts, and stay in the processor's cache. Order 1 takes two parts
/// of its one table, or one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// 1 or 2.
    pub(crate) order: u32,
    /// Parts of the first table.
    pub(crate) vertex_parts: Vec<u32>,
    /// A part of the last table, other than those.
    pub(crate) context_part: Option<u32>,
    pub(crate) bucket_passes: Vec<BucketPass>,
}

/// Contexts of order 2 that are in use side by side: the fewer, the better they fit the cache.
/// A constant, since the result must not depend on threads.
const SIDE_BY_SIDE: usize = 8;

/// Blocks of vertex parts that a context goes through, for each context beside it: more than one,
/// so that a thread that is a little ahead finds its next block free.
const BLOCKS: usize = 2 * SIDE_BY_SIDE;

/// Least parts of a block, where there are parts for as many blocks as contexts.
const PARTS_OF_BLOCK: usize = 2;

/// A part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartKey {
    pub(crate) table: u32,
    pub(crate) part: u32,
}

impl Job {
    /// Its vertex parts, then its context part.
    pub(crate) fn parts(&self) -> impl Iterator<Item = PartKey> {
        let vertex = self.vertex_parts.iter();
        let vertex = vertex.map(|&part| PartKey { table: 0, part });
        vertex.chain(self.context())
    }

    /// Its context part.
    pub(crate) fn context(&self) -> Option<PartKey> {
        let table = self.order - 1;
        self.context_part.map(|part| PartKey { table, part })
    }

    pub(crate) fn n_samples(&self) -> u64 {
        self.bucket_passes
            .iter()
            .map(|bucket_pass| bucket_pass.n_samples)
            .sum()
    }
}

/// Rounds of jobs on the parts of a visit's groups.
///
/// The jobs of a round have different parts; a part goes through the rounds in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) visit: Visit,
    pub(crate) rounds: Vec<Vec<Job>>,
}

impl Step {
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.rounds.iter().flatten()
    }
}

/// Least jobs of a step, where a visit has as many: threads meet at the end of a step only, and the
/// last one has the others wait for the better part of a job.
const JOBS: u64 = 128;

/// Samples of a step after which fewer jobs will do: between two steps a run reports its progress
/// and writes checkpoints.
const SAMPLES: u64 = 1 << 20;

/// Least jobs of a step whose jobs have about `samples_of_job` samples.
fn jobs_of_step(samples_of_job: u64) -> usize {
    (SAMPLES / samples_of_job.max(1)).clamp(1, JOBS) as usize
}

/// Planner of the passes of one order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planner<'s> {
    pub(crate) store: &'s Store,
    /// 1 or 2.
    pub(crate) order: u32,
    pub(crate) seed: u64,
    pub(crate) layout: Layout,
    /// Jobs have two parts at most: where threads, or a device's samples, share rows.
    pub(crate) has_small_jobs: bool,
}

impl Planner<'_> {
    /// Refuses runs whose samples would not all have different numbers: 32 bits for the visit, 32
    /// within it.
    pub(crate) fn check(&self, epochs: u32) -> Result<(), Error> {
        let n_buckets = u64::from(self.store.n_parts()).pow(2);
        if u64::from(epochs) * n_buckets > 1 << 32 {
            let most = (1u64 << 32) / n_buckets;
            let expected = format!("at most {most} with {} parts", self.store.n_parts());
            return Err(Error::setting("epochs", epochs, &expected));
        }
        // Another pass may give a bucket one sample more.
        let largest = self.store.samples(0.0).largest() + 1;
        if largest >= 1 << 32 {
            let message = format!(
                "a bucket of {largest} samples, at most 2^32 - 1: import the graph in more parts"
            );
            return Err(Error::graph(message));
        }
        Ok(())
    }

    /// Steps of a pass, made on demand. Every bucket is visited once.
    ///
    /// Undirected edges, and all edges of order 1, which has one table for both ends, are taken in
    /// the other direction in every second pass.
    pub(crate) fn pass(&self, pass: u32) -> Pass<'_> {
        let Layout {
            schedule,
            n_groups,
            capacity,
        } = self.layout;
        let phase = KeyedRng::new(self.seed, "line shares", u64::from(pass)).uniform_f64();
        // There and back, so that a pass begins with what is in memory.
        let mut visits = schedule.visits(self.order, n_groups, capacity);
        if pass % 2 == 1 {
            visits.reverse();
        }
        Pass {
            planner: self,
            pass,
            is_reversed: pass % 2 == 1 && (self.order == 1 || !self.store.is_directed()),
            samples: self.store.samples(phase),
            rng: KeyedRng::new(self.seed, "line walk", u64::from(pass)),
            visits: visits.into(),
            rounds: VecDeque::new(),
            done: u64::from(pass) * self.samples_of_a_pass(),
        }
    }

    /// Samples of one pass.
    pub(crate) fn samples_of_a_pass(&self) -> u64 {
        self.store.samples(0.0).of_all()
    }

    /// The parts of a group.
    pub(crate) fn parts(&self, group: u32) -> Vec<u32> {
        let size = self.store.n_parts() / self.layout.n_groups;
        (group * size..(group + 1) * size).collect()
    }

    fn rounds(&self, visit: &Visit, rng: &mut KeyedRng) -> Vec<Round> {
        let mut vertex_parts = self.parts(visit.group);
        let others = visit.others.iter().flat_map(|&other| self.parts(other));
        let others: Vec<u32> = others.collect();
        if self.order == 1 {
            let rounds = match others == vertex_parts {
                true => tournament_rounds(&vertex_parts, rng),
                false => latin_rounds(&vertex_parts, &others, rng),
            };
            let parts = |pair: Pair| JobParts {
                vertex: vec![pair.0],
                context: (pair.0 != pair.1).then_some(pair.1),
            };
            let round = |pairs: Vec<Pair>| pairs.into_iter().map(parts).collect();
            return rounds.into_iter().map(round).collect();
        }
        rng.shuffle(&mut vertex_parts);
        let blocks: Vec<&[u32]> = vertex_parts
            .chunks(self.parts_of_block(vertex_parts.len()))
            .collect();
        let places: Vec<u32> = (0..blocks.len() as u32).collect();
        let parts = |pair: Pair| JobParts {
            vertex: blocks[pair.0 as usize].to_vec(),
            context: Some(pair.1),
        };
        let round = |pairs: Vec<Pair>| pairs.into_iter().map(parts).collect();
        let rounds = match self.has_small_jobs {
            true => latin_rounds(&places, &others, rng),
            false => staying_rounds(&places, &others, SIDE_BY_SIDE, rng),
        };
        rounds.into_iter().map(round).collect()
    }

    /// Vertex parts of a job of order 2.
    fn parts_of_block(&self, n_parts: usize) -> usize {
        let n_blocks = (n_parts / PARTS_OF_BLOCK).clamp(SIDE_BY_SIDE, BLOCKS);
        match self.has_small_jobs {
            true => 1,
            false => n_parts.div_ceil(n_blocks),
        }
    }

    /// Rounds of a step, of those that are left of a visit: whole stays where contexts stay.
    fn rounds_of_step(&self, left: &VecDeque<Round>) -> usize {
        let n_firsts = self.store.n_parts().div_ceil(self.layout.n_groups) as usize;
        let n_stay = match self.order == 2 && !self.has_small_jobs {
            true => n_firsts.div_ceil(self.parts_of_block(n_firsts)),
            false => 1,
        };
        let n_jobs = left.iter().take(n_stay).map(Vec::len).sum::<usize>();
        let n_stays = jobs_of_step(self.samples_of_job(n_firsts)).div_ceil(n_jobs.max(1));
        left.len().min(n_stay * n_stays)
    }

    /// Mean samples of a job, where a visit has `n_firsts` vertex parts.
    fn samples_of_job(&self, n_firsts: usize) -> u64 {
        let n_parts = u64::from(self.store.n_parts());
        let (n_pairs, n_of_job) = match self.order {
            1 => (n_parts * (n_parts + 1) / 2, 1),
            _ => (n_parts * n_parts, self.parts_of_block(n_firsts) as u64),
        };
        self.store.n_edges() * n_of_job / n_pairs.max(1)
    }
}

/// Parts of jobs that can be done side by side.
type Round = Vec<JobParts>;

/// Parts of a job: of the first table, and of the last.
#[derive(Clone, Debug)]
struct JobParts {
    vertex: Vec<u32>,
    context: Option<u32>,
}

/// Steps that are left of a pass.
#[derive(Debug)]
pub(crate) struct Pass<'p> {
    planner: &'p Planner<'p>,
    pass: u32,
    is_reversed: bool,
    samples: PassSamples<'p>,
    rng: KeyedRng,
    /// The first is the present one, where it has rounds left.
    visits: VecDeque<Visit>,
    rounds: VecDeque<Round>,
    /// Samples before the next step.
    done: u64,
}

impl Pass<'_> {
    /// True if no step is left.
    pub(crate) fn is_over(&self) -> bool {
        self.visits.is_empty()
    }

    /// Samples of the order before the next step.
    pub(crate) fn samples_before(&self) -> u64 {
        self.done
    }

    /// The visits that are left, from that of the next step on.
    pub(crate) fn visits(&self) -> Vec<Visit> {
        self.visits.iter().cloned().collect()
    }

    fn bucket_passes(&mut self, parts: &JobParts) -> Vec<BucketPass> {
        let n_parts = u64::from(self.planner.store.n_parts());
        let mut bucket_pass = |vertex: u32, context: u32| {
            let (i, j) = if self.is_reversed {
                (context, vertex)
            } else {
                (vertex, context)
            };
            let n_samples = self.samples.of(i, j);
            let first_sample = self.done;
            self.done += n_samples;
            let visit = u64::from(self.pass) * n_parts + u64::from(i);
            BucketPass {
                vertex,
                context,
                is_reversed: self.is_reversed,
                number: visit * n_parts + u64::from(j),
                first_sample,
                n_samples,
            }
        };
        let mut bucket_passes = Vec::new();
        for &vertex in &parts.vertex {
            bucket_passes.push(bucket_pass(vertex, parts.context.unwrap_or(vertex)));
            if let Some(other) = parts.context.filter(|_| self.planner.order == 1) {
                bucket_passes.push(bucket_pass(other, vertex));
            }
        }
        bucket_passes
    }
}

impl Iterator for Pass<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let visit = self.visits.front()?.clone();
        if self.rounds.is_empty() {
            self.rounds = self.planner.rounds(&visit, &mut self.rng).into();
        }
        let n_rounds = self.planner.rounds_of_step(&self.rounds);
        let rounds: Vec<Round> = self.rounds.drain(..n_rounds).collect();
        if self.rounds.is_empty() {
            self.visits.pop_front();
        }
        let mut jobs = |round: Round| -> Vec<Job> {
            let job = |parts: JobParts| Job {
                order: self.planner.order,
                bucket_passes: self.bucket_passes(&parts),
                vertex_parts: parts.vertex,
                context_part: parts.context,
            };
            let jobs = round.into_iter().map(job);
            jobs.filter(|job| job.n_samples() > 0).collect()
        };
        let rounds = rounds.into_iter().map(&mut jobs).collect();
        Some(Step { visit, rounds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeLabels;
    use crate::schedule::visits::Schedule;
    use std::collections::BTreeSet;

    #[test]
    fn a_pass_takes_every_edge_once_whatever_the_groups() {
        let edges: Vec<(u32, u32)> = (0..200)
            .map(|k| (k % 40, (k * 7 + 1) % 40))
            .filter(|(u, v)| u != v)
            .collect();
        for (n_parts, has_small_jobs) in [(8, false), (32, false), (32, true)] {
            let store = Store::from_edges(40, &edges, n_parts, NodeLabels::numbers(40)).unwrap();
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
                            has_small_jobs,
                        };
                        // Blocks of two parts from 16 parts on.
                        let has_blocks = order == 2 && !has_small_jobs;
                        let most = match has_blocks && n_parts / n_groups >= 16 {
                            true => 2,
                            false => 1,
                        };
                        for pass in [0, 1] {
                            let n_firsts = check_pass(&planner, pass, edges.len() as u64);
                            assert_eq!(n_firsts, most, "{planner:?}");
                        }
                    }
                }
            }
        }
    }

    /// Threads meet at the end of a step: it has jobs enough, where its visit does, and no contexts
    /// leave in its middle.
    #[test]
    fn a_step_has_many_jobs_and_whole_stays() {
        let edges: Vec<(u32, u32)> = (0..63).map(|k| (k, k + 1)).collect();
        let store = Store::from_edges(64, &edges, 64, NodeLabels::numbers(64)).unwrap();
        for (order, n_groups, n_stay, expected) in [
            (2, 16, 4, 128),
            (2, 1, 16, 128),
            (1, 16, 1, 128),
            (1, 4, 1, 128),
        ] {
            let layout = Layout {
                schedule: Schedule::Auto,
                n_groups,
                capacity: 13,
            };
            let planner = Planner {
                store: &store,
                order,
                seed: 1,
                layout,
                has_small_jobs: false,
            };
            let mut rng = KeyedRng::new(1, "test", 0);
            let mut most = 0;
            for visit in planner.pass(0).visits() {
                let rounds: VecDeque<Round> = planner.rounds(&visit, &mut rng).into();
                let n_rounds = planner.rounds_of_step(&rounds);
                let n_jobs = rounds.iter().take(n_rounds).map(Vec::len).sum::<usize>();
                assert!(n_rounds == rounds.len() || n_jobs >= expected, "{visit:?}");
                assert!(
                    n_rounds == rounds.len() || n_rounds.is_multiple_of(n_stay),
                    "{visit:?}"
                );
                most = most.max(n_jobs);
            }
            assert!(
                (expected..2 * expected).contains(&most),
                "{order} {n_groups}: {most}"
            );
        }
    }

    /// A pass over many edges is several steps also where all of it is in memory, in 16 parts, as
    /// most graphs are.
    #[test]
    fn a_pass_over_many_edges_has_several_steps() {
        assert_eq!(
            [0, 1, 8192, 8193, 1 << 20, 1 << 40].map(jobs_of_step),
            [128, 128, 128, 127, 1, 1]
        );
        let edges: Vec<(u32, u32)> = (0..1 << 21).map(|k| (k % 64, (k / 64) % 64)).collect();
        let store = Store::from_edges(64, &edges, 16, NodeLabels::numbers(64)).unwrap();
        for (order, most) in [(1, 20), (2, 2)] {
            let planner = Planner {
                store: &store,
                order,
                seed: 1,
                layout: Layout::WHOLE,
                has_small_jobs: false,
            };
            let n_samples = |step: Step| step.jobs().map(Job::n_samples).sum::<u64>();
            let steps: Vec<u64> = planner.pass(0).map(n_samples).collect();
            assert!(
                (2..=most).contains(&steps.len()),
                "order {order}: {steps:?}"
            );
            assert_eq!(steps.iter().sum::<u64>(), store.n_edges());
            let even = store.n_edges() / steps.len() as u64;
            assert!(
                steps.iter().all(|&n| n < 2 * even),
                "order {order}: {steps:?}"
            );
        }
    }

    /// A bucket of small weight has its samples in some passes; each pass has as many as there are
    /// edges.
    #[test]
    fn the_lightest_bucket_is_sampled_too() {
        let folder = tempfile::tempdir().unwrap();
        let (text, path) = (folder.path().join("g.txt"), folder.path().join("g.store"));
        // In two parts, each of the four buckets has some of these edges.
        let edge = |k: u32| (k % 7, 7 + k % 9, if k == 0 { 1000.0 } else { 0.5 });
        let lines = (0..60).map(edge).map(|(u, v, w)| format!("{u} {v} {w}\n"));
        std::fs::write(&text, lines.collect::<String>()).unwrap();
        let options = crate::ImportOptions {
            weighted: true,
            parts: Some(2),
            ..crate::ImportOptions::default()
        };
        crate::import_file(&text, &path, &options).unwrap();
        let store = Store::open(&path).unwrap();
        let layout = Layout::WHOLE;
        let planner = Planner {
            store: &store,
            order: 2,
            seed: 1,
            layout,
            has_small_jobs: false,
        };
        let mut sums = [0u64; 4];
        for pass in 0..1000 {
            let jobs = planner.pass(pass).flat_map(|step| step.rounds.concat());
            let bucket_passes: Vec<BucketPass> = jobs.flat_map(|job| job.bucket_passes).collect();
            assert_eq!(
                bucket_passes
                    .iter()
                    .map(|bucket_pass| bucket_pass.n_samples)
                    .sum::<u64>(),
                60
            );
            for bucket_pass in bucket_passes {
                let (i, j) = bucket_pass.bucket();
                sums[(2 * i + j) as usize] += bucket_pass.n_samples;
            }
        }
        let weights = &store.head.weights;
        let total: f64 = weights.iter().sum();
        for (sum, weight) in sums.into_iter().zip(weights) {
            let expected = 60_000.0 * weight / total;
            assert!(*weight > 0.0 && expected < 59_500.0 || expected > 500.0);
            let distance = (sum as f64 - expected).abs();
            // Of 1000 draws, each of which is off by less than 1.
            assert!(distance < 5.0 * 1000f64.sqrt(), "{sum} {expected}");
        }
    }

    #[test]
    fn what_is_left_of_a_pass_visits_what_is_left() {
        let edges: Vec<(u32, u32)> = (0..39).map(|k| (k, k + 1)).collect();
        let store = Store::from_edges(40, &edges, 8, NodeLabels::numbers(40)).unwrap();
        for order in [1, 2] {
            let layout = Layout {
                schedule: Schedule::Auto,
                n_groups: 4,
                capacity: 3,
            };
            let planner = Planner {
                store: &store,
                order,
                seed: 1,
                layout,
                has_small_jobs: false,
            };
            let steps: Vec<Step> = planner.pass(1).collect();
            for first in 0..=steps.len() {
                let mut left = planner.pass(1);
                left.by_ref().take(first).for_each(drop);
                let visits = steps[first..].chunk_by(|a, b| a.visit == b.visit);
                let expected: Vec<Visit> = visits.map(|steps| steps[0].visit.clone()).collect();
                assert_eq!(left.visits(), expected);
                assert_eq!(left.collect::<Vec<_>>(), steps[first..]);
            }
        }
    }

    /// The most parts of the first table that a job has.
    fn check_pass(planner: &Planner<'_>, pass: u32, n_edges: u64) -> usize {
        let mut most = 0;
        let mut buckets = BTreeSet::new();
        let mut next = u64::from(pass) * n_edges;
        for step in planner.pass(pass) {
            for round in &step.rounds {
                let mut parts = BTreeSet::new();
                for job in round {
                    most = most.max(job.vertex_parts.len());
                    let vertex_parts = job.vertex_parts.iter().map(|&part| (0, part));
                    let second = job.context_part.map(|part| (planner.order - 1, part));
                    for part in vertex_parts.chain(second) {
                        assert!(parts.insert(part), "a part is in two jobs of a round");
                    }
                    for bucket_pass in &job.bucket_passes {
                        assert!(buckets.insert(bucket_pass.bucket()));
                        assert_eq!(bucket_pass.first_sample, next);
                        next += bucket_pass.n_samples;
                    }
                }
            }
        }
        assert_eq!(next, (u64::from(pass) + 1) * n_edges, "{planner:?}");
        most
    }
}
