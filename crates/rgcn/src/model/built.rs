//! The layer with one-hot input as the literature's baseline has it: W_r = sum over b of a_rb V_b is built for every relation and every node, its
//! gradient too, and V's gradient is made from all of that, row by row. It is there to be compared with: what is computed is the same,
//! on one rank in the same order, so that the bits are those of the pass that builds none of it. On several each builds W_r of the relations that it was
//! dealt, from a copy of all of V, and gradients of V are added over the ranks.

use std::ops::Range;
use std::sync::Arc;

use pulp::Arch;
use shardgraph_collectives::{Op, Reduction};

use super::coefficients::Partials;
use super::incoming::Incoming;
use super::kernel::{Pass, Updates, by_width, finish, sizes};
use super::network::{Network, Peers};
use super::plan::Layout;
use super::products::{add_scaled, contract, expand, fold, repeat};
use super::sums::Sums;
use super::work::Work;
use crate::Error;
use crate::config::Config;

/// Numbers of W_r that a rank builds: of one rank over all relations, the self loop among them, and its sources; of several over the relations that a
/// rank was dealt and all sources, and the self loop of its own.
pub(crate) fn n_built(config: &Config, layout: &Layout<'_>, rank: usize, n_classes: u32) -> u64 {
    let width = config.widths(n_classes)[0] as u64;
    let n_own = layout.places(0, rank).len() as u64;
    let n_rows = match layout.is_dealt_by_pair() {
        true => {
            let n_relations = layout.n_relations_of_work(rank);
            let n_loops = if config.self_loop { n_own } else { 0 };
            layout.sets[0].len() as u64 * n_relations + n_loops
        }
        false => n_own * layout.n_relations() as u64,
    };
    n_rows * width
}

/// Which rows of W_r a rank builds, and where they lie: source by source those of its relations, then those of the self loop.
#[derive(Clone, Debug)]
pub(crate) struct BuiltRows {
    /// The relations, ascending, without the self loop.
    relations: Vec<u32>,
    /// For each relation of the graph its place among them.
    places: Vec<u32>,
    n_sources: usize,
    /// The sources whose self loop is built.
    loops: Range<usize>,
    /// The relation that the self loop is.
    of_loops: u32,
}

impl BuiltRows {
    fn n_rows(&self) -> usize {
        self.n_sources * self.relations.len() + self.loops.len()
    }

    /// The row of a source's relation.
    #[inline(always)]
    fn row(&self, source: usize, relation: u32) -> usize {
        let n_relations = self.relations.len();
        match relation == self.of_loops {
            true => self.n_sources * n_relations + source - self.loops.start,
            false => source * n_relations + self.places[relation as usize] as usize,
        }
    }

    /// The rows of a source, with their relations.
    #[inline(always)]
    fn rows_of(&self, source: usize) -> impl Iterator<Item = (u32, usize)> + '_ {
        let first = source * self.relations.len();
        let has_loop = self.loops.contains(&source);
        let own_loop = has_loop.then(|| (self.of_loops, self.row(source, self.of_loops)));
        let relations = self.relations.iter().copied().zip(first..);
        relations.chain(own_loop)
    }
}

impl Layout<'_> {
    /// Whether each rank reads all rows and units, as where relations are dealt and what they read is copied to all.
    pub(crate) fn replicates(&self) -> bool {
        self.builds_weights && self.is_dealt_by_pair()
    }

    /// What a rank builds of the first layer; none where nothing is built.
    pub(super) fn built_rows(&self, rank: usize, works: &[Arc<Work>]) -> Option<BuiltRows> {
        if !self.builds_weights {
            return None;
        }
        let of_loops = self.graph.n_relations();
        let relations: Vec<u32> = match works.first() {
            None => (0..of_loops).collect(),
            Some(work) => {
                let all = work.plan.relations_of(0..work.n_sources());
                all.into_iter().filter(|&r| r != of_loops).collect()
            }
        };
        let mut places = vec![u32::MAX; of_loops as usize];
        for (&relation, place) in relations.iter().zip(0..) {
            places[relation as usize] = place;
        }
        let own = self.places(0, rank);
        let (n_sources, loops) = match works.is_empty() {
            true => (own.len(), 0..own.len()),
            false => (self.sets[0].len(), own),
        };
        Some(BuiltRows {
            relations,
            places,
            n_sources,
            loops: if self.self_loop { loops } else { 0..0 },
            of_loops,
        })
    }
}

/// Builds W_r of all relations from the rows of V: for each source one row a relation.
///
/// # Complexity
/// relations * sources * stride multiplications.
fn build(pass: Pass<'_>, places: &BuiltRows, rows: &[f32], built: &mut [f32]) {
    by_width!(pass.shape.width, build_of(pass, places, rows, built));
}

#[inline(always)]
fn build_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    places: &BuiltRows,
    rows: &[f32],
    built: &mut [f32],
) {
    let Pass { shape, table, .. } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let mut message = vec![0.0; tile];
    for (source, row) in rows.chunks_exact(shape.stride).enumerate() {
        for (relation, place) in places.rows_of(source) {
            let weights = &table[relation as usize * shape.stride..][..shape.stride];
            contract::<T>(row, weights, &mut message);
            fold(&mut message, width);
            built[place * width..][..width].copy_from_slice(&message[..width]);
        }
    }
}

/// Sends along each edge the row of W_r of its source.
fn send<S: Sums>(pass: Pass<'_>, places: &BuiltRows, built: &[f32], sums: &mut S) {
    by_width!(pass.shape.width, send_of(pass, places, built, sums));
}

#[inline(always)]
fn send_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    places: &BuiltRows,
    built: &[f32],
    sums: &mut impl Sums,
) {
    let (width, _) = sizes::<W, T>(pass.shape);
    for_each_pair(pass, places, width, |pair, row| {
        for &send in pass.plan.sends(pair) {
            sums.add::<W>(send, &built[row.clone()]);
        }
    });
}

/// Calls with each pair and its row's place in what is built.
#[inline(always)]
fn for_each_pair(
    pass: Pass<'_>,
    places: &BuiltRows,
    width: usize,
    mut call: impl FnMut(usize, Range<usize>),
) {
    for source in 0..pass.plan.pair_starts.len() - 1 {
        for pair in pass.plan.pairs(source) {
            let row = places.row(source, pass.plan.relations[pair]);
            call(pair, row * width..(row + 1) * width);
        }
    }
}

/// The gradient of all that is built.
fn gradient_of(pass: Pass<'_>, places: &BuiltRows, made: &Incoming<'_>) -> Vec<f32> {
    let mut gradient = vec![0.0; places.n_rows() * pass.shape.width];
    for_each_pair(pass, places, pass.shape.width, |pair, row| {
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
    (places, built): (&BuiltRows, &[f32]),
    updates: &mut Updates<'_>,
    table: &mut [f32],
) {
    by_width!(
        pass.shape.width,
        backward_of(pass, sources, (places, built), updates, table)
    );
}

#[inline(always)]
fn backward_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    sources: Range<usize>,
    (places, built): (&BuiltRows, &[f32]),
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
            Updates::Units { .. } => return, // Units are not built.
        };
        gradient.fill(0.0);
        for (relation, place) in places.rows_of(source) {
            message[..width].copy_from_slice(&built[place * width..][..width]);
            repeat(&mut message, width);
            let at = relation as usize * shape.stride;
            let weights = &table[at..][..shape.stride];
            let weights_gradient = &mut table_gradient[at..][..shape.stride];
            expand::<T>(&message, (row, weights), (&mut gradient, weights_gradient));
        }
        finish(shape, source, &gradient, updates);
    }
}

impl Network<'_> {
    /// The rows of W_r that this rank builds for a layer.
    pub(super) fn rows_to_build(&self, layer: usize) -> Option<&BuiltRows> {
        self.to_build.as_ref().filter(|_| layer == 0)
    }

    /// Builds all W_r of the first layer that this rank has to.
    pub(super) fn build_weights(&mut self) {
        let (Some(coefficients), Some(places)) = (&self.layers[0].coefficients, &self.to_build)
        else {
            return;
        };
        let (plan, rows) = match self.works.first() {
            Some(work) => (&work.plan, &self.read[0]),
            None => (&*self.plans[0], &self.input.rows),
        };
        let pass = Pass::new(plan, coefficients, &self.tables[0]);
        let mut built = std::mem::take(&mut self.built);
        built.resize(places.n_rows() * coefficients.shape.width, 0.0);
        build(pass, places, rows, &mut built);
        self.built = built;
    }

    /// Sends the messages of the first layer from what is built.
    pub(super) fn send_built(&self, pass: Pass<'_>, places: &BuiltRows, sums: &mut impl Sums) {
        send(pass, places, &self.built, sums);
    }

    /// The gradient of what is built, where a layer's relations are.
    pub(super) fn built_gradient(
        &self,
        layer: usize,
        pass: Pass<'_>,
        made: &Incoming<'_>,
    ) -> Option<(&BuiltRows, Vec<f32>)> {
        let places = self.rows_to_build(layer)?;
        Some((places, gradient_of(pass, places, made)))
    }

    /// The first layer's pass on a rank that has its relations and a copy of all rows: gradients of all rows are added over the ranks, and each steps
    /// those that it owns. With the copies of the next pass forward that is the all-reduce after which every rank would step its copy.
    pub(super) fn replicated_backward(
        &self,
        work: &Work,
        all: &Incoming<'_>,
        (updates, partials): (&mut Updates<'_>, &mut Partials),
        peers: &mut Peers<'_>,
    ) -> Result<(), Error> {
        let shape = self.input.shape;
        let gradients = self.replicated_gradients(work, all, partials);
        let owned = work.sources_of_owner.iter();
        let counts: Vec<usize> = owned.map(|n| n * shape.stride).collect();
        let mut own = vec![0.0; counts[self.rank]];
        peers.run(Op::ReduceScatterV {
            send: (&gradients).into(),
            recv: (&mut own).into(),
            counts: &counts,
            reduction: Reduction::Sum,
        })?;
        for (source, gradient) in own.chunks_exact(shape.stride).enumerate() {
            finish(shape, source, gradient, updates);
        }
        Ok(())
    }

    /// What this rank's relations give to the gradients of all rows, and to `partials`.
    fn replicated_gradients(
        &self,
        work: &Work,
        all: &Incoming<'_>,
        partials: &mut Partials,
    ) -> Vec<f32> {
        let mut gradients = vec![0.0; self.read[0].len()];
        let (Some(coefficients), Some(places)) = (&self.layers[0].coefficients, &self.to_build)
        else {
            return gradients;
        };
        let pass = Pass::new(&work.plan, coefficients, &self.tables[0]);
        let built = (places, &gradient_of(pass, places, all)[..]);
        let mut table = vec![0.0; self.tables[0].len()];
        let mut sums = Updates::Sums {
            rows: &self.read[0],
            gradients: &mut gradients,
        };
        for sources in &work.blocks {
            let relations = work.plan.relations_of(sources.clone());
            backward_built(pass, sources.clone(), built, &mut sums, &mut table);
            coefficients.reduce(&mut table, &relations, partials);
        }
        gradients
    }
}
