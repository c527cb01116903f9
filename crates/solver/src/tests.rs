//! Properties of whole solves: covers, paths, storage forms, ranks, policy files.

use proptest::prelude::*;
use shardgraph_environments::verify;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{EdgeSink, Graph, GraphBuilder, builtin};
use shardgraph_layers::{EmbeddingKind, HeadKind, Path};
use shardgraph_shard::{Adjacency, BitShard, Storage};

use crate::naive::state_after;
use crate::{
    AdjacencyScale, PolicyConfig, Select, SolveOptions, TrainedPolicy, check_cover, score_nodes,
    solve,
};

pub(crate) mod communication;
mod problem;
mod reductions_in_episode;
mod several;
mod starts;

fn policy(seed: u64, n_layers: usize, scale: AdjacencyScale) -> TrainedPolicy {
    TrainedPolicy::random(PolicyConfig::new(8, n_layers, scale), seed, 0.4).unwrap()
}

fn as_bits(graph: &Graph) -> Adjacency {
    Adjacency::Bits(BitShard::from_graph(graph, 0..graph.n_nodes()))
}

fn cover(adjacency: &Adjacency, policy: &TrainedPolicy, options: &SolveOptions) -> Vec<u32> {
    solve(adjacency, policy, options, &mut |_, _| ())
        .unwrap()
        .nodes
}

fn generated(text: &str, seed: u64) -> Graph {
    text.parse::<GeneratorSpec>().unwrap().graph(seed).unwrap()
}

fn some_graph() -> impl Strategy<Value = Graph> {
    let specs = [
        "er:0:0.5",
        "er:1:0.5",
        "er:2:1",
        "er:33:0.1",
        "er:65:0.3",
        "ba:64:3",
        "ws:40:4:0.2",
        "er:150:0.05",
    ];
    (prop::sample::select(specs.to_vec()), 0u64..1000)
        .prop_map(|(spec, seed)| generated(spec, seed))
}

fn scale() -> impl Strategy<Value = AdjacencyScale> {
    prop_oneof![
        Just(AdjacencyScale::LargestDegree),
        Just(AdjacencyScale::One)
    ]
}

/// Checks each pick against all candidates of a state that is counted from scratch; the scores are the closed form's, whose
/// own test compares them with the model.
fn picks_are_best(graph: &Graph, policy: &TrainedPolicy, cover: &[u32]) -> Result<(), String> {
    let table = shardgraph_layers::ScoreTable::new(&policy.model, &policy.params).unwrap();
    for step in 0..cover.len() {
        let state = state_after(graph, &cover[..step]);
        let s = policy.config.adjacency_scale.of(state.max_degree);
        let score = |v: u32| {
            let (deg, d2) = (
                state.degrees[v as usize] as f32,
                state.d2[v as usize] as f32,
            );
            table.score(deg * s, d2 * (s * s))
        };
        let candidates = (0..graph.n_nodes()).filter(|&v| state.degrees[v as usize] > 0);
        let best = candidates.map(score).fold(f32::NEG_INFINITY, f32::max);
        let picked = score(cover[step]);
        if picked < best {
            return Err(format!("step {step}: {picked} was picked, {best} is there"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_step_picks_the_best_node(graph in some_graph(), seed in 0u64..50, scale in scale()) {
        let policy = policy(seed, 2, scale);
        for adjacency in [as_bits(&graph), Adjacency::Csr(graph.clone().into())] {
            let picks = cover(&adjacency, &policy, &SolveOptions::default());
            let checked = picks_are_best(&graph, &policy, &picks);
            prop_assert!(checked.is_ok(), "{:?}", checked);
        }
    }

    #[test]
    fn forms_and_ranks_give_the_same_cover(
        graph in some_graph(),
        seed in 0u64..50,
        scale in scale(),
        select in prop_oneof![Just(Select::Adaptive), (1u32..9).prop_map(Select::Fixed)],
        n_ranks in 1u32..=6,
        n_layers in 1usize..=3,
    ) {
        let policy = policy(seed, n_layers, scale);
        let one = SolveOptions { select, ..SolveOptions::default() };
        let many = SolveOptions { n_ranks, ..one.clone() };
        let lists = Adjacency::Csr(graph.clone().into());
        let want = cover(&lists, &policy, &one);
        let mut in_cover = vec![false; graph.n_nodes() as usize];
        want.iter().for_each(|&v| in_cover[v as usize] = true);
        prop_assert_eq!(verify::uncovered_edge(&graph, &in_cover), None);
        prop_assert!(want.len() as u64 >= graph.maximal_matching());
        prop_assert_eq!(&cover(&lists, &policy, &many), &want);
        prop_assert_eq!(&cover(&as_bits(&graph), &policy, &one), &want);
        prop_assert_eq!(&cover(&as_bits(&graph), &policy, &many), &want);
    }

    #[test]
    fn scores_have_the_same_bits_for_every_form_and_number_of_ranks(
        graph in some_graph(),
        seed in 0u64..50,
        scale in scale(),
        n_layers in 1usize..=3,
    ) {
        let policy = policy(seed, n_layers, scale);
        let lists = Adjacency::Csr(graph.clone().into());
        let bits = |adjacency: &Adjacency, n_ranks| {
            let options = SolveOptions { n_ranks, ..SolveOptions::default() };
            let scores = score_nodes(adjacency, &policy, &options).unwrap();
            scores.values.iter().map(|s| s.to_bits()).collect::<Vec<_>>()
        };
        let want = bits(&lists, 1);
        for n_ranks in 1..=6 {
            prop_assert_eq!(&bits(&lists, n_ranks), &want);
            prop_assert_eq!(&bits(&as_bits(&graph), n_ranks), &want);
        }
    }

    /// Paths round differently, so a tie may fall the other way; then the two picks' scores are equal to 1e-4.
    #[test]
    fn paths_pick_alike_away_from_ties(graph in some_graph(), seed in 0u64..50, n_layers in 1usize..=3) {
        let policy = policy(seed, n_layers, AdjacencyScale::LargestDegree);
        let adjacency = Adjacency::Csr(graph.clone().into());
        let run = |path| cover(&adjacency, &policy, &SolveOptions { path: Some(path), ..SolveOptions::default() });
        let general = run(Path::General);
        for path in [Path::FreeFirstLayer, Path::Collapsed] {
            let special = run(path);
            let first_difference = general.iter().zip(&special).position(|(a, b)| a != b);
            let Some(step) = first_difference else {
                prop_assert_eq!(&general, &special);
                continue;
            };
            let gap = score_gap(&graph, &policy, &general[..step], [general[step], special[step]]);
            prop_assert!(gap < 1e-4, "{}: step {} differs by {}", path, step, gap);
        }
    }
}

/// The relative difference of two nodes' scores after some picks, by the general path.
fn score_gap(graph: &Graph, policy: &TrainedPolicy, picks: &[u32], nodes: [u32; 2]) -> f32 {
    use crate::model_scorer::{ModelScorer, RankModel};
    use crate::residual::{Counts, ListsResidual, NeighborLists, Ranks, Residual};
    use shardgraph_collectives::{Comm, Timeout};
    use shardgraph_layers::RowShard;
    use shardgraph_shard::{CsrShard, Partition};
    let partition = Partition::by_rows(graph.n_nodes(), 1);
    let mut comm = Comm::solo();
    let mut ranks = Ranks::new(&mut comm, Timeout::default());
    let lists = NeighborLists::cut(graph, &partition, 0);
    let mut residual = ListsResidual::new(lists, &partition, Counts::Degrees, &mut ranks).unwrap();
    let mut removed = vec![false; graph.n_nodes() as usize];
    for &pick in picks {
        residual
            .remove(&[pick], false, &mut ranks, &mut Vec::new())
            .unwrap();
        removed[pick as usize] = true;
    }
    let scale = policy.config.adjacency_scale.of(residual.max_degree());
    let shard = CsrShard::by_rows(graph, 0..graph.n_nodes());
    let model = RankModel {
        policy,
        device: shardgraph_device::Device::host(),
        path: Path::General,
        shard: RowShard::Csr(shard.into()),
        partition,
        weighted: None,
    };
    let mut scorer = ModelScorer::new(model, ranks.comm, ranks.timeout).unwrap();
    scorer.removed = removed;
    let scores = scorer.scores(&residual, scale, &mut ranks).unwrap();
    let largest = scores.iter().fold(1e-6f32, |m, s| m.max(s.abs()));
    (scores[nodes[0] as usize] - scores[nodes[1] as usize]).abs() / largest
}

/// Scores that are no numbers are no ranking: an error on every number of ranks, not a cover.
#[test]
fn weights_that_overflow_give_no_cover() {
    let graph = generated("ba:200:3", 1);
    for std_dev in [1e10, 1e20] {
        for n_layers in [2, 3] {
            let config = PolicyConfig::new(8, n_layers, AdjacencyScale::LargestDegree);
            let policy = TrainedPolicy::random(config, 5, std_dev).unwrap();
            for n_ranks in 1..=3 {
                let options = SolveOptions {
                    n_ranks,
                    ..SolveOptions::default()
                };
                for adjacency in [as_bits(&graph), Adjacency::Csr(graph.clone().into())] {
                    let error = solve(&adjacency, &policy, &options, &mut |_, _| ()).unwrap_err();
                    assert_eq!(error.class(), shardgraph_error::Class::NoAnswer, "{error}");
                    assert!(error.to_string().contains("range of numbers"), "{error}");
                }
            }
        }
    }
}

#[test]
fn scores_that_overflow_are_no_answer() {
    let config = PolicyConfig::new(8, 3, AdjacencyScale::LargestDegree);
    let policy = TrainedPolicy::random(config, 5, 1e20).unwrap();
    let adjacency = Adjacency::Csr(generated("ba:50:3", 1).into());
    let error = score_nodes(&adjacency, &policy, &SolveOptions::default()).unwrap_err();
    assert!(
        matches!(error.kind(), crate::ErrorKind::NoAnswer(_)),
        "{error}"
    );
}

#[test]
fn weighted_graphs_take_the_general_form() {
    let mut builder = GraphBuilder::new();
    for (u, v, w) in [
        (0, 1, 2.0),
        (1, 2, -1.5),
        (2, 3, 0.5),
        (3, 0, 1.0),
        (0, 2, 4.0),
    ] {
        builder.edge(u, v, w).unwrap();
    }
    let (graph, _) = builder.finish(4, true).unwrap();
    let adjacency = Adjacency::Csr(graph.into());
    let policy = policy(3, 2, AdjacencyScale::One);
    let solve_on = |path, n_ranks| {
        let options = SolveOptions {
            path,
            n_ranks,
            ..SolveOptions::default()
        };
        solve(&adjacency, &policy, &options, &mut |_, _| ())
    };
    let free = solve_on(None, 1).unwrap();
    assert_eq!(
        (free.path, free.storage),
        (Path::FreeFirstLayer, Storage::Csr)
    );
    assert_eq!(free.nodes, solve_on(Some(Path::General), 1).unwrap().nodes);
    assert_eq!(free.nodes, solve_on(None, 3).unwrap().nodes);
    let refused = solve_on(Some(Path::Collapsed), 1).unwrap_err().to_string();
    assert!(refused.contains("without weights"), "{refused}");
}

/// One layer and one column by hand: `score = theta7 relu(theta6 relu(pos c_pos + neg c_neg))`.
#[test]
fn positive_and_negative_weights_are_summed_apart() {
    let edges = [(0, 1, 2.0), (0, 2, -1.5), (1, 2, -0.25), (2, 3, 4.0)];
    let mut builder = GraphBuilder::new();
    for (u, v, w) in edges {
        builder.edge(u, v, w).unwrap();
    }
    let (graph, _) = builder.finish(4, true).unwrap();
    let config = PolicyConfig::new(1, 1, AdjacencyScale::One);
    let mut policy = TrainedPolicy::random(config, 1, 1.0).unwrap();
    for theta2 in [0.5, -0.5] {
        // theta1 to theta7 in order; theta7 has the state's half first.
        let flat = [0.3, theta2, 2.0, 0.7, 0.9, 1.5, 0.0, 3.0];
        policy.params.set_flat(&flat).unwrap();
        let scores = score_nodes(
            &Adjacency::Csr(graph.clone().into()),
            &policy,
            &SolveOptions::default(),
        )
        .unwrap();
        for v in 0..4u32 {
            let weights = edges.iter().filter(|e| e.0 == v || e.1 == v).map(|e| e.2);
            let edge_term: f32 = weights.map(|w| (theta2 * w).max(0.0)).sum();
            let want = 3.0 * 1.5 * (2.0 * edge_term).max(0.0);
            let got = scores.values[v as usize];
            assert!(
                (got - want).abs() < 1e-5,
                "node {v}: {got} instead of {want}"
            );
        }
    }
}

#[test]
fn the_papers_rule_keeps_isolated_picks() {
    let edges: Vec<(u32, u32)> = (1..12).map(|leaf| (0, leaf)).collect();
    let star = Adjacency::Csr(Graph::from_edges(12, &edges).unwrap().into());
    let policy = TrainedPolicy::shipped().unwrap();
    let run = |keep_isolated| {
        let select = Select::Fixed(8);
        let options = SolveOptions {
            select,
            keep_isolated,
            ..SolveOptions::default()
        };
        cover(&star, &policy, &options).len()
    };
    assert_eq!(run(true), 8); // one evaluation, eight picks, whatever they still cover
    assert_eq!(run(false), 1); // the hub
}

#[test]
fn a_wrong_cover_is_found_out() {
    let path = Adjacency::Csr(
        Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)])
            .unwrap()
            .into(),
    );
    assert!(check_cover(&path, &[1, 2]).is_ok());
    let why = |cover: &[u32]| check_cover(&path, cover).unwrap_err().to_string();
    assert!(why(&[1]).contains("between nodes 2 and 3"), "{}", why(&[1]));
    assert!(why(&[1, 2, 1]).contains("node 1 is in the cover twice"));
    assert!(why(&[1, 2, 4]).contains("node 4 does not exist"));
}

#[test]
fn progress_reaches_the_end_and_wrong_options_are_refused() {
    let karate = Adjacency::from_graph(builtin::by_name("karate").unwrap());
    let policy = policy(1, 2, AdjacencyScale::LargestDegree);
    let mut last = None;
    let solution = solve(
        &karate,
        &policy,
        &SolveOptions::default(),
        &mut |left, size| {
            last = Some((left, size));
        },
    );
    assert_eq!(last, Some((0, solution.unwrap().nodes.len())));
    let options = SolveOptions {
        n_ranks: 0,
        ..SolveOptions::default()
    };
    let refused = solve(&karate, &policy, &options, &mut |_, _| ()).unwrap_err();
    assert!(refused.to_string().contains("expected 1 to 1024"));
    for d in [0, 1025, u32::MAX] {
        let options = SolveOptions {
            select: Select::Fixed(d),
            ..SolveOptions::default()
        };
        let refused = solve(&karate, &policy, &options, &mut |_, _| ()).unwrap_err();
        assert!(refused.to_string().contains("nodes a step were asked for"));
    }
}

#[test]
fn policy_files_round_trip_and_malformed_ones_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.safetensors");
    let policy = policy(7, 3, AdjacencyScale::One);
    policy.write(&path).unwrap();
    let read = TrainedPolicy::read(&path).unwrap();
    assert_eq!(
        (read.config, read.params),
        (policy.config.clone(), policy.params.clone())
    );

    let bytes = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        let path = folder.path().join("wrong");
        std::fs::write(&path, bytes).unwrap();
        TrainedPolicy::read(&path).unwrap_err().to_string()
    };
    for end in 0..bytes.len() {
        refused(&bytes[..end]); // an error, never a panic
    }
    assert!(refused(b"not a policy").contains("no safetensors file"));
    let mut nan = bytes.clone();
    let n = nan.len();
    nan[n - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(refused(&nan).contains("weights are finite"));
    let other = |from: &str, to: &str| {
        let at = bytes
            .windows(from.len())
            .position(|w| w == from.as_bytes())
            .unwrap();
        let mut changed = bytes.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        refused(&changed)
    };
    assert!(other("embed_dim\\\":8", "embed_dim\\\":9").contains("expected F32 [1, 9]"));
    assert!(
        other("schema_version\\\":1", "schema_version\\\":7").contains("version 7 is not known")
    );
}

/// Such a file has a kilobyte and asks for 8.6 GB.
#[test]
fn a_policy_file_is_not_given_more_memory_than_it_has_weights() {
    let config = PolicyConfig::new(4096, 64, AdjacencyScale::One)
        .with_layers(EmbeddingKind::GRAPH_SAGE, HeadKind::default());
    let text = serde_json::to_string(&config).unwrap();
    let header = [("shardgraph.policy".to_string(), text)].into();
    let bytes = crate::policy::write_tensors(&[], header).unwrap();
    assert!(bytes.len() < 1000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.safetensors");
    std::fs::write(&path, bytes).unwrap();
    let error = TrainedPolicy::read(&path).unwrap_err().to_string();
    assert!(
        error.contains("weights of 4 bytes, and the file has"),
        "{error}"
    );
}

#[test]
fn shipped_policies_beat_greedy_on_small_graphs() {
    assert_eq!(TrainedPolicy::shipped_names().next(), Some("mvc-default"));
    let names = TrainedPolicy::shipped_names();
    for name in names.filter(|name| name.starts_with("mvc-")) {
        let policy = TrainedPolicy::read(name.as_ref()).unwrap();
        check_against_greedy(&policy);
    }
}

fn check_against_greedy(policy: &TrainedPolicy) {
    let (mut ours, mut greedy) = (0, 0);
    for seed in 0..20 {
        let graph = generated("er:100:0.15", seed);
        greedy += shardgraph_environments::baselines::max_degree_greedy(&graph).len();
        ours += cover(
            &Adjacency::from_graph(graph),
            policy,
            &SolveOptions::default(),
        )
        .len();
    }
    assert!(ours < greedy, "{ours} against {greedy}");
}
