//! Tests of the components, and what they share: eager runs of a method on given rows.
#![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

use shardgraph_autodiff::collectives::Comm;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Ctx, Eager, Params, Shape, Var};
use shardgraph_environments::space::Space;
use shardgraph_random::KeyedRng;

use crate::{CheckedRows, Error, Sequences};

mod bad_input;
mod checks;
mod edge_message_passing;
mod gaussian_policy;
mod golden;
mod graphs;
mod initialiser;
mod losses;
mod lstm;
mod networks;
mod optimiser;
mod policy;
mod ppo_loss;
mod sac;
mod schedules;
mod v_trace;

/// The results of a method on rows of these widths.
fn run(
    params: &Params,
    inputs: &[(usize, &[f32])],
    method: impl Fn(&mut dyn Ctx, &[Var]) -> Result<Vec<Var>, Error>,
) -> Vec<Vec<f32>> {
    let (device, mut comm) = (Device::host(), Comm::solo());
    let mut ctx = Eager::new(&device, &mut comm, params);
    let mut vars = Vec::new();
    for (width, values) in inputs {
        let shape = Shape::new(values.len() / width, *width);
        vars.push(ctx.input(shape, values).unwrap());
    }
    let results = method(&mut ctx, &vars).unwrap();
    let values = results.into_iter().map(|var| ctx.values(var).unwrap());
    values.collect()
}

fn normals(n: usize, seed: u64) -> Vec<f32> {
    let mut stream = KeyedRng::new(seed, "test", 0);
    (0..n).map(|_| stream.normal() as f32).collect()
}

/// As many steps with time first as `x` has rows for `n_batch` sequences.
fn steps_of(ctx: &dyn Ctx, x: Var, of_batch: Var) -> Sequences {
    let n_batch = ctx.shape(of_batch).rows;
    Sequences::time_major(ctx.shape(x).rows / n_batch, n_batch)
}

/// Rows of numbers without bounds, in a batch.
fn rows(width: usize) -> CheckedRows {
    let space = Space::boxed(&[width], f32::NEG_INFINITY, f32::INFINITY);
    CheckedRows::of(space.unwrap())
}

/// The same over time.
fn rows_over_time(width: usize) -> CheckedRows {
    rows(width).over_time()
}

/// One-hot rows, in a batch.
fn choices(n: u32) -> CheckedRows {
    CheckedRows::of(Space::discrete(n).unwrap())
}

/// Rows between two numbers, in a batch.
fn between(low: f32, high: f32) -> CheckedRows {
    CheckedRows::of(Space::boxed(&[1], low, high).unwrap())
}

/// Columns of zeros and ones, in a batch over time.
fn flags() -> CheckedRows {
    CheckedRows::of(Space::multi_binary(1).unwrap()).over_time()
}

fn assert_close(given: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(given.len(), expected.len());
    for (i, (given, expected)) in given.iter().zip(expected).enumerate() {
        let off = (f64::from(*given) - expected).abs();
        let allowed = tolerance * expected.abs().max(1.0);
        assert!(off <= allowed, "element {i}: {given} for {expected}");
    }
}
