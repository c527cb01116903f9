//! The adjoints of functions, rows and linear layers: finite differences in f64, devices, ranks, and what no gradient passes.

use shardgraph_collectives::{Comm, threads};
use shardgraph_device::Device;
use shardgraph_ops::{Binary, Loss};

use crate::testing::{Naive, bits};
use crate::tests::gpus;
use crate::{Ctx, Eager, Error, ParamId, Params, Recorder, Shape, Var, gradient};

/// An operation of `x [r, c]`, `y [r, c]` between 0.5 and 2, `w [c, 2]` and `b [1, 2]`.
type Method = fn(&mut dyn Ctx, [Var; 4]) -> Result<Var, Error>;

const METHODS: [(&str, Method); 15] = [
    ("exp", |ctx, [x, ..]| ctx.exp(x)),
    ("log", |ctx, [_, y, ..]| ctx.log(y)),
    ("sqrt", |ctx, [_, y, ..]| ctx.sqrt(y)),
    ("tanh", |ctx, [x, ..]| ctx.tanh(x)),
    ("sigmoid", |ctx, [x, ..]| ctx.sigmoid(x)),
    ("clamp", |ctx, [x, ..]| ctx.clamp(x, -0.6, 0.8)),
    ("div", |ctx, [x, y, ..]| ctx.div(x, y)),
    ("where_inside", |ctx, [a, b, ..]| {
        let (low, high) = (0.7, 1.4);
        ctx.binary(Binary::WhereInside { low, high }, a, b)
    }),
    ("log_softmax", |ctx, [x, ..]| ctx.log_softmax(x)),
    ("argmax_rows", |ctx, [x, y, ..]| {
        let best = ctx.argmax_rows(x)?;
        ctx.mul(best, y)
    }),
    ("row_sums", |ctx, [x, ..]| ctx.row_sums(x)),
    ("broadcast_column", |ctx, [x, ..]| {
        let column = ctx.slice(x, crate::Axis::Cols, 0, 1)?;
        ctx.broadcast_column(column, 3)
    }),
    ("linear", |ctx, [x, _, w, b]| ctx.linear(x, w, b)),
    ("linear_relu", |ctx, [x, _, w, b]| ctx.linear_relu(x, w, b)),
    ("detach", |ctx, [x, y, ..]| {
        let y = ctx.detach(y)?;
        ctx.mul(x, y)
    }),
];

const SHAPES: [(usize, usize); 6] = [(1, 1), (1, 3), (3, 1), (4, 5), (33, 2), (2, 33)];

fn rough(i: usize) -> f32 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    mixed as f32 / 16_777_216.0
}

fn params(rows: usize, cols: usize) -> Params {
    let mut params = Params::new();
    let mut i = 0;
    let shapes = [(rows, cols), (rows, cols), (cols, 2), (1, 2)];
    for (name, (rows, cols)) in ["x", "y", "w", "b"].into_iter().zip(shapes) {
        params.add(name, Shape::new(rows, cols), || {
            i += 1;
            match name {
                "y" => 0.5 + 1.5 * rough(i),
                _ => 3.0 * rough(i) - 1.5,
            }
        });
    }
    params
}

/// The loss of a method, and the parameters.
fn run(ctx: &mut dyn Ctx, params: &Params, method: Method) -> Result<(Var, [Var; 4]), Error> {
    let ids: Vec<ParamId> = params.ids().collect();
    let vars = [
        ctx.param(ids[0])?,
        ctx.param(ids[1])?,
        ctx.param(ids[2])?,
        ctx.param(ids[3])?,
    ];
    let out = method(ctx, vars)?;
    let shape = ctx.shape(out);
    let target: Vec<f32> = (0..shape.len()).map(|i| rough(i + 900)).collect();
    let target = ctx.input(shape, &target)?;
    Ok((ctx.loss(Loss::Mse, out, target)?, vars))
}

fn naive_loss(params: &Params, flat: Vec<f64>, method: Method) -> f64 {
    let mut ctx = Naive::new(params);
    ctx.flat = flat;
    let (loss, _) = run(&mut ctx, params, method).unwrap();
    ctx.values(loss)[0]
}

fn naive_gradient(params: &Params, method: Method) -> Vec<f64> {
    let mut ctx = Naive::new(params);
    let (loss, vars) = run(&mut ctx, params, method).unwrap();
    let grads = gradient(&mut ctx, loss, &vars).unwrap();
    let of = |(grad, &var): (&Option<Var>, &Var)| match grad {
        Some(grad) => ctx.values(*grad).to_vec(),
        None => vec![0.0; ctx.shape(var).len()],
    };
    grads.iter().zip(&vars).flat_map(of).collect()
}

#[test]
fn adjoints_are_finite_differences() {
    const STEP: f64 = 1e-6;
    for (name, method) in METHODS.into_iter().filter(|(name, _)| *name != "detach") {
        for (rows, cols) in SHAPES {
            let params = params(rows, cols);
            let flat: Vec<f64> = params.flat().iter().map(|&x| f64::from(x)).collect();
            let grads = naive_gradient(&params, method);
            for (i, grad) in grads.iter().enumerate() {
                let at = |step: f64| {
                    let mut moved = flat.clone();
                    moved[i] += step;
                    naive_loss(&params, moved, method)
                };
                let slope = (at(STEP) - at(-STEP)) / (2.0 * STEP);
                assert!(
                    (slope - grad).abs() < 1e-6,
                    "{name} {rows} {cols} {i}: {slope} {grad}"
                );
            }
        }
    }
}

fn eager_gradient(device: &Device, comm: &mut Comm, params: &Params, method: Method) -> Vec<f32> {
    let mut ctx = Eager::new(device, comm, params);
    let (loss, _) = run(&mut ctx, params, method).unwrap();
    ctx.param_gradient(loss).unwrap()
}

fn planned_gradient(device: &Device, comm: &mut Comm, params: &Params, method: Method) -> Vec<f32> {
    let mut ctx = Recorder::new(params, comm.rank(), comm.size());
    let (loss, _) = run(&mut ctx, params, method).unwrap();
    ctx.output_param_gradient(loss).unwrap();
    let mut program = ctx.plan().load(device).unwrap();
    program.poisons = true;
    program.run(comm, params).unwrap();
    program.param_gradient().unwrap()
}

/// Eager and planned runs have the same bits for any number of ranks, and the f64 reference's values.
#[test]
fn interpreters_devices_and_ranks_agree() {
    for (name, method) in METHODS {
        for (rows, cols) in SHAPES {
            let params = params(rows, cols);
            let want = naive_gradient(&params, method);
            for device in gpus().into_iter().chain([Device::host()]) {
                let solo = eager_gradient(&device, &mut Comm::solo(), &params, method);
                for (got, want) in solo.iter().zip(&want) {
                    let off = (f64::from(*got) - want).abs();
                    assert!(off < 1e-5, "{name} {rows} {cols}: {got} {want}");
                }
                for n_ranks in 1..=3 {
                    let results = threads::run(n_ranks, |mut comm| {
                        let device = device.new_stream().unwrap();
                        let eager = eager_gradient(&device, &mut comm, &params, method);
                        (eager, planned_gradient(&device, &mut comm, &params, method))
                    });
                    for result in results {
                        let (eager, planned) = result.unwrap();
                        assert_eq!(bits(&eager), bits(&solo), "{name} {rows} {cols}");
                        assert_eq!(bits(&planned), bits(&solo), "{name} {rows} {cols}");
                    }
                }
            }
        }
    }
}

/// `x * detach(x)` has the derivative `x`, not `2 x`; and a plan does nothing for it.
#[test]
fn no_gradient_passes_a_detached_value() {
    let mut params = Params::new();
    let id = params.add("x", Shape::new(1, 1), || 3.0);
    let (device, mut comm) = (Device::host(), Comm::solo());
    let method = |ctx: &mut dyn Ctx| -> Result<Var, Error> {
        let x = ctx.param(id)?;
        let fixed = ctx.detach(x)?;
        let product = ctx.mul(x, fixed)?;
        let zero = ctx.input(Shape::new(1, 1), &[0.0])?;
        ctx.loss(Loss::Huber { delta: 1.0 }, product, zero)
    };
    let mut ctx = Eager::new(&device, &mut comm, &params);
    let loss = method(&mut ctx).unwrap();
    assert_eq!(ctx.param_gradient(loss).unwrap(), [3.0]);
    let mut record = Recorder::new(&params, 0, 1);
    let loss = method(&mut record).unwrap();
    record.output("loss", loss);
    let plan = record.plan();
    assert_eq!((plan.n_recorded(), plan.n_steps()), (5, 4));
}

#[test]
fn misfits_of_the_new_operations_are_named() {
    let params = Params::new();
    let mut ctx = Recorder::new(&params, 0, 1);
    let x = ctx.input(Shape::new(2, 3), &[]).unwrap();
    let w = ctx.input(Shape::new(3, 4), &[]).unwrap();
    let b = ctx.input(Shape::new(1, 3), &[]).unwrap();
    let message = |result: Result<Var, Error>| result.unwrap_err().to_string();
    let text = message(ctx.linear_relu(x, w, b));
    assert!(
        text.contains("linear: [2, 3] and [3, 4] and [1, 3]") && text.contains("[1, 4]"),
        "{text}"
    );
    assert!(message(ctx.linear(w, x, b)).contains("inner dimensions 4 and 2"));
    assert!(
        message(ctx.clamp(x, 1.0, -1.0)).contains("clamp: [2, 3] do not fit: the bounds 1 and -1")
    );
    assert!(message(ctx.clamp(x, f32::NAN, 1.0)).contains("must ascend"));
    assert!(message(ctx.div(x, w)).contains("div: [2, 3] and [3, 4]"));
    for delta in [-1.0, 0.0, f32::NAN] {
        let text = message(ctx.loss(Loss::Huber { delta }, x, x));
        assert!(
            text.contains(&format!(
                "the delta {delta} of a Huber loss must be above 0"
            )),
            "{text}"
        );
    }
}

/// Sums and repetitions of columns are products with ones, forward and backward: on the host with their bits.
#[test]
fn columns_are_products_with_ones() {
    for device in gpus().into_iter().chain([Device::host()]) {
        for (rows, cols) in [
            (1, 1),
            (3, 2),
            (7, 33),
            (64, 5),
            (130, 64),
            (33, 300),
            (257, 17),
        ] {
            let mut params = Params::new();
            let mut i = 0;
            let x = params.add("x", Shape::new(rows, cols), || {
                i += 1;
                2.0 * rough(i) - 1.0
            });
            let run = |by_ones: bool| {
                let mut comm = Comm::solo();
                let mut ctx = Eager::new(&device, &mut comm, &params);
                let x = ctx.param(x).unwrap();
                let column = match by_ones {
                    false => ctx.row_sums(x).unwrap(),
                    true => {
                        let ones = ctx.input(Shape::new(cols, 1), &vec![1.0; cols]).unwrap();
                        ctx.matmul(x, ones).unwrap()
                    }
                };
                let wide = match by_ones {
                    false => ctx.broadcast_column(column, cols).unwrap(),
                    true => {
                        let ones = ctx.input(Shape::new(1, cols), &vec![1.0; cols]).unwrap();
                        ctx.matmul(column, ones).unwrap()
                    }
                };
                let product = ctx.mul(wide, x).unwrap();
                let target = vec![0.25; rows * cols];
                let target = ctx.input(Shape::new(rows, cols), &target).unwrap();
                let loss = ctx.loss(Loss::Mse, product, target).unwrap();
                let grad = ctx.param_gradient(loss).unwrap();
                [ctx.values(wide).unwrap(), grad]
            };
            for (given, wanted) in run(false).iter().zip(&run(true)) {
                if device.is_host() {
                    assert_eq!(bits(given), bits(wanted), "{rows} {cols}");
                }
                let largest = wanted
                    .iter()
                    .fold(0.0f32, |largest, x| largest.max(x.abs()));
                for (given, wanted) in given.iter().zip(wanted) {
                    let is_near = (given - wanted).abs() <= 1e-5 * largest;
                    assert!(is_near, "{rows} {cols}: {given} {wanted}");
                }
            }
        }
    }
}
