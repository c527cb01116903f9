//! The learner's planned update against the same one define-by-run, with and without a memory: the same bits.

use shardgraph_autodiff::{Axis, Ctx, Eager, Params, Shape, Var};
use shardgraph_collectives::Comm;
use shardgraph_components::{
    ActorCritic, ImpalaBatch, LstmState, OptimiserConfig, OptimiserRule, PolicyAndValue, Sequences,
    SoftmaxPolicy,
};
use shardgraph_device::Device;

use super::small;
use crate::impala::actor::Actor;
use crate::impala::config::ImpalaConfig;
use crate::impala::learner::Learner;
use crate::impala::trajectory::Unroll;
use crate::policy_program::build_policy;
use crate::run_environments::Environments;
use crate::tests::environments::{cartpole, corridors};

/// Trajectories, and time steps of each.
const N: usize = 6;
const T: usize = 7;

/// What the network says of all that was seen, the observations after the last step included.
fn said(ctx: &mut Eager<'_>, network: &ActorCritic, unroll: &Unroll) -> PolicyAndValue {
    let mut input = |n_rows: usize, values: &[f32]| {
        let shape = Shape::new(n_rows, values.len() / n_rows);
        ctx.input(shape, values).unwrap()
    };
    let with_next = (T + 1) * N;
    let observations = input(with_next, &unroll.observations);
    if network.n_hidden().is_none() {
        return network.apply(ctx, observations).unwrap();
    }
    let begins = input(with_next, &unroll.begins);
    let (hidden, cell) = (input(N, &unroll.hidden), input(N, &unroll.cell));
    let state = LstmState { hidden, cell };
    let sequences = Sequences::time_major(T + 1, N);
    let said = network.unroll(ctx, observations, begins, state, sequences);
    said.unwrap().0
}

/// The gradient of the loss of an unroll.
fn gradient(
    impala: &ImpalaConfig,
    environments: &Environments,
    params: &Params,
    network: &ActorCritic,
    unroll: &Unroll,
) -> Vec<f32> {
    let policy = SoftmaxPolicy::build("policy", environments.spaces().action()).unwrap();
    let mut one_hot = Vec::new();
    policy.one_hot_into(&unroll.actions, &mut one_hot).unwrap();
    let (device, mut comm) = (Device::host(), Comm::solo());
    let mut ctx = Eager::new(&device, &mut comm, params);
    let said = said(&mut ctx, network, unroll);
    let mut part = |x: Var, first, n_rows| ctx.slice(x, Axis::Rows, first, n_rows).unwrap();
    let mut outputs = PolicyAndValue {
        logits: part(said.logits, 0, T * N),
        values: part(said.values, 0, T * N),
    };
    let bootstrap = part(said.values, T * N, N);
    let mut input = |values: &[f32]| {
        let shape = Shape::new(T * N, values.len() / (T * N));
        ctx.input(shape, values).unwrap()
    };
    let masks = environments
        .spaces()
        .has_mask()
        .then(|| input(&unroll.masks));
    let batch = ImpalaBatch {
        actions: input(&one_hot),
        behaviour: input(&unroll.behaviour),
        rewards: input(&unroll.rewards),
        discounts: input(&unroll.discounts),
        bootstrap,
        rows: Sequences::time_major(T, N),
    };
    if let Some(masks) = masks {
        outputs.logits = ctx.add(outputs.logits, masks).unwrap();
    }
    let loss = impala.loss.apply(&mut ctx, &policy, outputs, &batch);
    ctx.param_gradient(loss.unwrap().loss).unwrap()
}

#[test]
fn the_planned_update_has_the_bits_of_the_eager_one() {
    for (environments, lstm) in [
        (cartpole(), None),
        (cartpole(), Some(5)),
        (corridors(false), None),
        (corridors(true), Some(5)),
    ] {
        let mut impala = small(lstm);
        assert_eq!((impala.unroll_steps, impala.batch_trajectories), (T, N));
        impala.optimiser = OptimiserConfig {
            rule: OptimiserRule::Sgd,
            learning_rate: 0.1,
            max_gradient_norm: None,
        };
        let host = Device::host();
        let mut actor = Actor::new(&impala, &environments, N, 1, 0, &host).unwrap();
        let mut unroll = Unroll::default();
        actor.collect(&mut unroll).unwrap();
        actor.collect(&mut unroll).unwrap(); // with something to remember
        let (params, network) = build_policy(&environments, &impala.network, 1).unwrap();
        let gradient = gradient(&impala, &environments, &params, &network, &unroll);

        let mut learner = Learner::new(&impala, &environments, 1, &host).unwrap();
        learner.update(std::slice::from_ref(&unroll)).unwrap();
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let stepped = params.trained().iter().zip(&gradient);
        let stepped: Vec<f32> = stepped.map(|(w, g)| w - 0.1 * g).collect();
        assert_eq!(bits(learner.params.trained()), bits(&stepped), "{lstm:?}");
    }
}
