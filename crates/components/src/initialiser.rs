//! First values of weights, keyed by the seed and each parameter's name, whatever the order in which components are built.

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{ParamId, Params, Shape};
use shardgraph_graph::random::Stream;

use crate::Error;
use crate::error::Call;

/// By which rule weights begin.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Initialisation {
    /// Uniform on +-1 / sqrt(inputs of the layer), weights and biases: what PyTorch does by default.
    #[default]
    FanIn,
    /// A random matrix with orthonormal rows or columns, times `gain`; biases are 0.
    Orthogonal {
        /// The factor: sqrt 2 before a relu, by custom.
        gain: f32,
    },
}

/// The rule and the seed by which a component's parameters begin.
///
/// # Determinism
/// A parameter's first values depend on the seed, its name and its shape alone.
///
/// # Source
/// Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning" (2014), for the orthogonal rule.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Initialiser {
    /// The rule.
    pub rule: Initialisation,
    /// The seed.
    pub seed: u64,
}

impl Initialiser {
    /// The same with another gain, where the rule has one.
    pub fn with_gain(self, gain: f32) -> Initialiser {
        match self.rule {
            Initialisation::FanIn => self,
            Initialisation::Orthogonal { .. } => Initialiser {
                rule: Initialisation::Orthogonal { gain },
                ..self
            },
        }
    }

    /// A weight matrix `[n_inputs, n_outputs]`, row-major.
    pub(crate) fn weights(&self, name: &str, shape: Shape, fan_in: usize) -> Vec<f32> {
        let mut stream = Stream::new(self.seed, name, 0);
        match self.rule {
            Initialisation::FanIn => uniform(&mut stream, shape.len(), fan_in),
            Initialisation::Orthogonal { gain } => orthogonal(&mut stream, shape, gain),
        }
    }

    /// A bias row.
    pub(crate) fn biases(&self, name: &str, n: usize, fan_in: usize) -> Vec<f32> {
        match self.rule {
            Initialisation::FanIn => uniform(&mut Stream::new(self.seed, name, 0), n, fan_in),
            Initialisation::Orthogonal { .. } => vec![0.0; n],
        }
    }
}

/// Adds a parameter `scope/name` with its first values.
pub(crate) fn add(
    params: &mut Params,
    call: Call<'_>,
    name: &str,
    shape: Shape,
    values: &[f32],
) -> Result<ParamId, Error> {
    if params.ids().any(|id| params.name(id) == name) {
        return Err(call.misfit("the scope", "one of its own", format!("`{name}` again")));
    }
    let mut values = values.iter();
    Ok(params.add(name, shape, || *values.next().expect("a value an element")))
}

fn uniform(stream: &mut Stream, n: usize, fan_in: usize) -> Vec<f32> {
    let bound = 1.0 / (fan_in as f32).sqrt();
    (0..n)
        .map(|_| (2.0 * stream.uniform_f32() - 1.0) * bound)
        .collect()
}

/// Gram and Schmidt on rows of normal numbers, twice for each row, so that rounding leaves them orthogonal; of the transposed
/// matrix where rows are longer in number than wide.
fn orthogonal(stream: &mut Stream, shape: Shape, gain: f32) -> Vec<f32> {
    let (n, width) = (shape.rows.min(shape.cols), shape.rows.max(shape.cols));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(n);
    while basis.len() < n {
        let mut row: Vec<f64> = (0..width).map(|_| stream.normal()).collect();
        for other in basis.iter().chain(basis.iter()) {
            let overlap = dot(&row, other);
            row.iter_mut()
                .zip(other)
                .for_each(|(x, y)| *x -= overlap * y);
        }
        let norm = dot(&row, &row).sqrt();
        if norm > 1e-6 {
            row.iter_mut().for_each(|x| *x /= norm);
            basis.push(row);
        }
    }
    let element = |i: usize, j: usize| match shape.rows <= shape.cols {
        true => basis[i][j],
        false => basis[j][i],
    };
    (0..shape.len())
        .map(|at| gain * element(at / shape.cols, at % shape.cols) as f32)
        .collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
