//! The runs of a check: what each interpreter says about one case, and whether they say the same.

use shardgraph_autodiff::collectives::Comm;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Ctx, Eager, Recorder, Shape, Var, gradient};

use super::{Case, CheckError as Error, Matrix};
use crate::rows::row_sums;

/// The results of one run.
pub(crate) struct Run {
    /// The method's results.
    pub(crate) results: Vec<Matrix>,
    pub(crate) gradients: Gradients,
}

/// The derivatives of the weighted sum of all results.
pub(crate) struct Gradients {
    /// By the trained parameters, flat.
    pub(crate) by_params: Vec<f32>,
    /// By each input.
    pub(crate) by_inputs: Vec<Vec<f32>>,
}

/// The method and its weighted sum in one interpreter.
struct Parts {
    inputs: Vec<Var>,
    results: Vec<Var>,
    /// `None` where there is nothing to differentiate.
    sum: Option<Var>,
}

impl Case<'_> {
    pub(crate) fn shapes(&self) -> Result<Vec<Shape>, Error> {
        let mut ctx = Recorder::new(self.params, 0, 1);
        let inputs = add_inputs(&mut ctx, &self.inputs)?;
        let results = (self.method)(&mut ctx, &inputs)?;
        Ok(results.iter().map(|&var| ctx.shape(var)).collect())
    }

    pub(crate) fn eager(&self, weights: &[Matrix]) -> Result<Run, Error> {
        let (device, mut comm) = (Device::host(), Comm::solo());
        let mut ctx = Eager::new(&device, &mut comm, self.params);
        let parts = self.parts(&mut ctx, &self.inputs, weights)?;
        let mut gradients = self.no_gradients();
        if let Some(sum) = parts.sum {
            gradients.by_params = ctx.param_gradient(sum)?;
            let by_inputs = gradient(&mut ctx, sum, &parts.inputs)?;
            for (values, var) in gradients.by_inputs.iter_mut().zip(by_inputs) {
                if let Some(var) = var {
                    *values = ctx.values(var)?;
                }
            }
        }
        let result = |&var: &Var| -> Result<Matrix, Error> {
            let (shape, values) = (ctx.shape(var), ctx.values(var)?);
            Ok(Matrix { shape, values })
        };
        let results = parts.results.iter().map(result).collect::<Result<_, _>>()?;
        Ok(Run { results, gradients })
    }

    /// The number of recorded operations, and two runs of one program: the second shows what the
    /// first has left behind.
    pub(crate) fn planned(&self, weights: &[Matrix]) -> Result<(usize, [Run; 2]), Error> {
        let (device, mut comm) = (Device::host(), Comm::solo());
        let mut record = Recorder::new(self.params, 0, 1);
        let (parts, by_inputs) = self.record(&mut record, weights)?;
        let shapes: Vec<Shape> = parts.results.iter().map(|&var| record.shape(var)).collect();
        let plan = record.plan();
        let n_operations = plan.n_recorded();
        let mut program = plan.load(&device)?;
        for (&var, input) in parts.inputs.iter().zip(&self.inputs) {
            program.set_input(var, &input.values)?;
        }
        let mut run = || -> Result<Run, Error> {
            program.run(&mut comm, self.params)?;
            let mut gradients = self.no_gradients();
            if parts.sum.is_some() {
                gradients.by_params = program.param_gradient()?;
            }
            for (i, _) in by_inputs
                .iter()
                .enumerate()
                .filter(|(_, var)| var.is_some())
            {
                gradients.by_inputs[i] = program.read(&format!("by input {i}"))?;
            }
            let result = |(i, &shape): (usize, &Shape)| -> Result<Matrix, Error> {
                let values = program.read(&format!("result {i}"))?;
                Ok(Matrix { shape, values })
            };
            let results = shapes.iter().enumerate().map(result);
            let results = results.collect::<Result<_, _>>()?;
            Ok(Run { results, gradients })
        };
        Ok((n_operations, [run()?, run()?]))
    }

    /// The parts and the derivatives by the inputs, all of them outputs of the recording.
    fn record(
        &self,
        record: &mut Recorder<'_>,
        weights: &[Matrix],
    ) -> Result<(Parts, Vec<Option<Var>>), Error> {
        let parts = self.parts(record, &self.other_inputs, weights)?;
        for (i, &var) in parts.results.iter().enumerate() {
            record.output(&format!("result {i}"), var);
        }
        let mut by_inputs = vec![None; parts.inputs.len()];
        if let Some(sum) = parts.sum {
            record.output_param_gradient(sum)?;
            by_inputs = gradient(record, sum, &parts.inputs)?;
        }
        for (i, var) in by_inputs.iter().enumerate() {
            var.inspect(|&var| record.output(&format!("by input {i}"), var));
        }
        Ok((parts, by_inputs))
    }

    fn parts(
        &self,
        ctx: &mut dyn Ctx,
        inputs: &[Matrix],
        weights: &[Matrix],
    ) -> Result<Parts, Error> {
        let inputs = add_inputs(ctx, inputs)?;
        let results = (self.method)(ctx, &inputs)?;
        self.expect_shapes(ctx, &results, weights)?;
        let mut sum = None;
        for (&result, weights) in results.iter().zip(weights) {
            let weights = ctx.input(weights.shape, &weights.values)?;
            let products = ctx.mul(result, weights)?;
            let products = row_sums(ctx, products)?;
            let term = ctx.sum_rows(products)?;
            sum = Some(match sum {
                None => term,
                Some(sum) => ctx.add(sum, term)?,
            });
        }
        Ok(Parts {
            inputs,
            results,
            sum,
        })
    }

    /// Weights have the shapes that the shape check gave.
    fn expect_shapes(
        &self,
        ctx: &dyn Ctx,
        results: &[Var],
        weights: &[Matrix],
    ) -> Result<(), Error> {
        let expected: Vec<Shape> = weights.iter().map(|weights| weights.shape).collect();
        let given: Vec<Shape> = results.iter().map(|&result| ctx.shape(result)).collect();
        if expected == given {
            return Ok(());
        }
        let list = |shapes: &[Shape]| shapes.iter().map(Shape::to_string).collect::<Vec<_>>();
        let (expected, given) = (list(&expected).join(", "), list(&given).join(", "));
        Err(self.differs(format!(
            "the shapes are {expected} for the shape check, {given} for a run"
        )))
    }

    /// Zeros: what a gradient is where the sum depends on nothing.
    fn no_gradients(&self) -> Gradients {
        let zeros = |input: &Matrix| vec![0.0; input.values.len()];
        Gradients {
            by_params: vec![0.0; self.params.trained_len()],
            by_inputs: self.inputs.iter().map(zeros).collect(),
        }
    }

    pub(crate) fn compare(&self, a: &str, of_a: &Run, b: &str, of_b: &Run) -> Result<(), Error> {
        let names = [a, b];
        for (i, (x, y)) in of_a.results.iter().zip(&of_b.results).enumerate() {
            self.compare_bits(&format!("result {i}"), names, [&x.values, &y.values])?;
        }
        let (x, y) = (&of_a.gradients, &of_b.gradients);
        let what = "the gradient by the parameters";
        self.compare_bits(what, names, [&x.by_params, &y.by_params])?;
        for (i, (x, y)) in x.by_inputs.iter().zip(&y.by_inputs).enumerate() {
            self.compare_bits(&format!("the gradient by input {i}"), names, [x, y])?;
        }
        Ok(())
    }

    fn compare_bits(&self, what: &str, names: [&str; 2], values: [&[f32]; 2]) -> Result<(), Error> {
        let ([a, b], [of_a, of_b]) = (names, values);
        let differ = |(x, y): (&f32, &f32)| x.to_bits() != y.to_bits();
        match of_a.iter().zip(of_b).position(differ) {
            None => Ok(()),
            Some(at) => Err(self.differs(format!(
                "{what}, element {at}: {a} gives {:e}, {b} {:e}",
                of_a[at], of_b[at]
            ))),
        }
    }

    pub(crate) fn expect_finite(&self, run: &Run) -> Result<(), Error> {
        for (i, result) in run.results.iter().enumerate() {
            self.expect_finite_list(&format!("result {i}"), &result.values)?;
        }
        let Gradients {
            by_params,
            by_inputs,
        } = &run.gradients;
        self.expect_finite_list("the gradient by the parameters", by_params)?;
        for (i, by_input) in by_inputs.iter().enumerate() {
            self.expect_finite_list(&format!("the gradient by input {i}"), by_input)?;
        }
        Ok(())
    }

    fn expect_finite_list(&self, what: &str, values: &[f32]) -> Result<(), Error> {
        match values.iter().position(|x| !x.is_finite()) {
            None => Ok(()),
            Some(at) => Err(self.differs(format!("{what}, element {at} is {}", values[at]))),
        }
    }
}

pub(crate) fn add_inputs(ctx: &mut dyn Ctx, inputs: &[Matrix]) -> Result<Vec<Var>, Error> {
    let add = |input: &Matrix| ctx.input(input.shape, &input.values);
    Ok(inputs.iter().map(add).collect::<Result<_, _>>()?)
}
