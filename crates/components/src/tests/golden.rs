//! Numbers that were made elsewhere: a script in Python went through the published formulas in f64,
//! with numbers that are all different, so that no two of them can change places unseen. What goes
//! in stands here whole.

use shardgraph_autodiff::{Ctx, Params, Var};
use shardgraph_environments::space::Space;
use shardgraph_replay::{Ending, NStepAssembler};

use super::losses::derivatives;
use super::{assert_close, run};
use crate::{
    DqnBatch, DqnLoss, DuelingHead, Error, Initialiser, Lstm, LstmState, Reinforce, Sequences,
    SoftmaxPolicy, TdLoss, VTrace, VTraceInputs,
};

/// `torch.nn.LSTM(2, 2)` by its documented formulas, from a state that is not zero. Rows of
/// `weight_ih` and so on in PyTorch's order (input, forget, candidate, output), which are columns
/// here, with the output's before the candidate's: `weight_ih = [[-.4, -.25], [-.04, .11], [.32,
/// -.38], [-.17, -.02], [.19, .34], [-.3, -.15], [.06, .21], [.42, -.28]]`.
#[test]
fn a_memory_of_two_units() {
    let w_x = [
        [-0.4, -0.04, 0.32, -0.17, 0.06, 0.42, 0.19, -0.3],
        [-0.25, 0.11, -0.38, -0.02, 0.21, -0.28, 0.34, -0.15],
    ];
    let w_h = [
        [-0.27, -0.113, 0.044, 0.201, 0.102, 0.259, -0.212, -0.055],
        [0.04, 0.197, -0.216, -0.059, -0.158, -0.001, 0.098, 0.255],
    ];
    let b = [-0.065, 0.025, 0.115, -0.035, -0.005, 0.085, 0.055, 0.145];
    let mut params = Params::new();
    let lstm = Lstm::build(&mut params, "core", 2, 2, Initialiser::default()).unwrap();
    let flat = [w_x.concat(), w_h.concat(), b.to_vec()].concat();
    params.set_flat(&flat).unwrap();
    let inputs: [(usize, &[f32]); 4] = [
        (2, &[0.5, -1.0, 2.0, 0.25, -0.75, 1.5]),
        (1, &[0.0; 3]),
        (2, &[0.25, -0.5]),
        (2, &[1.0, -0.125]),
    ];
    let out = run(&params, &inputs, |ctx, x| {
        let (hidden, cell) = (x[2], x[3]);
        let state = LstmState { hidden, cell };
        let rows = Sequences::time_major(3, 1);
        let (outputs, state) = lstm.unroll(ctx, x[0], x[1], state, rows)?;
        Ok(vec![outputs, state.hidden, state.cell])
    });
    let hidden = [
        [0.240073409, -0.039377566],
        [0.246067135, -0.178341016],
        [0.177729055, -0.031753414],
    ];
    assert_close(&out[0], &hidden.concat(), 2e-7);
    assert_close(&out[1], &hidden[2], 2e-7);
    assert_close(&out[2], &[0.31724027, -0.089047302], 2e-7);
}

/// By the recursion of Espeholt et al. (2018), remark 1, from the last step to the first; the third
/// step ends an episode.
#[test]
fn targets_of_v_trace() {
    let columns: [(usize, &[f32]); 5] = [
        (1, &[0.3, -0.2, 0.6, -1.1]),
        (1, &[1.0, -0.5, 2.0, 0.25]),
        (1, &[0.9, 0.9, 0.0, 0.9]),
        (1, &[0.4, -0.3, 1.2, 0.7]),
        (1, &[-0.6]),
    ];
    let v_trace = VTrace {
        rho_bar: 1.25,
        c_bar: 0.9,
        lambda: 0.95,
    };
    let out = run(&Params::new(), &columns, |ctx, x| {
        let inputs = VTraceInputs {
            log_ratios: x[0],
            rewards: x[1],
            discounts: x[2],
            values: x[3],
            bootstrap: x[4],
            rows: Sequences::time_major(4, 1),
        };
        let out = v_trace.apply(ctx, &inputs)?;
        Ok(vec![out.targets, out.advantages])
    });
    let targets = [1.9055731, 1.12049786, 2.2, 0.37045763];
    assert_close(&out[0], &targets, 5e-7);
    let advantages = [2.01056009, 1.45734074, 1.0, -0.32954237];
    assert_close(&out[1], &advantages, 5e-7);
}

/// Wang et al. (2016), equation 9, with one linear layer a stream.
#[test]
fn a_dueling_head_of_three_actions() {
    let mut params = Params::new();
    let head = DuelingHead::build(&mut params, "head", 2, &[], 3, Initialiser::default());
    let head = head.unwrap();
    let value = [0.3, -0.7, 0.2]; // w, then b
    let advantage = [0.1, -0.4, 0.9, 0.6, 0.25, -0.15, 0.05, -0.1, 0.3];
    params.set_flat(&[&value[..], &advantage].concat()).unwrap();
    let q = run(&params, &[(2, &[1.0, -2.0, 0.5, 3.0])], |ctx, x| {
        Ok(vec![head.q_values(ctx, x[0])?])
    });
    let first = [1.03333333, 1.08333333, 3.58333333];
    let second = [-0.73333333, -2.18333333, -2.33333333];
    assert_close(&q[0], &[first, second].concat(), 5e-7);
}

/// Three windows of three rewards at gamma 0.9, of which the last terminated after two: rewards and
/// discounts as a memory has them.
fn folded() -> (Vec<f32>, Vec<f32>) {
    let mut folded = Vec::new();
    for (rewards, ending) in [
        (&[1.0, 2.0, -0.5][..], None),
        (&[0.25, -1.0, 3.0], None),
        (&[0.5, 1.5], Some(Ending::Terminated)),
    ] {
        let (mut folder, mut out) = (NStepAssembler::new(3, 0.9), Vec::new());
        for (i, &reward) in rewards.iter().enumerate() {
            let ending = ending.filter(|_| i + 1 == rewards.len());
            folder.push((), reward, ending, &mut out);
        }
        folded.push((out[0].reward_sum, out[0].discount));
    }
    folded.into_iter().unzip()
}

/// Importance weights 0.5, 1 and 0.8, delta 1.5; the online network's best next actions are 2, 1
/// and 2, the target network's 1, 0 and 2.
#[test]
fn losses_of_dqn_over_three_steps() {
    let (rewards, discounts) = folded();
    assert_close(&rewards, &[2.395, 1.78, 1.85], 1e-7);
    assert_close(&discounts, &[0.729, 0.729, 0.0], 1e-7);
    let columns: [(usize, &[f32]); 7] = [
        (3, &[0.5, 1.25, -0.75, 2.0, 0.1, 0.3, -0.4, 0.6, 1.1]),
        (3, &[1.0, 3.0, 2.0, 0.2, -0.3, -0.9, 5.0, 6.0, 7.0]),
        (3, &[0.7, 0.1, 0.9, -0.5, 0.4, 0.3, 1.0, 2.0, 3.0]),
        (3, &[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
        (1, &rewards),
        (1, &discounts),
        (1, &[0.5, 1.0, 0.8]),
    ];
    let plain = (
        [-3.332, 0.0742, -0.75],
        [2.00220588, 0.7214176067, 1.3856676067],
    );
    let double = (
        [-2.603, 0.4387, -0.75],
        [1.34342073, 0.5703262817, 1.0523262817],
    );
    for (double, (errors, [mse, huber, unweighted])) in [(false, plain), (true, double)] {
        for (td_loss, n_columns, expected) in [
            (TdLoss::Mse, 7, mse),
            (TdLoss::Huber { delta: 1.5 }, 7, huber),
            (TdLoss::Huber { delta: 1.5 }, 6, unweighted),
        ] {
            let loss = DqnLoss { td_loss, double };
            let columns = &columns[..n_columns];
            let out = run(&Params::new(), columns, |ctx, x| dqn(loss, ctx, x));
            assert_close(&out[0], &[expected], 5e-7);
            assert_close(&out[1], &errors, 5e-7);
        }
        let td_loss = TdLoss::Huber { delta: 1.5 };
        let by = derivatives(&columns, |ctx, x| dqn(DqnLoss { td_loss, double }, ctx, x));
        let of_second = if double { 0.14623333 } else { 0.02473333 };
        let by_q = [0.0, -0.25, 0.0, of_second, 0.0, 0.0, 0.0, 0.0, -0.2];
        assert_close(&by[0], &by_q, 2e-7);
    }
}

fn dqn(loss: DqnLoss, ctx: &mut dyn Ctx, x: &[Var]) -> Result<Vec<Var>, Error> {
    let batch = DqnBatch {
        observations: x[0],
        next_observations: x[0],
        actions: x[3],
        rewards: x[4],
        discounts: x[5],
        weights: x.get(6).copied(),
        next_mask: None,
    };
    let chooser = if loss.double { x[2] } else { x[1] };
    let targets = loss.targets(ctx, x[1], chooser, &batch)?;
    let out = loss.of_values(ctx, x[0], targets, &batch)?;
    Ok(vec![out.loss, out.td_errors])
}

/// The derivatives by the logits.
const BY_LOGITS: [[f64; 3]; 4] = [
    [0.06289617, 0.01741242, -0.08030859],
    [0.12034963, -0.07981338, -0.04053625],
    [-0.04267327, 0.07831122, -0.03563795],
    [0.01295282, -0.0501398, 0.03718698],
];

/// With normalised advantages.
const BY_LOGITS_NORMALISED: [[f64; 3]; 4] = [
    [0.06779298, 0.01888731, -0.08668029],
    [0.11484626, -0.0761361, -0.03871016],
    [-0.03711211, 0.06819696, -0.03108486],
    [0.01377241, -0.05318725, 0.03941485],
];

/// Williams (1992) with a baseline and an entropy bonus; the derivatives by the logits too, by
/// hand: `-A (1 - p) / n` and so on.
#[test]
fn losses_of_reinforce() {
    let columns: [(usize, &[f32]); 4] = [
        (
            3,
            &[
                0.2, -1.0, 0.7, 1.5, 0.3, -0.4, 0.0, 0.1, -0.2, -0.6, 2.0, 0.4,
            ],
        ),
        (
            3,
            &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0],
        ),
        (1, &[1.0, -2.0, 0.5, 3.0]),
        (1, &[0.25, -0.5, 1.0, 2.0]),
    ];
    let (entropy, baseline) = (0.870347415, 1.015625);
    for (normalise, loss, policy, by_logits) in [
        (false, 0.170070667, -0.0910994623, BY_LOGITS),
        (true, 0.20431919, -0.0568509397, BY_LOGITS_NORMALISED),
    ] {
        let settings = Reinforce {
            normalise,
            baseline_coefficient: 0.3,
            entropy_coefficient: 0.05,
        };
        let method = |ctx: &mut dyn Ctx, x: &[Var]| reinforce(settings, ctx, x);
        let out = run(&Params::new(), &columns, method);
        for (given, expected) in out.iter().zip([loss, policy, entropy, baseline]) {
            assert_close(given, &[expected], 3e-7);
        }
        let by = derivatives(&columns, method);
        assert_close(&by[0], &by_logits.concat(), 2e-7);
    }
}

fn reinforce(settings: Reinforce, ctx: &mut dyn Ctx, x: &[Var]) -> Result<Vec<Var>, Error> {
    let of = SoftmaxPolicy::build("policy", &Space::discrete(3)?)?;
    let out = settings.apply(ctx, &of, x[0], Some(x[3]), x[1], x[2])?;
    let parts = [
        Some(out.loss),
        Some(out.policy),
        Some(out.entropy),
        out.baseline,
    ];
    Ok(parts.into_iter().flatten().collect())
}
