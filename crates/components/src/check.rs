//! The test of one component alone: example data from its input spaces through every interpreter,
//! and its derivatives against differences of its values.

use shardgraph_autodiff::{Ctx, Params, Shape, Var};
use shardgraph_environments::space::Space;
use shardgraph_random::KeyedRng;

use crate::Error;

mod differences;
mod frozen;
mod runs;
mod tally;

use tally::Tally;

/// Batch sizes and time steps of the cases.
const CASES: [(usize, usize); 3] = [(1, 1), (3, 2), (2, 5)];

/// A method of a component, as a function of its inputs.
pub(crate) type Method<'a> = &'a dyn Fn(&mut dyn Ctx, &[Var]) -> Result<Vec<Var>, Error>;

/// A failed [`check`].
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Two runs, or a derivative and its differences, say different things.
    #[error("check of `{component}`: {difference}")]
    Differs {
        /// The component's name, as the caller gave it.
        component: String,
        /// The first difference, with its place and both values.
        difference: String,
    },
    /// The method's own error.
    #[error(transparent)]
    Component(#[from] Error),
}

impl From<shardgraph_autodiff::Error> for CheckError {
    fn from(error: shardgraph_autodiff::Error) -> CheckError {
        CheckError::Component(error.into())
    }
}

impl From<shardgraph_environments::Error> for CheckError {
    fn from(error: shardgraph_environments::Error) -> CheckError {
        CheckError::Component(error.into())
    }
}

/// The counts of a [`check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Operations of the method and its gradient in the largest case, as recorded.
    pub n_operations: usize,
    /// The shapes of the results in the last case: 2 sequences of 5 time steps.
    pub shapes: Vec<Shape>,
    /// Derivatives that agree with differences which would have shown an error of a part in a
    /// hundred, or of a small derivative an error of a thousandth of the largest by that parameter
    /// or input, or of the largest of all.
    pub n_derivatives: usize,
    /// Derivatives about which differences say less: the method has a kink or a jump within every
    /// step that was tried, or rounding hides them.
    pub n_unclear: usize,
}

/// An input of a method that is checked: a matrix with a row for each value of a space.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedRows {
    space: Space,
    are_over_time: bool,
}

impl CheckedRows {
    /// A row for each element of the batch.
    #[must_use]
    pub fn of(space: Space) -> CheckedRows {
        CheckedRows {
            space,
            are_over_time: false,
        }
    }

    /// A row for each time step of each sequence of the batch, with time first.
    #[must_use]
    pub fn over_time(self) -> CheckedRows {
        CheckedRows {
            are_over_time: true,
            ..self
        }
    }
}

/// Runs a method of a component on random inputs through every interpreter and compares what they
/// say.
///
/// In each of three cases (1 row; 3 sequences of 2 time steps; 2 of 5), each input gives one
/// matrix: a row for each value, as `Space::flatten_into` writes it, time and batch as one rank.
/// Then
/// - the shapes of a shape check, an eager run and a plan are equal;
/// - values and gradients (by the trained parameters and by the inputs, of a random combination of
///   all results) have equal bits in two eager runs and in two runs of one program, which was
///   recorded with other inputs;
/// - derivatives, up to 16 of each parameter and each input, agree with differences of the values
///   over steps of several lengths. What the gradient takes for constant (detached values, one-hot
///   choices, targets of losses) is held constant there too.
///
/// A method that reads something else than rows (graphs, say) brings it along and takes no spaces.
///
/// # Errors
/// [`CheckError::Differs`] with the component's name, what differs, where, and both values; also
/// for results and derivatives that are not finite, and where too few derivatives could be
/// compared: none by some parameter or input, or less than three quarters of all. The method's own
/// errors.
/// # Complexity
/// Up to 24 eager runs for each derivative, most often 6: use small widths.
/// # Determinism
/// Equal seeds check the same.
///
/// ```
/// use shardgraph_components::autodiff::Params;
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_components::{CheckedRows, Initialiser, Mlp, check};
///
/// let observations = CheckedRows::of(Space::boxed(&[3], -1.0, 1.0)?);
/// let mut params = Params::new();
/// let mlp = Mlp::build(&mut params, "mlp", 3, &[8, 2], Initialiser::default())?;
/// let checked = check("mlp", &params, &[observations], 7, |ctx, inputs| {
///     Ok(vec![mlp.apply(ctx, inputs[0])?])
/// })?;
/// assert!(checked.n_derivatives > 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(
    component: &str,
    params: &Params,
    inputs: &[CheckedRows],
    seed: u64,
    method: impl Fn(&mut dyn Ctx, &[Var]) -> Result<Vec<Var>, Error>,
) -> Result<Checked, CheckError> {
    let (mut tally, mut n_operations, mut shapes) = (Tally::default(), 0, Vec::new());
    for (i, (n_batch, n_steps)) in CASES.into_iter().enumerate() {
        let sample = |purpose: &str| -> Result<Vec<Matrix>, CheckError> {
            let mut stream = KeyedRng::new(seed, purpose, i as u64);
            let matrix = |rows| Matrix::sample(rows, n_batch, n_steps, &mut stream);
            inputs.iter().map(matrix).collect()
        };
        let case = Case {
            component,
            params,
            inputs: sample("check inputs")?,
            other_inputs: sample("check other inputs")?,
            method: &method,
            seed,
            place: format!("batch {n_batch}, {n_steps} time steps"),
        };
        shapes = case.shapes()?;
        n_operations = n_operations.max(case.check(&shapes, &mut tally)?);
    }
    if let Some(difference) = tally.complaint() {
        let component = component.to_string();
        return Err(CheckError::Differs {
            component,
            difference,
        });
    }
    Ok(Checked {
        n_operations,
        shapes,
        n_derivatives: tally.n_right(),
        n_unclear: tally.n_unclear(),
    })
}

/// Values of a shape, row-major.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) shape: Shape,
    pub(crate) values: Vec<f32>,
}

impl Matrix {
    /// A row for each value of a space.
    fn sample(
        rows: &CheckedRows,
        n_batch: usize,
        n_steps: usize,
        stream: &mut KeyedRng,
    ) -> Result<Matrix, CheckError> {
        let space = &rows.space;
        let n_rows = n_batch * if rows.are_over_time { n_steps } else { 1 };
        let shape = Shape::new(n_rows, space.flat_width()?);
        let mut values = vec![0.0; shape.len()];
        for row in values.chunks_exact_mut(shape.cols) {
            let value = space.sample(stream);
            space.flatten_into(&value, row)?;
        }
        Ok(Matrix { shape, values })
    }

    /// Standard normal numbers.
    fn normal(shape: Shape, stream: &mut KeyedRng) -> Matrix {
        let values = (0..shape.len()).map(|_| stream.normal() as f32).collect();
        Matrix { shape, values }
    }
}

/// One case of a check.
pub(crate) struct Case<'a> {
    component: &'a str,
    pub(crate) params: &'a Params,
    pub(crate) inputs: Vec<Matrix>,
    /// The inputs that the plan is recorded with, so that it shows if it keeps them.
    pub(crate) other_inputs: Vec<Matrix>,
    pub(crate) method: Method<'a>,
    seed: u64,
    place: String,
}

impl Case<'_> {
    /// The number of recorded operations.
    fn check(&self, shapes: &[Shape], tally: &mut Tally) -> Result<usize, CheckError> {
        let weights = self.weights(shapes);
        let eager = self.eager(&weights)?;
        self.compare("an eager run", &eager, "another", &self.eager(&weights)?)?;
        let (n_operations, planned) = self.planned(&weights)?;
        for run in &planned {
            self.compare("an eager run", &eager, "the plan", run)?;
        }
        self.expect_finite(&eager)?;
        self.compare_derivatives(&eager.gradients, &weights, tally)?;
        Ok(n_operations)
    }

    /// Random factors, one for each element of each result: the gradient is that of their product,
    /// summed.
    fn weights(&self, shapes: &[Shape]) -> Vec<Matrix> {
        let mut stream = KeyedRng::new(self.seed, "check weights", 0);
        let weights = shapes
            .iter()
            .map(|&shape| Matrix::normal(shape, &mut stream));
        weights.collect()
    }

    /// The error that names a difference, and where it is.
    pub(crate) fn differs(&self, difference: String) -> CheckError {
        CheckError::Differs {
            component: self.component.to_string(),
            difference: format!("{difference} ({})", self.place),
        }
    }
}
