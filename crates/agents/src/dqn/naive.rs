//! The arithmetic of an update in plain f64 loops: what the planned program is compared with.

/// A fully connected layer: weights by input and output, and biases.
pub(super) struct Layer {
    pub(super) weights: Vec<Vec<f64>>,
    pub(super) biases: Vec<f64>,
}

/// The action values of an observation; relu behind every layer but the last.
pub(super) fn q_values(layers: &[Layer], observation: &[f64]) -> Vec<f64> {
    let mut h = observation.to_vec();
    for (i, layer) in layers.iter().enumerate() {
        let output = |j: usize| {
            let products = h.iter().zip(&layer.weights).map(|(x, row)| x * row[j]);
            let sum = layer.biases[j] + products.sum::<f64>();
            if i + 1 < layers.len() {
                sum.max(0.0)
            } else {
                sum
            }
        };
        h = (0..layer.biases.len()).map(output).collect();
    }
    h
}

/// What a memory holds of n steps.
#[derive(Debug, Clone)]
pub(super) struct Transition {
    pub(super) observation: Vec<f64>,
    pub(super) action: usize,
    pub(super) reward: f64,
    pub(super) next: Vec<f64>,
    pub(super) discount: f64,
}

/// Prediction less target.
pub(super) fn td_error(
    online: &[Layer],
    target: &[Layer],
    is_double: bool,
    transition: &Transition,
) -> f64 {
    let next = q_values(target, &transition.next);
    let chooser = match is_double {
        true => q_values(online, &transition.next),
        false => next.clone(),
    };
    let mut best = 0;
    for action in 1..chooser.len() {
        if chooser[action] > chooser[best] {
            best = action;
        }
    }
    let prediction = q_values(online, &transition.observation)[transition.action];
    prediction - (transition.reward + transition.discount * next[best])
}

/// What an error costs.
pub(super) fn cost(td_error: f64, huber_delta: Option<f64>) -> f64 {
    match huber_delta {
        None => td_error * td_error,
        Some(delta) if td_error.abs() <= delta => td_error * td_error / 2.0,
        Some(delta) => delta * (td_error.abs() - delta / 2.0),
    }
}
