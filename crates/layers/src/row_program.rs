//! structure2vec and the Q head on some rows of one state, layer by layer: where few rows change from state to state, the others are kept.

use std::any::Any;

use shardgraph_autodiff::device::{Buffer, Device};
use shardgraph_autodiff::{Error, Params, ops};

use crate::{Policy, QHead, Structure2Vec};

/// Numbers of a row that the first layer reads: membership, and the sums of positive and of negated negative weights.
const N_FEATURES: usize = 3;

/// The layers of a policy without node features, for single rows of a graph without weights.
///
/// Layers 1 and 2 follow from degrees and neighbour degrees ([`crate::Path::Collapsed`]); a later one reads the sums over neighbours of the one before,
/// which are the caller's.
///
/// # Determinism
/// The bits of [`crate::Path::Collapsed`] on the host, whichever rows are computed together; of scores, whichever whole blocks are.
#[derive(Debug)]
pub struct RowProgram {
    device: Device,
    embed_dim: usize,
    n_layers: usize,
    /// `[3, K]`: what membership, positive and negative weights add.
    base: Buffer,
    /// `[1, K]`: what a unit of neighbour degree adds to the second layer.
    second: Buffer,
    theta4: Buffer,
    theta6: Buffer,
    /// The node's half, `[K, 1]`.
    theta7: Buffer,
}

/// What all layers of a row begin with, and its embedding after the second.
#[derive(Debug)]
pub struct FirstLayers {
    /// `[n_rows, K]`
    pub base: Vec<f32>,
    /// `[n_rows, K]`
    pub embed: Vec<f32>,
}

impl RowProgram {
    /// The program of a policy; none for other layers, with node features, and for fewer than three layers, whose scores [`crate::ScoreTable`] has.
    ///
    /// # Errors
    /// Of the products of weights.
    pub fn new(policy: &Policy, params: &Params) -> Result<Option<Self>, Error> {
        let (embedding, head): (&dyn Any, &dyn Any) = (&*policy.embedding, &*policy.head);
        let layers = embedding.downcast_ref().zip(head.downcast_ref());
        let (embedding, head): (&Structure2Vec, &QHead) = match layers {
            Some(layers) if policy.shape.n_layers > 2 && policy.shape.n_node_features == 0 => {
                layers
            }
            _ => return Ok(None),
        };
        let k = policy.shape.embed_dim;
        let device = Device::host();
        let (theta2, theta3, theta4) = embedding.theta2_to_4();
        let (theta6, theta7) = head.theta6_and_7();
        let buffer = |values: &[f32]| Buffer::from(values.to_vec());
        let [theta3, theta4, theta6] = [theta3, theta4, theta6].map(|id| params.values_of(id));
        let up = params.values_of(theta2).to_vec();
        let down = up.iter().map(|x| x * -1.0).collect();
        let positive = product(&device, relu(up), &buffer(theta3), k)?;
        let negative = product(&device, relu(down), &buffer(theta3), k)?;
        let unit = relu(positive.clone());
        let theta1 = params.values_of(embedding.theta1()).to_vec();
        Ok(Some(Self {
            embed_dim: k,
            n_layers: policy.shape.n_layers,
            base: Buffer::from([theta1, positive, negative].concat()),
            second: Buffer::from(product(&device, unit, &buffer(theta4), k)?),
            theta4: buffer(theta4),
            theta6: buffer(theta6),
            theta7: buffer(&params.values_of(theta7)[k..]),
            device,
        }))
    }

    /// K, the width of a row.
    pub fn embed_dim(&self) -> usize {
        self.embed_dim
    }

    /// L, the number of layers.
    pub fn n_layers(&self) -> usize {
        self.n_layers
    }

    /// Layers 1 and 2 of residual nodes.
    ///
    /// # Shapes
    /// `degrees` and `neighbor_degrees` as [`crate::StateBatch`] has them, one a row.
    /// # Errors
    /// Of the products.
    pub fn first_layers(
        &self,
        degrees: &[f32],
        neighbor_degrees: Vec<f32>,
    ) -> Result<FirstLayers, Error> {
        let features = degrees.iter().flat_map(|&degree| [0.0, degree, 0.0]);
        let features: Vec<f32> = features.collect();
        debug_assert_eq!(features.len(), N_FEATURES * neighbor_degrees.len());
        let base = self.times(features, &self.base)?;
        let second = self.times(neighbor_degrees, &self.second)?;
        let embed = relu(sum(&base, second));
        Ok(FirstLayers { base, embed })
    }

    /// A later layer of rows with these first terms and these sums over neighbours.
    ///
    /// # Shapes
    /// `[n_rows, K]` both.
    /// # Errors
    /// Of the product.
    pub fn later_layer(&self, base: &[f32], sums: Vec<f32>) -> Result<Vec<f32>, Error> {
        Ok(relu(sum(base, self.times(sums, &self.theta4)?)))
    }

    /// The hidden rows of the head, of rows of the last layer.
    ///
    /// # Errors
    /// Of the product.
    pub fn hidden(&self, embed: Vec<f32>) -> Result<Vec<f32>, Error> {
        Ok(relu(self.times(embed, &self.theta6)?))
    }

    /// The scores of a whole block of hidden rows, without the state's part.
    ///
    /// # Errors
    /// Of the product.
    pub fn scores(&self, hidden: &[f32]) -> Result<Vec<f32>, Error> {
        product(&self.device, hidden.to_vec(), &self.theta7, 1)
    }

    fn times(&self, rows: Vec<f32>, weights: &Buffer) -> Result<Vec<f32>, Error> {
        product(&self.device, rows, weights, self.embed_dim)
    }
}

/// Rows times a matrix with `cols` columns.
fn product(
    device: &Device,
    rows: Vec<f32>,
    weights: &Buffer,
    cols: usize,
) -> Result<Vec<f32>, Error> {
    let inner = weights.len() / cols;
    let n_rows = rows.len() / inner;
    let shape = ops::MatMul {
        rows: n_rows,
        inner,
        cols,
        transpose_a: false,
        transpose_b: false,
    };
    let mut out = device.zeros(n_rows * cols)?;
    let rows = Buffer::from(rows);
    ops::block_matmul(device, shape, &[0, n_rows], &rows, weights, &mut out)?;
    Ok(out.into_host().unwrap_or_default())
}

fn sum(left: &[f32], mut right: Vec<f32>) -> Vec<f32> {
    for (right, left) in right.iter_mut().zip(left) {
        *right += left;
    }
    right
}

/// NaN stays NaN.
fn relu(mut values: Vec<f32>) -> Vec<f32> {
    for value in &mut values {
        if *value <= 0.0 {
            *value = 0.0;
        }
    }
    values
}
