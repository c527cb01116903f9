//! A layer's sums in tiles of sources, one after the other: the messages of one tile are in memory at a time.

use std::ops::Range;

use shardgraph_device::{self as device, Buffer, Device};
use shardgraph_ops::{self as ops, Adjacency, Copy2d, SparseProduct};

use super::operations::{Lists, Matrix, RelationMap, RelationResult};
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

impl Tiles {
    /// The sources' rows of a tile.
    fn rows(
        device: &Device,
        terms: Terms,
        tile: &Tile,
        x: &Buffer,
    ) -> Result<Buffer, device::Error> {
        let mut rows = device.allocate(tile.sources.len() * terms.source_len)?;
        let copy = Copy2d {
            source_first: tile.sources.start * terms.source_len,
            ..whole(rows.len())
        };
        ops::copy_2d(device, copy, x, &mut rows)?;
        Ok(rows)
    }

    /// The gradient of a tile's messages.
    fn message_gradient(
        &self,
        device: &Device,
        terms: Terms,
        tile: &Tile,
        dy: &Buffer,
    ) -> Result<Buffer, device::Error> {
        let mut messages = device.allocate(tile.lists.n_pairs * terms.width)?;
        let product = SparseProduct {
            adjacency: Adjacency::Resident(tile.sends.lists()),
            n_rows: tile.lists.n_pairs,
            n_columns: self.n_targets,
            width: terms.width,
        };
        ops::sparse_product(device, product, dy, &mut messages)?;
        Ok(messages)
    }

    fn add_tile(
        &self,
        device: &Device,
        terms: Terms,
        tile: &Tile,
        result: RelationResult,
        [a, b]: [&Buffer; 2],
        out: &mut Buffer,
    ) -> Result<(), device::Error> {
        let lists = &tile.lists;
        match result {
            RelationResult::Value => {
                let rows = Self::rows(device, terms, tile, a)?;
                let mut messages = device.allocate(lists.n_pairs * terms.width)?;
                lists.messages(device, terms, &rows, b, &mut messages)?;
                drop(rows);
                let mut part = device.allocate(out.len())?;
                let product = SparseProduct {
                    adjacency: Adjacency::Resident(tile.sends.transposed()),
                    n_rows: self.n_targets,
                    n_columns: lists.n_pairs,
                    width: terms.width,
                };
                ops::sparse_product(device, product, &messages, &mut part)?;
                add(device, &part, out)
            }
            RelationResult::SourceGradient => {
                let messages = self.message_gradient(device, terms, tile, b)?;
                let mut rows = device.allocate(tile.sources.len() * terms.source_len)?;
                lists.source_gradient(device, terms, a, &messages, &mut rows)?;
                let copy = Copy2d {
                    target_first: tile.sources.start * terms.source_len,
                    ..whole(rows.len())
                };
                ops::copy_2d(device, copy, &rows, out)
            }
            RelationResult::RelationGradient => {
                let messages = self.message_gradient(device, terms, tile, b)?;
                let rows = Self::rows(device, terms, tile, a)?;
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

/// A layer's sums over messages.
impl RelationMap for Tiles {
    const NAME: &'static str = "relation_sums";

    fn n_rows(&self) -> [usize; 3] {
        [self.n_sources, self.n_relations, self.n_targets]
    }

    fn compute(
        &self,
        device: &Device,
        terms: Terms,
        result: RelationResult,
        operands: [&Buffer; 2],
        out: &mut Buffer,
    ) -> Result<(), device::Error> {
        device.clear(out)?;
        for tile in &self.tiles {
            self.add_tile(device, terms, tile, result, operands, out)?;
        }
        Ok(())
    }
}
