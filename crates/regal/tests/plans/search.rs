//! Plans of random and of known graphs: verified, repeatable, never worse than what they started from.

use shardgraph_costgraph::{
    Contraction, DecoderKind, GraphBuilder, Link, Objective, OpSpec, Problem, TensorSpec, optimum,
};
use shardgraph_regal::{
    Comparison, GeneticOptions, Method, PlaceOptions, Row, Watch, compare, place, place_watched,
    summary,
};

use crate::{graph, options, two, watched};

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
                    plan.value() >= plan.lower_bound() && plan.gap() >= Some(0.0),
                    "{method}"
                );
                let has_decoder = method.decodes() && method != Method::Portfolio;
                assert_eq!(plan.decoder.is_some(), has_decoder);
                let expected = match method {
                    // It ends at the bound.
                    Method::Portfolio => {
                        assert!(plan.evaluations == 300 || plan.value() == plan.lower_bound());
                        plan.evaluations.min(300)
                    }
                    // In four orders.
                    Method::OneDevice if objective == Objective::Memory => 4,
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
    let changes: [fn(&mut PlaceOptions); 10] = [
        |o| o.seed = 2,
        |o| o.evaluations = 299,
        |o| o.genetic.population = 100,
        |o| o.genetic.elites = 20,
        |o| o.genetic.mutants = 30,
        |o| o.genetic.rho = 0.6,
        |o| o.genetic.populations = 2,
        |o| (o.genetic.populations, o.genetic.migration_generations) = (2, 1),
        |o| o.genetic.alpha = 3.0,
        |o| o.genetic.beta = 0.1,
    ];
    for (i, change) in changes.into_iter().enumerate() {
        assert_ne!(run(change), usual, "change {i}");
    }
    let migrating: fn(&mut PlaceOptions) = |o| {
        (o.genetic.population, o.genetic.elites, o.genetic.mutants) = (20, 3, 3);
        (o.genetic.populations, o.genetic.migration_generations) = (2, 1);
    };
    let more: fn(&mut PlaceOptions) = |o| {
        (o.genetic.population, o.genetic.elites, o.genetic.mutants) = (20, 3, 3);
        (
            o.genetic.populations,
            o.genetic.migration_generations,
            o.genetic.migrants,
        ) = (2, 1, 9);
    };
    assert_ne!(run(migrating), run(more));
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
    assert!(plan.gap().unwrap() < 0.5);
    // The search was over the small graph: its chromosomes have other keys.
    let small = Contraction::new(&graph).unwrap();
    assert!(small.graph().n_ops() < 60);
    let plain = PlaceOptions {
        contract: false,
        ..contracted
    };
    let of = |graph| place(graph, &two(None), &plain).unwrap().history;
    assert_eq!(plan.history, of(small.graph()));
    assert_ne!(plan.history, of(&graph));
}

/// With every method, also where another op is the largest of the contracted graph.
#[test]
fn the_largest_op_is_on_the_first_device() {
    for seed in 0..12 {
        let graph = graph(30, seed);
        for method in Method::ALL {
            for (objective, contract) in [
                (Objective::Runtime, false),
                (Objective::Runtime, true),
                (Objective::Memory, true),
            ] {
                let options = PlaceOptions {
                    contract,
                    evaluations: 20,
                    ..options(method, objective)
                };
                let plan = place(&graph, &two(None), &options).unwrap();
                let problem = Problem::new(&graph, &two(None), objective, options.model).unwrap();
                let largest = problem.fixed_op().unwrap();
                assert_eq!(plan.schedule.placement[largest as usize], 0, "{method}");
            }
        }
    }
}

/// The options with another population, and so many elites and mutants in it.
fn with_population(options: PlaceOptions, sizes: (u32, u32, u32)) -> PlaceOptions {
    let (population, elites, mutants) = sizes;
    let genetic = GeneticOptions {
        population,
        elites,
        mutants,
        ..options.genetic
    };
    PlaceOptions { genetic, ..options }
}

/// However small the budget and the population, the starts that were made count, and the best of them is not lost.
#[test]
fn a_small_budget_goes_to_the_starts_first() {
    let rivals = [
        Method::Heft,
        Method::XlaList,
        Method::PartitionDfs,
        Method::XlaPostOrder,
        Method::GreedyMemory,
    ];
    for seed in 0..10 {
        let graph = graph(50, seed);
        let value = |method, objective, evaluations, population| {
            let options = PlaceOptions {
                evaluations,
                ..with_population(options(method, objective), population)
            };
            let plan = place(&graph, &two(None), &options).unwrap();
            assert!(!method.decodes() || plan.evaluations == evaluations);
            plan.value()
        };
        let usual = (100, 20, 20);
        let heft = value(Method::Heft, Objective::Runtime, 1, usual);
        assert_eq!(
            value(Method::SeededBrkga, Objective::Runtime, 1, usual),
            heft
        );
        for (evaluations, population) in [(5, usual), (6, usual), (40, (5, 1, 1)), (8, (2, 1, 1))] {
            let seeded = value(
                Method::SeededBrkga,
                Objective::Memory,
                evaluations,
                population,
            );
            for rival in rivals {
                let other = value(rival, Objective::Memory, 1, usual);
                assert!(
                    seeded <= other,
                    "seed {seed}, {evaluations} evaluations against {rival}"
                );
            }
        }
    }
}

/// A limit that only the greedy start keeps, without an evaluation left for a search.
#[test]
fn a_limit_of_memory_brings_further_starts() {
    let mut n_saved = 0;
    for seed in 0..30 {
        let graph = graph(50, seed);
        let run = |method, evaluations, limit| {
            let options = PlaceOptions {
                evaluations,
                ..options(method, Objective::Runtime)
            };
            place(&graph, &two(limit), &options).unwrap()
        };
        let greedy = run(Method::GreedyMemory, 1, None).outcome.peak_bytes;
        let others = [
            Method::Heft,
            Method::XlaList,
            Method::PartitionDfs,
            Method::XlaPostOrder,
        ];
        if others
            .into_iter()
            .any(|method| run(method, 1, Some(greedy)).fits())
        {
            continue;
        }
        assert!(run(Method::SeededBrkga, 5, Some(greedy)).fits());
        n_saved += 1;
    }
    assert!(n_saved > 0);
}

/// Plans that do not fit neither win nor have a place among those that do.
#[test]
fn what_does_not_fit_is_not_compared_by_its_value() {
    let graph = graph(40, 3);
    let free = place(
        &graph,
        &two(None),
        &options(Method::Brkga, Objective::Runtime),
    )
    .unwrap();
    let candidates = Comparison::usual();
    let mut n_unfit = 0;
    for percent in [60, 70, 80, 90] {
        let devices = two(Some(free.outcome.peak_bytes * percent / 100));
        let options = options(Method::Brkga, Objective::Runtime);
        let table =
            watched(|watch| compare(&graph, &devices, &options, &candidates, watch)).unwrap();
        let key = |row: &Row| (row.excess_bytes, row.runtime_ns);
        let reference = &table.rows[0];
        for (row, of_row) in table.rows.iter().zip(summary(std::slice::from_ref(&table))) {
            let fits = row.excess_bytes == 0;
            assert_eq!(row.gap_to_best.is_some(), fits);
            assert!(row.gap_to_best.is_none_or(|gap| gap >= 0.0));
            assert_eq!(
                row.improvement.is_some(),
                fits && reference.excess_bytes == 0
            );
            assert_eq!(of_row.n_wins, u64::from(key(row) < key(reference)));
            assert_eq!(of_row.n_losses, u64::from(key(row) > key(reference)));
            assert_eq!(of_row.gap.is_some(), fits);
            n_unfit += u32::from(!fits);
        }
        let n_dashes = table
            .to_string()
            .lines()
            .filter(|line| line.contains("does not fit"))
            .count();
        assert_eq!(
            n_dashes,
            table.rows.iter().filter(|row| row.excess_bytes > 0).count()
        );
    }
    assert!(n_unfit > 5);
}

#[test]
fn a_gap_to_a_bound_of_nothing_is_none() {
    let mut builder = GraphBuilder::new("free");
    let ops = ["a", "b"].map(|name| builder.op(OpSpec::new(name, 0)));
    builder.tensor(TensorSpec::new(ops[0], 8, &ops[1..]));
    let graph = builder.build().unwrap();
    let slow = Link {
        bandwidth_gbs: 1.0,
        latency_ns: 5,
    };
    let devices = two(None).with_link(slow).unwrap();
    let gaps = (0..20).map(|seed| {
        let mut options = PlaceOptions {
            seed,
            evaluations: 1,
            ..options(Method::Random, Objective::Runtime)
        };
        options.decoder = Some(DecoderKind::Paper);
        options.model.fix_largest = false;
        let plan = place(&graph, &devices, &options).unwrap();
        assert_eq!(plan.gap(), (plan.outcome.runtime_ns == 0).then_some(0.0));
        plan.gap()
    });
    assert!(gaps.collect::<Vec<_>>().contains(&None));
}

/// The clock goes on by a second at each look: a search that asks only between generations would evaluate 50 chromosomes.
#[test]
fn a_deadline_ends_a_generation_in_its_midst() {
    let mut time = 0.0;
    let mut watch = Watch {
        clock: &mut || {
            time += 1.0;
            time
        },
        deadline: Some(10.0),
        on_progress: &mut |_| true,
    };
    let options = options(Method::Brkga, Objective::Runtime);
    let plan = place_watched(&graph(40, 1), &two(None), &options, &mut watch).unwrap();
    assert_eq!(plan.evaluations, 10);
}

/// Past the deadline the greedy methods finish their run without choosing, and begin no other.
#[test]
fn a_deadline_hurries_the_greedy_methods() {
    let graph = graph(60, 3);
    let run = |method, deadline| {
        let mut time = 0.0;
        let mut watch = Watch {
            clock: &mut || {
                time += 1.0;
                time
            },
            deadline,
            on_progress: &mut |_| true,
        };
        let options = options(method, Objective::Memory);
        place_watched(&graph, &two(None), &options, &mut watch).unwrap()
    };
    for method in [Method::GreedyMemory, Method::NoisyGreedyMemory] {
        let (hurried, whole) = (run(method, Some(20.0)), run(method, None));
        assert_ne!(hurried.schedule, whole.schedule, "{method}");
        assert_eq!(hurried.evaluations, 1, "{method}");
        assert_eq!(run(method, Some(1e9)).schedule, whole.schedule);
    }
}
