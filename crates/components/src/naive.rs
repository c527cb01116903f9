//! The components' formulas in f64, so simple that they are plainly right.

use shardgraph_environments::space::GraphValue;

use crate::VTrace;

/// `x w + b` of one row; `w` row-major, a row for each input.
pub(crate) fn linear(x: &[f64], w: &[f32], b: &[f32]) -> Vec<f64> {
    let column = |j: usize| -> f64 {
        let terms = x.iter().enumerate();
        terms.map(|(i, x)| x * f64::from(w[i * b.len() + j])).sum()
    };
    (0..b.len()).map(|j| column(j) + f64::from(b[j])).collect()
}

pub(crate) fn relu(x: Vec<f64>) -> Vec<f64> {
    x.into_iter().map(|x| x.max(0.0)).collect()
}

/// Wang et al. 2016, equation 9.
pub(crate) fn dueling(value: f64, advantages: &[f64]) -> Vec<f64> {
    let mean = advantages.iter().sum::<f64>() / advantages.len() as f64;
    advantages.iter().map(|a| value + (a - mean)).collect()
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The weights of a memory cell as PyTorch names and orders them: rows in the order input, forget,
/// candidate, output.
pub(crate) struct LstmWeights {
    /// `[4 n_hidden][n_inputs]`.
    pub(crate) weight_ih: Vec<Vec<f64>>,
    /// `[4 n_hidden][n_hidden]`.
    pub(crate) weight_hh: Vec<Vec<f64>>,
    /// `[4 n_hidden]`: both biases together.
    pub(crate) bias: Vec<f64>,
}

/// One step of one sequence, by the formulas of PyTorch's `LSTM`: the next hidden and cell state.
pub(crate) fn lstm_step(
    weights: &LstmWeights,
    x: &[f64],
    hidden: &[f64],
    cell: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let n = hidden.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let z = |row: usize| {
        dot(&weights.weight_ih[row], x) + dot(&weights.weight_hh[row], hidden) + weights.bias[row]
    };
    let next_cell: Vec<f64> = (0..n)
        .map(|j| {
            let (input, forget, candidate) =
                (sigmoid(z(j)), sigmoid(z(n + j)), z(2 * n + j).tanh());
            forget * cell[j] + input * candidate
        })
        .collect();
    let next_hidden = (0..n)
        .map(|j| sigmoid(z(3 * n + j)) * next_cell[j].tanh())
        .collect();
    (next_hidden, next_cell)
}

/// One trajectory: what V-trace reads of each step, and of the state after the last.
pub(crate) struct Trajectory {
    pub(crate) log_ratios: Vec<f64>,
    pub(crate) rewards: Vec<f64>,
    pub(crate) discounts: Vec<f64>,
    pub(crate) values: Vec<f64>,
    pub(crate) bootstrap: f64,
}

/// Espeholt et al. 2018, equation 1, as the sum over all later steps; targets and advantages.
pub(crate) fn v_trace(of: &Trajectory, settings: VTrace) -> (Vec<f64>, Vec<f64>) {
    let VTrace {
        rho_bar,
        c_bar,
        lambda,
    } = settings;
    let [rho_bar, c_bar, lambda] = [rho_bar, c_bar, lambda].map(f64::from);
    let n_steps = of.values.len();
    let value = |t: usize| of.values.get(t).copied().unwrap_or(of.bootstrap);
    let rho = |t: usize| of.log_ratios[t].exp().min(rho_bar);
    let c = |t: usize| lambda * of.log_ratios[t].exp().min(c_bar);
    let delta = |t: usize| rho(t) * (of.rewards[t] + of.discounts[t] * value(t + 1) - value(t));
    let target = |s: usize| {
        let term = |t: usize| (s..t).map(|i| of.discounts[i] * c(i)).product::<f64>() * delta(t);
        value(s) + (s..n_steps).map(term).sum::<f64>()
    };
    let targets: Vec<f64> = (0..n_steps).map(target).collect();
    let next = |s: usize| targets.get(s + 1).copied().unwrap_or(of.bootstrap);
    let advantage = |s: usize| rho(s) * (of.rewards[s] + of.discounts[s] * next(s) - value(s));
    let advantages = (0..n_steps).map(advantage).collect();
    (targets, advantages)
}

/// One transition of a batch.
pub(crate) struct Transition {
    pub(crate) q: Vec<f64>,
    pub(crate) action: usize,
    pub(crate) reward: f64,
    pub(crate) discount: f64,
    pub(crate) next_target: Vec<f64>,
    pub(crate) next_online: Vec<f64>,
}

/// The TD error of one transition.
pub(crate) fn td_error(of: &Transition, double: bool) -> f64 {
    let by = if double {
        &of.next_online
    } else {
        &of.next_target
    };
    let mut best = 0;
    for action in 1..by.len() {
        if by[action] > by[best] {
            best = action;
        }
    }
    of.q[of.action] - (of.reward + of.discount * of.next_target[best])
}

pub(crate) fn huber(error: f64, delta: f64) -> f64 {
    match error.abs() <= delta {
        true => error * error / 2.0,
        false => delta * (error.abs() - delta / 2.0),
    }
}

pub(crate) fn softmax(logits: &[f64]) -> Vec<f64> {
    let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
    logits.iter().map(|logit| logit.exp() / sum).collect()
}

pub(crate) fn entropy(probabilities: &[f64]) -> f64 {
    -probabilities.iter().map(|p| p * p.ln()).sum::<f64>()
}

/// Weights and biases of the layers of a perceptron, and its result for one row: relu behind every
/// layer but the last.
pub(crate) fn mlp(layers: &[(&[f32], &[f32])], row: &[f64]) -> Vec<f64> {
    let mut h = row.to_vec();
    for (i, (w, b)) in layers.iter().enumerate() {
        h = linear(&h, w, b);
        if i + 1 < layers.len() {
            h = relu(h);
        }
    }
    h
}

/// The perceptrons of a graph network.
pub(crate) struct GraphNetwork<'a> {
    pub(crate) nodes: Vec<(&'a [f32], &'a [f32])>,
    pub(crate) edges: Vec<(&'a [f32], &'a [f32])>,
    pub(crate) forward: Vec<(&'a [f32], &'a [f32])>,
    pub(crate) backward: Vec<(&'a [f32], &'a [f32])>,
    pub(crate) update: NaiveUpdate<'a>,
}

/// The rule of a node's next representation.
pub(crate) enum NaiveUpdate<'a> {
    /// The layers, and whether the node's own representation is added.
    Perceptron(Vec<(&'a [f32], &'a [f32])>, bool),
    Gru(GruWeights<'a>),
}

/// Matrices `[n_inputs, 3 n]` and `[n, 3 n]` with their biases, in the blocks reset, update,
/// candidate.
pub(crate) struct GruWeights<'a> {
    pub(crate) x: (&'a [f32], &'a [f32]),
    pub(crate) h: (&'a [f32], &'a [f32]),
}

/// One step of PyTorch's `GRUCell`, for one row.
pub(crate) fn gru_step(weights: &GruWeights<'_>, x: &[f64], h: &[f64]) -> Vec<f64> {
    let n = h.len();
    let (u, v) = (
        linear(x, weights.x.0, weights.x.1),
        linear(h, weights.h.0, weights.h.1),
    );
    let next = |j: usize| {
        let r = sigmoid(u[j] + v[j]);
        let z = sigmoid(u[n + j] + v[n + j]);
        let candidate = (u[2 * n + j] + r * v[2 * n + j]).tanh();
        (1.0 - z) * candidate + z * h[j]
    };
    (0..n).map(next).collect()
}

/// For each node the sum of its messages, and how many there are.
fn heard(
    of: &GraphNetwork<'_>,
    graph: &GraphValue,
    edges: &[Vec<f64>],
    h: &[Vec<f64>],
) -> (Vec<Vec<f64>>, Vec<i32>) {
    let n = h.len();
    let mut heard = vec![vec![0.0; h[0].len()]; n];
    let mut n_heard = vec![0; n];
    for (edge, features) in graph.edges.iter().zip(edges) {
        let [source, target] = edge.map(|end| end as usize);
        let features = if features.is_empty() {
            vec![]
        } else {
            mlp(&of.edges, features)
        };
        let ends = [h[source].clone(), h[target].clone(), features].concat();
        for (at, message) in [
            (target, mlp(&of.forward, &ends)),
            (source, mlp(&of.backward, &ends)),
        ] {
            heard[at]
                .iter_mut()
                .zip(message)
                .for_each(|(sum, x)| *sum += x);
            n_heard[at] += 1;
        }
    }
    (heard, n_heard)
}

/// Paliwal et al. 2020, equation 1, edge by edge: the nodes of one graph after `n_rounds`.
pub(crate) fn graph_network(
    of: &GraphNetwork<'_>,
    graph: &GraphValue,
    n_rounds: usize,
    is_mean: bool,
) -> Vec<f64> {
    let f64s = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let rows = |x: &[f32], n: usize| -> Vec<Vec<f64>> {
        (0..n)
            .map(|i| f64s(&x[i * x.len() / n..(i + 1) * x.len() / n]))
            .collect()
    };
    let n = graph.n_nodes as usize;
    let encode = |x: &Vec<f64>| mlp(&of.nodes, x);
    let mut h: Vec<Vec<f64>> = rows(&graph.node_features, n).iter().map(encode).collect();
    let edges = rows(&graph.edge_features, graph.edges.len());
    for _ in 0..n_rounds {
        let (heard, n_heard) = heard(of, graph, &edges, &h);
        for v in 0..n {
            let part = if is_mean {
                1.0 / f64::from(n_heard[v].max(1))
            } else {
                1.0
            };
            let heard: Vec<f64> = heard[v].iter().map(|x| part * x).collect();
            h[v] = match &of.update {
                NaiveUpdate::Gru(weights) => gru_step(weights, &heard, &h[v]),
                NaiveUpdate::Perceptron(layers, is_residual) => {
                    let next = mlp(layers, &[h[v].clone(), heard].concat());
                    let own = |x: f64| if *is_residual { x } else { 0.0 };
                    next.iter()
                        .zip(&h[v])
                        .map(|(x, before)| x + own(*before))
                        .collect()
                }
            };
        }
    }
    h.concat()
}
