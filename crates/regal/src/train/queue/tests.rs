//! The queue: each job is done once, the last one ends early, ranks that are slow get less, and what comes of jobs is the same for any ranks.

use std::sync::atomic::{AtomicU32, Ordering};

use shardgraph_components::autodiff::collectives::{Timeout, threads};
use shardgraph_random::KeyedRng;

use super::*;

fn workers(of: &[(u64, u64, u64)]) -> Vec<Worker> {
    let worker = |&(n_threads, cost, nanoseconds)| Worker {
        n_threads,
        cost,
        nanoseconds,
    };
    of.iter().map(worker).collect()
}

/// Ranks of which nothing is known, with so many threads each.
fn fresh(n_threads: &[u64]) -> Vec<Worker> {
    workers(&n_threads.iter().map(|&n| (n, 0, 0)).collect::<Vec<_>>())
}

/// When the last of these jobs ends: each thread takes the next when it is through.
fn end_of(costs: &[u64], own: &[usize], n_threads: u64) -> u64 {
    let mut loads = vec![0; n_threads as usize];
    for &job in own {
        *loads.iter_mut().min().unwrap() += costs[job];
    }
    loads.into_iter().max().unwrap()
}

/// The shortest possible time, by trying every way to give jobs to threads.
fn shortest(costs: &[u64], loads: &mut [u64]) -> u64 {
    let Some((&cost, rest)) = costs.split_first() else {
        return *loads.iter().max().unwrap();
    };
    let mut best = u64::MAX;
    for thread in 0..loads.len() {
        loads[thread] += cost;
        best = best.min(shortest(rest, loads));
        loads[thread] -= cost;
    }
    best
}

#[test]
fn each_job_is_handed_out_once_and_the_last_ends_early() {
    let mut stream = KeyedRng::new(1, "queue", 0);
    for n_threads in [
        vec![1],
        vec![1, 1],
        vec![2, 1],
        vec![1, 1, 1],
        vec![1, 3],
        vec![1, 1, 1, 1],
    ] {
        for n_jobs in 0..8 {
            let costs: Vec<u64> = (0..n_jobs).map(|_| 1 + stream.below(50)).collect();
            let shares = hand_out(&costs, &fresh(&n_threads));
            let mut all = shares.concat();
            all.sort_unstable();
            assert_eq!(all, (0..n_jobs).collect::<Vec<_>>());
            let ends = shares.iter().zip(&n_threads);
            let end = ends.map(|(own, &n)| end_of(&costs, own, n)).max().unwrap();
            let best = shortest(&costs, &mut vec![0; n_threads.iter().sum::<u64>() as usize]);
            assert!(
                3 * end <= 4 * best,
                "{costs:?} by {n_threads:?}: {end}, {best}"
            );
        }
    }
}

#[test]
fn a_rank_gets_what_it_is_fast_enough_for() {
    let n_each = |workers: &[Worker], costs: &[u64]| -> Vec<usize> {
        hand_out(costs, workers).iter().map(Vec::len).collect()
    };
    let equal = [10; 30];
    // Twice the speed, twice the threads, and one of which nothing is known, between the other two.
    assert_eq!(
        n_each(&workers(&[(1, 200, 100), (1, 100, 100)]), &equal),
        [20, 10]
    );
    assert_eq!(n_each(&fresh(&[2, 1]), &equal), [20, 10]);
    let found = n_each(&workers(&[(1, 300, 100), (1, 100, 100), (1, 0, 0)]), &equal);
    assert_eq!(found, [15, 5, 10]);
    // Costs beyond all bounds are no panic.
    let found = n_each(&fresh(&[1, 1]), &[u64::MAX; 4]);
    assert_eq!(found.iter().sum::<usize>(), 4);
}

#[test]
fn a_round_counts_half_as_much_as_the_one_after() {
    let mut worker = fresh(&[1]).remove(0);
    for (done, known) in [
        ((800, 4000), (400, 2000)),
        ((400, 1600), (400, 1800)),
        ((0, 0), (200, 900)),
    ] {
        worker.has_done(done.0, done.1);
        assert_eq!((worker.cost, worker.nanoseconds), known, "after {done:?}");
    }
}

#[test]
fn a_rank_that_stood_still_gets_jobs_again() {
    // A quarter of an hour for what takes a millisecond.
    let mut ranks = workers(&[(1, 0, 0), (1, 0, 0)]);
    let costs = [100_000; 8];
    ranks[0].has_done(400_000, 900_000_000_000);
    ranks[1].has_done(400_000, 4_000_000);
    let mut n_without = 0;
    loop {
        let shares = hand_out(&costs, &ranks);
        if !shares[0].is_empty() {
            break;
        }
        n_without += 1;
        assert!(n_without < 30);
        ranks[0].has_done(0, 0);
        ranks[1].has_done(800_000, 8_000_000);
    }
    assert!(n_without > 0);
}

/// Some words for a job, of which there are none for some.
fn words(job: usize, n_words: usize) -> Vec<u32> {
    let mut stream = KeyedRng::new(job as u64, "words", 0);
    (0..n_words).map(|_| stream.next_u64() as u32).collect()
}

#[test]
fn ranks_share_the_jobs_and_all_have_what_comes_of_them() {
    for n_ranks in 1..=4 {
        for n_jobs in [0, 1, 2, 7, 40] {
            let jobs: Vec<Job> = (0..n_jobs)
                .map(|job| Job {
                    cost: 1 + job as u64 % 5,
                    n_words: job % 4,
                })
                .collect();
            let expected: Vec<Vec<u32>> = (0..n_jobs).map(|job| words(job, job % 4)).collect();
            let n_done: Vec<AtomicU32> = (0..n_jobs).map(|_| AtomicU32::new(0)).collect();
            let outcomes = threads::run(n_ranks, |mut comm| {
                let mut queue = SearchQueue {
                    ranks: &mut Ranks::new(&mut comm, Timeout::default()),
                    pool: SearchPool::new(1 + n_jobs % 3).unwrap(),
                };
                let work = |job: usize| {
                    n_done[job].fetch_add(1, Ordering::Relaxed);
                    Ok(words(job, job % 4))
                };
                let rounds = (0..3).map(|_| queue.run(&jobs, &work).unwrap());
                assert!(rounds.into_iter().all(|found| found == expected));
                queue.pool.n_done
            });
            assert!(n_done.iter().all(|n| n.load(Ordering::Relaxed) == 3));
            let each: Vec<u64> = outcomes.into_iter().map(Result::unwrap).collect();
            assert_eq!(each.iter().sum::<u64>(), 3 * n_jobs as u64);
            // In the first round nothing is known, and every rank has a part.
            assert!(n_jobs < 40 || each.iter().all(|&n| n > 0), "{each:?}");
        }
    }
}

#[test]
fn numbers_are_themselves_as_words() {
    for number in [
        0,
        1,
        u64::from(u32::MAX),
        1 << 32,
        u64::MAX,
        0.1f64.to_bits(),
    ] {
        assert_eq!(number_of(&words_of(number)), number);
    }
    assert!(SearchPool::new(0).is_err());
}
