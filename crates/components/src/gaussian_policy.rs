//! The policy of continuous actions: independent normal distributions.

use shardgraph_autodiff::{Axis, Ctx, Shape, Var};
use shardgraph_environments::space::{Space, SpaceKind};
use shardgraph_random::KeyedRng;

use crate::Error;
use crate::error::Call;
use crate::rows::{constant, row_sums};

/// A normal distribution for each element of a box, with a mean by state and a deviation that all
/// states share.
///
/// A row of its parameters has the w means, then the w logarithms of the deviations. Drawn elements
/// are in units of half the box around its middle, where it has finite bounds, and in the box's own
/// otherwise. [`GaussianPolicy::actions_into`] takes them there and clamps them to the bounds.
///
/// # Source
/// The policy of Schulman et al. 2017 for continuous control, with clamped actions as in Huang et
/// al., "The 37 implementation details of proximal policy optimization", 2022.
///
/// ```
/// use shardgraph_components::GaussianPolicy;
/// use shardgraph_components::environments::space::Space;
/// use shardgraph_random::KeyedRng;
///
/// let policy = GaussianPolicy::build("policy", &Space::boxed(&[1], -2.0, 2.0)?)?;
/// let (mut drawn, mut actions) = (Vec::new(), Vec::new());
/// policy.sample_into(&[0.5, -9.0], &mut KeyedRng::new(7, "act", 0), &mut drawn)?;
/// policy.actions_into(&drawn, &mut actions);
/// assert!((actions[0] - 1.0).abs() < 0.01);
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GaussianPolicy {
    scope: String,
    elements: Vec<Element>,
}

/// The bounds of an element and its unit.
#[derive(Debug, Clone, Copy)]
struct Element {
    low: f32,
    high: f32,
    middle: f32,
    unit: f32,
}

impl Element {
    fn new(low: f32, high: f32) -> Element {
        let half = 0.5 * (high - low);
        let is_bounded = is_bounded(low, high);
        Element {
            low,
            high,
            middle: if is_bounded { low + half } else { 0.0 },
            unit: if is_bounded { half } else { 1.0 },
        }
    }
}

fn is_bounded(low: f32, high: f32) -> bool {
    (high - low).is_finite() && high > low
}

/// `ln(2 pi)`.
pub(crate) const LN_2_PI: f32 = 1.837_877_1;

/// The number of elements of a box; `None` for other spaces.
pub(crate) fn n_elements(action: &Space) -> Option<usize> {
    match action.kind() {
        SpaceKind::Box { shape, .. } => Some(shape.iter().product()),
        _ => None,
    }
}

impl GaussianPolicy {
    /// Over the actions of this space.
    ///
    /// # Errors
    /// When the space is no box.
    pub fn build(scope: &str, action: &Space) -> Result<GaussianPolicy, Error> {
        let call = Call::new(scope, "GaussianPolicy::build");
        let SpaceKind::Box { shape, low, high } = action.kind() else {
            let given = format!("{:?}", action.kind());
            return Err(call.mismatch("the action space", "a box", given));
        };
        let n: usize = shape.iter().product();
        let elements = (0..n).map(|idx| Element::new(low.at(idx), high.at(idx)));
        Ok(GaussianPolicy {
            scope: scope.to_string(),
            elements: elements.collect(),
        })
    }

    /// w, the elements of an action.
    pub fn n_elements(&self) -> usize {
        self.elements.len()
    }

    /// True if every element has finite bounds.
    pub(crate) fn is_bounded(&self) -> bool {
        let mut elements = self.elements.iter();
        elements.all(|element| is_bounded(element.low, element.high))
    }

    /// Columns of a row of parameters: 2 w.
    pub fn n_columns(&self) -> usize {
        2 * self.elements.len()
    }

    /// The logarithms of the densities of drawn elements.
    ///
    /// # Shapes
    /// `[n, 2 w]` and `[n, w]` to `[n, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn log_density(
        &self,
        ctx: &mut dyn Ctx,
        parameters: Var,
        drawn: Var,
    ) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "GaussianPolicy::log_density");
        let (means, logs) = self.parts(ctx, call, parameters)?;
        call.expect_shape(ctx, "the actions", drawn, ctx.shape(means))?;
        let distance = ctx.sub(drawn, means)?;
        let negative = ctx.scale(logs, -1.0)?;
        let inverse = ctx.exp(negative)?;
        let distance = ctx.mul(distance, inverse)?;
        let squares = ctx.mul(distance, distance)?;
        let halves = ctx.scale(squares, -0.5)?;
        let terms = ctx.sub(halves, logs)?;
        let sums = row_sums(ctx, terms)?;
        let shape = ctx.shape(sums);
        let rest = constant(ctx, shape, -0.5 * LN_2_PI * self.elements.len() as f32)?;
        Ok(ctx.add(sums, rest)?)
    }

    /// The differential entropy of each row, in nats.
    ///
    /// # Shapes
    /// `[n, 2 w]` to `[n, 1]`.
    /// # Errors
    /// Where the parameters have another width.
    pub fn entropy(&self, ctx: &mut dyn Ctx, parameters: Var) -> Result<Var, Error> {
        let call = Call::new(&self.scope, "GaussianPolicy::entropy");
        let (_, logs) = self.parts(ctx, call, parameters)?;
        let sums = row_sums(ctx, logs)?;
        let shape: Shape = ctx.shape(sums);
        let of_one = 0.5 * (1.0 + LN_2_PI);
        let rest = constant(ctx, shape, of_one * self.elements.len() as f32)?;
        Ok(ctx.add(sums, rest)?)
    }

    /// Means and logarithms of deviations.
    fn parts(
        &self,
        ctx: &mut dyn Ctx,
        call: Call<'_>,
        parameters: Var,
    ) -> Result<(Var, Var), Error> {
        call.expect_width(ctx, "the parameters", parameters, self.n_columns())?;
        let n = self.elements.len();
        Ok((
            ctx.slice(parameters, Axis::Cols, 0, n)?,
            ctx.slice(parameters, Axis::Cols, n, n)?,
        ))
    }

    /// Draws the elements of an action for each row of parameters, behind those in `drawn`.
    ///
    /// # Errors
    /// When the parameters are no whole number of rows, or one is not finite.
    /// # Determinism
    /// Equal parameters and streams give equal elements on every machine.
    pub fn sample_into(
        &self,
        parameters: &[f32],
        stream: &mut KeyedRng,
        drawn: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let call = Call::new(&self.scope, "GaussianPolicy::sample_into");
        let n = self.elements.len();
        if !parameters.len().is_multiple_of(2 * n) {
            let expected = format!("rows of {}", 2 * n);
            let given = format!("{} numbers", parameters.len());
            return Err(call.mismatch("the parameters", expected, given));
        }
        if let Some(wrong) = parameters.iter().find(|x| !x.is_finite()) {
            return Err(call.mismatch("a parameter", "a finite number", wrong.to_string()));
        }
        for row in parameters.chunks_exact(2 * n) {
            for (mean, log) in row[..n].iter().zip(&row[n..]) {
                let deviation = libm::exp(f64::from(*log));
                drawn.push((f64::from(*mean) + deviation * stream.normal()) as f32);
            }
        }
        Ok(())
    }

    /// The means of each row of parameters, behind those in `means`.
    ///
    /// # Panics
    /// When the parameters are no whole number of rows.
    pub fn means_into(&self, parameters: &[f32], means: &mut Vec<f32>) {
        let n = self.elements.len();
        assert!(parameters.len().is_multiple_of(2 * n), "rows of parameters");
        for row in parameters.chunks_exact(2 * n) {
            means.extend(&row[..n]);
        }
    }

    /// The logarithms of the densities of drawn elements, behind those in `out`: the same bits on
    /// every machine.
    ///
    /// # Panics
    /// When there is not an action for each row of parameters.
    pub fn log_densities_into(&self, parameters: &[f32], drawn: &[f32], out: &mut Vec<f32>) {
        let n = self.elements.len();
        assert_eq!(parameters.len(), 2 * drawn.len(), "an action for each row");
        for (row, action) in parameters.chunks_exact(2 * n).zip(drawn.chunks_exact(n)) {
            let mut sum = 0.0;
            for ((&mean, &log), &x) in row[..n].iter().zip(&row[n..]).zip(action) {
                let log = f64::from(log);
                let distance = (f64::from(x) - f64::from(mean)) * libm::exp(-log);
                sum -= 0.5 * (distance * distance + f64::from(LN_2_PI)) + log;
            }
            out.push(sum as f32);
        }
    }

    /// Actions of the box for drawn elements, behind those in `actions`.
    ///
    /// # Panics
    /// When they are no whole number of actions.
    pub fn actions_into(&self, drawn: &[f32], actions: &mut Vec<f32>) {
        let n = self.elements.len();
        assert!(drawn.len().is_multiple_of(n), "whole actions");
        for row in drawn.chunks_exact(n) {
            let of_box = |(x, element): (&f32, &Element)| {
                (element.middle + x * element.unit).clamp(element.low, element.high)
            };
            actions.extend(row.iter().zip(&self.elements).map(of_box));
        }
    }
    /// The drawn elements that actions of the box come of, behind those in `drawn`.
    ///
    /// # Panics
    /// When they are no whole number of actions.
    pub fn drawn_into(&self, actions: &[f32], drawn: &mut Vec<f32>) {
        let n = self.elements.len();
        assert!(actions.len().is_multiple_of(n), "whole actions");
        for row in actions.chunks_exact(n) {
            let of_action = |(x, element): (&f32, &Element)| (x - element.middle) / element.unit;
            drawn.extend(row.iter().zip(&self.elements).map(of_action));
        }
    }
}
