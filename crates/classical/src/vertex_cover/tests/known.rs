//! Real graphs whose optimum is known, from `shared/data/graphs` beside the checkout.

use std::path::Path;

use shardgraph_graph::{Graph, ReadOptions, builtin, read_graph};

use crate::vertex_cover::{
    Budget, Limits, Rules, SearchOptions, check_cover, edge_greedy, improve, optimum, reduce,
    reduce_and_peel,
};

/// The graph, or a printed skip.
fn real_graph(file: &str) -> Option<Graph> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphs");
    let path = folder.join(file);
    if !path.is_file() {
        println!("SKIPPED: {file} (no file {})", path.display());
        return None;
    }
    Some(read_graph(&path, &ReadOptions::default()).unwrap().graph)
}

#[test]
fn built_in_graphs() {
    for name in builtin::names() {
        let graph = builtin::by_name(name).unwrap();
        let expected = builtin::minimum_vertex_cover(name).unwrap();
        let cover = optimum(&graph, &Limits::default(), &Budget::unlimited()).unwrap();
        check_cover(&graph, &cover).unwrap();
        assert_eq!(cover.len(), expected as usize, "{name}");
    }
}

#[test]
fn sparse_real_graphs_are_solved_by_reductions_and_a_greedy_cover() {
    for (file, expected) in [
        ("wiki-Vote.txt.gz", 2249),
        ("ca-GrQc.txt.gz", 2783),
        ("facebook_combined.txt.gz", 2993),
        ("vc-exact_001.gr.gz", 2586),
    ] {
        let Some(graph) = real_graph(file) else {
            continue;
        };
        for rules in [Rules::all(), Rules::removing()] {
            let reduction = reduce(&graph, &rules, &Budget::unlimited());
            let kernel = reduction.kernel();
            let greedy = reduce_and_peel(kernel, &rules, &Budget::unlimited());
            let lifted = reduction.lift(&greedy).unwrap();
            check_cover(&graph, &lifted).unwrap();
            println!(
                "{file}: kernel {} nodes {} edges, cover {}, {:?}",
                kernel.n_nodes(),
                kernel.n_edges(),
                lifted.len(),
                reduction.counts()
            );
            assert!(
                lifted.len() >= expected,
                "{file}: {} is below the optimum",
                lifted.len()
            );
            assert!(lifted.len() <= expected + 12, "{file}: {}", lifted.len());
            if kernel.n_nodes() == 0 {
                assert_eq!(lifted.len(), expected, "{file}");
            }
        }
    }
}

#[test]
fn hard_random_graphs_are_covered_by_search() {
    for (file, expected) in [("frb30-15-1.mis", 420), ("frb35-17-1.mis", 560)] {
        let Some(graph) = real_graph(file) else {
            continue;
        };
        let options = SearchOptions {
            steps: 200_000,
            ..SearchOptions::default()
        };
        let found = improve(&graph, &edge_greedy(&graph), &options, &Budget::unlimited()).unwrap();
        check_cover(&graph, &found.cover).unwrap();
        assert!(
            (expected..=expected + 2).contains(&found.cover.len()),
            "{file}: {}",
            found.cover.len()
        );
    }
}
