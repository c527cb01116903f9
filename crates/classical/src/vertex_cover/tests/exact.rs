//! The optimum is one.

use proptest::prelude::*;

use super::{odd_graphs, random_graph, small_graph};
use crate::vertex_cover::{Budget, Limits, check_cover, clique_cover_bound, naive, optimum};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_is_as_small_as_the_best_of_all_subsets(graph in small_graph(14)) {
        let cover = optimum(&graph, &Limits::default(), &Budget::unlimited()).unwrap();
        check_cover(&graph, &cover).unwrap();
        prop_assert!(cover.is_sorted());
        let size = naive::cover_size(&graph);
        prop_assert_eq!(cover.len(), size);
        prop_assert!(clique_cover_bound(&graph) as usize <= size);
    }
}

#[test]
fn odd_shapes() {
    for (name, graph) in odd_graphs() {
        let cover = optimum(&graph, &Limits::default(), &Budget::unlimited()).unwrap();
        assert_eq!(cover.len(), naive::cover_size(&graph), "{name}");
    }
}

#[test]
fn limits_are_kept() {
    let graph = random_graph(90, 0.15, 2);
    let few = Limits {
        branches: 3,
        ..Limits::default()
    };
    assert_eq!(optimum(&graph, &few, &Budget::unlimited()), None);
    let over = Budget {
        clock: &|| 1.0,
        time_limit: Some(0.0),
        ..Budget::unlimited()
    };
    assert_eq!(optimum(&graph, &Limits::default(), &over), None);
}
