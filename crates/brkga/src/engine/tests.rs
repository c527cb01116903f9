//! The engine against the naive search, and against what other engines got wrong.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::beta::Beta;
use crate::naive::Naive;

/// A fitness with many ties, so that their order shows.
fn decode(keys: &[f32]) -> Fitness {
    let weights = (1..).map(|i: u64| i * i % 7 + 1);
    let sum: u64 = keys
        .iter()
        .zip(weights)
        .map(|(key, weight)| (key * 4.0) as u64 * weight)
        .sum();
    (sum / 3, sum % 2)
}

fn small() -> Config {
    Config {
        population: 10,
        elites: 3,
        mutants: 2,
        evaluations: 100,
        ..Config::default()
    }
}

fn bits(populations: &[Vec<Individual>]) -> Vec<Vec<(Fitness, Vec<u32>)>> {
    let of_one = |m: &Individual| (m.fitness, m.keys.iter().map(|key| key.to_bits()).collect());
    populations
        .iter()
        .map(|members| members.iter().map(of_one).collect())
        .collect()
}

fn configs() -> impl Strategy<Value = Config> {
    let sizes = (2u32..14, 1u32..4, 0u32..4);
    let shares = (0.0..0.999, 0.0..=1.0, 0.0..=1.0);
    let rho = prop::sample::select(vec![0.5, 0.51, 0.7, 0.9, 0.999]);
    let budget = (any::<u64>(), 1u64..150);
    (sizes, shares, rho, budget).prop_map(|(sizes, shares, rho, (seed, evaluations))| {
        let (population, populations, migration_generations) = sizes;
        let elites = 1 + (shares.0 * f64::from(population - 1)) as u32;
        let others = population - elites;
        let most_migrants = others / (populations - 1).max(1);
        Config {
            population,
            elites,
            mutants: (shares.1 * f64::from(others)) as u32,
            rho,
            populations,
            migration_generations,
            migrants: (shares.2 * f64::from(most_migrants)) as u32,
            seed,
            evaluations,
            ..Config::default()
        }
    })
}

/// Lengths around the groups of 2 and 4 keys and the blocks of 64.
fn n_keys() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![
        1usize, 2, 3, 4, 5, 7, 8, 63, 64, 65, 66, 127, 128, 129,
    ])
}

proptest! {
    #[test]
    fn it_is_the_naive_search(
        config in configs(),
        n_keys in n_keys(),
        n_starts in 0usize..4,
        n_threads in 1usize..5,
        with_proposals: bool,
        choice_seed: u64,
    ) {
        let n_places = u64::from(config.population * config.populations).min(config.evaluations);
        let n_starts = n_starts.min(n_places as usize);
        let starts: Vec<Vec<f32>> = (0..n_starts).map(|i| vec![i as f32 / 7.0; n_keys]).collect();
        let shapes = [Beta::new(0.3, 2.0).unwrap(), Beta::UNIFORM, Beta::new(7.0, 0.01).unwrap()];
        let tables = BetaTables::new(&shapes).unwrap();
        // Whole blocks of uniform keys too.
        let choice = |i: usize| if i % 128 < 64 { (choice_seed >> (i % 60)) as u16 % 4 } else { 0 };
        let choices: Vec<u16> = (0..n_keys).map(choice).collect();
        let proposals = with_proposals.then_some((&tables, &choices[..]));
        let naive = Naive { n_keys, config: &config, starts: &starts, proposals }.run(decode);

        let mut search = Brkga::new(n_keys, &config).unwrap().with_starts(starts.clone()).unwrap();
        if with_proposals {
            search = search.with_proposals(&tables, choices.clone()).unwrap();
        }
        let outcome = search.run(&mut vec![decode; n_threads]).unwrap();
        prop_assert_eq!(bits(&outcome.populations), bits(&naive.populations));
        let bests: Vec<Fitness> = outcome.history.iter().map(|g| g.best).collect();
        prop_assert_eq!(bests, naive.bests);
        prop_assert_eq!(outcome.evaluations, naive.decoded.len() as u64);
        prop_assert_eq!(outcome.best.fitness, decode(&outcome.best.keys));
    }
}

/// Runs with a decoder that keeps every chromosome it sees.
fn watched(search: Brkga) -> (Outcome, Vec<Vec<f32>>) {
    let mut seen = Vec::new();
    let outcome = search.run(&mut [|keys: &[f32]| {
        seen.push(keys.to_vec());
        decode(keys)
    }]);
    (outcome.unwrap(), seen)
}

#[test]
fn the_budget_is_exact_and_elites_are_not_decoded_again() {
    for evaluations in [1, 9, 10, 11, 16, 17, 18, 100, 1000] {
        let config = Config {
            evaluations,
            ..small()
        };
        let (outcome, seen) = watched(Brkga::new(20, &config).unwrap());
        assert_eq!(seen.len() as u64, evaluations);
        assert_eq!(outcome.evaluations, evaluations);
        assert_eq!(outcome.stop, Stop::Evaluations);
        // 10 in the first generation, 7 in each that follows.
        let n_generations = 1 + evaluations.saturating_sub(10).div_ceil(7);
        assert_eq!(outcome.history.len() as u64, n_generations);
    }
    // Mutants are all different: what comes up twice was decoded twice.
    let config = Config {
        mutants: 7,
        ..small()
    };
    let (_, seen) = watched(Brkga::new(20, &config).unwrap());
    for (i, keys) in seen.iter().enumerate() {
        assert!(!seen[..i].contains(keys), "chromosome {i} came before");
    }
}

#[test]
fn memory_is_bounded_by_the_budget() {
    let config = Config {
        population: u32::MAX,
        populations: 1000,
        evaluations: 3,
        ..Config::default()
    };
    let (outcome, seen) = watched(Brkga::new(4, &config).unwrap());
    assert_eq!((seen.len(), outcome.populations.concat().len()), (3, 3));
}

#[test]
fn several_threads_keep_the_budget_too() {
    let n_decoded = AtomicU64::new(0);
    let count = |keys: &[f32]| {
        n_decoded.fetch_add(1, Ordering::Relaxed);
        decode(keys)
    };
    let config = Config {
        evaluations: 1234,
        ..Config::default()
    };
    let outcome = Brkga::new(30, &config)
        .unwrap()
        .run(&mut [count; 3])
        .unwrap();
    assert_eq!((n_decoded.into_inner(), outcome.evaluations), (1234, 1234));
}

#[test]
fn every_thread_count_gives_the_same_bytes() {
    let config = Config {
        populations: 3,
        migration_generations: 2,
        evaluations: 2000,
        ..small()
    };
    let run = |n_threads| {
        let search = Brkga::new(75, &config).unwrap();
        search.run(&mut vec![decode; n_threads]).unwrap()
    };
    let one = run(1);
    for n_threads in 2..=6 {
        let many = run(n_threads);
        assert_eq!(bits(&one.populations), bits(&many.populations));
        assert_eq!((&one.best, &one.history), (&many.best, &many.history));
    }
    let other_seed = Config { seed: 2, ..config };
    let other = Brkga::new(75, &other_seed)
        .unwrap()
        .run(&mut [decode])
        .unwrap();
    assert_ne!(bits(&one.populations), bits(&other.populations));
}

/// A search that the caller ends after so many evaluations gives the best of what was decoded.
fn assert_ends_after(config: &Config, n_threads: usize, n_asked: u64) {
    let seen = Mutex::new(Vec::new());
    let mut decoders: Vec<_> = (0..n_threads)
        .map(|_| {
            |keys: &[f32]| {
                let fitness = decode(keys);
                seen.lock().unwrap().push((fitness, keys.to_vec()));
                fitness
            }
        })
        .collect();
    let mut search = Brkga::new(5, config).unwrap();
    let mut n_left = n_asked;
    let mut go_on = || {
        n_left -= 1;
        n_left > 0
    };
    while search
        .step_while(&mut decoders, &mut go_on)
        .unwrap()
        .is_none()
    {}
    let evaluations = search.evaluations;
    assert_eq!(search.step(&mut decoders).unwrap(), Some(Stop::Caller));
    let outcome = search.outcome().unwrap();
    drop(decoders);
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len() as u64, evaluations);
    if n_threads == 1 {
        assert_eq!(evaluations, n_asked);
    }
    let best = seen.iter().map(|(fitness, _)| *fitness).min();
    assert_eq!(Some(outcome.best.fitness), best);
    assert!(seen.iter().any(|(_, keys)| *keys == outcome.best.keys));
    let mut members = outcome.populations.iter().flatten();
    assert!(members.all(|m| m.fitness == decode(&m.keys)));
}

/// The chromosomes of a generation that is cut are the first of it, and the best of them is what the search gives.
#[test]
fn a_search_can_end_within_a_generation() {
    let config = Config {
        populations: 3,
        ..small()
    };
    for n_threads in [1, 4] {
        for n_asked in [1, 7, 15, 30, 33, 40] {
            assert_ends_after(&config, n_threads, n_asked);
        }
    }
}

/// Known from another engine: an initial population of zeros only.
#[test]
fn the_initial_chromosomes_differ_and_fill_the_unit_interval() {
    let config = Config {
        evaluations: 200,
        population: 100,
        populations: 2,
        ..Config::default()
    };
    let (_, seen) = watched(Brkga::new(50, &config).unwrap());
    for (i, keys) in seen.iter().enumerate() {
        assert!(keys.iter().all(|key| (0.0..1.0).contains(key)));
        assert!(!seen[..i].contains(keys), "chromosome {i} came before");
    }
    let mut all: Vec<f32> = seen.concat();
    all.sort_by(f32::total_cmp);
    for (i, key) in all.iter().enumerate() {
        // Kolmogorov and Smirnov: 10000 uniform numbers stray by more than 0.02 once in 1500 times.
        assert!((key - i as f32 / all.len() as f32).abs() < 0.02);
    }
}

/// Known from another engine: children written over the elites.
#[test]
fn elites_survive_unchanged() {
    let mut search = Brkga::new(15, &small()).unwrap();
    let mut elites: Vec<Individual> = Vec::new();
    while search.step(&mut [decode]).unwrap().is_none() {
        let members = &search.populations[0].members;
        assert_eq!(members.len(), 10);
        assert!(members.is_sorted_by_key(|member| member.fitness));
        for elite in &elites {
            // An elite is gone only when three others are as good or better.
            let n_ahead = members.iter().filter(|m| m.fitness < elite.fitness).count();
            assert!(members.contains(elite) || n_ahead >= 3);
        }
        elites = members[..3].to_vec();
    }
}

/// Known from another engine: a best chromosome that does not belong to the best fitness.
#[test]
fn the_best_is_the_best_that_was_seen() {
    for seed in 0..20 {
        let config = Config {
            populations: 2,
            migration_generations: 1,
            seed,
            ..small()
        };
        let (outcome, seen) = watched(Brkga::new(9, &config).unwrap());
        let best_seen = seen.iter().map(|keys| decode(keys)).min().unwrap();
        assert_eq!(outcome.best.fitness, best_seen);
        assert_eq!(decode(&outcome.best.keys), best_seen);
        assert_eq!(outcome.history.last().unwrap().best, best_seen);
        let members = outcome.populations.concat();
        assert!(members.iter().all(|m| m.fitness == decode(&m.keys)));
    }
}

#[test]
fn of_equals_the_oldest_wins() {
    let config = Config {
        populations: 2,
        ..small()
    };
    let search = Brkga::new(4, &config).unwrap();
    let start: Vec<f32> = vec![0.25; 4];
    let outcome = search
        .with_starts(vec![start.clone()])
        .unwrap()
        .run(&mut [|_: &[f32]| (7, 7)])
        .unwrap();
    assert_eq!(outcome.best.keys, start);
}

#[test]
fn warm_starts_are_taken_in_turn_and_decoded_first() {
    let config = Config {
        populations: 2,
        evaluations: 20,
        ..small()
    };
    let starts: Vec<Vec<f32>> = (0..5).map(|i| vec![i as f32 / 8.0; 6]).collect();
    let search = Brkga::new(6, &config).unwrap();
    let (_, seen) = watched(search.with_starts(starts.clone()).unwrap());
    let expected = [(0, 0), (1, 2), (2, 4), (10, 1), (11, 3)];
    for (place, start_idx) in expected {
        assert_eq!(seen[place], starts[start_idx], "place {place}");
    }
}

/// A budget for less than the populations fills the first ones: the starts of the others go there too.
#[test]
fn no_warm_start_is_dropped() {
    for (populations, evaluations, n_starts) in [
        (3, 2, 2),
        (5, 4, 3),
        (5, 4, 4),
        (3, 12, 12),
        (2, 20, 20),
        (4, 11, 9),
    ] {
        let config = Config {
            populations,
            evaluations,
            ..small()
        };
        let starts: Vec<Vec<f32>> = (0..n_starts).map(|i| vec![i as f32 / 32.0; 6]).collect();
        let search = Brkga::new(6, &config).unwrap();
        let (_, seen) = watched(search.with_starts(starts.clone()).unwrap());
        for start in &starts {
            let n_times = seen.iter().filter(|keys| *keys == start).count();
            assert_eq!(n_times, 1, "{config:?}: {start:?}");
        }
    }
}

#[test]
fn a_child_takes_each_key_of_its_elite_parent_with_probability_rho() {
    let config = Config {
        elites: 1,
        population: 2,
        mutants: 0,
        rho: 0.8,
        evaluations: 3,
        ..Config::default()
    };
    let n_keys = 100_002;
    let (outcome, seen) = watched(Brkga::new(n_keys, &config).unwrap());
    let elite_idx = usize::from(decode(&seen[1]) < decode(&seen[0]));
    let (elite, other) = (&seen[elite_idx], &seen[1 - elite_idx]);
    let same = |with: &[f32]| {
        seen[2]
            .iter()
            .zip(with)
            .filter(|(a, b)| a.to_bits() == b.to_bits())
            .count()
    };
    assert!(same(elite) + same(other) >= n_keys);
    // Three standard deviations are 0.0038.
    assert!((same(elite) as f64 / n_keys as f64 - 0.8).abs() < 0.0038);
    assert_eq!(outcome.evaluations, 3);
}

#[test]
fn uniform_choices_cost_and_change_nothing() {
    let tables = BetaTables::new(&[Beta::UNIFORM, Beta::new(2.0, 2.0).unwrap()]).unwrap();
    let run = |choices: Option<Vec<u16>>| {
        let mut search = Brkga::new(70, &small()).unwrap();
        if let Some(choices) = choices {
            search = search.with_proposals(&tables, choices).unwrap();
        }
        watched(search).1
    };
    let plain = run(None);
    assert_eq!(plain, run(Some(vec![0; 70])));
    assert_eq!(plain, run(Some(vec![1; 70])));
    // One key with a shape of its own leaves the others' initial keys as they were.
    let mut one = vec![0; 70];
    one[3] = 2;
    let first = &run(Some(one))[0];
    for (i, (a, b)) in first.iter().zip(&plain[0]).enumerate() {
        assert_eq!(a.to_bits() == b.to_bits(), i != 3, "key {i}");
    }
}

#[test]
fn it_stops_at_the_target_or_when_it_stalls() {
    let target = Config {
        target: Some((30, u64::MAX)),
        evaluations: 100_000,
        ..small()
    };
    let outcome = Brkga::new(12, &target).unwrap().run(&mut [decode]).unwrap();
    assert_eq!(outcome.stop, Stop::Target);
    let reached: Vec<bool> = outcome.history.iter().map(|g| g.best.0 <= 30).collect();
    assert_eq!(reached.iter().position(|r| *r), Some(reached.len() - 1));
    // The exact value is enough.
    let exact = Config {
        target: Some(outcome.best.fitness),
        ..target
    };
    let again = Brkga::new(12, &exact).unwrap().run(&mut [decode]).unwrap();
    assert_eq!(again, outcome);

    let stall = Config {
        stall_generations: 5,
        evaluations: 100_000,
        ..small()
    };
    let outcome = Brkga::new(4, &stall).unwrap().run(&mut [decode]).unwrap();
    assert_eq!(outcome.stop, Stop::Stall);
    let last_six = &outcome.history[outcome.history.len() - 6..];
    assert!(last_six.iter().all(|g| g.best == last_six[0].best));
    let before = outcome.history[outcome.history.len() - 7];
    assert!(before.best > last_six[0].best);
}

#[test]
fn without_crossed_children_it_is_random_search() {
    let config = Config {
        population: 10,
        elites: 1,
        mutants: 9,
        ..Config::default()
    };
    let outcome = Brkga::new(5, &config).unwrap().run(&mut [decode]).unwrap();
    assert_eq!(outcome.evaluations, 5000);
}

#[test]
fn more_warm_starts_than_evaluations_are_refused() {
    let config = Config {
        evaluations: 2,
        ..small()
    };
    let refused = Brkga::new(3, &config)
        .unwrap()
        .with_starts(vec![vec![0.0; 3]; 3]);
    assert_eq!(
        refused.err().unwrap().to_string(),
        "warm start 2 (counted from 0): a warm start counts as an evaluation, and evaluations = 2"
    );
}

#[test]
fn wrong_input_is_named() {
    let message = |result: Result<Brkga, Error>| result.err().unwrap().to_string();
    let search = || Brkga::new(3, &small()).unwrap();
    assert_eq!(
        message(Brkga::new(0, &small())),
        "a chromosome of 0 keys leaves nothing to search"
    );
    assert_eq!(
        message(search().with_starts(vec![vec![0.0; 3], vec![0.0; 4]])),
        "warm start 1 (counted from 0): 4 keys, expected 3"
    );
    for (key, shown) in [(1.0, "1"), (-0.5, "-0.5"), (f32::NAN, "NaN")] {
        assert_eq!(
            message(search().with_starts(vec![vec![0.0, key, 0.0]])),
            format!("warm start 0 (counted from 0): key 1 is {shown}, expected a number of [0, 1)")
        );
    }
    assert_eq!(
        message(search().with_starts(vec![vec![0.0; 3]; 11])),
        "warm start 10 (counted from 0): the initial populations hold 10 chromosomes"
    );
    let tables = BetaTables::quantised(2).unwrap();
    assert_eq!(
        message(search().with_proposals(&tables, vec![0; 4])),
        "mutant proposals: 4 choices for chromosomes of 3 keys: give one for each key"
    );
    assert_eq!(
        message(search().with_proposals(&tables, vec![0, 4, 5])),
        "mutant proposals: choice 5 of key 2: there are tables 0..5"
    );
    let no_decoders: &mut [fn(&[f32]) -> Fitness] = &mut [];
    assert_eq!(
        search().run(no_decoders).unwrap_err().to_string(),
        "no decoders: give one for each thread, at least one"
    );
    assert!(matches!(
        search().outcome().unwrap_err().kind(),
        ErrorKind::Search { .. }
    ));
}

#[test]
fn a_decoder_that_panics_ends_the_search_and_nothing_hangs() {
    for n_threads in [1, 3] {
        let search = Brkga::new(3, &small()).unwrap();
        let run = std::panic::AssertUnwindSafe(|| {
            let panics = |_: &[f32]| -> Fitness { panic!("no such solution") };
            search.run(&mut vec![panics; n_threads])
        });
        assert!(std::panic::catch_unwind(run).is_err());
    }
}
