//! Plans with a policy: within the budget, verified, the same for any number of threads, no worse than the short search.

use shardgraph_costgraph::generate::{Synthetic, synthetic};
use shardgraph_costgraph::{DecoderKind, Objective};

use super::*;
use crate::features::features;
use crate::place::place;
use crate::policy::{PolicyConfig, Preset};
use crate::watch::unwatched;

fn graph() -> Graph {
    let recipe = Synthetic {
        min_nodes: 15,
        max_nodes: 20,
        ..Synthetic::default()
    };
    synthetic(&recipe, 3, 1).unwrap()
}

fn policy(preset: Preset) -> Policy {
    let mut config = PolicyConfig::preset(preset);
    config.feature_evaluations = 100;
    Policy::untrained(config, 2).unwrap()
}

fn made(options: &PlaceOptions, policy: &Policy) -> Result<Plan, Error> {
    let devices = DeviceSet::uniform(2, None)?;
    unwatched(|watch| place_with_policy(&graph(), &devices, options, policy, watch))
}

/// A plan with these options, which must be within the budget and the same for any number of threads.
fn checked(options: &PlaceOptions, policy: &Policy) -> Plan {
    let plan = made(options, policy).unwrap();
    let last = plan.history.last().unwrap();
    assert_eq!(plan.evaluations, options.evaluations);
    assert_eq!(last.evaluations, options.evaluations);
    let found = match options.objective {
        Objective::Runtime => last.best.1,
        Objective::Memory => last.best.0,
    };
    // Warm starts count beside what is found from them.
    let is_seeded = plan.method == Method::SeededRegal;
    assert!(found == plan.value() || (is_seeded && found > plan.value()));
    assert!(plan.value() >= plan.lower_bound());
    let mut pairs = plan.history.windows(2);
    assert!(pairs.all(|of| of[0].best >= of[1].best && of[0].evaluations < of[1].evaluations));
    let threads = PlaceOptions {
        threads: 3,
        ..options.clone()
    };
    assert_eq!(made(&threads, policy).unwrap(), plan);
    plan
}

#[test]
fn plans_keep_the_budget_and_do_not_depend_on_threads() {
    for preset in [Preset::Synthetic, Preset::Memory] {
        let policy = policy(preset);
        for (method, evaluations, expected) in [
            (Method::Regal, 731, Method::Regal),
            (Method::Regal, 101, Method::Regal),
            (Method::Idrs, 400, Method::Idrs),
            (Method::SeededRegal, 110, Method::SeededRegal),
            (Method::Brkga, 400, Method::SeededRegal),
        ] {
            let mut options = PlaceOptions {
                objective: policy.config().features.objective(),
                method,
                evaluations,
                ..PlaceOptions::default()
            };
            let plan = checked(&options, &policy);
            assert_eq!(
                (plan.method, plan.decoder),
                (expected, Some(DecoderKind::Paper))
            );
            (options.decoder, options.contract) = (Some(DecoderKind::List), true);
            let plan = made(&options, &policy).unwrap();
            assert_eq!(plan.decoder, Some(DecoderKind::List));
        }
    }
}

#[test]
fn the_short_search_counts() {
    let (graph, policy) = (graph(), policy(Preset::Synthetic));
    let devices = DeviceSet::uniform(2, None).unwrap();
    let mut options = PlaceOptions {
        method: Method::SeededRegal,
        decoder: Some(DecoderKind::Paper),
        ..PlaceOptions::default()
    };
    let problem = Problem::new(&graph, &devices, Objective::Runtime, options.model).unwrap();
    for seed in 0..5 {
        (options.seed, options.evaluations) = (seed, 102);
        let found = features(&problem, &options, 100).unwrap();
        let plan = made(&options, &policy).unwrap();
        assert!(plan.value() <= found.best.fitness.1);
    }
}

#[test]
fn what_a_policy_does_not_serve_is_refused() {
    let options = PlaceOptions {
        method: Method::SeededRegal,
        evaluations: 100,
        ..PlaceOptions::default()
    };
    let message = |options: &PlaceOptions, policy: &Policy| {
        let error = made(options, policy).unwrap_err();
        assert!(error.is_input());
        error.to_string()
    };
    let few = message(&options, &policy(Preset::Synthetic));
    assert!(
        few.contains("evaluations = 100: the features of the policy untrained, seed"),
        "{few}"
    );
    let enough = PlaceOptions {
        evaluations: 500,
        ..options
    };
    let other = message(&enough, &policy(Preset::Memory));
    assert!(
        other.contains("the policy reads the features for the memory"),
        "{other}"
    );
    let devices = DeviceSet::uniform(2, None).unwrap();
    for method in Method::LEARNED {
        let options = PlaceOptions {
            method,
            ..PlaceOptions::default()
        };
        let error = place(&graph(), &devices, &options).unwrap_err();
        assert!(error.to_string().contains("needs a policy"), "{error}");
    }
}

/// Somebody who looks on and has seen enough ends both searches.
#[test]
fn whoever_looks_on_ends_it() {
    let policy = policy(Preset::Synthetic);
    let devices = DeviceSet::uniform(2, None).unwrap();
    let mut seen = Vec::new();
    let mut watch = Watch {
        clock: &mut || 0.0,
        deadline: None,
        on_progress: &mut |generation| {
            seen.push(generation.evaluations);
            seen.len() < 2
        },
    };
    let options = PlaceOptions {
        method: Method::SeededRegal,
        ..PlaceOptions::default()
    };
    let plan = place_with_policy(&graph(), &devices, &options, &policy, &mut watch);
    // The second look is at the second generation of the short search, whose population is 50.
    assert_eq!(plan.unwrap().evaluations, 90);
    assert_eq!(seen, [50, 90]);
    let mut late = Watch {
        clock: &mut || 0.0,
        deadline: Some(0.0),
        on_progress: &mut |_| true,
    };
    let plan = place_with_policy(&graph(), &devices, &options, &policy, &mut late);
    assert!(plan.unwrap().evaluations <= 100);
}

/// The cheap schedules are among the first chromosomes: the plan is no worse than they are, whatever the policy proposes.
#[test]
fn a_seeded_plan_is_no_worse_than_the_cheap_schedules() {
    for preset in [Preset::Synthetic, Preset::Memory] {
        let policy = policy(preset);
        let options = PlaceOptions {
            objective: policy.config().features.objective(),
            method: Method::SeededRegal,
            evaluations: 120,
            ..PlaceOptions::default()
        };
        let plan = made(&options, &policy).unwrap();
        assert_eq!(plan.method, Method::SeededRegal);
        assert!(plan.proposal_seconds.is_some());
        let methods = match options.objective {
            Objective::Runtime => vec![Method::Heft],
            Objective::Memory => vec![Method::Heft, Method::GreedyMemory, Method::XlaList],
        };
        let devices = DeviceSet::uniform(2, None).unwrap();
        for method in methods {
            let options = PlaceOptions {
                method,
                ..options.clone()
            };
            let cheap = place(&graph(), &devices, &options).unwrap();
            assert!(plan.value() <= cheap.value(), "{method}");
            assert_eq!(cheap.proposal_seconds, None);
        }
    }
}

/// Whatever the options' numbers are, the features are those of the policy's short search.
#[test]
fn the_short_search_has_the_policys_numbers() {
    let policy = policy(Preset::Synthetic);
    let few = |population| {
        let mut options = PlaceOptions {
            method: Method::Regal,
            evaluations: 101,
            ..PlaceOptions::default()
        };
        options.genetic.population = population;
        made(&options, &policy).unwrap().history[0].evaluations
    };
    assert_eq!((few(40), few(100)), (50, 50));
}

/// A portfolio with a policy has the decoder that was asked for, its budget, and is no worse than the baselines.
#[test]
fn a_portfolio_with_a_policy_keeps_its_promises() {
    for preset in [Preset::Synthetic, Preset::Memory] {
        let policy = policy(preset);
        for decoder in [None, Some(DecoderKind::TimeAware)] {
            let options = PlaceOptions {
                objective: policy.config().features.objective(),
                evaluations: 600,
                decoder,
                ..PlaceOptions::default()
            };
            let plan = made(&options, &policy).unwrap();
            assert_eq!((plan.method, plan.decoder), (Method::Portfolio, decoder));
            assert!(plan.evaluations == 600 || plan.value() == plan.lower_bound());
            let fitness = plan.outcome.fitness(options.objective);
            for baseline in &plan.baselines {
                assert!(fitness <= baseline.outcome.fitness(options.objective));
            }
        }
    }
}

#[test]
fn policies_that_come_with_the_program_serve_their_objective() {
    for (name, objective) in [
        ("runtime", Objective::Runtime),
        ("low-budget", Objective::Runtime),
        ("memory", Objective::Memory),
    ] {
        let policy = Policy::shipped(name).unwrap().unwrap();
        let evaluations = if name == "low-budget" { 2 } else { 450 };
        let options = PlaceOptions {
            method: Method::SeededRegal,
            objective,
            evaluations,
            ..PlaceOptions::default()
        };
        assert_eq!(made(&options, &policy).unwrap().evaluations, evaluations);
    }
    assert!(Policy::shipped("neither").is_none());
}
