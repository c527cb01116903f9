//! An operation from outside the crate: recorded, run, planned, refilled and differentiated like those inside.

use std::sync::Arc;

use shardgraph_autodiff::collectives::{Comm, threads};
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::ops::Loss;
use shardgraph_autodiff::{
    Adjoint, Ctx, Eager, Error, Operation, Params, Payload, Recorder, Role, Run, Shape, Var, World,
};

/// The sum over ranks of `constant + slopes . (x, x^2)`, element by element; the constant may change from run to run.
#[derive(Debug, Clone)]
struct Polynomial {
    constant: Arc<f32>,
    slopes: [f32; 2],
}

impl Polynomial {
    fn new([constant, linear, square]: [f32; 3]) -> Arc<Self> {
        Arc::new(Self {
            constant: Arc::new(constant),
            slopes: [linear, square],
        })
    }
}

impl Operation for Polynomial {
    fn name(&self) -> &'static str {
        "polynomial"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Result<Shape, String> {
        match operands[0].cols {
            2 => Ok(operands[0]),
            _ => Err("two columns are expected".to_string()),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (c0, [c1, c2]) = (*self.constant, self.slopes);
        let x = run.device().download(run.operands[0].values)?;
        let y: Vec<f32> = x.iter().map(|x| c0 + c1 * x + c2 * x * x).collect();
        let y = Arc::new(run.device().upload(&y)?);
        run.comm.all_reduce(&y, run.out.values)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let [c1, c2] = self.slopes;
        let slope = ctx.mul(at.dy, at.operands[0])?;
        let (slope, constant) = (ctx.scale(slope, 2.0 * c2)?, ctx.scale(at.dy, c1)?);
        Ok(vec![Some(ctx.add(slope, constant)?)])
    }

    fn numbers(&self) -> Vec<u64> {
        self.slopes.map(|slope| slope.to_bits().into()).to_vec()
    }

    fn payload(&self) -> Option<Payload> {
        Some(Payload::new(&self.constant))
    }

    fn with_payload(&self, payload: &Payload) -> Option<Arc<dyn Operation>> {
        let (constant, slopes) = (Arc::clone(payload.get()?), self.slopes);
        Some(Arc::new(Self { constant, slopes }))
    }

    fn role(&self) -> Role {
        Role::Exchange
    }
}

fn params() -> Params {
    let (mut params, mut next) = (Params::new(), 0.0);
    params.add("x", Shape::new(3, 2), || {
        next += 0.5;
        next
    });
    params
}

fn loss(ctx: &mut dyn Ctx, params: &Params, coefficients: [f32; 3]) -> Result<Var, Error> {
    let x = ctx.param(params.ids().next().expect("one parameter"))?;
    let y = ctx.apply(Polynomial::new(coefficients), &[x])?;
    let zero = ctx.input(Shape::new(3, 2), &[0.0; 6])?;
    ctx.loss(Loss::Mse, y, zero)
}

/// Mean of `(P p(x))^2` and its derivative, where P ranks have the same x.
fn expected(n_ranks: u32, [c0, c1, c2]: [f32; 3]) -> (f32, Vec<f32>) {
    let p = n_ranks as f32;
    let xs: Vec<f32> = params().flat().to_vec();
    let y = |x: f32| p * (c0 + c1 * x + c2 * x * x);
    let loss = xs.iter().map(|&x| y(x) * y(x)).sum::<f32>() / 6.0;
    let slope = |&x: &f32| 2.0 * y(x) / 6.0 * (c1 + 2.0 * c2 * x);
    (loss, xs.iter().map(slope).collect())
}

#[test]
fn interpreters_ranks_and_refills_know_an_operation_from_outside() {
    let (first, second) = ([1.0, -2.0, 0.5], [0.25, -2.0, 0.5]);
    for n_ranks in 1..=3 {
        let results = threads::run(n_ranks, |mut comm: Comm| {
            let (params, device) = (params(), Device::host());
            let record = |coefficients| {
                let mut recorder = Recorder::new(&params, comm.rank(), comm.size());
                let loss = loss(&mut recorder, &params, coefficients).unwrap();
                recorder.output("loss", loss);
                recorder.output_param_gradient(loss).unwrap();
                recorder
            };
            let mut program = record(first).plan().load(&device).unwrap();
            let again = record(second);
            let mut all = Vec::new();
            for (turn, coefficients) in [first, second].into_iter().enumerate() {
                if turn == 1 {
                    program.refill(&again).unwrap();
                }
                program.run(&mut comm, &params).unwrap();
                let mut eager = Eager::new(&device, &mut comm, &params);
                let value = loss(&mut eager, &params, coefficients).unwrap();
                let grad = eager.param_gradient(value).unwrap();
                let value = eager.values(value).unwrap();
                assert_eq!(value, program.read("loss").unwrap());
                assert_eq!(grad, program.param_gradient().unwrap());
                all.push((value[0], grad));
            }
            all
        });
        for result in results {
            for ((value, grad), coefficients) in result.unwrap().into_iter().zip([first, second]) {
                let (want, want_grad) = expected(n_ranks, coefficients);
                assert!((value - want).abs() < 1e-4 * want.abs());
                for (got, want) in grad.iter().zip(want_grad) {
                    assert!((got - want).abs() < 1e-3, "{got} {want}");
                }
            }
        }
    }
}

#[test]
fn its_shape_rule_has_its_name() {
    let params = Params::new();
    let mut recorder = Recorder::new(&params, 0, 1);
    let x = recorder.input(Shape::new(3, 5), &[]).unwrap();
    let error = recorder.apply(Polynomial::new([0.0; 3]), &[x]).unwrap_err();
    let text = error.to_string();
    assert_eq!(
        text,
        "polynomial: [3, 5] do not fit: two columns are expected"
    );
}
