//! The agent's planned update, in blocks, against the same one define-by-run over the whole batch.

use shardgraph_autodiff::{Ctx, Eager, Params, Shape};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{
    Initialiser, OptimiserRule, SacBatch, SacDistribution, SacLoss, SacNetworks, SacPolicy,
    Temperature, TwinCritic,
};
use shardgraph_device::Device;
use shardgraph_environments::space::Space;
use shardgraph_random::KeyedRng;
use shardgraph_replay::{LeafRef, Rows};

use crate::dqn::{column, layout_of};
use crate::run_environments::Spaces;
use crate::sac::{SacAgent, SacConfig, SacNetworkConfig, TemperatureConfig};

const N: usize = 12;
const N_INPUTS: usize = 3;
const N_ACTIONS: usize = 4;
const SEED: u64 = 5;

fn config() -> SacConfig {
    let mut config = SacConfig {
        network: SacNetworkConfig { hidden: vec![6, 5] },
        temperature: TemperatureConfig {
            initial: 0.4,
            ..TemperatureConfig::default()
        },
        tau: 0.25,
        batch_size: N,
        gradient_blocks: 3,
        ..SacConfig::default()
    };
    config.optimiser.rule = OptimiserRule::Sgd;
    config.optimiser.learning_rate = 0.1;
    config
}

/// Transitions of these spaces, some of which end an episode.
fn batch(spaces: &Spaces) -> Rows {
    let mut stream = KeyedRng::new(9, "test batch", 0);
    let mut rows = Rows::new(layout_of(spaces).unwrap());
    for idx in 0..N {
        let [observation, next] = [(); 2].map(|()| [(); N_INPUTS].map(|()| stream.normal() as f32));
        let elements = [(); 2].map(|()| 4.0 * stream.uniform_f32() - 2.0);
        let number = [stream.below_u32(N_ACTIONS as u32)];
        let action = match spaces.action_form().0 {
            true => LeafRef::F32(&elements),
            false => LeafRef::U32(&number),
        };
        rows.push(&[
            LeafRef::F32(&observation),
            action,
            LeafRef::F32(&[stream.normal() as f32]),
            LeafRef::F32(&next),
            LeafRef::F32(&[if idx % 4 == 1 { 0.0 } else { 0.9 }]),
        ])
        .unwrap();
    }
    rows
}

/// All weights after the update: those that are trained a step down the gradient, and the slow critics a part of the way to the new ones.
fn expected(config: &SacConfig, spaces: &Spaces, rows: &Rows) -> Vec<f32> {
    let first = Initialiser {
        seed: SEED,
        ..Initialiser::default()
    };
    let (both, hidden) = (spaces.both(), &config.network.hidden[..]);
    let mut params = Params::new();
    let policy = SacPolicy::build(&mut params, "policy", both, hidden, first).unwrap();
    let temperature = Temperature::build(&mut params, "temperature", 0.4, true).unwrap();
    let n_before_critics = params.trained_len();
    let critics = TwinCritic::build(&mut params, "critics", both, hidden, first).unwrap();
    params.freeze_rest();
    let targets = TwinCritic::build(&mut params, "targets", both, hidden, first).unwrap();
    params.copy_trained_to_frozen().unwrap();
    let networks = SacNetworks {
        policy: &policy,
        temperature: &temperature,
        critics: &critics,
        targets: &targets,
    };
    let mut stream = KeyedRng::new(1, "noise", 0);
    let mut noise = || -> Vec<f32> {
        let n = N * policy.n_noise_columns();
        (0..n).map(|_| stream.normal() as f32).collect()
    };
    let noises = [noise(), noise()];
    let actions: Vec<f32> = match policy.distribution() {
        // The box is twice as wide as the drawn elements.
        SacDistribution::Squashed(_) => rows.f32s(column::ACTION).iter().map(|x| x / 2.0).collect(),
        SacDistribution::Softmax(_) => {
            let taken = rows.u32s(column::ACTION).iter();
            let one_hot = |&taken: &u32| [0, 1, 2, 3].map(|k| f32::from(u8::from(k == taken)));
            taken.flat_map(one_hot).collect()
        }
    };
    let (device, mut comm) = (Device::host(), Comm::solo());
    let mut ctx = Eager::new(&device, &mut comm, &params);
    let mut input = |values: &[f32]| {
        let shape = Shape::new(N, values.len() / N);
        ctx.input(shape, values).unwrap()
    };
    let batch = SacBatch {
        observations: input(rows.f32s(column::OBSERVATION)),
        actions: input(&actions),
        rewards: input(rows.f32s(column::REWARD)),
        discounts: input(rows.f32s(column::DISCOUNT)),
        next_observations: input(rows.f32s(column::NEXT_OBSERVATION)),
        noise: (!noises[0].is_empty()).then(|| input(&noises[0])),
        next_noise: (!noises[1].is_empty()).then(|| input(&noises[1])),
    };
    let loss = SacLoss {
        target_entropy: config.target_entropy(spaces),
    };
    let out = loss.of_networks(&mut ctx, &networks, &batch).unwrap();
    let gradient = ctx.param_gradient(out.loss).unwrap();
    let stepped = params.trained().iter().zip(&gradient);
    let mut all: Vec<f32> = stepped.map(|(w, g)| w - 0.1 * g).collect();
    let slow = params.flat()[all.len()..]
        .iter()
        .zip(&all[n_before_critics..]);
    let slow: Vec<f32> = slow.map(|(slow, new)| 0.75 * slow + 0.25 * new).collect();
    all.extend(slow);
    all
}

#[test]
fn the_planned_update_is_the_eager_one() {
    let observation = Space::boxed(&[N_INPUTS], -1.0, 1.0).unwrap();
    for action in [
        Space::boxed(&[2], -2.0, 2.0).unwrap(),
        Space::discrete(N_ACTIONS as u32).unwrap(),
    ] {
        let spaces = Spaces::new(observation.clone(), action).unwrap();
        let (config, rows) = (config(), batch(&spaces));
        let mut agent = SacAgent::new(&config, &spaces, SEED, &Device::host()).unwrap();
        let before = agent.params().flat().to_vec();
        let mut noise = KeyedRng::new(1, "noise", 0);
        agent
            .update(&rows, &mut noise, &mut Comm::solo(), Timeout::default())
            .unwrap();
        let expected = expected(&config, &spaces, &rows);
        let all = agent.params().flat();
        assert_eq!(all.len(), expected.len());
        for (at, (given, expected)) in all.iter().zip(&expected).enumerate() {
            assert!(
                (given - expected).abs() < 2e-6,
                "weight {at}: {given} {expected}"
            );
        }
        let moved = before.iter().zip(all).filter(|(before, now)| before != now);
        assert!(moved.count() > all.len() / 2);
    }
}
