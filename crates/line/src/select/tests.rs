//! Selection: more budget is never worse for the held-back edges, and the final training is that of
//! the chosen settings.

use super::*;
use crate::train;
use proptest::prelude::*;
use shardgraph_random::KeyedRng;

/// Blocks of 20 nodes with edges inside of them alone.
fn blocks(n_blocks: u32, n_edges: usize, seed: u64) -> Graph {
    let mut stream = KeyedRng::new(seed, "select test", 0);
    let edges: Vec<(u32, u32)> = (0..n_edges)
        .map(|_| {
            let block = 20 * stream.below_u32(n_blocks);
            (block + stream.below_u32(20), block + stream.below_u32(20))
        })
        .collect();
    Graph::from_edges(20 * n_blocks, &edges).unwrap()
}

fn line(most_epochs: u32, seed: u64) -> Line {
    let config = Config {
        dim: 4,
        seed,
        ..Config::default()
    };
    Line::new(config).selecting(SelectConfig {
        most_epochs,
        ..SelectConfig::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn more_epochs_are_never_worse_for_the_held_back_edges(
        n_blocks in 3u32..6, n_edges in 150usize..400, seed in 0u64..50, most in 5u32..30,
    ) {
        let graph = blocks(n_blocks, n_edges, seed);
        let best = |most_epochs| {
            let selection = line(most_epochs, seed).fit(&graph).unwrap().selection;
            let singles = selection.trials.iter().filter(|trial| trial.components.len() == 1);
            let best = singles.map(Trial::score).fold(0.0, f64::max);
            let mut trials = selection.trials.iter();
            let chosen = trials.find(|trial| trial.components == selection.components);
            (best, chosen.unwrap().score())
        };
        let ((few, chosen), (many, _)) = (best(most), best(3 * most));
        prop_assert!(many >= few && chosen >= few, "{} {} {}", few, many, chosen);
    }
}

#[test]
fn what_is_chosen_is_what_is_trained() {
    let graph = blocks(4, 600, 1);
    let edges: Vec<(u32, u32)> = graph.edges().collect();
    let parts = Store::default_parts(80);
    let store = Store::from_edges(80, &edges, parts, NodeLabels::numbers(80)).unwrap();
    for order in [Order::First, Order::Second] {
        let config = Config {
            order,
            dim: 4,
            ..Config::default()
        };
        let fitted = Line::new(config.clone()).fit(&graph).unwrap();
        let [component] = fitted.selection.components[..] else {
            panic!("{:?}", fitted.selection);
        };
        let Component::Line {
            order: chosen,
            epochs,
            learning_rate,
        } = component
        else {
            panic!("{component}");
        };
        assert_eq!(chosen, order);
        let config = Config {
            epochs,
            learning_rate: Some(learning_rate),
            ..config
        };
        let trained = train(&store, &config, &Device::host(), &mut |_| {}).unwrap();
        assert_eq!(fitted.embedding, trained.embedding);
    }
}

/// Nodes are alike that have the same neighbours: a spectral table is tried, and baselines are
/// told from the same edges.
#[test]
fn a_spectral_table_and_baselines_stand_beside_the_orders() {
    let graph = blocks(6, 700, 4);
    let selection = line(10, 1).fit(&graph).unwrap().selection;
    let singles = |component| {
        let mut trials = selection.trials.iter();
        trials
            .find(|trial| trial.components == [component])
            .unwrap()
    };
    let spectral = singles(Component::Spectral {
        regularisation: 0.0,
    })
    .score();
    let auc = selection.auc.unwrap();
    assert!(0.5 * (auc.uniform + auc.degree_matched) >= spectral && spectral > 0.7);
    let baselines = selection.baselines.unwrap();
    // Blocks have common neighbours, and all degrees are alike.
    assert!(
        baselines.common_neighbors.degree_matched > 0.8,
        "{baselines:?}"
    );
    assert!(
        baselines.degree_product.degree_matched < 0.65,
        "{baselines:?}"
    );
    let better: Vec<&str> = selection
        .better_baselines()
        .iter()
        .map(|better| better.0)
        .collect();
    for (name, other) in baselines.each() {
        let wins = other.uniform > auc.uniform || other.degree_matched > auc.degree_matched;
        assert_eq!(better.contains(&name), wins, "{name}");
    }
    let softmax: Vec<&Trial> = selection
        .trials
        .iter()
        .filter(|trial| matches!(trial.components[..], [Component::Softmax { .. }]))
        .collect();
    assert!(softmax.len() > 1 && softmax[0].score() > 0.6, "{softmax:?}");
    let of_one_order = Config {
        order: Order::Second,
        dim: 4,
        ..Config::default()
    };
    let selection = Line::new(of_one_order).fit(&graph).unwrap().selection;
    let mut trials = selection.trials.iter();
    let is_order = |component: &Component| matches!(component, Component::Line { .. });
    assert!(trials.all(|trial| trial.components.iter().all(is_order)));
}

/// The loss that the user names is tried alone, and what is chosen is trained on all edges.
#[test]
fn a_softmax_table_has_its_epochs_chosen() {
    let graph = blocks(5, 600, 3);
    let config = Config {
        dim: 4,
        ..Config::softmax()
    };
    let fitted = Line::new(config.clone()).fit(&graph).unwrap();
    let is_softmax = |component: &Component| matches!(component, Component::Softmax { .. });
    let mut trials = fitted.selection.trials.iter();
    assert!(trials.all(|trial| trial.components.iter().all(is_softmax)));
    let [Component::Softmax { epochs, .. }] = fitted.selection.components[..] else {
        panic!("{:?}", fitted.selection);
    };
    let edges: Vec<(u32, u32)> = graph.edges().collect();
    let store = Store::from_edges(100, &edges, 4, NodeLabels::numbers(100)).unwrap();
    let config = Config { epochs, ..config };
    let trained = train(&store, &config, &Device::host(), &mut |_| {}).unwrap();
    assert_eq!(fitted.embedding, trained.embedding);
}

#[test]
fn epochs_rise_by_doubling_and_those_of_softmax_by_less() {
    let orders = Family::Order(Order::Second);
    assert_eq!(trials::ladder(orders, 100), [5, 10, 20, 40, 80]);
    assert_eq!(trials::ladder(orders, 3), [3]);
    let of_softmax = trials::ladder(Family::Softmax, 100);
    assert_eq!(of_softmax, [2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96]);
    assert_eq!(trials::ladder(Family::Softmax, 1), [1]);
}

/// An order far behind the other is left, but not before a long trial.
#[test]
fn an_order_is_left_before_a_long_trial_alone() {
    let long = 1 << 22;
    assert!(trials::is_left(0.86, 0.9, long));
    assert!(!trials::is_left(0.88, 0.9, long));
    assert!(!trials::is_left(0.6, 0.9, 1 << 21));
}

/// The best single table is chosen, and one more beside it where that is better by .002.
#[test]
fn tables_stand_side_by_side_where_that_is_worth_their_columns() {
    let (mut n_joined, mut n_left_out) = (0, 0);
    for seed in 0..8 {
        let graph = blocks(8, 500, seed);
        let selection = line(20, seed).fit(&graph).unwrap().selection;
        let is_single = |trial: &&Trial| trial.components.len() == 1;
        let singles = selection.trials.iter().filter(is_single);
        let by_score = |a: &&Trial, b: &&Trial| a.score().total_cmp(&b.score());
        let mut chosen = singles.max_by(by_score).unwrap();
        for joined in selection.trials.iter().filter(|trial| !is_single(trial)) {
            assert_eq!(
                joined.components[..chosen.components.len()],
                chosen.components
            );
            match joined.score() > chosen.score() + 0.002 {
                true => (chosen, n_joined) = (joined, n_joined + 1),
                false => n_left_out += 1,
            }
        }
        assert_eq!(selection.components, chosen.components, "{seed}");
        assert_eq!(selection.auc, Some(chosen.auc), "{seed}");
    }
    assert!(n_joined > 0 && n_left_out > 0, "{n_joined} {n_left_out}");
}

/// Held-back edges are no part of what trials learn: in a random graph nothing tells them apart.
#[test]
fn held_back_edges_are_not_trained_on() {
    let mut stream = KeyedRng::new(1, "select test", 1);
    let mut node = || stream.below_u32(300);
    let edges: Vec<(u32, u32)> = (0..1500).map(|_| (node(), node())).collect();
    let graph = Graph::from_edges(300, &edges).unwrap();
    let config = Config {
        dim: 32,
        ..Config::default()
    };
    let select = SelectConfig {
        most_epochs: 40,
        ..SelectConfig::default()
    };
    let selection = Line::new(config)
        .selecting(select)
        .fit(&graph)
        .unwrap()
        .selection;
    assert!(selection.held_back_edges > 250);
    for trial in &selection.trials {
        assert!(trial.auc.degree_matched < 0.6, "{trial:?}");
    }
}

/// Trials of a small graph are short: an order climbs until more epochs bring nothing, however far
/// it is behind the other.
#[test]
fn an_order_is_not_left_while_its_trials_are_short() {
    let (mut n_behind, mut n_stopped) = (0, 0);
    for seed in 0..6 {
        let graph = blocks(12, 500, seed);
        let trials = line(100, seed).fit(&graph).unwrap().selection.trials;
        let of = |wanted: Order| -> Vec<f64> {
            let is_wanted = |trial: &&Trial| matches!(trial.components[..], [Component::Line { order, .. }] if order == wanted);
            trials.iter().filter(is_wanted).map(Trial::score).collect()
        };
        let (first, second) = (of(Order::First), of(Order::Second));
        n_behind += usize::from((first[0] - second[0]).abs() > 0.03);
        for scores in [first, second] {
            let best = |earlier: &[f64]| earlier.iter().copied().fold(0.0, f64::max);
            for at in 1..scores.len() {
                let is_better = scores[at] >= best(&scores[..at]) + 0.002;
                let is_last = at + 1 == scores.len();
                assert!(is_better || is_last, "{seed}: it went on: {scores:?}");
                assert!(
                    !is_better || !is_last || at == 4,
                    "{seed}: it stopped: {scores:?}"
                );
            }
            n_stopped += usize::from(scores.len() < 5);
        }
    }
    assert!(
        n_behind > 0 && n_stopped > 0,
        "no order was far behind, or none stopped: the test tells nothing"
    );
}

#[test]
fn threads_change_no_choice_and_no_bit() {
    let graph = blocks(5, 500, 2);
    let fit = |threads| {
        let config = Config {
            dim: 4,
            threads,
            ..Config::default()
        };
        let fitted = Line::new(config).parts(Some(4)).fit(&graph).unwrap();
        (fitted.selection.components, fitted.embedding)
    };
    assert_eq!(fit(1), fit(3));
}

#[test]
fn a_graph_with_few_edges_is_trained_on_without_a_choice() {
    let graph = Graph::from_edges(5, &[(0, 1), (1, 2), (3, 4)]).unwrap();
    let fitted = line(7, 1).fit(&graph).unwrap();
    assert_eq!(
        (fitted.selection.auc, fitted.selection.trials.len()),
        (None, 0)
    );
    assert_eq!(fitted.n_samples, 2 * 21);
    let complete: Vec<(u32, u32)> = (0..12).flat_map(|u| (0..u).map(move |v| (u, v))).collect();
    let complete = Graph::from_edges(12, &complete).unwrap();
    assert_eq!(line(7, 1).fit(&complete).unwrap().selection.auc, None);
}

#[test]
fn a_time_limit_leaves_trials_out_and_keeps_the_first() {
    let graph = blocks(4, 300, 1);
    let select = SelectConfig {
        time_limit_s: Some(1e-9),
        ..SelectConfig::default()
    };
    let selection = line(50, 1).selecting(select).fit(&graph).unwrap().selection;
    assert!(
        selection.is_cut_short && selection.trials.len() == 1,
        "{selection:?}"
    );
}

#[test]
fn settings_out_of_range_are_named() {
    let graph = blocks(3, 100, 1);
    let base = SelectConfig::default;
    for (select, reason) in [
        (
            SelectConfig {
                held_back: 0.0,
                ..base()
            },
            "held_back = 0",
        ),
        (
            SelectConfig {
                most_epochs: 0,
                ..base()
            },
            "epochs = 0",
        ),
        (
            SelectConfig {
                judged_edges: 0,
                ..base()
            },
            "judged_edges = 0",
        ),
        (
            SelectConfig {
                time_limit_s: Some(f64::NAN),
                ..base()
            },
            "time_limit = NaN",
        ),
    ] {
        let error = line(5, 1)
            .selecting(select)
            .fit(&graph)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(reason), "{error}");
    }
}
