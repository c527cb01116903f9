//! The one-hot layer through materialised weights: W_r = sum over b of a_rb V_b, for every relation
//! and node.
//!
//! The gradient of W_r is built too, and V's is made from it row by row: the literature's baseline,
//! here to be compared with. On one rank it computes the same in the same order, so its bits are
//! those of the pass that builds nothing. On several ranks each builds W_r of the relations dealt
//! to it, from a copy of all of V, and gradients of V are added over the ranks.

use std::ops::Range;

use super::gradient_rows::GradientRows;
use super::pass::{Pass, Updates, by_width, finish, sizes};
use super::products::{contract, expand, fold, repeat};
use super::sums::Sums;
use super::values::add_scaled;

/// The rows of W_r that a rank builds, source by source, and then those of the self loop.
#[derive(Clone, Debug)]
pub(crate) struct MaterialisedRows {
    /// The relations, ascending, without the self loop.
    relations: Vec<u32>,
    /// For each relation of the graph its place among them.
    places: Vec<u32>,
    n_sources: usize,
    /// The sources whose self loop is built.
    loops: Range<usize>,
    /// The number of the self loop's relation: that of the graph's relations.
    self_loop: u32,
}

impl MaterialisedRows {
    /// Rows of some relations of a graph for so many sources, and of some sources' self loops.
    pub(crate) fn new(
        relations: Vec<u32>,
        n_graph_relations: u32,
        n_sources: usize,
        loops: Range<usize>,
    ) -> MaterialisedRows {
        let mut places = vec![u32::MAX; n_graph_relations as usize];
        for (&relation, place) in relations.iter().zip(0..) {
            places[relation as usize] = place;
        }
        MaterialisedRows {
            relations,
            places,
            n_sources,
            loops,
            self_loop: n_graph_relations,
        }
    }

    /// The row of a source's relation.
    #[inline(always)]
    fn row(&self, source: usize, relation: u32) -> usize {
        let n_relations = self.relations.len();
        match relation == self.self_loop {
            true => self.n_sources * n_relations + source - self.loops.start,
            false => source * n_relations + self.places[relation as usize] as usize,
        }
    }

    /// The rows of a source, with their relations.
    #[inline(always)]
    fn rows_of(&self, source: usize) -> impl Iterator<Item = (u32, usize)> + '_ {
        let first = source * self.relations.len();
        let has_loop = self.loops.contains(&source);
        let own_loop = has_loop.then(|| (self.self_loop, self.row(source, self.self_loop)));
        let relations = self.relations.iter().copied().zip(first..);
        relations.chain(own_loop)
    }
}

/// Builds W_r of all relations from the rows of V: for each source one row a relation.
///
/// # Complexity
/// relations * sources * stride multiplications.
pub(crate) fn build(pass: Pass<'_>, rows: &MaterialisedRows, v: &[f32], weights: &mut [f32]) {
    by_width!(pass.shape.width, build_of(pass, rows, v, weights));
}

#[inline(always)]
fn build_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    rows: &MaterialisedRows,
    v: &[f32],
    weights: &mut [f32],
) {
    let Pass { shape, table, .. } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let mut message = vec![0.0; tile];
    for (source, row) in v.chunks_exact(shape.stride).enumerate() {
        for (relation, place) in rows.rows_of(source) {
            let coefficients = &table[relation as usize * shape.stride..][..shape.stride];
            contract::<T>(row, coefficients, &mut message);
            fold(&mut message, width);
            weights[place * width..][..width].copy_from_slice(&message[..width]);
        }
    }
}

/// Sends along each edge the row of W_r of its source.
pub(crate) fn send<S: Sums>(
    pass: Pass<'_>,
    rows: &MaterialisedRows,
    weights: &[f32],
    sums: &mut S,
) {
    by_width!(pass.shape.width, send_of(pass, rows, weights, sums));
}

#[inline(always)]
fn send_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    rows: &MaterialisedRows,
    weights: &[f32],
    sums: &mut impl Sums,
) {
    let (width, _) = sizes::<W, T>(pass.shape);
    for_each_pair(pass, rows, width, |pair, row| {
        for &send in pass.plan.sends(pair) {
            sums.add::<W>(send, &weights[row.clone()]);
        }
    });
}

/// Calls with each pair and the place of its row's numbers.
#[inline(always)]
fn for_each_pair(
    pass: Pass<'_>,
    rows: &MaterialisedRows,
    width: usize,
    mut call: impl FnMut(usize, Range<usize>),
) {
    for source in 0..pass.plan.n_sources() {
        for pair in pass.plan.pairs(source) {
            let row = rows.row(source, pass.plan.relations[pair]);
            call(pair, row * width..(row + 1) * width);
        }
    }
}

/// Adds the gradient of all materialised weights to `gradient`.
pub(crate) fn add_gradient(
    pass: Pass<'_>,
    rows: &MaterialisedRows,
    outputs: &GradientRows<'_>,
    gradient: &mut [f32],
) {
    for_each_pair(pass, rows, pass.shape.width, |pair, row| {
        for send in pass.plan.sends(pair) {
            if let Some(output) = outputs.row(send.target) {
                add_scaled::<0>(&mut gradient[row.clone()], send.weight, output);
            }
        }
    });
}

/// The gradient of a rank's materialised weights.
pub(crate) struct WeightGradient<'a> {
    pub(crate) rows: &'a MaterialisedRows,
    pub(crate) values: &'a [f32],
}

/// Takes the gradient of materialised weights back to some sources, and adds that of the table to
/// `table`.
pub(crate) fn backward_materialised(
    pass: Pass<'_>,
    sources: Range<usize>,
    weights: &WeightGradient<'_>,
    updates: &mut Updates<'_>,
    table: &mut [f32],
) {
    by_width!(
        pass.shape.width,
        backward_of(pass, sources, weights, updates, table)
    );
}

#[inline(always)]
fn backward_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    sources: Range<usize>,
    weights: &WeightGradient<'_>,
    updates: &mut Updates<'_>,
    table_gradient: &mut [f32],
) {
    let Pass { shape, table, .. } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let mut message = vec![0.0; tile];
    let mut gradient = vec![0.0; shape.stride];
    for source in sources {
        let row = match &*updates {
            Updates::Rows { rows, .. } => &rows[source * shape.stride..][..shape.stride],
            Updates::Sums { rows, .. } => &rows[source * shape.stride..][..shape.stride],
            Updates::Activations { .. } => return, // W_r is of one-hot input alone.
        };
        gradient.fill(0.0);
        for (relation, place) in weights.rows.rows_of(source) {
            message[..width].copy_from_slice(&weights.values[place * width..][..width]);
            repeat(&mut message, width);
            let at = relation as usize * shape.stride;
            let coefficients = &table[at..][..shape.stride];
            let of_coefficients = &mut table_gradient[at..][..shape.stride];
            expand::<T>(&message, row, coefficients, &mut gradient, of_coefficients);
        }
        finish(shape, source, &gradient, updates);
    }
}
