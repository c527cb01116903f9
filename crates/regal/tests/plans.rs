//! Plans of random and of known graphs: verified, repeatable, never worse than what they started from.

use shardgraph_costgraph::{
    DecoderKind, DeviceSet, Graph, GraphBuilder, Link, Objective, OpSpec, Problem, TensorSpec,
    optimum,
};
use shardgraph_regal::{
    Comparison, ErrorKind, GeneticOptions, Grid, Method, PlaceOptions, Row, compare, place,
    summary, tune, tune_settings,
};

/// A layered graph from a small congruential generator.
fn graph(n_ops: u32, seed: u64) -> Graph {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut below = |n: u32| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as u32) % n
    };
    let mut builder = GraphBuilder::new(format!("graph {seed}"));
    for op in 0..n_ops {
        builder.op(OpSpec::new(format!("op {op}"), u64::from(1 + below(50))));
    }
    for op in 0..n_ops - 1 {
        let mut consumers: Vec<u32> = (0..1 + below(2))
            .map(|_| op + 1 + below((n_ops - op - 1).min(9)))
            .collect();
        consumers.sort_unstable();
        consumers.dedup();
        builder.tensor(TensorSpec::new(op, u64::from(1 + below(100)), &consumers));
    }
    builder.build().expect("a valid graph")
}

fn two(memory_bytes: Option<u64>) -> DeviceSet {
    DeviceSet::uniform(2, memory_bytes).expect("two devices")
}

fn options(method: Method, objective: Objective) -> PlaceOptions {
    PlaceOptions {
        method,
        objective,
        evaluations: 300,
        greedy_runs: 5,
        ..PlaceOptions::default()
    }
}

#[test]
fn every_method_makes_a_verified_plan_within_its_budget() {
    let devices = two(None)
        .with_link(Link {
            bandwidth_gbs: 12.0,
            latency_ns: 3,
        })
        .unwrap();
    for objective in [Objective::Runtime, Objective::Memory] {
        for method in Method::ALL {
            for seed in 0..3 {
                let graph = graph(30, seed);
                let options = options(method, objective);
                let plan = place(&graph, &devices, &options).unwrap();
                let problem = Problem::new(&graph, &devices, objective, options.model).unwrap();
                assert_eq!(
                    plan.schedule.verify(&problem).unwrap().outcome,
                    plan.outcome
                );
                assert!(
                    plan.value() >= plan.lower_bound() && plan.gap() >= 0.0,
                    "{method}"
                );
                assert_eq!(plan.decoder.is_some(), method.decodes());
                let expected = match method {
                    Method::LocalSearch => 300,
                    decoding if decoding.decodes() => 300,
                    Method::NoisyGreedyMemory => 5,
                    _ => 1,
                };
                assert_eq!(plan.evaluations, expected, "{method}");
            }
        }
    }
}

#[test]
fn plans_do_not_depend_on_threads_but_on_the_seed() {
    let graph = graph(60, 1);
    for decoder in DecoderKind::ALL {
        let run = |threads, seed| {
            let options = PlaceOptions {
                decoder: Some(decoder),
                threads,
                seed,
                ..options(Method::Brkga, Objective::Memory)
            };
            place(&graph, &two(None), &options).unwrap()
        };
        let one = run(1, 1);
        assert_eq!(one, run(2, 1));
        assert_eq!(one, run(5, 1));
        assert_ne!(one.history, run(1, 2).history, "{}", decoder.name());
    }
}

#[test]
fn a_seeded_search_is_never_worse_than_its_seeds() {
    for objective in [Objective::Runtime, Objective::Memory] {
        let rivals: &[Method] = match objective {
            Objective::Runtime => &[Method::Heft],
            Objective::Memory => &[
                Method::Heft,
                Method::XlaList,
                Method::PartitionDfs,
                Method::XlaPostOrder,
                Method::GreedyMemory,
            ],
        };
        for seed in 0..10 {
            let graph = graph(50, seed);
            for decoder in DecoderKind::ALL {
                let seeded = PlaceOptions {
                    decoder: Some(decoder),
                    evaluations: 150,
                    ..options(Method::SeededBrkga, objective)
                };
                let plan = place(&graph, &two(None), &seeded).unwrap();
                for &rival in rivals {
                    let other = place(&graph, &two(None), &options(rival, objective)).unwrap();
                    assert!(
                        plan.value() <= other.value(),
                        "{} against {rival}",
                        decoder.name()
                    );
                }
            }
        }
    }
}

/// A warm start decodes to the schedule that it was made from, so the very first generation holds one as good.
#[test]
fn warm_starts_are_in_the_first_generation() {
    let slow = Link {
        bandwidth_gbs: 2.0,
        latency_ns: 7,
    };
    for devices in [two(None), two(None).with_link(slow).unwrap()] {
        for seed in 0..20 {
            let graph = graph(80, seed);
            let heft = options(Method::Heft, Objective::Runtime);
            let heft = place(&graph, &devices, &heft).unwrap();
            for decoder in [DecoderKind::Paper, DecoderKind::List] {
                let seeded = PlaceOptions {
                    decoder: Some(decoder),
                    ..options(Method::SeededBrkga, Objective::Runtime)
                };
                let plan = place(&graph, &devices, &seeded).unwrap();
                let first = plan.history[0].best.1;
                assert!(first <= heft.value(), "{} seed {seed}", decoder.name());
            }
        }
    }
}

#[test]
fn the_options_reach_the_genetic_algorithm() {
    let graph = graph(40, 1);
    let run = |change: fn(&mut PlaceOptions)| {
        let mut options = PlaceOptions {
            decoder: Some(DecoderKind::Paper),
            ..options(Method::Brkga, Objective::Runtime)
        };
        change(&mut options);
        place(&graph, &two(None), &options).unwrap().history
    };
    let usual = run(|_| ());
    let changes: [fn(&mut PlaceOptions); 9] = [
        |o| o.seed = 2,
        |o| o.evaluations = 299,
        |o| o.genetic.population = 50,
        |o| o.genetic.elites = 40,
        |o| o.genetic.mutants = 60,
        |o| o.genetic.rho = 0.6,
        |o| o.genetic.populations = 2,
        |o| o.genetic.alpha = 3.0,
        |o| o.genetic.beta = 0.1,
    ];
    for (i, change) in changes.into_iter().enumerate() {
        assert_ne!(run(change), usual, "change {i}");
    }
}

#[test]
fn small_graphs_are_placed_optimally() {
    for seed in 0..5 {
        let graph = graph(6, seed);
        for objective in [Objective::Runtime, Objective::Memory] {
            let options = PlaceOptions {
                decoder: Some(DecoderKind::Paper),
                evaluations: 3000,
                ..options(Method::SeededBrkga, objective)
            };
            let problem_devices = two(None);
            let problem = Problem::new(&graph, &problem_devices, objective, options.model).unwrap();
            let (_, best) = optimum(&problem, 10_000_000).unwrap();
            let plan = place(&graph, &problem_devices, &options).unwrap();
            assert_eq!(plan.outcome.fitness(objective).0, best.fitness(objective).0);
            if objective == Objective::Runtime {
                assert_eq!(plan.outcome.runtime_ns, best.runtime_ns);
            }
        }
    }
}

#[test]
fn a_limit_that_nothing_satisfies_gives_the_plan_that_exceeds_it_least() {
    let graph = graph(40, 2);
    for method in [Method::Brkga, Method::SeededBrkga] {
        let plan = place(&graph, &two(Some(10)), &options(method, Objective::Runtime)).unwrap();
        assert!(!plan.fits());
        assert_eq!(plan.outcome.excess_bytes, plan.outcome.peak_bytes - 10);
    }
    // With room for everything the limit changes nothing.
    let plan = place(
        &graph,
        &two(Some(1 << 40)),
        &options(Method::Brkga, Objective::Runtime),
    )
    .unwrap();
    let free = place(
        &graph,
        &two(None),
        &options(Method::Brkga, Objective::Runtime),
    )
    .unwrap();
    assert!(plan.fits());
    assert_eq!(plan.outcome, free.outcome);
}

#[test]
fn the_tuned_method_takes_the_tuned_numbers() {
    let graph = graph(60, 5);
    let numbers = GeneticOptions {
        population: 30,
        elites: 9,
        mutants: 2,
        ..GeneticOptions::default()
    };
    let plan = |method, genetic, tuned| {
        let options = PlaceOptions {
            genetic,
            tuned,
            ..options(method, Objective::Runtime)
        };
        place(&graph, &two(None), &options).unwrap()
    };
    let plain = GeneticOptions::default();
    let tuned = plan(Method::TunedBrkga, plain, numbers);
    assert_eq!(tuned.history, plan(Method::Brkga, numbers, plain).history);
    assert_ne!(tuned.history, plan(Method::Brkga, plain, numbers).history);
    assert_eq!(PlaceOptions::default().tuned, GeneticOptions::tuned());
}

#[test]
fn a_contracted_search_gives_a_plan_of_the_whole_graph() {
    let graph = graph(60, 3);
    let contracted = PlaceOptions {
        contract: true,
        ..options(Method::SeededBrkga, Objective::Runtime)
    };
    let plan = place(&graph, &two(None), &contracted).unwrap();
    assert_eq!(plan.schedule.placement.len(), 60);
    assert!(plan.gap() < 0.5);
}

/// Tables of three graphs, with a clock that goes on by a second at each look.
fn tables() -> Vec<Comparison> {
    let mut time = 0.0;
    let mut clock = || {
        time += 1.0;
        time
    };
    let mut table = |seed| {
        let options = options(Method::Brkga, Objective::Runtime);
        let candidates = Comparison::usual();
        compare(
            &graph(40, seed),
            &two(None),
            &options,
            &candidates,
            &mut clock,
        )
        .expect("a table")
    };
    (0..3).map(&mut table).collect()
}

#[test]
fn the_table_compares_with_the_paper_and_with_the_best() {
    for table in tables() {
        assert_eq!(table.rows.len(), Comparison::usual().len());
        let least = table.rows.iter().map(|row| row.runtime_ns).min().unwrap();
        for row in &table.rows {
            let gap = row.runtime_ns as f64 / least as f64 - 1.0;
            assert!((row.gap_to_best - gap).abs() < 1e-12);
            let improvement = 1.0 - row.runtime_ns as f64 / table.rows[0].runtime_ns as f64;
            assert!((row.improvement.unwrap() - improvement).abs() < 1e-12);
            assert!((row.seconds - 1.0).abs() < 1e-12);
        }
        assert_eq!(table.to_string().lines().count(), 1 + table.rows.len());
    }
}

#[test]
fn a_summary_has_the_means_of_the_graphs_fractions() {
    let tables = tables();
    let means = summary(&tables);
    assert_eq!(means.len(), tables[0].rows.len());
    assert_eq!((means[0].n_graphs, means[0].n_ties), (3, 3));
    for (i, mean) in means.iter().enumerate() {
        let rows: Vec<&Row> = tables.iter().map(|table| &table.rows[i]).collect();
        let gap = rows.iter().map(|row| row.gap).sum::<f64>() / 3.0;
        assert!((mean.gap - gap).abs() < 1e-12);
        let gains: Vec<f64> = rows.iter().map(|row| row.improvement.unwrap()).collect();
        let worst = gains.iter().copied().fold(f64::MAX, f64::min);
        assert!((mean.worst_improvement - worst).abs() < 1e-12);
        let n_wins = gains.iter().filter(|gain| **gain > 0.0).count() as u64;
        let n_losses = gains.iter().filter(|gain| **gain < 0.0).count() as u64;
        assert_eq!((mean.n_wins, mean.n_losses), (n_wins, n_losses));
        assert_eq!(mean.n_wins + mean.n_ties + mean.n_losses, 3);
    }
}

#[test]
fn settings_of_ones_own_are_tuned_as_those_of_a_grid() {
    let grid = Grid {
        population: vec![20, 50],
        elite_share: vec![0.2],
        mutant_share: vec![0.2],
        populations: vec![1],
        alpha: vec![1.0],
        beta: vec![1.0, 3.0],
    };
    let (graphs, options) = ([graph(40, 1)], options(Method::Brkga, Objective::Runtime));
    let of_grid = tune(&graphs, &two(None), &options, &grid).unwrap();
    let best: Vec<GeneticOptions> = of_grid.settings[..2].iter().map(|(s, _)| *s).collect();
    let again = tune_settings(&graphs, &two(None), &options, best).unwrap();
    assert_eq!(again.settings, of_grid.settings[..2]);
}

#[test]
fn tuning_ranks_every_setting_against_the_own_one() {
    let grid = Grid {
        population: vec![20, 100],
        elite_share: vec![0.2],
        mutant_share: vec![0.2],
        populations: vec![1],
        alpha: vec![1.0, 4.0],
        beta: vec![1.0],
    };
    let graphs = [graph(40, 1), graph(40, 2)];
    let options = PlaceOptions {
        decoder: Some(DecoderKind::Paper),
        ..options(Method::Brkga, Objective::Runtime)
    };
    let tuned = tune(&graphs, &two(None), &options, &grid).unwrap();
    assert_eq!(tuned.settings.len(), 4);
    assert!(tuned.settings.is_sorted_by_key(|(_, mean)| *mean));
    let own = tuned
        .settings
        .iter()
        .find(|(setting, _)| *setting == GeneticOptions::default());
    assert!((own.unwrap().1 - 1.0).abs() < 1e-12);
    // The best is what it says: searching with it gives that mean.
    let (best, mean) = tuned.settings[0];
    let value = |graph: &Graph, genetic| {
        place(
            graph,
            &two(None),
            &PlaceOptions {
                genetic,
                ..options.clone()
            },
        )
        .unwrap()
        .value()
    };
    let ratios = graphs
        .iter()
        .map(|g| value(g, best) as f64 / value(g, options.genetic) as f64);
    assert!((ratios.sum::<f64>() / 2.0 - mean).abs() < 1e-12);
}

#[test]
fn the_grid_has_every_combination_once() {
    let settings = Grid::default().settings(&GeneticOptions::default());
    assert_eq!(settings.len(), 648);
    for (i, setting) in settings.iter().enumerate() {
        assert!(!settings[..i].contains(setting));
        setting.config(5000, 1).check().unwrap();
    }
}

#[test]
fn wrong_options_are_named() {
    let graph = graph(5, 1);
    let message = |change: fn(&mut PlaceOptions)| {
        let mut options = PlaceOptions::default();
        change(&mut options);
        place(&graph, &two(None), &options).unwrap_err().to_string()
    };
    assert_eq!(
        message(|o| o.evaluations = 0),
        "evaluations = 0: expected at least 1"
    );
    assert_eq!(
        message(|o| o.threads = 0),
        "threads = 0: expected at least 1"
    );
    assert_eq!(
        message(|o| o.genetic.rho = 0.2),
        "rho = 0.2: expected a number of [0.5, 1)"
    );
    assert_eq!(
        message(|o| o.genetic.population = 0),
        "population = 0: expected at least 2"
    );
    assert!(message(|o| o.genetic.alpha = -1.0).contains("Beta(-1, 1)"));
    let limited = tune(
        &[graph],
        &two(Some(5)),
        &PlaceOptions::default(),
        &Grid::default(),
    );
    assert!(matches!(limited.unwrap_err().kind(), ErrorKind::Options(_)));
}
