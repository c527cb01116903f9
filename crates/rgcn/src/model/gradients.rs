//! Gradients that are kept until all of them are there: what a bound on their common length needs.

use super::network::{Layer, Network};
use super::optimiser::Rule;

/// The gradients of a network whose input is units of each node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gradients {
    /// Of the nodes' vectors.
    pub(crate) rows: Vec<f32>,
    /// Of each layer's relations, reduced, then of its bias.
    pub(crate) shared: Vec<Vec<f32>>,
}

impl Gradients {
    /// None yet, of so many layers.
    pub(crate) fn of_layers(n_layers: usize) -> Gradients {
        Gradients {
            rows: Vec::new(),
            shared: vec![Vec::new(); n_layers],
        }
    }

    /// All of them times a factor.
    pub(crate) fn scale(&mut self, factor: f32) {
        let values = self.shared.iter_mut().flatten().chain(&mut self.rows);
        values.for_each(|value| *value *= factor);
    }
}

/// The sum of squares, in f64 and in the order of the numbers.
pub(crate) fn squares(values: &[f32]) -> f64 {
    let squares = values.iter().map(|&value| f64::from(value).powi(2));
    squares.sum()
}

impl Network<'_> {
    /// Steps all parameters along collected gradients.
    pub(crate) fn step_collected(&mut self, rule: Rule, gradients: &Gradients) {
        if !gradients.rows.is_empty() {
            let decay = self.decay_of(0);
            self.input.step(&gradients.rows, (rule, decay));
        }
        for (layer, sum) in gradients.shared.iter().enumerate() {
            if !sum.is_empty() {
                self.step_layer(layer, rule, sum);
            }
        }
    }

    /// Steps a layer's shared parameters along the sum of all blocks' gradients.
    pub(super) fn step_layer(&mut self, layer: usize, rule: Rule, sum: &[f32]) {
        let (reduced_len, decay) = (self.reduced_len(layer), self.decay_of(layer));
        let Layer {
            coefficients,
            bias,
            bias_moments,
            ..
        } = &mut self.layers[layer];
        let (of_relations, of_bias) = sum.split_at(reduced_len);
        if let Some(coefficients) = coefficients {
            coefficients.step(rule, decay, of_relations);
        }
        rule.step(bias, of_bias, 0.0, bias_moments.of(0..of_bias.len()));
    }

    /// The square of the length of gradients in the parameters' own terms: those of shared bases are worked out.
    pub(crate) fn squares_of(&self, gradients: &Gradients) -> f64 {
        let mut sum = squares(&gradients.rows);
        for (layer, shared) in self.layers.iter().zip(&gradients.shared) {
            let n_bias = layer.bias.len().min(shared.len());
            let (of_relations, of_bias) = shared.split_at(shared.len() - n_bias);
            sum += squares(of_bias);
            if let Some(coefficients) = &layer.coefficients {
                sum += squares(&coefficients.gradient(of_relations));
            }
        }
        sum
    }
}
