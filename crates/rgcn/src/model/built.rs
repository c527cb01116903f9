//! The layer with one-hot input as the literature's baseline has it: W_r = sum over b of a_rb V_b is built for every relation and every node, its
//! gradient too, and V's gradient is made from all of that, row by row. It is there to be compared with: what is computed is the same,
//! in the same order, so the bits are those of the pass that builds none of it.

use std::ops::Range;

use pulp::Arch;

use super::incoming::Incoming;
use super::kernel::{
    Pass, Updates, add_scaled, by_width, contract, expand, finish, fold, repeat, sizes,
};
use super::network::Network;
use super::plan::Layout;
use super::sums::Sums;
use crate::config::Config;

/// Numbers of W_r over all relations, the self loop among them, and the sources that a rank has.
pub(crate) fn n_built(config: &Config, layout: &Layout<'_>, rank: usize, n_classes: u32) -> u64 {
    let width = config.widths(n_classes)[0] as u64;
    layout.places(0, rank).len() as u64 * layout.n_relations() as u64 * width
}

/// Builds W_r of all relations from the rows of V: for each source one row a relation.
///
/// # Complexity
/// relations * sources * stride multiplications.
fn build(pass: Pass<'_>, rows: &[f32], built: &mut [f32]) {
    by_width!(pass.shape.width, build_of(pass, rows, built));
}

#[inline(always)]
fn build_of<const W: usize, const T: usize>(pass: Pass<'_>, rows: &[f32], built: &mut [f32]) {
    let Pass { shape, table, .. } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let mut message = vec![0.0; tile];
    let mut places = built.chunks_exact_mut(width);
    for row in rows.chunks_exact(shape.stride) {
        for (weights, place) in table.chunks_exact(shape.stride).zip(&mut places) {
            contract::<T>(row, weights, &mut message);
            fold(&mut message, width);
            place.copy_from_slice(&message[..width]);
        }
    }
}

/// Sends along each edge the row of W_r of its source.
fn send<S: Sums>(pass: Pass<'_>, built: &[f32], sums: &mut S) {
    by_width!(pass.shape.width, send_of(pass, built, sums));
}

#[inline(always)]
fn send_of<const W: usize, const T: usize>(pass: Pass<'_>, built: &[f32], sums: &mut impl Sums) {
    let (width, _) = sizes::<W, T>(pass.shape);
    for_each_pair(pass, width, |pair, row| {
        for &send in pass.plan.sends(pair) {
            sums.add::<W>(send, &built[row.clone()]);
        }
    });
}

/// Calls with each pair and its row's place in what is built.
#[inline(always)]
fn for_each_pair(pass: Pass<'_>, width: usize, mut call: impl FnMut(usize, Range<usize>)) {
    let n_relations = pass.table.len() / pass.shape.stride;
    for source in 0..pass.plan.pair_starts.len() - 1 {
        for pair in pass.plan.pairs(source) {
            let row = source * n_relations + pass.plan.relations[pair] as usize;
            call(pair, row * width..(row + 1) * width);
        }
    }
}

/// The gradient of all that is built.
fn gradient_of(pass: Pass<'_>, made: &Incoming<'_>, len: usize) -> Vec<f32> {
    let mut gradient = vec![0.0; len];
    for_each_pair(pass, pass.shape.width, |pair, row| {
        for send in pass.plan.sends(pair) {
            if let Some(made) = made.row(send.target) {
                add_scaled::<0>(&mut gradient[row.clone()], send.weight, made);
            }
        }
    });
    gradient
}

/// Takes the gradient of what is built back to some sources, and adds that of the table to `table`.
pub(super) fn backward_built(
    pass: Pass<'_>,
    sources: Range<usize>,
    built: &[f32],
    updates: &mut Updates<'_>,
    table: &mut [f32],
) {
    by_width!(
        pass.shape.width,
        backward_of(pass, sources, built, updates, table)
    );
}

#[inline(always)]
fn backward_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    sources: Range<usize>,
    built: &[f32],
    updates: &mut Updates<'_>,
    table_gradient: &mut [f32],
) {
    let Pass { shape, table, .. } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let len = table.len() / shape.stride * width;
    let mut message = vec![0.0; tile];
    let mut gradient = vec![0.0; shape.stride];
    for source in sources {
        let Updates::Rows { rows, .. } = &*updates else {
            return; // Units are not built.
        };
        let row = &rows[source * shape.stride..][..shape.stride];
        gradient.fill(0.0);
        let built = built[source * len..][..len].chunks_exact(width);
        let tables = table.chunks_exact(shape.stride);
        let tables = tables.zip(table_gradient.chunks_exact_mut(shape.stride));
        for (built, (weights, weights_gradient)) in built.zip(tables) {
            message[..width].copy_from_slice(built);
            repeat(&mut message, width);
            expand::<T>(&message, (row, weights), (&mut gradient, weights_gradient));
        }
        finish(shape, source, &gradient, updates);
    }
}

impl Network<'_> {
    /// Whether a layer's relations are built.
    pub(super) fn is_built(&self, layer: usize) -> bool {
        layer == 0 && self.layout.builds_weights
    }

    /// Builds all W_r of the first layer.
    pub(super) fn build_weights(&mut self) {
        let Some(coefficients) = &self.layers[0].coefficients else {
            return;
        };
        let n_classes = self.layers.last().map_or(0, |layer| layer.width as u32);
        let len = n_built(self.config, self.layout, self.rank, n_classes) as usize;
        self.built.resize(len, 0.0);
        let pass = Pass::new(&self.plans[0], coefficients, &self.tables[0]);
        build(pass, &self.input.rows, &mut self.built);
    }

    /// Sends the messages of the first layer from what is built.
    pub(super) fn send_built(&self, pass: Pass<'_>, sums: &mut impl Sums) {
        send(pass, &self.built, sums);
    }

    /// The gradient of what is built, where a layer's relations are.
    pub(super) fn built_gradient(
        &self,
        layer: usize,
        pass: Pass<'_>,
        made: &Incoming<'_>,
    ) -> Option<Vec<f32>> {
        let is_built = self.is_built(layer);
        is_built.then(|| gradient_of(pass, made, self.built.len()))
    }
}
