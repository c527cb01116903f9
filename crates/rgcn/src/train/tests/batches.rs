//! Steps by batches of nodes against passes over the whole graph, and nodes that training did not
//! have.

use super::*;
use crate::Features;
use crate::partition::Method;
use crate::train::folder::newest_model;

/// Features that tell the two sorts of nodes apart, under noise.
fn with_features(graph: RelationalGraph) -> RelationalGraph {
    let mut stream = KeyedRng::new(5, "features", 0);
    let row = |node: u32| {
        let sort = node as f32 % 2.0 - 0.5;
        [sort + 2.0 * stream.uniform_f32(), stream.uniform_f32(), 1.0]
    };
    let values = (0..graph.n_nodes()).flat_map(row).collect();
    graph
        .with_features(Features::new(3, values).unwrap())
        .unwrap()
}

/// One-hot input, learnt vectors, features.
fn inputs() -> [Config; 3] {
    let base = Config {
        hidden: vec![6, 4],
        bases: 3,
        epochs: 1,
        mode: Mode::Full,
        ..Config::default()
    };
    let learnt = Config {
        embedding: 5,
        bases: 0,
        bias: true,
        ..base.clone()
    };
    let given = Config {
        embedding: 3,
        features: true,
        ..base.clone()
    };
    [base, learnt, given]
}

/// The tensors of the model after a run.
fn tensors(graph: &RelationalGraph, labels: &Labels, config: &Config) -> Vec<(String, Vec<f32>)> {
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions {
        folder: Some(folder.path().into()),
        ..RunOptions::default()
    };
    train(graph, labels, config, &options, &mut |_| {}).unwrap();
    let saved = newest_model(folder.path()).unwrap();
    let tensors = saved.state.tensors();
    tensors
        .map(|(name, values)| (name.to_owned(), values.to_vec()))
        .collect()
}

/// A batch of all training nodes with whole neighbourhoods steps along the gradient of a pass over
/// the whole graph.
#[test]
fn a_batch_with_its_whole_neighbourhood_has_the_gradients_of_the_whole_graph() {
    let (graph, labels) = sorted_graph(2, 300);
    let graph = with_features(graph);
    for (input, config) in inputs().into_iter().enumerate() {
        let config = Config {
            optimiser: Optimiser::Sgd,
            rate: 1.0,
            ..config
        };
        let whole = tensors(&graph, &labels, &config);
        let before = tensors(
            &graph,
            &labels,
            &Config {
                rate: 1e-30,
                ..config.clone()
            },
        );
        let batch = |batch| Config {
            batch,
            ..config.clone()
        };
        let (all, half) = (batch(60), batch(30));
        let found = tensors(&graph, &labels, &all);
        let difference = |a: &[(String, Vec<f32>)], b: &[(String, Vec<f32>)]| {
            let pairs = a.iter().zip(b).flat_map(|((a_name, a), (b_name, b))| {
                assert_eq!((a_name, a.len()), (b_name, b.len()));
                a.iter().zip(b)
            });
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max)
        };
        let moved = difference(&whole, &before);
        assert!(moved > 1e-3, "{input}: {moved}");
        let error = difference(&whole, &found);
        assert!(error < 1e-6 * (1.0 + moved), "{input}: {error} of {moved}");
        assert!(difference(&whole, &tensors(&graph, &labels, &half)) > 1e-3 * moved);
    }
}

#[test]
fn sampled_batches_learn_and_resume_with_equal_bits() {
    let (graph, labels) = sorted_graph(2, 600);
    let graph = with_features(graph);
    for config in inputs() {
        let config = Config {
            hidden: vec![8],
            batch: 13,
            fan_out: 2,
            epochs: 30,
            patience: 12,
            rate: 0.03,
            ..config
        };
        let folder = tempfile::tempdir().unwrap();
        let options = |resume| RunOptions {
            folder: Some(folder.path().into()),
            resume,
            ..RunOptions::default()
        };
        let whole = run(&graph, &labels, &config, 1);
        let test = whole.evaluation.test.unwrap();
        assert!(test.accuracy > 0.8, "{}", test.accuracy);
        let shorter = Config {
            epochs: 5,
            ..config.clone()
        };
        train(&graph, &labels, &shorter, &options(false), &mut |_| {}).unwrap();
        let resumed = train(&graph, &labels, &config, &options(true), &mut |_| {}).unwrap();
        assert_eq!(resumed.params_hash, whole.params_hash);
        assert_eq!(resumed.evaluation, whole.evaluation);
        let saved = evaluate(&graph, folder.path(), &labels, Timeout::default()).unwrap();
        assert_eq!(saved, whole.evaluation);
        let units = hidden_units(&graph, folder.path(), Timeout::default()).unwrap();
        assert_eq!((units.width, units.values.len()), (8, 8 * 600));
    }
}

/// A node that was not there in training, with the edges and the features of one that was, has its
/// probabilities.
#[test]
fn new_nodes_are_classified_by_features() {
    let (graph, labels) = sorted_graph(2, 300);
    let graph = with_features(graph);
    let (known, new) = (17, graph.n_nodes());
    let (mut sources, mut relations, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    let twins = graph.edges().filter(|edge| edge.target == known);
    let twins = twins.map(|edge| crate::Edge {
        target: new,
        ..edge
    });
    for edge in graph.edges().chain(twins) {
        sources.push(edge.source);
        relations.push(edge.relation);
        targets.push(edge.target);
    }
    let mut values = vec![0.0; 3 * (new as usize + 1)];
    for (node, row) in (0..=new).zip(values.chunks_exact_mut(3)) {
        let node = if node == new { known } else { node };
        graph.features().unwrap().copy_row(node, row).unwrap();
    }
    let larger = RelationalGraph::new(new + 1, graph.n_relations(), sources, relations, targets);
    let larger = larger
        .unwrap()
        .with_features(Features::new(3, values).unwrap())
        .unwrap();
    for batch in [0, 20] {
        let folder = tempfile::tempdir().unwrap();
        let options = RunOptions {
            folder: Some(folder.path().into()),
            ..RunOptions::default()
        };
        let [one_hot, _, features] = inputs();
        let given = Config { batch, ..features };
        train(&graph, &labels, &given, &options, &mut |_| {}).unwrap();
        let wait = Timeout::default();
        let nodes = [new, known, 3];
        let found = predict_probabilities(&larger, folder.path(), &nodes, wait).unwrap();
        let before = predict_probabilities(&graph, folder.path(), &nodes[1..], wait).unwrap();
        assert_eq!(found[0], found[1]);
        assert_eq!(found[1..], before);
        assert_ne!(found[0], found[2]);
        let model = crate::RelationalClassifier::fit(&graph, &labels, &given).unwrap();
        assert_eq!(model.predict_probabilities(&larger, &nodes).unwrap(), found);
        let fewer = RelationalGraph::new(2, 3, vec![], vec![], vec![]).unwrap();
        let fewer = fewer
            .with_features(Features::new(3, vec![0.0; 6]).unwrap())
            .unwrap();
        let refused = predict(&fewer, folder.path(), &[0], wait).unwrap_err();
        assert!(
            refused.to_string().contains("a graph of 3 relations"),
            "{refused}"
        );

        let folder = tempfile::tempdir().unwrap();
        let options = RunOptions {
            folder: Some(folder.path().into()),
            ..RunOptions::default()
        };
        let one_hot = Config { batch, ..one_hot };
        train(&graph, &labels, &one_hot, &options, &mut |_| {}).unwrap();
        let model = crate::RelationalClassifier::fit(&graph, &labels, &one_hot).unwrap();
        let found = predict(&graph, folder.path(), &[3, 1], wait).unwrap();
        assert_eq!(model.predict(&graph, &[3, 1]).unwrap(), found);
        assert!(model.predict(&larger, &[3]).is_err());
        let refused = predict(&larger, folder.path(), &nodes, wait).unwrap_err();
        assert!(
            refused.to_string().contains("--features alone"),
            "{refused}"
        );
    }
}

#[test]
fn what_has_no_batches_is_refused() {
    let [base, ..] = inputs();
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = Config {
            batch: 10,
            ..base.clone()
        };
        change(&mut config);
        config.check().unwrap_err().to_string()
    };
    assert!(refused(&|c| c.bases = 0).starts_with("batch = 10: expected 0 for one-hot"));
    assert!(refused(&|c| c.self_loop = false).starts_with("batch = 10: expected 0 without"));
    assert!(refused(&|c| (c.batch, c.fan_out) = (0, 3)).starts_with("fan_out = 3"));
    let (graph, labels) = sorted_graph(2, 300);
    let refused = |options: RunOptions| {
        let config = Config {
            batch: 10,
            ..base.clone()
        };
        let outcome = train(&graph, &labels, &config, &options, &mut |_| {});
        outcome.unwrap_err().to_string()
    };
    let paper = RunOptions {
        execution: Execution::Paper,
        ..RunOptions::default()
    };
    assert!(refused(paper).starts_with("execution = paper: expected grouped"));
    let budget = RunOptions {
        budget_per_device: Some(1 << 30),
        ..RunOptions::default()
    };
    assert!(refused(budget).starts_with("--device-memory"));
}

/// Ranks share the messages of a step, and the batches of a prediction.
#[test]
fn ranks_have_the_bits_of_one_rank() {
    let (graph, labels) = sorted_graph(2, 600);
    let graph = with_features(graph);
    for (config, optimiser) in
        inputs()
            .into_iter()
            .zip([Optimiser::Adam, Optimiser::Adagrad, Optimiser::Sgd])
    {
        let config = Config {
            hidden: vec![8],
            dropout: 0.2,
            optimiser,
            batch: 13,
            fan_out: 2,
            epochs: 4,
            patience: 4,
            rate: 0.03,
            ..config
        };
        let whole = run(&graph, &labels, &config, 1);
        let folder = tempfile::tempdir().unwrap();
        let first = Config {
            epochs: 2,
            ..config.clone()
        };
        for (n_ranks, partition, resume) in [(2, Method::Source, false), (3, Method::M1, true)] {
            let options = RunOptions {
                n_ranks,
                partition,
                ..RunOptions::default()
            };
            let found = train(&graph, &labels, &config, &options, &mut |_| {}).unwrap();
            assert_eq!(losses(&found), losses(&whole), "{n_ranks} ranks");
            assert_eq!(found.params_hash, whole.params_hash);
            assert_eq!(found.evaluation, whole.evaluation);
            assert_eq!(found.times.len(), n_ranks as usize);
            // A run that two ranks began goes on with three.
            let options = RunOptions {
                folder: Some(folder.path().into()),
                resume,
                ..options
            };
            let config = if resume { &config } else { &first };
            let found = train(&graph, &labels, config, &options, &mut |_| {}).unwrap();
            assert_eq!(found.params_hash == whole.params_hash, resume);
        }
        // Ranks that are processes do the same.
        let options = RunOptions::default();
        let outcomes = threads::run(2, |mut comm| {
            let outcome =
                train_as_rank(&mut comm, &graph, &labels, &config, &options, &mut |_| ()).unwrap();
            (outcome.params_hash, outcome.evaluation)
        });
        for outcome in outcomes {
            assert_eq!(
                outcome.unwrap(),
                (whole.params_hash, whole.evaluation.clone())
            );
        }
    }
}
