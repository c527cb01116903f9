//! Rows with the batch first give what rows with time first give, bit for bit, in their own order.

use shardgraph_autodiff::Params;
use shardgraph_environments::space::{Major, RankedSpace, Space};

use super::{between, normals, rows, rows_over_time, run};
use crate::{Error, Initialiser, Lstm, LstmState, Sequences, VTrace, VTraceInputs, check};

const N_STEPS: usize = 5;
const N_BATCH: usize = 3;

/// Rows with time first in the order with the batch first.
fn batch_first(x: &[f32]) -> Vec<f32> {
    let width = x.len() / (N_STEPS * N_BATCH);
    let row = |b: usize, t: usize| &x[(t * N_BATCH + b) * width..(t * N_BATCH + b + 1) * width];
    let rows = (0..N_BATCH).flat_map(|b| (0..N_STEPS).map(move |t| (b, t)));
    rows.flat_map(|(b, t)| row(b, t).to_vec()).collect()
}

#[test]
fn a_memory_gives_the_same_in_both_orders() {
    let mut params = Params::new();
    let lstm = Lstm::build(&mut params, "core", 2, 4, Initialiser::default()).unwrap();
    let n_rows = N_STEPS * N_BATCH;
    let x = normals(2 * n_rows, 1);
    let begins: Vec<f32> = (0..n_rows)
        .map(|i| f32::from(u8::from(i % 4 == 2)))
        .collect();
    let (h, c) = (normals(4 * N_BATCH, 2), normals(4 * N_BATCH, 3));
    let of = |x: &[f32], begins: &[f32], rows: Sequences| {
        let inputs = [(2, x), (1, begins), (4, &h), (4, &c)];
        run(&params, &inputs, |ctx, x| {
            let (hidden, cell) = (x[2], x[3]);
            let state = LstmState { hidden, cell };
            let (outputs, state) = lstm.unroll(ctx, x[0], x[1], state, rows)?;
            Ok(vec![outputs, state.hidden, state.cell])
        })
    };
    let time = of(&x, &begins, Sequences::time_major(N_STEPS, N_BATCH));
    let rows = Sequences::batch_major(N_STEPS, N_BATCH);
    let batch = of(&batch_first(&x), &batch_first(&begins), rows);
    assert_eq!(batch[0], batch_first(&time[0]));
    assert_eq!(batch[1..], time[1..]);
    // The same rows under the wrong name are other sequences: that is what the name is for.
    let misread = of(
        &batch_first(&x),
        &batch_first(&begins),
        Sequences::time_major(N_STEPS, N_BATCH),
    );
    assert_ne!(misread[1], time[1]);
}

#[test]
fn v_trace_gives_the_same_in_both_orders() {
    let n_rows = N_STEPS * N_BATCH;
    let discounts: Vec<f32> = (0..n_rows)
        .map(|i| if i % 7 == 3 { 0.0 } else { 0.9 })
        .collect();
    let columns = [
        normals(n_rows, 1),
        normals(n_rows, 2),
        discounts,
        normals(n_rows, 3),
    ];
    let bootstrap = normals(N_BATCH, 4);
    let of = |columns: &[Vec<f32>], rows: Sequences| {
        let mut inputs: Vec<(usize, &[f32])> = columns.iter().map(|c| (1, &c[..])).collect();
        inputs.push((1, &bootstrap));
        run(&Params::new(), &inputs, |ctx, x| {
            let inputs = VTraceInputs {
                log_ratios: x[0],
                rewards: x[1],
                discounts: x[2],
                values: x[3],
                bootstrap: x[4],
                rows,
            };
            let out = VTrace::default().apply(ctx, &inputs)?;
            Ok(vec![out.targets, out.advantages])
        })
    };
    let time = of(&columns, Sequences::time_major(N_STEPS, N_BATCH));
    let turned = columns.each_ref().map(|column| batch_first(column));
    let batch = of(&turned, Sequences::batch_major(N_STEPS, N_BATCH));
    assert_eq!(batch, [batch_first(&time[0]), batch_first(&time[1])]);
}

/// The ranks of the input space say how the rows stand.
#[test]
fn a_memory_over_a_space_with_the_batch_first_passes_the_check() {
    let mut params = Params::new();
    let lstm = Lstm::build(&mut params, "core", 3, 2, Initialiser::default()).unwrap();
    let ranked = rows(3).with_time(Major::Batch);
    let begins = between(0.0, 0.0).with_time(Major::Batch);
    let inputs = [ranked.clone(), begins, rows(2), rows(2)];
    let checked = check("lstm", &params, &inputs, 5, |ctx, x| {
        let (hidden, cell) = (x[2], x[3]);
        let n_batch = ctx.shape(hidden).rows;
        let order = Sequences::of(&ranked, ctx.shape(x[0]).rows / n_batch, n_batch)?;
        let state = LstmState { hidden, cell };
        let (outputs, state) = lstm.unroll(ctx, x[0], x[1], state, order)?;
        Ok(vec![outputs, state.cell])
    });
    assert_eq!(checked.unwrap().n_unclear, 0);
}

#[test]
fn ranks_say_the_order() {
    let time = rows_over_time(2);
    assert_eq!(
        Sequences::of(&time, 4, 3).unwrap(),
        Sequences::time_major(4, 3)
    );
    let batch = rows(2).with_time(Major::Batch);
    assert_eq!(
        Sequences::of(&batch, 4, 3).unwrap(),
        Sequences::batch_major(4, 3)
    );
    let one = RankedSpace::new(Space::discrete(2).unwrap()).with_time(Major::Time);
    assert_eq!(
        Sequences::of(&one, 4, 1).unwrap(),
        Sequences::time_major(4, 1)
    );
    let refused = |result: Result<Sequences, Error>| {
        assert!(matches!(result.unwrap_err(), Error::Mismatch { .. }));
    };
    refused(Sequences::of(&one, 4, 2));
    refused(Sequences::of(&rows(2), 4, 2));
}
