//! Inference in every way of sharing neighbour sums, and with every pair of layers, on 1 to 6 ranks.

use std::sync::Arc;

use shardgraph_collectives::{Comm, tcp};
use shardgraph_error::Class;
use shardgraph_graph::Graph;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_shard::{Adjacency, Communication, Storage};

use crate::problem::{MAXIMUM_CUT, MAXIMUM_INDEPENDENT_SET, MINIMUM_DOMINATING_SET, Problem};
use crate::{
    AdjacencyScale, EmbeddingKind, EmbeddingPath, HeadKind, PaperModel, PolicyConfig, Select,
    SolveOptions, TrainedPolicy, score_nodes, solve, solve_as_rank, solve_problem, solve_problems,
};

pub(crate) const LAYERS: [(EmbeddingKind, HeadKind); 4] = [
    (EmbeddingKind::STRUCTURE2VEC, HeadKind::Q),
    (EmbeddingKind::GRAPH_SAGE, HeadKind::Q),
    (EmbeddingKind::STRUCTURE2VEC, HeadKind::MLP),
    (EmbeddingKind::GRAPH_SAGE, HeadKind::MLP),
];

fn graph(spec: &str) -> Graph {
    spec.parse::<GeneratorSpec>().unwrap().graph(5).unwrap()
}

/// Weights that let no two scores be equal by symmetry.
fn with_weights(graph: &Graph) -> Graph {
    let mut stream = shardgraph_random::KeyedRng::new(3, "weights", 0);
    let mut edges = Vec::new();
    for u in 0..graph.n_nodes() {
        let above = graph.neighbors(u).iter().filter(|&&v| v > u);
        edges.extend(above.map(|&v| (u, v, 0.5 + stream.uniform_f64() as f32)));
    }
    Graph::from_weighted_edges(graph.n_nodes(), &edges).unwrap()
}

fn policy(problem: &Problem, n_layers: usize, layers: (EmbeddingKind, HeadKind)) -> TrainedPolicy {
    let config = PolicyConfig::of_problem(problem, 6, n_layers, AdjacencyScale::LargestDegree);
    TrainedPolicy::random(config.with_layers(layers.0, layers.1), 7, 0.4).unwrap()
}

fn on(n_ranks: u32, communication: Communication) -> SolveOptions {
    SolveOptions {
        n_ranks,
        communication: Some(communication),
        ..SolveOptions::default()
    }
}

/// Sparse, dense (a bit matrix), weighted, odd and tiny.
fn graphs() -> Vec<Adjacency> {
    let mut all = ["er:90:0.05", "er:70:0.3", "ba:33:3", "ws:42:4:0.1"]
        .map(graph)
        .to_vec();
    all.push(with_weights(&graph("er:65:0.1")));
    all.push(Graph::from_edges(7, &[(0, 6)]).unwrap());
    all.push(Graph::from_edges(1, &[]).unwrap());
    all.push(Graph::from_edges(0, &[]).unwrap());
    all.into_iter().map(Adjacency::from_graph).collect()
}

#[test]
fn gather_and_halo_have_the_bits_of_one_rank_and_the_others_their_rounding() {
    let mvc = &crate::problem::MINIMUM_VERTEX_COVER;
    let policy = policy(mvc, 3, LAYERS[0]);
    let graphs = graphs();
    assert!(graphs.iter().any(|graph| graph.storage() == Storage::Bits));
    for graph in &graphs {
        let alone = score_nodes(graph, &policy, &SolveOptions::default()).unwrap();
        let size = alone
            .values
            .iter()
            .filter(|x| !x.is_nan())
            .fold(0.1f32, |m, x| m.max(x.abs()));
        let cover = solve(graph, &policy, &SolveOptions::default(), &mut |_, _| ())
            .unwrap()
            .nodes;
        for communication in Communication::ALL {
            for n_ranks in 1..=6 {
                let options = on(n_ranks, communication);
                let scores = score_nodes(graph, &policy, &options).unwrap();
                let exchange = scores.exchange.unwrap();
                assert_eq!(exchange.communication, communication);
                for (got, want) in scores.values.iter().zip(&alone.values) {
                    let near = (got - want).abs() <= 1e-5 * size || (got.is_nan() && want.is_nan());
                    assert!(near, "{communication}, {n_ranks} ranks: {got} {want}");
                    if communication.is_exact() {
                        assert_eq!(got.to_bits(), want.to_bits());
                    }
                }
                let found = solve(graph, &policy, &options, &mut |_, _| ()).unwrap();
                if communication.is_exact() {
                    assert_eq!(found.nodes, cover, "{communication}, {n_ranks} ranks");
                }
            }
        }
    }
}

/// Away from ties the ways that add floats over ranks pick the same nodes too.
#[test]
fn all_ways_find_one_answer_where_nothing_is_tied() {
    for (problem, layers) in [
        (&crate::problem::MINIMUM_VERTEX_COVER, LAYERS[0]),
        (&MAXIMUM_CUT, LAYERS[3]),
        (&MAXIMUM_CUT, LAYERS[1]),
    ] {
        let graph = Arc::new(with_weights(&graph("er:80:0.15")));
        let policy = policy(problem, 3, layers);
        let is_cover = problem.name == "mvc";
        let adjacency = Adjacency::from_graph((*graph).clone());
        let nodes = |options: &SolveOptions| match is_cover {
            true => {
                solve(&adjacency, &policy, options, &mut |_, _| ())
                    .unwrap()
                    .nodes
            }
            false => {
                solve_problem(problem, &graph, &policy, options, &mut |_, _| ())
                    .unwrap()
                    .nodes
            }
        };
        let want = nodes(&SolveOptions::default());
        for communication in Communication::ALL {
            for n_ranks in 2..=6 {
                assert_eq!(
                    nodes(&on(n_ranks, communication)),
                    want,
                    "{communication}, {n_ranks}"
                );
            }
        }
    }
}

#[test]
fn every_pair_of_layers_solves_alike_on_ranks() {
    for problem in [&MAXIMUM_INDEPENDENT_SET, &MINIMUM_DOMINATING_SET] {
        let graphs = ["er:66:0.1", "ba:40:2"].map(|spec| Arc::new(graph(spec)));
        for layers in LAYERS {
            let policy = policy(problem, 2, layers);
            let options = |n_ranks| SolveOptions {
                n_ranks,
                select: Select::Fixed(2),
                ..SolveOptions::default()
            };
            let answers = |options: &SolveOptions| {
                let all = solve_problems(problem, &graphs, &policy, options, &mut |_, _| ());
                all.unwrap()
                    .into_iter()
                    .map(|answer| answer.nodes)
                    .collect::<Vec<_>>()
            };
            let want = answers(&options(1));
            for n_ranks in 2..=6 {
                assert_eq!(
                    answers(&options(n_ranks)),
                    want,
                    "{layers:?}, {n_ranks} ranks"
                );
                if layers.0 == EmbeddingKind::GRAPH_SAGE {
                    let halo = SolveOptions {
                        communication: Some(Communication::Halo),
                        ..options(n_ranks)
                    };
                    assert_eq!(answers(&halo), want, "{layers:?}, {n_ranks} ranks, halo");
                }
            }
        }
    }
}

/// A path's ranks need a neighbour or two; of a dense graph they need all rows. The counts are those of the formulas.
#[test]
fn what_is_received_is_counted() {
    let n = 64 * 4u32;
    let path: Vec<(u32, u32)> = (1..n).map(|v| (v - 1, v)).collect();
    let path = Adjacency::Csr(Graph::from_edges(n, &path).unwrap().into());
    let mvc = &crate::problem::MINIMUM_VERTEX_COVER;
    let (k, policy) = (6u64, policy(mvc, 3, LAYERS[0]));
    let received = |communication, n_ranks| {
        let options = SolveOptions {
            path: Some(EmbeddingPath::General),
            ..on(n_ranks, communication)
        };
        let exchange = score_nodes(&path, &policy, &options)
            .unwrap()
            .exchange
            .unwrap();
        (exchange.received_bytes.unwrap(), exchange.matrix_bytes)
    };
    let n = u64::from(n);
    let (gather, gather_bytes) = received(Communication::Gather, 4);
    let row_bytes = 3 * k * 4; // three sums of K numbers
    // What does not depend on the way: degrees and the like.
    let rest = gather - row_bytes * n * 3 / 4;
    assert!(rest < 8 * n, "{rest}");
    assert_eq!(
        received(Communication::ColumnAllReduce, 4).0,
        rest + row_bytes * 2 * n * 3 / 4
    );
    assert_eq!(
        received(Communication::Grid, 4).0,
        rest + row_bytes * 2 * n / 4
    );
    let (halo, halo_bytes) = received(Communication::Halo, 4);
    assert_eq!(halo, rest + row_bytes * 2);
    assert_eq!(gather_bytes, halo_bytes); // the same entries, by other numbers
    assert_eq!(
        received(Communication::Gather, 1),
        (0, 8 * (n + 1) + 4 * 2 * (n - 1))
    );
    let shape = policy.config.shape();
    let model = PaperModel::of_state(4, 256, 255, shape);
    assert_eq!(model.evaluation_bytes(), 4 * (3 * k * n + k));
    assert_eq!(model.matrix_bytes(), 20 * 510 / 4);
}

#[test]
fn a_way_without_use_is_refused() {
    let karate = Adjacency::from_graph(shardgraph_graph::builtin::by_name("karate").unwrap());
    let shipped = TrainedPolicy::shipped().unwrap();
    let error = solve(
        &karate,
        &shipped,
        &on(2, Communication::Halo),
        &mut |_, _| (),
    )
    .unwrap_err();
    assert_eq!(error.class(), Class::Input);
    assert!(
        error.to_string().contains("communication `halo`"),
        "{error}"
    );
    let error = score_nodes(&karate, &shipped, &on(1, Communication::Gather)).unwrap_err();
    assert_eq!(error.class(), Class::Input);
    let mis = TrainedPolicy::shipped_for(&MAXIMUM_INDEPENDENT_SET).unwrap();
    let graph = Arc::new(graph("er:20:0.2"));
    let options = on(3, Communication::Grid);
    let error = solve_problem(
        &MAXIMUM_INDEPENDENT_SET,
        &graph,
        &mis,
        &options,
        &mut |_, _| (),
    );
    assert_eq!(error.unwrap_err().class(), Class::Input);
}

/// Processes have no memory in common; those that want different ways are told so.
#[test]
fn processes_share_sums_too() {
    let graph = Adjacency::from_graph(graph("er:60:0.08"));
    let mvc = &crate::problem::MINIMUM_VERTEX_COVER;
    let policy = policy(mvc, 3, LAYERS[2]);
    let as_rank = |comm: &mut Comm, communication| {
        let options = on(1, communication);
        solve_as_rank(comm, &graph, &policy, &options, &mut |_, _| ())
    };
    for communication in Communication::ALL {
        let want = solve(&graph, &policy, &on(3, communication), &mut |_, _| ()).unwrap();
        for found in tcp::run(3, |mut comm| as_rank(&mut comm, communication)) {
            let found = found.unwrap().unwrap();
            assert_eq!(found.nodes, want.nodes);
            assert_eq!(
                found.exchange.map(|e| e.matrix_bytes),
                want.exchange.map(|e| e.matrix_bytes)
            );
        }
    }
    for error in tcp::run(2, |mut comm| {
        let communication = Communication::ALL[comm.rank() as usize];
        as_rank(&mut comm, communication).unwrap_err()
    }) {
        let error = error.unwrap().to_string();
        assert!(
            error.contains("another set of options than rank 0"),
            "{error}"
        );
    }
}

/// Layers are part of a policy's file; files of the paper's model are as they were; what is not known is refused.
#[test]
fn layers_are_kept_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.safetensors");
    for layers in LAYERS {
        let policy = policy(&MAXIMUM_CUT, 2, layers);
        policy.write(&path).unwrap();
        let read = TrainedPolicy::read(&path).unwrap();
        assert_eq!(read.config, policy.config);
        assert_eq!(read.params.flat(), policy.params.flat());
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes[..600.min(bytes.len())]).into_owned();
        assert_eq!(
            text.contains("sage"),
            layers.0 == EmbeddingKind::GRAPH_SAGE,
            "{text}"
        );
        assert_eq!(text.contains("mlp"), layers.1 == HeadKind::MLP, "{text}");
    }
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes
        .windows(6)
        .position(|window| window == b"\"sage\\")
        .unwrap();
    bytes[at + 1..at + 5].copy_from_slice(b"gat2");
    std::fs::write(&path, &bytes).unwrap();
    let error = TrainedPolicy::read(&path).unwrap_err().to_string();
    assert!(
        error.contains("unknown variant `gat2`, expected `s2v` or `sage`"),
        "{error}"
    );
}

#[test]
fn a_policy_file_names_a_layer_that_the_registry_has() {
    let mine = EmbeddingKind {
        name: "mine",
        ..EmbeddingKind::GRAPH_SAGE
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.safetensors");
    let policy = policy(&MAXIMUM_CUT, 2, (mine, HeadKind::MLP));
    policy.write(&path).unwrap();
    let error = TrainedPolicy::read(&path).unwrap_err().to_string();
    assert!(error.contains("unknown variant `mine`"), "{error}");
    let registry = crate::LayerRegistry::default().with_embedding(mine);
    let read = TrainedPolicy::read_with(&path, &registry).unwrap();
    assert_eq!(read.config, policy.config);
    assert_eq!(read.params.flat(), policy.params.flat());
}

/// GraphSAGE has one path.
#[test]
fn paths_that_layers_do_not_have_are_refused() {
    let karate = Adjacency::from_graph(shardgraph_graph::builtin::by_name("karate").unwrap());
    let mvc = &crate::problem::MINIMUM_VERTEX_COVER;
    for (layers, path, is_known) in [
        (LAYERS[1], EmbeddingPath::General, true),
        (LAYERS[1], EmbeddingPath::FreeFirstLayer, false),
        (LAYERS[3], EmbeddingPath::Collapsed, false),
        (LAYERS[2], EmbeddingPath::Collapsed, true),
        (LAYERS[2], EmbeddingPath::FreeFirstLayer, true),
    ] {
        let options = SolveOptions {
            path: Some(path),
            ..SolveOptions::default()
        };
        match solve(&karate, &policy(mvc, 2, layers), &options, &mut |_, _| ()) {
            Ok(_) => assert!(is_known, "{layers:?} {path}"),
            Err(error) => {
                assert!(!is_known, "{error}");
                assert_eq!(error.class(), Class::Input, "{error}");
            }
        }
    }
}
