//! The model straight from its equations, in f64: a weight matrix for each relation, an edge at a time. For tests.

use std::collections::BTreeMap;

use super::coefficients::Form;
use super::input::Keyed;
use super::network::Network;
use crate::{Config, RelationalGraph};

/// All parameters in f64, in the layout of a one-rank network in full mode; `values` has them one after the other.
pub(crate) struct Naive<'a> {
    pub(crate) graph: &'a RelationalGraph,
    pub(crate) config: &'a Config,
    pub(crate) widths: Vec<usize>,
    /// (node, relation) of each input row; relation is 0 where rows are by node.
    keys: BTreeMap<(u32, u32), usize>,
    n_input: usize,
}

impl<'a> Naive<'a> {
    /// The reference for a network, and its parameters without padding: input rows, then each layer's relations and bias.
    pub(crate) fn of(network: &Network<'a>) -> (Naive<'a>, Vec<f64>) {
        let (layout, input) = (network.layout, &network.input);
        let mut keys = BTreeMap::new();
        for place in 0..layout.sets[0].len() {
            let node = layout.sets[0].node(place);
            match input.keyed {
                Keyed::ByNode => drop(keys.insert((node, 0), keys.len())),
                Keyed::ByPair => {
                    for pair in network.plans[0].pairs(place) {
                        keys.insert((node, network.plans[0].relations[pair]), keys.len());
                    }
                }
            }
        }
        let naive = Naive {
            graph: layout.graph,
            config: network.config,
            widths: network.layers.iter().map(|layer| layer.width).collect(),
            n_input: keys.len(),
            keys,
        };
        (naive, Naive::params(network))
    }

    /// A network's parameters without padding.
    pub(crate) fn params(network: &Network<'_>) -> Vec<f64> {
        let (shape, len) = (network.input.shape, network.input.row_len());
        let used = match network.input.keyed {
            Keyed::ByNode => shape.len(),
            Keyed::ByPair => len,
        };
        let rows = network.input.rows.chunks_exact(len);
        let mut params: Vec<f32> = rows.flat_map(|row| row[..used].to_vec()).collect();
        for layer in &network.layers {
            params.extend(
                layer
                    .coefficients
                    .iter()
                    .flat_map(|shared| shared.params.clone()),
            );
            params.extend(&layer.bias);
        }
        params.into_iter().map(f64::from).collect()
    }

    fn n_relations(&self) -> usize {
        self.graph.n_relations() as usize + usize::from(self.config.self_loop)
    }

    /// Edges with their normaliser, self loops last.
    fn edges(&self) -> Vec<(u32, u32, u32, f64)> {
        let mut counts: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        for edge in self.graph.edges() {
            *counts.entry((edge.target, edge.relation)).or_default() += 1.0;
        }
        let given = self.graph.edges();
        let given = given.map(|e| {
            (
                e.source,
                e.relation,
                e.target,
                1.0 / counts[&(e.target, e.relation)],
            )
        });
        let mut edges: Vec<_> = given.collect();
        if self.config.self_loop {
            let relation = self.graph.n_relations();
            edges.extend((0..self.graph.n_nodes()).map(|node| (node, relation, node, 1.0)));
        }
        edges
    }

    /// The logits of all nodes.
    pub(crate) fn logits(&self, params: &[f64]) -> Vec<Vec<f64>> {
        let (edges, n_relations) = (self.edges(), self.n_relations());
        let n_bases = self.config.bases;
        let row_len = n_bases.max(1) * self.widths[0];
        let (input, mut rest) = params.split_at(self.n_input * row_len);
        let mut take = |n: usize| {
            let (taken, left) = rest.split_at(n);
            rest = left;
            taken.to_vec()
        };
        let mut units: Vec<Vec<f64>> = Vec::new();
        for (layer, &width) in self.widths.iter().enumerate() {
            let form = match (layer, n_bases) {
                (0, 0) => None,
                (0, _) => Some(Form::Coefficients),
                (_, 0) => Some(Form::Whole),
                (_, n_bases) => Some(Form::Shared { n_bases }),
            };
            let n_read = if layer == 0 {
                n_bases
            } else {
                self.widths[layer - 1]
            };
            let (coefficients, weights) = match form {
                None => (Vec::new(), Vec::new()),
                Some(Form::Coefficients) => (take(n_relations * n_bases), Vec::new()),
                Some(Form::Whole) => (Vec::new(), take(n_relations * n_read * width)),
                Some(Form::Shared { n_bases }) => {
                    (take(n_relations * n_bases), take(n_bases * n_read * width))
                }
            };
            let bias = if self.config.bias {
                take(width)
            } else {
                vec![0.0; width]
            };
            let mut made = vec![bias; self.graph.n_nodes() as usize];
            for &(source, relation, target, weight) in &edges {
                let r = relation as usize;
                for o in 0..width {
                    let message: f64 = match form {
                        None => input[self.keys[&(source, relation)] * row_len + o],
                        Some(Form::Coefficients) => {
                            let row = &input[self.keys[&(source, 0)] * row_len..][..row_len];
                            (0..n_bases)
                                .map(|b| coefficients[r * n_bases + b] * row[b * width + o])
                                .sum()
                        }
                        Some(Form::Whole) => {
                            let weight = |k: usize| weights[(r * n_read + k) * width + o];
                            (0..n_read)
                                .map(|k| units[source as usize][k] * weight(k))
                                .sum()
                        }
                        Some(Form::Shared { n_bases }) => {
                            let basis = |b: usize, k: usize| weights[(b * n_read + k) * width + o];
                            let weight = |k: usize| -> f64 {
                                (0..n_bases)
                                    .map(|b| coefficients[r * n_bases + b] * basis(b, k))
                                    .sum()
                            };
                            (0..n_read)
                                .map(|k| units[source as usize][k] * weight(k))
                                .sum()
                        }
                    };
                    made[target as usize][o] += weight * message;
                }
            }
            if layer + 1 < self.widths.len() {
                made.iter_mut()
                    .flatten()
                    .for_each(|unit| *unit = unit.max(0.0));
            }
            units = made;
        }
        units
    }

    /// Mean cross entropy of labels plus L2 on the first layer's weights.
    pub(crate) fn loss(&self, params: &[f64], labels: &[(u32, u32)]) -> f64 {
        let logits = self.logits(params);
        let of_label = |&(node, class): &(u32, u32)| {
            let row = &logits[node as usize];
            row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[class as usize]
        };
        let loss = labels.iter().map(of_label).sum::<f64>() / labels.len() as f64;
        let n_first = self.n_input * self.config.bases.max(1) * self.widths[0]
            + self.n_relations() * self.config.bases;
        let squares: f64 = params[..n_first].iter().map(|x| x * x).sum();
        loss + f64::from(self.config.l2) * squares
    }
}
