//! The memory cell against PyTorch's formulas in f64: many steps, states, episodes that begin
//! inside a sequence.

use proptest::prelude::*;
use shardgraph_autodiff::{Params, Shape};
use shardgraph_environments::space::Space;

use super::{assert_close, flags, normals, rows, rows_over_time, run, steps_of};
use crate::naive::{LstmWeights, lstm_step};
use crate::{
    ActorCritic, ActorCriticShape, EnvironmentSpaces, Gains, Initialisation, Initialiser, Lstm,
    LstmState, Sequences, check,
};

/// Parameter blocks (input, forget, output, candidate as columns) in PyTorch's order and direction.
fn weights(params: &Params, n_inputs: usize, n: usize) -> LstmWeights {
    let of = |name: &str| {
        let id = params.ids().find(|&id| params.name(id) == name);
        params.values_of(id.unwrap())
    };
    let (w_x, w_h, b) = (of("core/w_x"), of("core/w_h"), of("core/b"));
    let column = |row: usize| {
        let block = [0, 1, 3, 2][row / n]; // PyTorch's third is the candidate
        block * n + row % n
    };
    let rows = |w: &[f32], n_rows: usize| {
        let row = |r: usize| {
            (0..n_rows)
                .map(|i| f64::from(w[i * 4 * n + column(r)]))
                .collect()
        };
        (0..4 * n).map(row).collect()
    };
    LstmWeights {
        weight_ih: rows(w_x, n_inputs),
        weight_hh: rows(w_h, n),
        bias: (0..4 * n).map(|r| f64::from(b[column(r)])).collect(),
    }
}

fn f64s(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Hidden states of all steps, then the last hidden and cell states, each with time (and batch)
/// first.
fn naive_unroll(
    weights: &LstmWeights,
    x: &[f32],
    begins: &[f32],
    hidden: &[f32],
    cell: &[f32],
) -> [Vec<f64>; 3] {
    let [n_inputs, n_hidden] = [&weights.weight_ih, &weights.weight_hh].map(|w| w[0].len());
    let n_batch = hidden.len() / n_hidden;
    let (mut hidden, mut cell) = (f64s(hidden), f64s(cell));
    let mut outputs = Vec::new();
    for (x, begins) in x.chunks(n_batch * n_inputs).zip(begins.chunks(n_batch)) {
        for (b, begins) in begins.iter().enumerate() {
            let of = b * n_hidden..(b + 1) * n_hidden;
            if *begins > 0.5 {
                hidden[of.clone()].fill(0.0);
                cell[of.clone()].fill(0.0);
            }
            let row = f64s(&x[b * n_inputs..(b + 1) * n_inputs]);
            let (h, c) = lstm_step(weights, &row, &hidden[of.clone()], &cell[of.clone()]);
            hidden[of.clone()].copy_from_slice(&h);
            cell[of].copy_from_slice(&c);
        }
        outputs.extend_from_slice(&hidden);
    }
    [outputs, hidden, cell]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn unrolling_is_pytorchs_formula(
        n_steps in prop_oneof![Just(1usize), 2usize..6, Just(33)],
        n_batch in prop_oneof![Just(1usize), 2usize..4, Just(33)],
        (n_inputs, n_hidden) in (1usize..5, 1usize..9),
        seed in any::<u64>(),
        every in 1usize..7,
    ) {
        let mut params = Params::new();
        let start = Initialiser { rule: Initialisation::FanIn, seed };
        let lstm = Lstm::build(&mut params, "core", n_inputs, n_hidden, start).unwrap();
        let n_rows = n_steps * n_batch;
        let x = normals(n_rows * n_inputs, seed);
        let begins: Vec<f32> = (0..n_rows).map(|i| f32::from(u8::from(i % every == 1))).collect();
        let (h, c) = (normals(n_batch * n_hidden, seed ^ 1), normals(n_batch * n_hidden, seed ^ 2));
        let inputs = [(n_inputs, &x[..]), (1, &begins), (n_hidden, &h), (n_hidden, &c)];
        let out = run(&params, &inputs, |ctx, vars| {
            let state = LstmState { hidden: vars[2], cell: vars[3] };
            let (outputs, state) = lstm.unroll(ctx, vars[0], vars[1], state, Sequences::time_major(n_steps, n_batch))?;
            Ok(vec![outputs, state.hidden, state.cell])
        });
        let weights = weights(&params, n_inputs, n_hidden);
        let expected = naive_unroll(&weights, &x, &begins, &h, &c);
        for (given, expected) in out.iter().zip(&expected) {
            assert_close(given, expected, 1e-5);
        }
    }
}

#[test]
fn the_forget_gates_bias_begins_at_one() {
    let mut params = Params::new();
    let start = Initialiser {
        rule: Initialisation::Orthogonal(Gains::all(1.0)),
        seed: 1,
    };
    Lstm::build(&mut params, "core", 2, 2, start).unwrap();
    let b = params.ids().last().unwrap();
    assert_eq!(
        params.values_of(b),
        [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    );
}

#[test]
fn a_memory_passes_the_check() {
    let mut params = Params::new();
    let lstm = Lstm::build(&mut params, "core", 3, 4, Initialiser::default()).unwrap();
    let inputs = [rows_over_time(3), flags(), rows(4), rows(4)];
    let checked = check("lstm", &params, &inputs, 5, |ctx, x| {
        let state = LstmState {
            hidden: x[2],
            cell: x[3],
        };
        let rows = steps_of(ctx, x[0], x[2]);
        let (outputs, state) = lstm.unroll(ctx, x[0], x[1], state, rows)?;
        Ok(vec![outputs, state.hidden, state.cell])
    });
    let checked = checked.unwrap();
    assert_eq!(
        checked.shapes,
        [(10, 4), (2, 4), (2, 4)].map(|(n, k)| Shape::new(n, k))
    );
    assert_eq!(checked.n_unclear, 0);
}

#[test]
fn a_recurrent_actor_critic_passes_the_check() {
    let spaces = (Space::boxed(&[3], -1.0, 1.0), Space::discrete(2));
    let shape = ActorCriticShape {
        hidden: vec![6],
        lstm: Some(4),
    };
    let (mut params, start) = (Params::new(), Initialiser::default());
    let spaces = EnvironmentSpaces {
        observation: &spaces.0.unwrap(),
        action: &spaces.1.unwrap(),
    };
    let actor = ActorCritic::build(&mut params, "actor", spaces, &shape, start).unwrap();
    let inputs = [rows_over_time(3), flags(), rows(4), rows(4)];
    let checked = check("actor", &params, &inputs, 5, |ctx, x| {
        let state = LstmState {
            hidden: x[2],
            cell: x[3],
        };
        let rows = steps_of(ctx, x[0], x[2]);
        let (out, state) = actor.unroll(ctx, x[0], x[1], state, rows)?;
        Ok(vec![out.logits, out.values, state.hidden])
    });
    let checked = checked.unwrap();
    assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
}
