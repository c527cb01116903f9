//! A layer's sums in tiles of sources, one after the other: the messages of one tile are in memory at a time.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_autodiff::{
    Adjoint, Ctx, Error, Operand, Operation, Output, Run, Shape, Var, World,
};
use shardgraph_device::{self as device, Buffer, Device};
use shardgraph_ops::{self as ops, Adjacency, Copy2d, ResidentAdjacency, SparseProduct};

use super::operations::{Lists, Matrix};
use crate::kernels::{PairLists, Terms};
use crate::layer::plan::LayerPlan;

/// The sources of a layer, cut into tiles of about as many pairs each.
#[derive(Debug)]
pub(super) struct Tiles {
    tiles: Vec<Tile>,
    n_sources: usize,
    n_relations: usize,
    n_targets: usize,
}

/// Consecutive sources, and the matrix by which their pairs' messages are added.
#[derive(Debug)]
struct Tile {
    sources: Range<usize>,
    lists: PairLists,
    /// Pairs by targets.
    sends: Matrix,
}

impl Tiles {
    /// A plan's sources in at most `n_tiles` tiles.
    ///
    /// # Errors
    /// The device's.
    /// # Complexity
    /// O(pairs + messages + tiles * (relations + targets)).
    pub(super) fn upload(
        device: &Device,
        plan: &LayerPlan,
        n_relations: usize,
        n_targets: usize,
        n_tiles: usize,
    ) -> Result<Tiles, device::Error> {
        let mut of_tile = LayerPlan::default();
        let mut tile = |sources: Range<usize>| {
            plan.copy_to(sources.clone(), &mut of_tile);
            let sends = Lists::of_plan(&of_tile, n_targets);
            Ok(Tile {
                sources,
                lists: PairLists::upload(device, &of_tile, n_relations)?,
                sends: Matrix::upload(device, &sends)?,
            })
        };
        let tiles: Result<Vec<Tile>, device::Error> =
            cut(plan, n_tiles).into_iter().map(&mut tile).collect();
        Ok(Tiles {
            tiles: tiles?,
            n_sources: plan.n_sources(),
            n_relations,
            n_targets,
        })
    }

    /// Tiles that there are.
    pub(super) fn len(&self) -> usize {
        self.tiles.len()
    }

    /// The most bytes that one of the operations takes beside its operands and its result.
    pub(super) fn scratch_bytes(&self, terms: Terms) -> u64 {
        let of_tile = |tile: &Tile| {
            let rows = tile.sources.len() * terms.source_len;
            let messages = tile.lists.n_pairs * terms.width;
            let sums = self.n_targets * terms.width;
            let table = self.n_relations * terms.relation_len();
            let gradient = tile.lists.gradient_len(terms) + table;
            rows.max(1) + messages + sums.max(gradient).max(rows)
        };
        4 * self.tiles.iter().map(of_tile).max().unwrap_or(0) as u64
    }
}

/// Borders of tiles with about as many pairs each; a source is in one tile.
fn cut(plan: &LayerPlan, n_tiles: usize) -> Vec<Range<usize>> {
    let (n_sources, n_pairs) = (plan.n_sources(), plan.n_pairs());
    let mut tiles = Vec::new();
    let mut first = 0;
    for tile in 1..=n_tiles {
        let wanted = (n_pairs as u64 * tile as u64 / n_tiles as u64) as u32;
        let end = match tile == n_tiles {
            true => n_sources,
            false => plan.pair_starts.partition_point(|&start| start < wanted),
        };
        let end = end.min(n_sources);
        if end > first {
            tiles.push(first..end);
            first = end;
        }
    }
    tiles
}

/// A layer's sums over messages, or a gradient of theirs.
#[derive(Debug, Clone)]
pub(super) struct TiledSums {
    pub(super) tiles: Arc<Tiles>,
    pub(super) terms: Terms,
    pub(super) result: SumResult,
}

/// The result of [`TiledSums`], and its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SumResult {
    /// The sums, of the sources' and the relations' rows.
    Sums,
    /// The gradient of the sources' rows, of the relations' rows and the sums' gradient.
    SourceGradient,
    /// The gradient of the relations' rows, of the sources' rows and the sums' gradient.
    RelationGradient,
}

impl TiledSums {
    /// The sources' rows of a tile.
    fn rows(&self, device: &Device, tile: &Tile, x: &Buffer) -> Result<Buffer, device::Error> {
        let len = self.terms.source_len;
        let mut rows = device.allocate(tile.sources.len() * len)?;
        let copy = Copy2d {
            source_first: tile.sources.start * len,
            ..whole(rows.len())
        };
        ops::copy_2d(device, copy, x, &mut rows)?;
        Ok(rows)
    }

    /// The gradient of a tile's messages.
    fn message_gradient(
        &self,
        device: &Device,
        tile: &Tile,
        dy: &Buffer,
    ) -> Result<Buffer, device::Error> {
        let mut messages = device.allocate(tile.lists.n_pairs * self.terms.width)?;
        let (n_pairs, n_targets) = (tile.lists.n_pairs, self.tiles.n_targets);
        self.product(
            device,
            tile.sends.lists(),
            n_pairs,
            n_targets,
            dy,
            &mut messages,
        )?;
        Ok(messages)
    }

    fn product(
        &self,
        device: &Device,
        lists: &ResidentAdjacency,
        n_rows: usize,
        n_columns: usize,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), device::Error> {
        let product = SparseProduct {
            adjacency: Adjacency::Resident(lists),
            n_rows,
            n_columns,
            width: self.terms.width,
        };
        ops::sparse_product(device, product, x, out)
    }

    fn add_tile(
        &self,
        device: &Device,
        tile: &Tile,
        a: &Buffer,
        b: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), device::Error> {
        let (terms, lists) = (self.terms, &tile.lists);
        match self.result {
            SumResult::Sums => {
                let rows = self.rows(device, tile, a)?;
                let mut messages = device.allocate(lists.n_pairs * terms.width)?;
                lists.messages(device, terms, &rows, b, &mut messages)?;
                drop(rows);
                let mut part = device.allocate(out.len())?;
                let (sends, n_targets) = (tile.sends.transposed(), self.tiles.n_targets);
                self.product(
                    device,
                    sends,
                    n_targets,
                    lists.n_pairs,
                    &messages,
                    &mut part,
                )?;
                add(device, &part, out)
            }
            SumResult::SourceGradient => {
                let messages = self.message_gradient(device, tile, b)?;
                let mut rows = device.allocate(tile.sources.len() * terms.source_len)?;
                lists.source_gradient(device, terms, a, &messages, &mut rows)?;
                let copy = Copy2d {
                    target_first: tile.sources.start * terms.source_len,
                    ..whole(rows.len())
                };
                ops::copy_2d(device, copy, &rows, out)
            }
            SumResult::RelationGradient => {
                let messages = self.message_gradient(device, tile, b)?;
                let rows = self.rows(device, tile, a)?;
                let mut part = device.allocate(out.len())?;
                lists.relation_gradient(device, terms, &rows, &messages, &mut part)?;
                add(device, &part, out)
            }
        }
    }
}

/// A copy of `len` elements in one row.
fn whole(len: usize) -> Copy2d {
    Copy2d {
        rows: 1,
        width: len,
        source_first: 0,
        source_stride: len,
        target_first: 0,
        target_stride: len,
    }
}

/// `sum += part`, as a step of descent of size -1.
fn add(device: &Device, part: &Buffer, sum: &mut Buffer) -> Result<(), device::Error> {
    ops::sgd(device, -1.0, sum, part, None)
}

impl Operation for TiledSums {
    fn name(&self) -> &'static str {
        "relation_sums"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Result<Shape, String> {
        let (tiles, terms) = (&self.tiles, self.terms);
        let sources = Shape::new(tiles.n_sources, terms.source_len);
        let relations = Shape::new(tiles.n_relations, terms.relation_len());
        let sums = Shape::new(tiles.n_targets, terms.width);
        let (expected, result) = match self.result {
            SumResult::Sums => ([sources, relations], sums),
            SumResult::SourceGradient => ([relations, sums], sources),
            SumResult::RelationGradient => ([sources, sums], relations),
        };
        match operands == expected {
            true => Ok(result),
            false => Err(format!("{} and {} are expected", expected[0], expected[1])),
        }
    }

    fn compute(
        &self,
        run: &mut Run<'_>,
        operands: &[Operand<'_>],
        out: Output<'_>,
    ) -> Result<(), Error> {
        let (device, out) = (run.device(), out.values);
        device.clear(out)?;
        for tile in &self.tiles.tiles {
            self.add_tile(device, tile, operands[0].values, operands[1].values, out)?;
        }
        Ok(())
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        if self.result != SumResult::Sums {
            return Err(Error::NoAdjoint(self.name()));
        }
        let [x, table] = [at.operands[0], at.operands[1]];
        let of = [
            (SumResult::SourceGradient, [table, at.dy]),
            (SumResult::RelationGradient, [x, at.dy]),
        ];
        let mut gradients = Vec::new();
        for (operand, (result, operands)) in of.into_iter().enumerate() {
            let gradient = TiledSums {
                result,
                ..self.clone()
            };
            gradients.push(match at.wants(operand) {
                true => Some(ctx.apply(Arc::new(gradient), &operands)?),
                false => None,
            });
        }
        Ok(gradients)
    }
}
