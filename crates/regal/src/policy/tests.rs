//! Decisions and networks of policies: against plain loops, through the check, and with problems that they do not serve.

use shardgraph_brkga::BetaTables;
use shardgraph_components::autodiff::collectives::Comm;
use shardgraph_components::autodiff::{Axis, Eager, Shape};
use shardgraph_components::{EdgeMessagePassingShape, NodeUpdate, check};
use shardgraph_costgraph::generate::{Synthetic, synthetic};
use shardgraph_costgraph::{
    DeviceSet, Graph, GraphBuilder, ModelOptions, Objective, OpSpec, TensorSpec,
};

use super::actions::ActionSpace;
use super::*;
use crate::features::features;
use crate::options::PlaceOptions;
use crate::search::search;

fn small(seed: u64) -> Graph {
    let recipe = Synthetic {
        min_nodes: 5,
        max_nodes: 9,
        ..Synthetic::default()
    };
    synthetic(&recipe, seed, seed).unwrap()
}

fn problem(graph: &Graph, n_devices: usize) -> Problem<'_> {
    let devices = DeviceSet::uniform(n_devices, None).unwrap();
    Problem::new(graph, &devices, Objective::Runtime, ModelOptions::default()).unwrap()
}

fn options() -> PlaceOptions {
    PlaceOptions {
        decoder: Some(shardgraph_costgraph::DecoderKind::Paper),
        evaluations: 300,
        ..PlaceOptions::default()
    }
}

/// The encoders, narrow.
fn encoders() -> Vec<EncoderShape> {
    let shape = |update, n_rounds| {
        EncoderShape::GraphNetwork(EdgeMessagePassingShape {
            width: 3,
            hidden: vec![4],
            n_rounds,
            update,
            ..EdgeMessagePassingShape::default()
        })
    };
    vec![
        shape(NodeUpdate::Gru, 2),
        shape(NodeUpdate::Residual, 1),
        shape(NodeUpdate::Perceptron, 0),
        EncoderShape::Sequence { width: 3 },
    ]
}

fn config(encoder: EncoderShape) -> PolicyConfig {
    PolicyConfig {
        encoder,
        head_width: 5,
        placement_levels: 2,
        scheduling_levels: 3,
        ..PolicyConfig::preset(Preset::Synthetic)
    }
}

/// Graphs side by side, with decisions about their ops.
fn contexts(policy: &Policy, graphs: &[Graph]) -> (Contexts, Actions) {
    let read = |graph| features(&problem(graph, 2), &options(), 60).unwrap();
    let found: Vec<Features> = graphs.iter().map(read).collect();
    let space = PolicyConfig::preset(Preset::Synthetic).space().unwrap();
    let contexts = Contexts::new(
        &space,
        &found.iter().map(Features::read).collect::<Vec<_>>(),
    )
    .unwrap();
    let params = &policy.params;
    let logits = policy.network.logits_of(&Device::host(), params, &contexts);
    let mut stream = KeyedRng::new(3, "test", 0);
    let actions = policy
        .network
        .actions()
        .sample(&logits.unwrap().0, &mut stream);
    (contexts, actions.unwrap())
}

fn pair() -> Graph {
    let mut builder = GraphBuilder::new("pair");
    let [a, b] = ["a", "b"].map(|name| builder.op(OpSpec::new(name, 1)));
    builder.tensor(TensorSpec::new(a, 1, &[b]));
    builder.build().unwrap()
}

#[test]
fn decisions_become_the_choices_worked_out_by_hand() {
    let config = config(encoders().remove(0));
    let space = ActionSpace::new(&config).unwrap();
    assert_eq!(
        (space.heads().len(), space.n_logits()),
        (6, 2 * (2 + 2 + 3))
    );
    let graph = pair();
    let problem = problem(&graph, 2);
    // One node of another graph comes before the two.
    let actions = [
        [9, 0, 1],
        [9, 1, 0],
        [9, 1, 1],
        [9, 0, 1],
        [9, 2, 0],
        [9, 1, 2],
    ];
    let actions: Actions = actions.map(|of| of.to_vec()).into();
    let choices = space.choices(&problem, &actions, 1);
    // Affinities 1 + 2 m + v: a has (0, 1) and (1, 0), b (1, 0) and (1, 1); priorities 5 + 3 m + v: (2, 1) and (0, 2); the rest is
    // uniform.
    assert_eq!(choices, [2, 3, 3, 4, 12, 7, 0, 0]);
    assert_eq!(space.tables().unwrap().n_tables(), 1 + 4 + 9);
    for (actions, expected) in [
        (ActionSet::Placement, [2, 3, 3, 4, 0, 0, 0, 0]),
        (ActionSet::Scheduling, [0, 0, 0, 0, 8, 3, 0, 0]),
    ] {
        let config = PolicyConfig {
            actions,
            ..config.clone()
        };
        let space = ActionSpace::new(&config).unwrap();
        let heads = match actions {
            ActionSet::Scheduling => vec![vec![9, 2, 0], vec![9, 1, 2]],
            _ => [[9, 0, 1], [9, 1, 0], [9, 1, 1], [9, 0, 1]]
                .map(|of| of.to_vec())
                .into(),
        };
        assert_eq!(space.choices(&problem, &heads, 1), expected);
    }
}

#[test]
fn few_tables_draw_what_all_of_them_draw() {
    let graph = small(4);
    let problem = problem(&graph, 2);
    let policy = Policy::untrained(PolicyConfig::preset(Preset::Synthetic), 2).unwrap();
    let features = features(&problem, &options(), 60).unwrap();
    let actions = policy.decide(&problem, &features, 5).unwrap().actions;
    let space = policy.network.actions();
    let choices = space.choices(&problem, &actions, 0);
    let all = Proposals {
        tables: space.tables().unwrap(),
        choices: choices.clone(),
        rho: None,
    };
    let few = policy.propose(&problem, &features, 5).unwrap();
    assert!(few.tables.n_tables() < all.tables.n_tables());
    let found = |by| search(&problem, &options(), Vec::new(), Some(by)).unwrap();
    assert_eq!(found(all), found(few));
}

#[test]
fn probabilities_are_the_softmaxes_of_plain_loops() {
    for encoder in encoders() {
        let policy = Policy::untrained(config(encoder), 6).unwrap();
        let (contexts, actions) = contexts(&policy, &[small(1), small(2)]);
        let (device, mut comm) = (Device::host(), Comm::solo());
        let mut ctx = Eager::new(&device, &mut comm, &policy.params);
        let network = &policy.network;
        let var = network.logits(&mut ctx, &contexts).unwrap().ops;
        let logits = ctx.values(var).unwrap();
        let found = network.log_probabilities(&mut ctx, var, &contexts, &actions);
        let found = ctx.values(found.unwrap()).unwrap();
        let n_logits = network.actions().n_logits();
        let starts: Vec<usize> = contexts.starts().chain([contexts.n_nodes()]).collect();
        assert_eq!(found.len(), 2);
        for (graph, found) in found.iter().enumerate() {
            let mut expected = 0.0;
            for node in starts[graph]..starts[graph + 1] {
                let row: Vec<f64> = logits[node * n_logits..(node + 1) * n_logits]
                    .iter()
                    .map(|&x| f64::from(x).exp())
                    .collect();
                let mut start = 0;
                for (head, k) in [2, 2, 2, 2, 3, 3].into_iter().enumerate() {
                    let of_head = &row[start..start + k];
                    let taken = of_head[actions[head][node] as usize];
                    expected += (taken / of_head.iter().sum::<f64>()).ln();
                    start += k;
                }
            }
            let off = (f64::from(*found) - expected).abs();
            assert!(off < 1e-4 * expected.abs(), "{found} for {expected}");
        }
    }
}

#[test]
fn the_networks_pass_the_check() {
    for encoder in encoders() {
        let config = config(encoder);
        let policy = Policy::untrained(config.clone(), 6).unwrap();
        let (contexts, _) = self::contexts(&policy, &[small(1), small(2)]);
        let network = &policy.network;
        // A few rows: rounding hides small derivatives of large sums.
        let checked = check("policy", &policy.params, &[], 3, |ctx, _| {
            let logits = network.logits(ctx, &contexts)?.ops;
            Ok(vec![ctx.slice(logits, Axis::Rows, 1, 3)?])
        });
        let checked = checked.unwrap();
        assert!(checked.n_derivatives > 3 * checked.n_unclear, "{checked:?}");
        // Two ops: differences of the logarithm of many would be lost to rounding.
        let (two, actions) = self::contexts(&policy, &[pair()]);
        let n_logits = network.actions().n_logits();
        let mut logits = Params::new();
        let mut stream = KeyedRng::new(2, "test", 0);
        let shape = Shape::new(two.n_nodes(), n_logits);
        let id = logits.add("logits", shape, || stream.normal() as f32);
        let checked = check("log probabilities", &logits, &[], 3, |ctx, _| {
            let logits = ctx.param(id)?;
            let sums = network.log_probabilities(ctx, logits, &two, &actions)?;
            Ok(vec![sums])
        });
        assert!(checked.unwrap().n_derivatives > 10);
        let mut params = Params::new();
        let start = Initialiser::default();
        let baseline = BaselineNetwork::build(&mut params, &config, start).unwrap();
        let checked = check("baseline", &params, &[], 3, |ctx, _| {
            Ok(vec![baseline.values(ctx, &contexts)?])
        });
        assert!(checked.unwrap().n_derivatives > 100);
    }
}

/// Graphs beside others are read as if they were alone, whatever their sizes.
#[test]
fn graphs_do_not_see_each_other() {
    for encoder in encoders() {
        let policy = Policy::untrained(config(encoder), 6).unwrap();
        let found: Vec<_> = [1, 2, 3]
            .map(|seed| features(&problem(&small(seed), 2), &options(), 60).unwrap())
            .into();
        let space = PolicyConfig::preset(Preset::Synthetic).space().unwrap();
        let logits = |of: &[&Features]| {
            let of: Vec<_> = of.iter().map(|features| features.read()).collect();
            let contexts = Contexts::new(&space, &of).unwrap();
            let network = &policy.network;
            network
                .logits_of(&Device::host(), &policy.params, &contexts)
                .unwrap()
                .0
        };
        let alone: Vec<f32> = found.iter().flat_map(|of| logits(&[of])).collect();
        let together = logits(&[&found[0], &found[1], &found[2]]);
        assert_eq!(alone.len(), together.len());
        for (alone, together) in alone.iter().zip(&together) {
            assert!((alone - together).abs() < 1e-5, "{alone} and {together}");
        }
    }
}

/// On a device: logits to rounding, and so the decisions that a seed draws.
#[test]
fn a_policy_on_a_device_decides_as_on_the_host() {
    let graph = small(4);
    let problem = problem(&graph, 2);
    let found = features(&problem, &options(), 60).unwrap();
    for encoder in encoders() {
        let policy = Policy::untrained(config(encoder), 1).unwrap();
        let wanted = policy.decide(&problem, &found, 5).unwrap();
        for device in shardgraph_cuemu::devices("regal") {
            let before = device.traffic().to_device_bytes;
            let given = policy
                .clone()
                .on_device(&device)
                .decide(&problem, &found, 5)
                .unwrap();
            assert!(device.traffic().to_device_bytes > before);
            assert_eq!(given.actions, wanted.actions);
            for (given, wanted) in given.logits.iter().zip(&wanted.logits) {
                assert!((given - wanted).abs() < 1e-5, "{given} {wanted}");
            }
        }
    }
}

#[test]
fn graphs_with_one_op_or_no_edge_have_proposals() {
    for (n_ops, n_devices) in [(1, 1), (1, 2), (3, 2)] {
        let mut builder = GraphBuilder::new("loose");
        for op in 0..n_ops {
            builder.op(OpSpec::new(format!("op {op}"), op));
        }
        let graph = builder.build().unwrap();
        let problem = problem(&graph, n_devices);
        let found = features(&problem, &options(), 30).unwrap();
        for encoder in encoders() {
            let config = PolicyConfig {
                n_devices,
                ..config(encoder)
            };
            let policy = Policy::untrained(config, 1).unwrap();
            let proposals = policy.propose(&problem, &found, 1).unwrap();
            assert_eq!(proposals.choices.len(), problem.n_keys());
            assert!(
                proposals
                    .choices
                    .iter()
                    .all(|&choice| choice != BetaTables::UNIFORM)
            );
            assert_eq!(
                search(&problem, &options(), vec![], Some(proposals))
                    .unwrap()
                    .evaluations,
                300
            );
        }
    }
}

#[test]
fn entropies_are_those_of_uniform_and_of_certain_decisions() {
    let space = ActionSpace::new(&config(encoders().remove(0))).unwrap();
    let uniform = space.entropy(&[0.5; 28]);
    let expected = 4.0 * 2f64.ln() + 2.0 * 3f64.ln();
    assert!((uniform - expected).abs() < 1e-12, "{uniform}");
    let mut certain = [-200.0; 14];
    for at in [0, 3, 4, 7, 8, 13] {
        certain[at] = 200.0;
    }
    assert!(space.entropy(&certain) < 1e-100);
    let mut stream = KeyedRng::new(1, "test", 0);
    let taken = space.sample(&certain, &mut stream).unwrap();
    assert_eq!(taken, [[0], [1], [0], [1], [0], [2]]);
    certain[5] = f32::NAN;
    let error = space.sample(&certain, &mut stream).unwrap_err();
    assert!(error.to_string().contains("not finite") && !error.is_input());
}

#[test]
fn problems_of_another_kind_are_refused_by_name() {
    let graph = small(1);
    let policy = Policy::untrained(PolicyConfig::preset(Preset::Memory), 4).unwrap();
    let three = problem(&graph, 3);
    let message = policy.check(&three).unwrap_err().to_string();
    assert!(
        message.contains("for 2 devices, and 3 are asked for"),
        "{message}"
    );
    let message = policy.check(&problem(&graph, 2)).unwrap_err().to_string();
    assert!(message.contains("features for the memory"), "{message}");
}

#[test]
fn features_of_another_problem_are_refused() {
    let policy = Policy::untrained(config(encoders().remove(0)), 4).unwrap();
    let (small_graph, large_graph) = (small(1), small(2));
    let (small_problem, large) = (problem(&small_graph, 2), problem(&large_graph, 2));
    assert_ne!(small_graph.n_ops(), large_graph.n_ops());
    let of_small = features(&small_problem, &options(), 60).unwrap();
    assert!(policy.propose(&small_problem, &of_small, 1).is_ok());
    let refused = |problem: &Problem<'_>, features: &Features| {
        let error = policy.propose(problem, features, 1).err().unwrap();
        assert!(error.is_input());
        error.to_string()
    };
    let message = refused(&large, &of_small);
    assert!(message.contains("and the problem has"), "{message}");
    let of_large = features(&large, &options(), 60).unwrap();
    assert!(refused(&small_problem, &of_large).contains("and the problem has"));
    let mut turned = of_small.clone();
    turned.order.reverse();
    assert!(refused(&small_problem, &turned).contains("another order"));
    let mut config = config(encoders().remove(0));
    config.schedule_features = true;
    let with_schedule = config.features_of(&small_problem, &options()).unwrap();
    assert!(refused(&small_problem, &with_schedule).contains("reads 11 features"));
    let reader = Policy::untrained(config, 4).unwrap();
    assert!(reader.propose(&small_problem, &with_schedule, 1).is_ok());
}

/// Each op's last three features are its device and its rank in the cheap schedule.
#[test]
fn schedule_features_are_those_of_the_schedule() {
    let graph = pair();
    for objective in [Objective::Runtime, Objective::Memory] {
        let devices = DeviceSet::uniform(2, None).unwrap();
        let problem = Problem::new(&graph, &devices, objective, ModelOptions::default()).unwrap();
        let mut config = PolicyConfig::preset(match objective {
            Objective::Runtime => Preset::Synthetic,
            Objective::Memory => Preset::Memory,
        });
        let options = PlaceOptions {
            objective,
            ..options()
        };
        let own = config.features_of(&problem, &options).unwrap();
        config.schedule_features = true;
        let with_schedule = config.features_of(&problem, &options).unwrap();
        let (Value::Graph(own), Value::Graph(all)) = (own.value, with_schedule.value) else {
            panic!("graphs");
        };
        let n = config.features.n_node_features(2);
        for op in 0..2 {
            let row = &all.node_features[op * (n + 3)..(op + 1) * (n + 3)];
            assert_eq!(row[..n], own.node_features[op * n..(op + 1) * n]);
            let rank = [2.0 / 3.0, 1.0 / 3.0][op];
            assert!((row[n + 2] - rank).abs() < 1e-6, "{row:?}");
            assert!(matches!(row[n..n + 2], [1.0, 0.0] | [0.0, 1.0]));
        }
    }
}

#[test]
fn equal_levels_share_their_tables() {
    let config = PolicyConfig {
        placement_levels: 3,
        scheduling_levels: 3,
        ..config(encoders().remove(0))
    };
    let space = ActionSpace::new(&config).unwrap();
    assert_eq!(space.tables().unwrap().n_tables(), 1 + 9);
    let graph = pair();
    let taken = [[0, 1], [1, 0], [2, 2], [0, 1], [2, 0], [1, 2]];
    let actions: Actions = taken.map(|of| of.to_vec()).into();
    let choices = space.choices(&problem(&graph, 2), &actions, 0);
    assert_eq!(choices, [2, 7, 4, 8, 8, 3, 0, 0]);
}

#[test]
fn crossover_is_one_decision_a_graph_within_its_range() {
    let graph = small(3);
    let problem = problem(&graph, 2);
    let found = features(&problem, &options(), 60).unwrap();
    for encoder in encoders() {
        let mut config = config(encoder);
        let without = Policy::untrained(config.clone(), 6).unwrap();
        assert_eq!(without.propose(&problem, &found, 1).unwrap().rho, None);
        config.crossover_levels = Some(4);
        let policy = Policy::untrained(config, 6).unwrap();
        let mut seen = Vec::new();
        for seed in 0..40 {
            let proposals = policy.propose(&problem, &found, seed).unwrap();
            // What ops are proposed does not change.
            let plain = without.propose(&problem, &found, seed).unwrap();
            assert_eq!(proposals.choices, plain.choices);
            seen.extend(proposals.rho);
        }
        seen.sort_by(f64::total_cmp);
        seen.dedup();
        assert!(
            seen.len() > 1 && seen.iter().all(|rho| [0.6, 0.7, 0.8, 0.9].contains(rho)),
            "{seen:?}"
        );
        // The file has it.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.safetensors");
        policy.write(&path).unwrap();
        let read = Policy::read(&path).unwrap();
        assert_eq!(read.config().crossover_levels, Some(4));
        assert_eq!(
            read.decisions(&problem, &found, 7).unwrap(),
            policy.decisions(&problem, &found, 7).unwrap()
        );
    }
}

#[test]
fn a_proposed_crossover_takes_the_place_of_the_options_one() {
    let graph = small(2);
    let problem = problem(&graph, 2);
    let policy = Policy::untrained(config(encoders().remove(0)), 2).unwrap();
    let features = features(&problem, &options(), 60).unwrap();
    let found = |rho_of_options: f64, rho| {
        let mut options = options();
        options.genetic.rho = rho_of_options;
        let mut proposals = policy.propose(&problem, &features, 5).unwrap();
        proposals.rho = rho;
        search(&problem, &options, Vec::new(), Some(proposals)).unwrap()
    };
    assert_eq!(found(0.7, Some(0.9)), found(0.9, None));
    assert_ne!(found(0.7, None), found(0.9, None));
    let error = config(encoders().remove(0));
    let error = PolicyConfig {
        crossover_levels: Some(1),
        ..error
    }
    .check()
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("crossover_levels = 1: expected 2 to 64"),
        "{error}"
    );
}
