//! Tests of the best answer of policy, greedy algorithms and search.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use shardgraph_graph::generate::GeneratorSpec;

use super::*;
use crate::problem::{MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, PROBLEMS};
use crate::{SolveOptions, TrainedPolicy, solve_problem};

fn graph(spec: &str, seed: u64) -> Arc<Graph> {
    let spec: GeneratorSpec = spec.parse().unwrap();
    Arc::new(spec.graph(seed).unwrap())
}

fn with_policy(problem: &Problem, graph: &Arc<Graph>, options: &BestOptions) -> Best {
    let policy = TrainedPolicy::shipped_for(problem).unwrap();
    let solve_options = SolveOptions::default();
    let mut run = |_: Option<f64>| {
        let answer = solve_problem(problem, graph, &policy, &solve_options, &mut |_, _| ())?;
        Ok(Some(answer.nodes))
    };
    solve_best(
        problem,
        graph,
        options,
        &Budget::unlimited(),
        Some(&mut run),
    )
    .unwrap()
}

/// The best objective of all sets of nodes.
fn brute_force(problem: &Problem, graph: &Graph) -> f64 {
    let n = graph.n_nodes();
    let sets = 0..1u32 << n;
    let values = sets.filter_map(|set| {
        let nodes: Vec<u32> = (0..n).filter(|v| set >> v & 1 == 1).collect();
        problem.evaluate(graph, &nodes).ok().map(Objective::value)
    });
    let pick = match problem.sense {
        Sense::Minimise => f64::min,
        Sense::Maximise => f64::max,
    };
    values.reduce(pick).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_answer_is_no_worse_than_any_row(
        n in 0u32..60, p in 0.02f64..0.6, seed in 0u64..1000, all_rows: bool,
    ) {
        let graph = graph(&format!("er:{n}:{p}"), seed);
        for problem in PROBLEMS {
            let options = BestOptions { steps: Some(200), all_rows, ..BestOptions::default() };
            let best = with_policy(problem, &graph, &options);
            prop_assert_eq!(problem.evaluate(&graph, &best.nodes), Ok(best.objective));
            for row in &best.rows {
                prop_assert!(!is_better(problem.sense, row.objective, best.objective), "{row:?} {best:?}");
            }
            let first = best.rows.iter().find(|row| row.objective == best.objective);
            prop_assert_eq!(&first.unwrap().name, &best.found_by, "{:?}", best.rows);
            if let Some(bound) = best.bound {
                let bound = objective_like(best.objective, bound);
                prop_assert!(!is_better(problem.sense, best.objective, bound), "{best:?}");
            }
            prop_assert_eq!(best.gap() == Some(0.0), best.is_optimal || best.bound == Some(best.objective.value()));
            if all_rows {
                prop_assert!(best.rows.iter().any(|row| row.name == "policy"));
            }
        }
    }

    #[test]
    fn what_is_proved_is_an_optimum(n in 1u32..10, p in 0.0f64..1.0, seed in 0u64..1000) {
        let graph = graph(&format!("er:{n}:{p}"), seed);
        for problem in PROBLEMS {
            let options = BestOptions { steps: Some(2000), ..BestOptions::default() };
            let best = with_policy(problem, &graph, &options);
            let optimum = brute_force(problem, &graph);
            let is_optimum = (best.objective.value() - optimum).abs() < 1e-9;
            prop_assert!(is_optimum || !best.is_optimal, "{}: {best:?}, {optimum}", problem.name);
            if let Some(bound) = best.bound {
                let bound = objective_like(best.objective, bound);
                let optimum = objective_like(best.objective, optimum);
                prop_assert!(!is_better(problem.sense, optimum, bound), "{}: {best:?}", problem.name);
            }
        }
    }
}

#[test]
fn nothing_runs_after_a_proof() {
    let karate = graph("ba:200:2", 1);
    let problem = &crate::problem::MINIMUM_VERTEX_COVER;
    let mut run = |_: Option<f64>| -> Result<Option<Vec<u32>>, Error> { panic!("not wanted") };
    let options = BestOptions::default();
    let best = solve_best(
        problem,
        &karate,
        &options,
        &Budget::unlimited(),
        Some(&mut run),
    )
    .unwrap();
    assert!(best.is_optimal);
    assert_eq!(best.gap(), Some(0.0));
}

#[test]
fn a_policy_that_does_not_end_is_no_failure() {
    let graph = graph("er:100:0.2", 1);
    let problem = &crate::problem::MINIMUM_VERTEX_COVER;
    let mut run = |_: Option<f64>| Ok(None);
    let options = BestOptions {
        steps: Some(100),
        ..BestOptions::default()
    };
    let best = solve_best(
        problem,
        &graph,
        &options,
        &Budget::unlimited(),
        Some(&mut run),
    )
    .unwrap();
    assert_eq!(best.policy_skipped.is_some(), !best.is_optimal);
    let greedy = BestOptions {
        has_search: false,
        ..options
    };
    let best = solve_best(problem, &graph, &greedy, &Budget::unlimited(), None).unwrap();
    assert!(best.found_by.starts_with("greedy "), "{best:?}");
    let none = BestOptions {
        has_greedy: false,
        ..greedy
    };
    assert!(solve_best(problem, &graph, &none, &Budget::unlimited(), None).is_err());
}

/// On a clock that each look moves on, reductions use up the limit; greedy answers come before them.
#[test]
fn a_short_limit_gives_no_worse_than_the_greedy_algorithms() {
    let graph = graph("er:40000:0.0001", 3);
    for problem in [&MINIMUM_VERTEX_COVER, &MAXIMUM_INDEPENDENT_SET] {
        let n_looks = AtomicU32::new(0);
        let budget = Budget {
            clock: &|| f64::from(n_looks.fetch_add(1, Ordering::Relaxed)) / 100.0,
            time_limit: Some(0.3),
            ..Budget::unlimited()
        };
        let best = solve_best(problem, &graph, &BestOptions::default(), &budget, None).unwrap();
        for baseline in problem.baselines {
            let nodes = (baseline.find)(&graph);
            let greedy = problem.evaluate(&graph, &nodes).unwrap();
            let rows = &best.rows;
            assert!(
                !is_better(problem.sense, greedy, best.objective),
                "{rows:?}"
            );
        }
    }
}

/// The squared degrees of this graph sum to 2.8e8: about a second.
#[test]
fn a_greedy_algorithm_that_takes_longer_than_the_search_is_left_out() {
    let dense = graph("er:700:0.9", 1);
    let run = |problem: &Problem, seconds, all_rows| {
        let options = BestOptions {
            seconds_after_reductions: Some(seconds),
            all_rows,
            ..BestOptions::default()
        };
        let n_looks = AtomicU32::new(0);
        let budget = Budget {
            clock: &|| f64::from(n_looks.fetch_add(1, Ordering::Relaxed)) / 100.0,
            ..Budget::unlimited()
        };
        let best = solve_best(problem, &dense, &options, &budget, None).unwrap();
        let names = best.rows.iter().map(|row| row.name.to_string());
        names
            .filter(|name| name.starts_with("greedy "))
            .collect::<Vec<String>>()
    };
    let d2 = "greedy max_degree_d2".to_owned();
    let quick = run(&MINIMUM_VERTEX_COVER, 0.1, false);
    assert!(quick.len() == 2 && !quick.contains(&d2), "{quick:?}");
    assert!(run(&MINIMUM_VERTEX_COVER, 0.1, true).contains(&d2));
    assert!(run(&MINIMUM_VERTEX_COVER, 2.0, false).contains(&d2));
    assert_eq!(run(&MAXIMUM_INDEPENDENT_SET, 0.1, false).len(), 2);
}
