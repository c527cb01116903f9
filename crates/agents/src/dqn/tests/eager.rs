//! The agent's planned update against the same one define-by-run: the same bits.

use shardgraph_autodiff::{Ctx, Eager, Params, Shape};
use shardgraph_collectives::Comm;
use shardgraph_components::{DqnBatch, EnvironmentSpaces, Initialiser, OptimiserRule, QNetwork};
use shardgraph_device::Device;
use shardgraph_replay::{LeafRef, Rows};

use super::{agent, batch, small, spaces, update};
use crate::agent::Agent;
use crate::dqn::{DqnAgent, DqnConfig, PrioritizedConfig, column, layout_of};
use crate::observations::penalties;
use crate::run_environments::Spaces;

/// What an update computes.
struct Computed {
    loss: f32,
    td_errors: Vec<f32>,
    gradient: Vec<f32>,
}

struct Networks {
    params: Params,
    online: QNetwork,
    target: QNetwork,
}

/// Both networks of the agent of these settings and this seed, as the agent makes them.
fn networks(config: &DqnConfig, seed: u64) -> Networks {
    let (observation, action) = spaces();
    let initialiser = Initialiser {
        seed,
        ..Initialiser::default()
    };
    let mut params = Params::new();
    let build = |params: &mut Params, scope| {
        let spaces = EnvironmentSpaces::new(&observation, &action);
        QNetwork::build(params, scope, spaces, &config.network, initialiser).unwrap()
    };
    let online = build(&mut params, "online");
    params.freeze_rest();
    let target = build(&mut params, "target");
    params.copy_trained_to_frozen().unwrap();
    Networks {
        params,
        online,
        target,
    }
}

fn eagerly(config: &DqnConfig, networks: &Networks, rows: &Rows, weights: &[f32]) -> Computed {
    let Networks {
        params,
        online,
        target,
    } = networks;
    let (device, mut comm) = (Device::host(), Comm::solo());
    let mut ctx = Eager::new(&device, &mut comm, params);
    let mut one_hot = vec![0.0; rows.len() * 4];
    for (row, &action) in one_hot.chunks_exact_mut(4).zip(rows.u32s(1)) {
        row[action as usize] = 1.0;
    }
    let mut input = |values: &[f32]| {
        let shape = Shape::new(rows.len(), values.len() / rows.len());
        ctx.input(shape, values).unwrap()
    };
    let inputs = DqnBatch {
        observations: input(rows.f32s(0)),
        actions: input(&one_hot),
        rewards: input(rows.f32s(2)),
        discounts: input(rows.f32s(4)),
        next_observations: input(rows.f32s(3)),
        weights: Some(input(weights)),
        next_mask: (rows.layout().columns().len() > column::NEXT_MASK).then(|| {
            let flags = rows.u8s(column::NEXT_MASK).iter();
            input(&penalties(flags.map(|&flag| flag == 1)).collect::<Vec<f32>>())
        }),
    };
    let loss = config.loss();
    let output = loss.of_networks(&mut ctx, online, target, &inputs).unwrap();
    Computed {
        loss: ctx.values(output.loss).unwrap()[0],
        td_errors: ctx.values(output.td_errors).unwrap(),
        gradient: ctx.param_gradient(output.loss).unwrap(),
    }
}

/// A batch whose next states allow two of the four actions.
fn masked_batch(spaces: &Spaces, n: usize) -> (Rows, Vec<f32>) {
    let (plain, weights) = batch(n, 9);
    let mut rows = Rows::new(layout_of(spaces).unwrap());
    for row in 0..n {
        let floats = |column: usize, width: usize| &plain.f32s(column)[row * width..][..width];
        let mask = [0, 1, 2, 3].map(|action| u8::from((action + row) % 4 < 2));
        rows.push(&[
            LeafRef::F32(floats(0, 3)),
            LeafRef::U32(&plain.u32s(1)[row..=row]),
            LeafRef::F32(floats(2, 1)),
            LeafRef::F32(floats(3, 3)),
            LeafRef::F32(floats(4, 1)),
            LeafRef::U8(&mask),
        ])
        .unwrap();
    }
    (rows, weights)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn the_planned_update_has_the_bits_of_the_eager_one() {
    for (is_double, dueling) in [(false, None), (true, Some(vec![4])), (true, Some(vec![]))] {
        let mut config = small(24, 1);
        config.double = is_double;
        config.network.dueling = dueling;
        config.replay.prioritized = Some(PrioritizedConfig::default());
        config.optimiser.rule = OptimiserRule::Sgd;
        let (rows, weights) = batch(24, 9);
        let mut agent = agent(&config, 5);
        let networks = networks(&config, 5);
        assert_eq!(networks.params.flat(), agent.params().flat());
        let expected = eagerly(&config, &networks, &rows, &weights);

        let given = update(&mut agent, (&rows, Some(&weights)));
        assert_eq!(given.loss.to_bits(), expected.loss.to_bits());
        assert_eq!(bits(agent.td_errors()), bits(&expected.td_errors));
        let step = config.optimiser.learning_rate;
        let stepped = networks.params.trained().iter().zip(&expected.gradient);
        let stepped: Vec<f32> = stepped.map(|(w, g)| w - step * g).collect();
        assert_eq!(bits(agent.weights()), bits(&stepped));
    }
}

/// The target's best action is one that the next state allows.
#[test]
fn masks_of_next_states_reach_the_planned_update() {
    for is_double in [false, true] {
        let mut config = small(24, 1);
        config.double = is_double;
        config.replay.prioritized = Some(PrioritizedConfig::default());
        let (observation, action) = spaces();
        let spaces = Spaces::new(observation, action).unwrap().with_masks();
        let (rows, weights) = masked_batch(&spaces, 24);
        let mut agent = DqnAgent::new(&config, &spaces, 5, &Device::host()).unwrap();
        let expected = eagerly(&config, &networks(&config, 5), &rows, &weights);
        update(&mut agent, (&rows, Some(&weights)));
        assert_eq!(bits(agent.td_errors()), bits(&expected.td_errors));
        let plain = batch(24, 9).0;
        let without = eagerly(&config, &networks(&config, 5), &plain, &weights);
        assert_ne!(bits(&without.td_errors), bits(&expected.td_errors));
    }
}
