//! Random graph models: their sizes, their statistics, and that the seed decides everything.

use proptest::prelude::*;
use shardgraph_graph::{EdgeSink, Error, Graph, generate::GeneratorSpec};

fn spec(text: &str) -> GeneratorSpec {
    text.parse().unwrap()
}

fn graph(text: &str, seed: u64) -> Graph {
    spec(text).graph(seed).unwrap()
}

/// Keeps the listed edges in order.
#[derive(Default)]
struct Listed(Vec<(u32, u32)>);

impl EdgeSink for Listed {
    fn edge(&mut self, u: u32, v: u32, weight: f32) -> Result<(), Error> {
        assert!(u != v && weight.to_bits() == 1f32.to_bits());
        self.0.push((u, v));
        Ok(())
    }
}

fn listed(text: &str, seed: u64) -> Vec<(u32, u32)> {
    let mut listed = Listed::default();
    spec(text).stream(seed, &mut listed).unwrap();
    listed.0
}

const ALL: [&str; 6] = [
    "er:200:0.1",
    "ba:200:4",
    "ws:200:6:0.2",
    "sbm:200:4:0.2:0.02",
    "rb:10:8:0.25:2",
    "cl:200:6:2.5",
];

#[test]
fn the_seed_decides() {
    for text in ALL {
        assert_eq!(listed(text, 7), listed(text, 7), "{text}");
        assert_ne!(graph(text, 7), graph(text, 8), "{text}");
        assert_eq!(graph(text, 7).n_nodes(), spec(text).n_nodes(), "{text}");
    }
}

/// Pinned, so that no change of a generator goes unnoticed: published results name a specification and a seed.
#[test]
fn graphs_are_stable() {
    let hash = |text: &str| {
        let step = |hash: u64, (u, v): (u32, u32)| {
            (hash ^ u64::from(u) << 32 ^ u64::from(v))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        graph(text, 1).edges().fold(0, step)
    };
    assert_eq!(
        ALL.map(hash),
        [
            17_972_661_029_022_562_438,
            3_274_577_663_507_488_966,
            12_541_844_368_270_570_789,
            2_637_517_920_565_983_128,
            10_126_670_537_801_082_359,
            6_751_993_099_983_757_419
        ]
    );
}

#[test]
fn edge_counts_are_as_expected() {
    for text in [
        "er:2000:0.15",
        "er:3000:0.0001",
        "ba:2000:5",
        "ws:2000:10:0.3",
        "sbm:1000:7:0.2:0.01",
        "sbm:1000:1:0.1:0.9",
        "rb:30:15:0.25:2.78",
        "cl:2000:6:9",
    ] {
        let expected = spec(text).expected_edges();
        let mean = (0..4)
            .map(|seed| graph(text, seed).n_edges() as f64)
            .sum::<f64>()
            / 4.0;
        let tolerance = 4.0 * (expected / 4.0).sqrt();
        assert!(
            (mean - expected).abs() < tolerance,
            "{text}: {mean} for {expected}"
        );
    }
}

#[test]
fn erdos_renyi_rows_ascend_and_extremes_are_exact() {
    for text in ["er:300:0.15", "sbm:300:5:0.3:0.05"] {
        let edges = listed(text, 3);
        assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{text}");
        assert!(edges.iter().all(|(u, v)| u < v), "{text}");
    }
    assert_eq!(graph("er:50:0", 1).n_edges(), 0);
    assert_eq!(graph("er:50:1", 1).n_edges(), 50 * 49 / 2);
    assert_eq!(graph("er:0:0.5", 1).n_nodes(), 0);
    assert_eq!(graph("er:1:1", 1).n_edges(), 0);
    assert_eq!(graph("er:1000:1e-300", 1).n_edges(), 0);
}

#[test]
fn chung_lu_has_hubs_and_extremes() {
    let graph = graph("cl:3000:10:2.3", 1);
    let degrees = graph.degrees();
    assert!(graph.max_degree() > 300, "{}", graph.max_degree());
    let n_small = degrees.iter().filter(|&&degree| degree <= 5).count();
    assert!(n_small > 1000, "{n_small}");
    assert_eq!(self::graph("cl:1:0:3", 1).n_edges(), 0);
    assert_eq!(self::graph("cl:40:0:3", 1).n_edges(), 0);
    // All weights alike, and as large as they may be: nearly all pairs.
    assert!(self::graph("cl:40:39:100", 1).n_edges() > 600);
}

/// Every pair is as likely as every other: counts over many small graphs.
#[test]
fn erdos_renyi_pairs_are_equally_likely() {
    let mut counts = [[0u32; 6]; 6];
    for seed in 0..4000 {
        for (u, v) in listed("er:6:0.3", seed) {
            counts[u as usize][v as usize] += 1;
        }
    }
    let above = counts.iter().enumerate().flat_map(|(u, row)| &row[u + 1..]);
    for &count in above {
        assert!((1200 - 150..1200 + 150).contains(&count), "{counts:?}");
    }
}

#[test]
fn barabasi_albert_attaches_m_and_grows_hubs() {
    let edges = listed("ba:2000:4", 2);
    assert_eq!(edges.len(), 4 * (2000 - 4));
    let graph = graph("ba:2000:4", 2);
    assert_eq!(graph.n_edges() as usize, edges.len());
    for v in 5..2000u32 {
        let earlier = graph.neighbors(v).iter().filter(|&&u| u < v).count();
        assert_eq!(earlier, 4, "node {v}");
    }
    // An Erdos-Renyi graph of this density has no degree above 30.
    assert!(graph.max_degree() > 60, "{}", graph.max_degree());
    assert_eq!(
        self::graph("ba:5:4", 1),
        Graph::from_edges(5, &[(0, 1), (0, 2), (0, 3), (0, 4)]).unwrap()
    );
}

#[test]
fn watts_strogatz_goes_from_ring_to_random() {
    let ring = graph("ws:50:4:0", 1);
    for u in 0..50u32 {
        let mut expected = [(u + 1) % 50, (u + 2) % 50, (u + 48) % 50, (u + 49) % 50];
        expected.sort_unstable();
        assert_eq!(ring.neighbors(u), expected);
    }
    let kept = |p: &str| {
        let graph = graph(&format!("ws:2000:6:{p}"), 5);
        assert_eq!(graph.n_edges(), 6000);
        let is_near = |&(u, v): &(u32, u32)| (v - u).min(u + 2000 - v) <= 3;
        graph.edges().filter(is_near).count() as f64 / 6000.0
    };
    assert!((kept("0.3") - 0.7).abs() < 0.03, "{}", kept("0.3"));
    assert!(kept("1") < 0.02, "{}", kept("1"));
    // A complete ring cannot be rewired.
    assert_eq!(graph("ws:5:4:1", 1).n_edges(), 10);
    assert_eq!(graph("ws:1:0:1", 1).n_edges(), 0);
}

#[test]
fn stochastic_blocks_have_their_two_densities() {
    let graph = graph("sbm:1003:4:0.3:0.02", 9);
    // Blocks of 251, 251, 251 and 250 nodes.
    let block = |v: u32| (v / 251).min(3);
    let (mut inside, mut outside) = (0.0, 0.0);
    for (u, v) in graph.edges() {
        *if block(u) == block(v) {
            &mut inside
        } else {
            &mut outside
        } += 1.0;
    }
    let pairs_inside = 3.0 * 251.0 * 250.0 / 2.0 + 250.0 * 249.0 / 2.0;
    let pairs_outside = 1003.0 * 1002.0 / 2.0 - pairs_inside;
    assert!((inside / pairs_inside - 0.3f64).abs() < 0.01);
    assert!((outside / pairs_outside - 0.02f64).abs() < 0.001);
}

#[test]
fn model_rb_plants_one_node_of_each_clique() {
    for seed in 0..20 {
        for text in [
            "rb:10:8:0.25:2",
            "rb:30:15:0.25:2.78",
            "rb:2:2:1:5",
            "rb:1:4:0.5:1",
            "rb:7:1:1:3",
        ] {
            let spec = spec(text);
            let graph = spec.graph(seed).unwrap();
            let planted = spec.planted_independent_set(seed).unwrap();
            let GeneratorSpec::ModelRb {
                n_cliques,
                clique_size,
                ..
            } = spec
            else {
                panic!("not Model RB")
            };
            assert_eq!(planted.len() as u32, n_cliques, "{text}");
            for (clique, &u) in (0..).zip(&planted) {
                assert_eq!(u / clique_size, clique, "{text}");
                assert!(
                    planted.iter().all(|&v| !graph.has_edge(u, v)),
                    "{text} seed {seed}"
                );
            }
            // No independent set is larger, since the nodes are covered by that many cliques.
            for u in 0..graph.n_nodes() {
                let first = u / clique_size * clique_size;
                assert!((first..first + clique_size).all(|v| v == u || graph.has_edge(u, v)));
            }
        }
    }
    assert!(spec("er:5:0.5").planted_independent_set(1).is_none());
}

/// The published files have 17827 and 27856 edges at n = 30 and 35, alpha 0.8, r 0.8 / ln(4/3), p 0.25.
#[test]
fn model_rb_matches_the_published_benchmark() {
    for (text, published) in [
        ("rb:30:15:0.25:2.78", 17827.0),
        ("rb:35:17:0.25:2.78", 27856.0),
    ] {
        let n_edges = graph(text, 1).n_edges() as f64;
        assert!(
            (n_edges / published - 1.0).abs() < 0.03,
            "{text}: {n_edges}"
        );
    }
}

#[test]
fn specifications_are_printed_as_they_are_read() {
    for text in ALL {
        assert_eq!(spec(text).to_string(), text);
    }
}

#[test]
fn wrong_specifications_name_the_field() {
    for (text, fragment) in [
        ("", "unknown graph model ``: expected one of er:n:p, ba:n:m"),
        ("xy:3:4", "unknown graph model `xy`"),
        (
            "er:30",
            "`er:30` has 1 fields: expected er:n:p, such as er:3000:0.15",
        ),
        ("er:30:0.1:4", "has 3 fields"),
        (
            "er:x:0.1",
            "field `n` of er:n:p: expected a whole number, found `x` (an example: er:3000:0.15)",
        ),
        ("er:-1:0.1", "field `n` of er:n:p"),
        (
            "er:4294967295:0.1",
            "field `n` of er:n:p: expected a whole number from 0 to 4294967294",
        ),
        (
            "er:99999999999:0.1",
            "field `n` of er:n:p: expected a whole number",
        ),
        (
            "er:30:1.5",
            "field `p` of er:n:p: expected a number from 0 to 1, found `1.5`",
        ),
        (
            "er:30:nan",
            "field `p` of er:n:p: expected a number from 0 to 1, found `NaN`",
        ),
        (
            "er:30:p",
            "field `p` of er:n:p: expected a number, found `p`",
        ),
        (
            "ba:10:0",
            "field `m` of ba:n:m: expected a whole number from 1 to 9, found `0`",
        ),
        ("ba:10:10", "field `m` of ba:n:m"),
        ("ba:0:1", "field `n` of ba:n:m"),
        (
            "ws:10:3:0.1",
            "field `k` of ws:n:k:p: expected an even number, found `3`",
        ),
        ("ws:10:10:0.1", "field `k` of ws:n:k:p"),
        ("ws:10:4:-0.1", "field `p` of ws:n:k:p"),
        (
            "sbm:10:0:0.1:0.1",
            "field `blocks` of sbm:n:blocks:p_in:p_out",
        ),
        ("sbm:10:11:0.1:0.1", "field `blocks`"),
        ("sbm:10:2:0.1:7", "field `p_out` of sbm:n:blocks:p_in:p_out"),
        ("rb:0:5:0.1:1", "field `cliques` of rb:cliques:size:p:r"),
        (
            "rb:100000:100000:0.1:1",
            "field `size` of rb:cliques:size:p:r",
        ),
        ("rb:10:5:2:1", "field `p` of rb:cliques:size:p:r"),
        ("rb:10:5:0.1:inf", "field `r` of rb:cliques:size:p:r"),
        ("cl:10:10:3", "field `mean` of cl:n:mean:exponent"),
        ("cl:10:3:2", "field `exponent` of cl:n:mean:exponent"),
    ] {
        let error = text.parse::<GeneratorSpec>().unwrap_err();
        assert!(error.to_string().contains(fragment), "{text}: {error}");
    }
    let unchecked = GeneratorSpec::ErdosRenyi { n_nodes: 5, p: 2.0 };
    assert!(unchecked.graph(1).is_err());
}

proptest! {
    #[test]
    fn no_specification_panics(text in "(er|ba|ws|sbm|rb)(:[0-9]{1,2}|:0\\.[0-9]|:-1|:x){0,5}") {
        if let Ok(spec) = text.parse::<GeneratorSpec>() {
            let graph = spec.graph(1).unwrap();
            prop_assert_eq!(graph.n_nodes(), spec.n_nodes());
        }
    }
}
