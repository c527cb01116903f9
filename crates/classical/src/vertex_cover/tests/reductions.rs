//! Reducing and lifting keeps the optimum, whichever rules are on.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use proptest::prelude::*;
use shardgraph_graph::Graph;

use super::{odd_graphs, random_graph, small_graph};
use crate::vertex_cover::{
    Budget, Reduction, Rules, check_cover, naive, optimum, reduce, reduce_given,
};

/// Each rule alone, and sets of them; of the known cover, an exact and a loose size.
fn rule_sets(optimum: u32) -> Vec<(&'static str, Rules)> {
    let only = |turn_on: &dyn Fn(&mut Rules)| {
        let mut rules = Rules::none();
        turn_on(&mut rules);
        rules
    };
    let knowing = |known_cover: u32, rules: Rules| Rules {
        known_cover: Some(known_cover),
        ..rules
    };
    vec![
        ("none", Rules::none()),
        ("degree one", only(&|rules| rules.degree_one = true)),
        ("triangle", only(&|rules| rules.triangle = true)),
        ("fold", only(&|rules| rules.fold = true)),
        ("funnel", only(&|rules| rules.funnel = true)),
        ("struction", only(&|rules| rules.struction = true)),
        ("domination", only(&|rules| rules.domination = true)),
        ("unconfined", only(&|rules| rules.unconfined = true)),
        ("linear program", only(&|rules| rules.linear_program = true)),
        ("known cover", knowing(optimum, Rules::none())),
        ("loosely known", knowing(optimum + 2, Rules::none())),
        ("removing", Rules::removing()),
        ("all", Rules::all()),
        ("all, known cover", knowing(optimum, Rules::all())),
    ]
}

/// What holds for every reduction: the counts, the offset for any set, covers lift to covers, forced nodes are in all of them.
fn assert_consistent(graph: &Graph, reduction: &Reduction, what: &str) {
    let kernel = reduction.kernel();
    let n_removed = u64::from(graph.n_nodes() - kernel.n_nodes());
    assert_eq!(reduction.counts().total(), n_removed, "{what}");
    assert!(reduction.old_ids().is_sorted(), "{what}");
    let all: Vec<u32> = (0..kernel.n_nodes()).collect();
    let greedy = crate::vertex_cover::edge_greedy(kernel);
    let forced = reduction.forced();
    for cover in [&all, &greedy] {
        let lifted = reduction.lift(cover).unwrap();
        check_cover(graph, &lifted).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(
            lifted.len(),
            cover.len() + reduction.offset() as usize,
            "{what}"
        );
        assert!(
            forced.iter().all(|v| lifted.binary_search(v).is_ok()),
            "{what}"
        );
    }
    let half: Vec<u32> = all.iter().copied().filter(|v| v % 2 == 0).collect();
    let grown = reduction.lift(&half).unwrap();
    assert_eq!(
        grown.len(),
        half.len() + reduction.offset() as usize,
        "{what}"
    );
}

fn assert_keeps_the_optimum(graph: &Graph, what: &str) {
    let size = naive::cover_size(graph);
    for (rules_name, rules) in rule_sets(size as u32) {
        let what = format!("{what}, {rules_name}");
        let reduction = reduce(graph, &rules, &Budget::unlimited());
        assert_consistent(graph, &reduction, &what);
        let kernel_size = naive::cover_size(reduction.kernel());
        assert_eq!(kernel_size + reduction.offset() as usize, size, "{what}");
        assert!(reduction.is_complete());
        assert!(reduction.lower_bound() as usize <= size, "{what}");
        if !rules.fold && !rules.funnel && !rules.struction {
            assert_is_part(graph, &reduction, &what);
        }
        // Nothing is left for the same rules to do.
        let room = rules
            .known_cover
            .map(|k| k.saturating_sub(reduction.offset()));
        let rest = Rules {
            known_cover: room,
            ..rules
        };
        let again = reduce(reduction.kernel(), &rest, &Budget::unlimited());
        assert_eq!(again.kernel(), reduction.kernel(), "{what}");
    }
}

/// Rules that only remove leave a part of the graph.
fn assert_is_part(graph: &Graph, reduction: &Reduction, what: &str) {
    let (kernel, old) = (reduction.kernel(), reduction.old_ids());
    for u in 0..kernel.n_nodes() {
        for v in 0..u {
            let was_edge = graph.has_edge(old[u as usize], old[v as usize]);
            assert_eq!(kernel.has_edge(u, v), was_edge, "{what}");
        }
    }
    // What is in no lifted cover and what is in all of them are all that is gone.
    let n_forced = reduction.forced().len() as u32;
    assert_eq!(n_forced, reduction.offset(), "{what}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_rule_keeps_the_optimum(graph in small_graph(12)) {
        assert_keeps_the_optimum(&graph, "random");
    }

    #[test]
    fn each_rule_keeps_the_optimum_of_sparse_graphs(n in 0..16u32, degree in 0.5..3.5f64, seed in any::<u64>()) {
        assert_keeps_the_optimum(&random_graph(n, degree / 16.0, seed), "sparse");
    }

    #[test]
    fn larger_graphs_keep_their_optimum(n in 20..45u32, degree in 1.0..5.0f64, seed in any::<u64>()) {
        let graph = random_graph(n, degree / f64::from(n), seed);
        let limits = crate::vertex_cover::Limits::default();
        let best = optimum(&graph, &limits, &Budget::unlimited()).unwrap();
        for (name, rules) in rule_sets(best.len() as u32) {
            let reduction = reduce(&graph, &rules, &Budget::unlimited());
            assert_consistent(&graph, &reduction, name);
            let kernel = optimum(reduction.kernel(), &limits, &Budget::unlimited()).unwrap();
            let lifted = reduction.lift(&kernel).unwrap();
            prop_assert_eq!(lifted.len(), best.len(), "{}", name);
        }
    }

    #[test]
    fn given_nodes_leave_bound_and_lifting_right(graph in small_graph(12), given in any::<u32>()) {
        let size = naive::cover_size(&graph);
        let given: Vec<u32> = (0..graph.n_nodes()).filter(|v| given >> v & 1 == 1).collect();
        for rules in [Rules::all(), Rules::removing(), Rules::none()] {
            let reduction = reduce_given(&graph, &given, &rules, &Budget::unlimited()).unwrap();
            prop_assert!(reduction.lower_bound() as usize <= size);
            let kernel = optimum(reduction.kernel(), &Default::default(), &Budget::unlimited()).unwrap();
            let lifted = reduction.lift(&kernel).unwrap();
            check_cover(&graph, &lifted).unwrap();
            prop_assert!(given.iter().all(|v| lifted.contains(v)));
            prop_assert_eq!(lifted.len(), naive::cover_size_with(&graph, &given));
        }
    }

    #[test]
    fn graphs_of_every_density_stay_consistent(n in 0..300u32, degree in 0.0..12.0f64, seed in any::<u64>()) {
        let graph = random_graph(n, degree / f64::from(n.max(1)), seed);
        for (name, rules) in rule_sets(n) {
            assert_consistent(&graph, &reduce(&graph, &rules, &Budget::unlimited()), name);
        }
    }
}

#[test]
fn odd_shapes_keep_their_optimum() {
    for (name, graph) in odd_graphs() {
        assert_keeps_the_optimum(&graph, name);
        let all = reduce(&graph, &Rules::all(), &Budget::unlimited());
        assert_eq!(all.kernel().n_nodes(), 0, "{name}");
    }
}

#[test]
fn each_rule_does_its_own_work() {
    let cycle = |n: u32| {
        let edges: Vec<(u32, u32)> = (0..n).map(|v| (v, (v + 1) % n)).collect();
        Graph::from_edges(n, &edges).unwrap()
    };
    let count = |graph: &Graph, name: &str| {
        let sets = rule_sets(naive::cover_size(graph) as u32);
        let rules = sets.into_iter().find(|(set, _)| *set == name).unwrap().1;
        let reduction = reduce(graph, &rules, &Budget::unlimited());
        (reduction.kernel().n_nodes(), reduction.offset())
    };
    let path = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)]).unwrap();
    assert_eq!(count(&path, "degree one"), (0, 2));
    assert_eq!(count(&path, "domination"), (0, 2));
    assert_eq!(count(&cycle(3), "triangle"), (0, 2));
    assert_eq!(count(&cycle(5), "triangle"), (5, 0));
    // Folding leaves a cycle of three, then a triangle it must not touch.
    assert_eq!(count(&cycle(5), "fold"), (3, 1));
    // The far ends of a funnel are joined: a triangle again.
    assert_eq!(count(&cycle(5), "funnel"), (3, 1));
    // And so are the two nodes beyond the one that stands for its two neighbours.
    assert_eq!(count(&cycle(5), "struction"), (0, 3));
    assert_eq!(count(&cycle(6), "linear program"), (0, 3));
    assert_eq!(count(&cycle(5), "domination"), (5, 0));
    assert_eq!(count(&cycle(5), "unconfined"), (0, 3));
    assert_eq!(count(&cycle(4), "unconfined"), (4, 0));
    let star = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)]).unwrap();
    assert_eq!(count(&star, "known cover"), (0, 1));
    assert_eq!(count(&star, "loosely known"), (4, 0));
}

#[test]
fn the_leaves_of_a_star_do_not_raise_its_bound() {
    let star = Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)]).unwrap();
    let rules = Rules::all();
    let reduction = reduce_given(&star, &[1, 2, 3], &rules, &Budget::unlimited()).unwrap();
    assert_eq!((reduction.offset(), reduction.lower_bound()), (3, 0));
}

#[test]
fn a_deadline_leaves_what_can_be_lifted() {
    let graph = random_graph(2000, 0.002, 1);
    for n_ticks in [0, 1, 3, 10, 1000] {
        let n_looks = AtomicU32::new(0);
        let clock = || f64::from(n_looks.fetch_add(1, Relaxed));
        let budget = Budget {
            clock: &clock,
            time_limit: Some(f64::from(n_ticks)),
            ..Budget::unlimited()
        };
        let reduction = reduce(&graph, &Rules::all(), &budget);
        assert_consistent(&graph, &reduction, "late");
        assert_eq!(reduction.is_complete(), n_ticks == 1000);
    }
}

#[test]
fn lists_that_are_no_sets_of_the_kernel_are_refused() {
    let graph = random_graph(40, 0.2, 1);
    let reduction = reduce(&graph, &Rules::none(), &Budget::unlimited());
    let n = reduction.kernel().n_nodes();
    let message = |cover: &[u32]| reduction.lift(cover).unwrap_err().to_string();
    assert!(message(&[n]).contains("does not exist"));
    assert_eq!(message(&[0, 0]), "node 0 is listed twice");
}
