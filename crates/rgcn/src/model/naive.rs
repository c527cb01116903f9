//! The model straight from its equations, in f64: a weight matrix for each relation, an edge at a
//! time. For tests.

use std::collections::BTreeMap;

use super::input::InputTable;
use super::network::Network;
use crate::config::Normaliser;
use crate::layer::coefficients::WeightScheme;
use crate::{Config, RelationalGraph};

/// All parameters in f64, in the layout of a one-rank network in full mode; `values` has them one
/// after the other.
pub(crate) struct Naive<'a> {
    pub(crate) graph: &'a RelationalGraph,
    pub(crate) config: &'a Config,
    pub(crate) widths: Vec<usize>,
    /// (node, relation) of each input row; relation is 0 where rows are by node.
    keys: BTreeMap<(u32, u32), usize>,
    n_input: usize,
}

impl<'a> Naive<'a> {
    /// The reference for a network, and its parameters without padding: input rows, then each
    /// layer's relations and bias.
    pub(crate) fn of(network: &Network<'a>) -> (Naive<'a>, Vec<f64>) {
        let (layout, input) = (network.layout, &network.input);
        let mut keys = BTreeMap::new();
        for place in 0..layout.sets[0].len() {
            let node = layout.sets[0].node(place);
            match input.table {
                InputTable::ByNode | InputTable::Embedding => {
                    keys.insert((node, 0), keys.len());
                }
                InputTable::ByPair => {
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
        let used = match network.input.table {
            InputTable::ByNode | InputTable::Embedding => shape.len(),
            InputTable::ByPair => len,
        };
        let rows = network.input.rows.chunks_exact(len);
        let mut params: Vec<f32> = rows.flat_map(|row| row[..used].to_vec()).collect();
        for layer in &network.layers {
            params.extend(
                layer
                    .coefficients
                    .iter()
                    .flat_map(|shared| shared.params.to_vec()),
            );
            params.extend(&layer.bias[..]);
        }
        params.into_iter().map(f64::from).collect()
    }

    /// Numbers in an input row.
    fn row_len(&self) -> usize {
        match self.config.embedding {
            0 => self.config.bases.max(1) * self.widths[0],
            width => width,
        }
    }

    /// How many units, or coefficients of bases, a layer reads.
    fn n_read(&self, layer: usize) -> usize {
        match (layer, self.config.embedding) {
            (0, 0) => self.config.bases,
            (0, width) => width,
            _ => self.widths[layer - 1],
        }
    }

    fn n_relations(&self) -> usize {
        self.graph.n_relations() as usize + usize::from(self.config.self_loop)
    }

    /// Edges with their normaliser, self loops last.
    fn edges(&self) -> Vec<(u32, u32, u32, f64)> {
        let mut counts: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        let group = |e: &crate::Edge| match self.config.normaliser {
            Normaliser::Relation => (e.target, e.relation),
            Normaliser::Node => (e.target, 0),
        };
        for edge in self.graph.edges() {
            *counts.entry(group(&edge)).or_default() += 1.0;
        }
        let given = self.graph.edges();
        let given = given.map(|e| (e.source, e.relation, e.target, 1.0 / counts[&group(&e)]));
        let mut edges: Vec<_> = given.collect();
        if self.config.self_loop {
            let relation = self.graph.n_relations();
            edges.extend((0..self.graph.n_nodes()).map(|node| (node, relation, node, 1.0)));
        }
        edges
    }

    /// The logits of all nodes.
    pub(crate) fn logits(&self, params: &[f64]) -> Vec<Vec<f64>> {
        let (edges, row_len) = (self.edges(), self.row_len());
        let (input, mut rest) = params.split_at(self.n_input * row_len);
        let mut units: Vec<Vec<f64>> = vec![Vec::new(); self.graph.n_nodes() as usize];
        if self.config.embedding > 0 {
            for (&(node, _), &row) in &self.keys {
                units[node as usize] = input[row * row_len..][..row_len].to_vec();
            }
        }
        for (layer, &width) in self.widths.iter().enumerate() {
            let taken = self.take(layer, &mut rest);
            let mut made = vec![taken.bias.clone(); self.graph.n_nodes() as usize];
            for &(source, relation, target, weight) in &edges {
                for (o, made) in made[target as usize].iter_mut().enumerate() {
                    let row = match taken.scheme {
                        None => &input[self.keys[&(source, relation)] * row_len..][..row_len],
                        Some(WeightScheme::Coefficients) => {
                            &input[self.keys[&(source, 0)] * row_len..][..row_len]
                        }
                        _ => &units[source as usize][..],
                    };
                    *made += weight * taken.message(relation as usize, row, o, width);
                }
            }
            if layer + 1 < self.widths.len() {
                let all = made.iter_mut().flatten();
                all.for_each(|unit| *unit = unit.max(0.0));
            }
            units = made;
        }
        units
    }

    /// Takes a layer's parameters off the rest.
    fn take(&self, layer: usize, rest: &mut &[f64]) -> Taken {
        let (n_relations, n_bases) = (self.n_relations(), self.config.bases);
        let (n_inputs, width) = (self.n_read(layer), self.widths[layer]);
        let n_blocks = self.config.blocks.max(1);
        let n_read = n_inputs.div_ceil(n_blocks);
        let scheme = match (layer + self.config.embedding, n_bases) {
            (0, 0) => None,
            (0, _) => Some(WeightScheme::Coefficients),
            (_, 0) => Some(WeightScheme::Whole),
            (_, n_bases) => Some(WeightScheme::Shared { n_bases }),
        };
        let (n_coefficients, n_weights) = match scheme {
            None => (0, 0),
            Some(WeightScheme::Coefficients) => (n_relations * n_bases, 0),
            Some(WeightScheme::Whole) => (0, n_relations * n_read * width),
            Some(WeightScheme::Shared { .. }) => (n_relations * n_bases, n_bases * n_read * width),
        };
        let mut take = |n: usize| {
            let (taken, left) = rest.split_at(n);
            *rest = left;
            taken.to_vec()
        };
        Taken {
            scheme,
            coefficients: take(n_coefficients),
            weights: take(n_weights),
            bias: match self.config.bias {
                true => take(width),
                false => vec![0.0; width],
            },
            n_read,
            n_inputs,
            n_blocks,
            n_bases,
        }
    }

    /// Mean cross entropy of labels plus L2 on the first layer's weights.
    pub(crate) fn loss(&self, params: &[f64], labels: &[(u32, u32)]) -> f64 {
        let logits = self.logits(params);
        let of_label = |&(node, class): &(u32, u32)| {
            let row = &logits[node as usize];
            row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[class as usize]
        };
        let loss = labels.iter().map(of_label).sum::<f64>() / labels.len() as f64;
        let n_weights = match (self.config.embedding, self.config.bases) {
            (0, n_bases) => self.n_relations() * n_bases,
            (_, 0) => {
                self.n_relations()
                    * self.n_read(0).div_ceil(self.config.blocks.max(1))
                    * self.widths[0]
            }
            (_, n_bases) => n_bases * (self.n_relations() + self.n_read(0) * self.widths[0]),
        };
        let n_first = self.n_input * self.row_len() + n_weights;
        let squares: f64 = params[..n_first].iter().map(|x| x * x).sum();
        loss + f64::from(self.config.l2) * squares
    }
}

/// One layer's parameters.
struct Taken {
    scheme: Option<WeightScheme>,
    coefficients: Vec<f64>,
    weights: Vec<f64>,
    bias: Vec<f64>,
    /// Units that a block reads, at most, of all.
    n_read: usize,
    n_inputs: usize,
    n_blocks: usize,
    n_bases: usize,
}

impl Taken {
    /// Number o of the message along a relation of a source with this row, or these units.
    fn message(&self, r: usize, row: &[f64], o: usize, width: usize) -> f64 {
        let a = |b: usize| self.coefficients[r * self.n_bases + b];
        let of_units = |weight: &dyn Fn(usize) -> f64| {
            // The run of units that hears output o: the last one whose outputs begin at o or
            // before.
            let border = |block: usize, n: usize| block * n / self.n_blocks;
            let blocks = (0..self.n_blocks).rev();
            let block = blocks.into_iter().find(|&block| border(block, width) <= o);
            let block = block.unwrap_or(0);
            let units = border(block, self.n_inputs)..border(block + 1, self.n_inputs);
            row[units].iter().zip(0..).map(|(x, k)| x * weight(k)).sum()
        };
        match self.scheme {
            None => row[o],
            Some(WeightScheme::Coefficients) => {
                (0..self.n_bases).map(|b| a(b) * row[b * width + o]).sum()
            }
            Some(WeightScheme::Whole) => {
                of_units(&|k| self.weights[(r * self.n_read + k) * width + o])
            }
            Some(WeightScheme::Shared { n_bases }) => of_units(&|k| {
                let basis = |b: usize| self.weights[(b * self.n_read + k) * width + o];
                (0..n_bases).map(|b| a(b) * basis(b)).sum()
            }),
        }
    }
}
