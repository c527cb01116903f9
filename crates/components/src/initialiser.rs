//! First values of weights, keyed by the seed and each parameter's name, whatever the order in
//! which components are built.

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{ParamId, Params, Shape};
use shardgraph_random::KeyedRng;

use crate::Error;
use crate::error::Call;

/// By which rule weights begin.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Initialisation {
    /// Uniform on +-1 / sqrt(inputs of the layer), weights and biases: what PyTorch does by
    /// default.
    #[default]
    FanIn,
    /// Random matrices with orthonormal rows or columns, times the gain of their layer; biases are
    /// 0.
    Orthogonal(Gains),
}

/// The factors of the orthogonal rule, by what a layer is for.
///
/// # Source
/// The defaults are those of CleanRL's agents with policies (`layer_init` and the LSTM of
/// `ppo_atari_lstm.py`). Its DQN begins with PyTorch's rule, as [`Initialisation::FanIn`] does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gains {
    /// Of layers with a relu behind them, and of those that are built alone. Default sqrt 2.
    pub hidden: f32,
    /// Of a memory cell. Default 1.
    pub memory: f32,
    /// Of the head that makes a policy's logits. Default 0.01: the first policy is nearly uniform.
    pub policy: f32,
    /// Of heads that make values, of states or of actions. Default 1.
    pub value: f32,
}

impl Default for Gains {
    fn default() -> Gains {
        Gains {
            hidden: std::f32::consts::SQRT_2,
            memory: 1.0,
            policy: 0.01,
            value: 1.0,
        }
    }
}

impl Gains {
    /// One gain for all layers.
    pub fn all(gain: f32) -> Gains {
        Gains {
            hidden: gain,
            memory: gain,
            policy: gain,
            value: gain,
        }
    }
}

/// The rule and the seed by which a component's parameters begin.
///
/// # Determinism
/// A parameter's first values depend on the seed, its name and its shape alone.
///
/// # Source
/// Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning" (2014),
/// for the orthogonal rule.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Initialiser {
    /// The rule.
    pub rule: Initialisation,
    /// The seed.
    pub seed: u64,
}

impl Initialiser {
    /// For a layer that is for something else than to have a relu behind it.
    pub(crate) fn with_gain_of(self, gain: impl Fn(&Gains) -> f32) -> Initialiser {
        match self.rule {
            Initialisation::FanIn => self,
            Initialisation::Orthogonal(gains) => Initialiser {
                rule: Initialisation::Orthogonal(Gains::all(gain(&gains))),
                ..self
            },
        }
    }

    /// Checks the settings.
    pub(crate) fn check(&self, call: Call<'_>) -> Result<(), Error> {
        let Initialisation::Orthogonal(gains) = self.rule else {
            return Ok(());
        };
        call.expect_not_negative("the gain of hidden layers", gains.hidden)?;
        call.expect_not_negative("the gain of memories", gains.memory)?;
        call.expect_not_negative("the gain of policies", gains.policy)?;
        call.expect_not_negative("the gain of values", gains.value)
    }

    /// A weight matrix `[n_inputs, n_outputs]`, row-major, with the gain of a hidden layer.
    pub(crate) fn weights(&self, name: &str, shape: Shape, fan_in: usize) -> Vec<f32> {
        let mut stream = KeyedRng::new(self.seed, name, 0);
        match self.rule {
            Initialisation::FanIn => uniform(&mut stream, shape.len(), fan_in),
            Initialisation::Orthogonal(gains) => orthogonal(&mut stream, shape, gains.hidden),
        }
    }

    /// A bias row.
    pub(crate) fn biases(&self, name: &str, n: usize, fan_in: usize) -> Vec<f32> {
        match self.rule {
            Initialisation::FanIn => uniform(&mut KeyedRng::new(self.seed, name, 0), n, fan_in),
            Initialisation::Orthogonal(_) => vec![0.0; n],
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
        return Err(call.mismatch("the scope", "one of its own", format!("`{name}` again")));
    }
    let mut values = values.iter();
    Ok(params.add(name, shape, || *values.next().expect("a value an element")))
}

fn uniform(stream: &mut KeyedRng, n: usize, fan_in: usize) -> Vec<f32> {
    let bound = 1.0 / (fan_in as f32).sqrt();
    (0..n)
        .map(|_| (2.0 * stream.uniform_f32() - 1.0) * bound)
        .collect()
}

/// Gram and Schmidt on rows of normal numbers, twice for each row, so that rounding leaves them
/// orthogonal; of the transposed matrix where rows are longer in number than wide.
fn orthogonal(stream: &mut KeyedRng, shape: Shape, gain: f32) -> Vec<f32> {
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
