//! The agent's update against plain loops and for every number of ranks; and acting.
#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

mod device;
mod eager;
mod runs;

use shardgraph_autodiff::{ParamId, Params};
use shardgraph_collectives::{Comm, Timeout, threads};
use shardgraph_components::{QNetworkShape, TdLoss};
use shardgraph_device::Device;
use shardgraph_environments::space::Space;
use shardgraph_random::KeyedRng;
use shardgraph_replay::{LeafRef, Rows};

use super::naive::{self, Layer, Transition};
use super::*;
use crate::agent::Agent;
use crate::run_environments::Spaces;

fn spaces() -> (Space, Space) {
    let observation = Space::boxed(&[3], -10.0, 10.0).unwrap();
    (observation, Space::discrete(4).unwrap())
}

fn agent(config: &DqnConfig, seed: u64) -> DqnAgent {
    let (observation, action) = spaces();
    let spaces = Spaces::new(observation, action).unwrap();
    DqnAgent::new(config, &spaces, seed, &Device::host()).unwrap()
}

fn small(batch_size: usize, gradient_blocks: usize) -> DqnConfig {
    DqnConfig {
        network: QNetworkShape {
            hidden: vec![7, 5],
            dueling: None,
        },
        batch_size,
        gradient_blocks,
        learning_starts: 1000,
        ..DqnConfig::default()
    }
}

/// Transitions of the layout, and importance weights.
fn batch(n: usize, seed: u64) -> (Rows, Vec<f32>) {
    let mut stream = KeyedRng::new(seed, "test batch", 0);
    let mut rows = Rows::new(transition_layout(3).unwrap());
    let mut weights = Vec::new();
    for _ in 0..n {
        let [observation, next] = [(); 2].map(|()| [(); 3].map(|()| stream.normal() as f32));
        let discount = if stream.chance(0.2) { 0.0 } else { 0.97 };
        rows.push(&[
            LeafRef::F32(&observation),
            LeafRef::U32(&[stream.below_u32(4)]),
            LeafRef::F32(&[stream.normal() as f32]),
            LeafRef::F32(&next),
            LeafRef::F32(&[discount]),
        ])
        .unwrap();
        weights.push(0.1 + stream.uniform_f32());
    }
    (rows, weights)
}

fn transitions(rows: &Rows) -> Vec<Transition> {
    let floats = |column: usize, row: usize, width: usize| {
        let values = &rows.f32s(column)[row * width..(row + 1) * width];
        values.iter().copied().map(f64::from).collect::<Vec<f64>>()
    };
    let transition = |row: usize| Transition {
        observation: floats(0, row, 3),
        action: rows.u32s(1)[row] as usize,
        reward: floats(2, row, 1)[0],
        next: floats(3, row, 3),
        discount: floats(4, row, 1)[0],
    };
    (0..rows.len()).map(transition).collect()
}

/// Online and target layers of a plain network, whose weights and biases come in turn.
fn layers(params: &Params) -> (Vec<Layer>, Vec<Layer>) {
    let layer = |w: ParamId, b: ParamId| {
        let width = params.shape(w).cols;
        let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<f64>>();
        Layer {
            weights: params.values_of(w).chunks_exact(width).map(wide).collect(),
            biases: wide(params.values_of(b)),
        }
    };
    let ids: Vec<ParamId> = params.ids().collect();
    let mut all: Vec<Layer> = ids
        .chunks_exact(2)
        .map(|pair| layer(pair[0], pair[1]))
        .collect();
    let target = all.split_off(all.len() / 2);
    (all, target)
}

fn update(agent: &mut DqnAgent, batch: (&Rows, Option<&[f32]>)) -> Update {
    agent
        .update(batch, &mut Comm::solo(), Timeout::default())
        .unwrap()
}

#[test]
fn an_update_is_that_of_plain_loops() {
    for (is_double, huber_delta, is_weighted) in [
        (false, None, false),
        (true, None, true),
        (true, Some(0.5), true),
        (false, Some(0.5), false),
    ] {
        let mut config = small(24, 3);
        config.double = is_double;
        config.td_loss = huber_delta.map_or(TdLoss::Mse, |delta| TdLoss::Huber { delta });
        config.replay.prioritized = is_weighted.then(PrioritizedConfig::default);
        let mut agent = agent(&config, 5);
        // Online and target networks that differ.
        let other: Vec<f32> = agent.weights().iter().map(|w| 0.7 - w).collect();
        agent.set_weights(&other).unwrap();
        let (rows, weights) = batch(24, 9);
        let (online, target) = layers(agent.params());
        let given = update(&mut agent, (&rows, is_weighted.then_some(&weights)));
        let mut loss = 0.0;
        for (idx, transition) in transitions(&rows).iter().enumerate() {
            let error = naive::td_error(&online, &target, is_double, transition);
            let found = f64::from(agent.td_errors()[idx]);
            assert!(
                (found - error).abs() < 1e-4 * (1.0 + error.abs()),
                "{found} {error}"
            );
            let weight = if is_weighted {
                f64::from(weights[idx])
            } else {
                1.0
            };
            loss += weight * naive::cost(error, huber_delta.map(f64::from)) / 24.0;
        }
        let found = f64::from(given.loss);
        assert!((found - loss).abs() < 1e-4 * loss, "{found} {loss}");
        // The mean value follows from the errors: its prediction is error plus target.
        assert!(given.q_mean.is_finite());
        assert_ne!(agent.weights(), other, "a step was taken");
    }
}

/// The step follows the gradient of the loss: finite differences in f64 through the plain loops.
#[test]
fn the_gradient_is_that_of_plain_loops() {
    let mut config = small(8, 2);
    config.double = true;
    config.optimiser.rule = shardgraph_components::OptimiserRule::Sgd;
    config.optimiser.learning_rate = 1.0;
    let mut agent = agent(&config, 3);
    let (rows, _) = batch(8, 4);
    let before = agent.weights().to_vec();
    let loss = |agent: &DqnAgent| {
        let (online, target) = layers(agent.params());
        let cost = |t: &Transition| {
            // The target is a constant: a double network's choice moves it in jumps only.
            naive::cost(naive::td_error(&online, &target, true, t), None) / 8.0
        };
        transitions(&rows).iter().map(cost).sum::<f64>()
    };
    update(&mut agent, (&rows, None));
    let gradient: Vec<f32> = before
        .iter()
        .zip(agent.weights())
        .map(|(b, a)| b - a)
        .collect();
    for at in (0..before.len()).step_by(7) {
        let mut at_offset = |offset: f32| {
            let mut moved = before.clone();
            moved[at] += offset;
            agent.set_weights(&moved).unwrap();
            loss(&agent)
        };
        let slope = (at_offset(1e-3) - at_offset(-1e-3)) / 2e-3;
        let found = f64::from(gradient[at]);
        assert!(
            (found - slope).abs() < 2e-3 * (1.0 + slope.abs()),
            "{at}: {found} {slope}"
        );
    }
}

#[test]
fn every_number_of_ranks_takes_the_same_step() {
    for n_blocks in [2, 3, 6] {
        let mut config = small(12, n_blocks);
        config.replay.prioritized = Some(PrioritizedConfig::default());
        let after = |n_ranks: u32| {
            let results = threads::run(n_ranks, |mut comm| {
                let mut agent = agent(&config, 8);
                let mut bits = Vec::new();
                for seed in 0..4 {
                    let (rows, weights) = batch(12, seed);
                    let batch = (&rows, Some(&weights[..]));
                    let update = agent.update(batch, &mut comm, Timeout::default()).unwrap();
                    bits.extend([update.loss.to_bits(), update.q_mean.to_bits()]);
                    bits.extend(agent.td_errors().iter().map(|x| x.to_bits()));
                }
                bits.extend(agent.weights().iter().map(|x| x.to_bits()));
                bits
            });
            let mut bits: Vec<Vec<u32>> = results.into_iter().map(Result::unwrap).collect();
            bits.dedup();
            assert_eq!(bits.len(), 1, "ranks differ");
            bits.swap_remove(0)
        };
        let one = after(1);
        for n_ranks in 2..=n_blocks as u32 {
            assert!(
                after(n_ranks) == one,
                "{n_ranks} ranks and {n_blocks} blocks"
            );
        }
    }
}

#[test]
fn acting_is_the_first_of_the_best_or_random() {
    let mut agent = agent(&small(4, 1), 2);
    let (online, _) = layers(agent.params());
    let mut stream = KeyedRng::new(1, "test", 0);
    let mut actions = Vec::new();
    for n in [0, 1, 2, 31, 32, 33] {
        let observations: Vec<f32> = (0..3 * n).map(|_| stream.normal() as f32).collect();
        agent
            .act(&observations[..], 0.0, &mut stream, &mut actions)
            .unwrap();
        assert_eq!(actions.len(), n);
        for (row, &action) in observations.chunks_exact(3).zip(&actions) {
            let row: Vec<f64> = row.iter().copied().map(f64::from).collect();
            let values = naive::q_values(&online, &row);
            let best = values.iter().copied().fold(f64::MIN, f64::max);
            assert!(values[action as usize] > best - 1e-5, "{values:?} {action}");
        }
    }
    agent
        .act(&[0.5; 3 * 4000], 1.0, &mut stream, &mut actions)
        .unwrap();
    for action in 0..4 {
        let n = actions.iter().filter(|&&other| other == action).count();
        assert!((850..1150).contains(&n), "{action}: {n} of 4000");
    }
    let zeros = vec![0.0; agent.weights().len()];
    agent.set_weights(&zeros).unwrap();
    agent
        .act(&[0.5; 6], 0.0, &mut stream, &mut actions)
        .unwrap();
    assert_eq!(actions, [0, 0], "all values are equal");
}

#[test]
fn new_weights_act_at_once() {
    let mut agent = agent(&small(4, 1), 2);
    let (mut stream, mut actions) = (KeyedRng::new(1, "test", 0), Vec::new());
    let observations: Vec<f32> = (0..300).map(|_| stream.normal() as f32).collect();
    agent
        .act(&observations[..], 0.0, &mut stream, &mut actions)
        .unwrap();
    let before = actions.clone();
    let opposite: Vec<f32> = agent.weights().iter().map(|w| -w).collect();
    agent.set_weights(&opposite).unwrap();
    agent
        .act(&observations[..], 0.0, &mut stream, &mut actions)
        .unwrap();
    assert_ne!(actions, before);
}

fn assert_says<T>(result: Result<T, crate::Error>, part: &str) {
    let message = result.err().unwrap().to_string();
    assert!(message.contains(part), "{part}: {message}");
}

#[test]
fn observations_that_do_not_fit_are_named() {
    let mut agent = agent(&small(4, 2), 1);
    let (mut stream, mut actions) = (KeyedRng::new(1, "test", 0), Vec::new());
    let mut act = |observations: &[f32]| agent.act(observations, 1.0, &mut stream, &mut actions);
    let message = "DqnAgent::act: the observations: expected rows of 3, given 4 numbers";
    assert_says(act(&[0.0; 4]), message);
    for epsilon in [-0.1, 1.1, f32::NAN] {
        let acted = agent.act(&[0.0; 3], epsilon, &mut stream, &mut actions);
        let message = format!("DqnAgent::act: epsilon: expected 0 to 1, given {epsilon}");
        assert_says(acted, &message);
    }
    let mut act = |observations: &[f32]| agent.act(observations, 1.0, &mut stream, &mut actions);
    for wrong in [f32::INFINITY, f32::NAN] {
        let message = format!(
            "DqnAgent::act: element 1 of the observation of environment 1: expected a finite number, given {wrong}"
        );
        assert_says(act(&[0.0, 0.0, 0.0, 0.0, wrong, 0.0]), &message);
    }
}

#[test]
fn batches_that_do_not_fit_are_named() {
    let mut agent = agent(&small(4, 2), 1);
    let mut update = |rows: &Rows, weights: Option<&[f32]>| {
        agent.update((rows, weights), &mut Comm::solo(), Timeout::default())
    };
    let (rows, weights) = batch(4, 1);
    assert_says(
        update(&batch(3, 1).0, None),
        "DqnAgent::update: the rows of the batch: expected 4, given 3",
    );
    assert_says(
        update(&rows, Some(&weights)),
        "the importance weights: expected 0, given 4",
    );
    let mut weighted = small(4, 2);
    weighted.replay.prioritized = Some(PrioritizedConfig::default());
    let mut weighted = self::agent(&weighted, 1);
    let broken = [1.0, f32::NAN, 1.0, 1.0];
    let updated = weighted.update(
        (&rows, Some(&broken)),
        &mut Comm::solo(),
        Timeout::default(),
    );
    let message = "DqnAgent::update: an importance weight: expected a finite number, given NaN";
    assert_says(updated, message);
    let narrow = Rows::new(transition_layout(2).unwrap());
    assert_says(update(&narrow, None), "the layout of the batch: expected");
    let mut wrong_action = batch(3, 1).0;
    let (observation, number) = (LeafRef::F32(&[0.0; 3]), LeafRef::F32(&[0.0]));
    let cells = [observation, LeafRef::U32(&[4]), number, observation, number];
    wrong_action.push(&cells).unwrap();
    assert_says(
        update(&wrong_action, None),
        "an action of the batch: expected 0 to 3, given 4",
    );
}

/// An update cannot be given a number that is not finite: no batch holds one.
#[test]
fn rows_that_are_not_finite_are_named_before_they_are_in_a_batch() {
    for (column, name) in [
        (0, "observation"),
        (2, "reward"),
        (3, "next_observation"),
        (4, "discount"),
    ] {
        let (mut rows, _) = batch(3, 1);
        let mut floats = [const { [0.0f32; 3] }; 5];
        let last = if matches!(column, 0 | 3) { 2 } else { 0 };
        floats[column][last] = f32::NAN;
        let cells = [
            LeafRef::F32(&floats[0]),
            LeafRef::U32(&[1]),
            LeafRef::F32(&floats[2][..1]),
            LeafRef::F32(&floats[3]),
            LeafRef::F32(&floats[4][..1]),
        ];
        let pushed = rows.push(&cells).map_err(crate::Error::from);
        let message = format!("Rows::push: column {name}: expected finite numbers, given NaN");
        assert_says(pushed, &message);
        assert_eq!(rows.len(), 3);
    }
}

/// A run on the device that failed has dropped the weights there: the next one takes them again.
#[test]
fn an_agent_acts_again_after_a_run_that_failed() {
    let mut agent = agent(&small(4, 1), 2);
    let (mut stream, mut actions) = (KeyedRng::new(1, "test", 0), Vec::new());
    let observations: Vec<f32> = (0..300).map(|_| stream.normal() as f32).collect();
    let mut act = |agent: &mut DqnAgent| {
        let acted = agent.act(&observations[..], 0.0, &mut stream, &mut actions);
        acted.map(|()| actions.clone())
    };
    let expected = act(&mut agent).unwrap();
    agent.drop_weights_of_programs();
    assert!(act(&mut agent).is_err());
    assert_eq!(act(&mut agent).unwrap(), expected);
}

#[test]
fn weights_and_spaces_that_do_not_fit_are_named() {
    let mut agent = agent(&small(4, 2), 1);
    let message = "DqnAgent::set_weights: weight 0: expected a finite number, given NaN";
    let n_weights = agent.weights().len();
    assert_says(agent.set_weights(&vec![f32::NAN; n_weights]), message);
    let message =
        format!("DqnAgent::set_weights: the number of weights: expected {n_weights}, given 1");
    assert_says(agent.set_weights(&[0.0]), &message);
    let (observation, action) = spaces();
    let config = small(4, 1);
    let spaces = Spaces::new(observation.clone(), observation).unwrap();
    let built = DqnAgent::new(&config, &spaces, 1, &Device::host());
    let message = "component `online`, QNetwork::build: the action space: expected";
    assert_says(built, message);
    let graph = Space::graph(1, 0).unwrap();
    let message = "graph";
    assert_says(Spaces::new(graph, action), message);
}

#[test]
fn divergence_is_told() {
    let mut config = small(4, 1);
    config.optimiser.rule = shardgraph_components::OptimiserRule::Sgd;
    config.optimiser.learning_rate = 1e30;
    let mut agent = agent(&config, 1);
    let (rows, _) = batch(4, 1);
    let mut errors = (0..5).filter_map(|_| {
        agent
            .update((&rows, None), &mut Comm::solo(), Timeout::default())
            .err()
    });
    let message = errors.next().unwrap().to_string();
    assert!(message.contains("diverged"), "{message}");
}
