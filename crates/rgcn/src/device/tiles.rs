//! A layer's sums in tiles of sources, one after the other: the messages of one tile are in memory at a time.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_device::{self as device, Buffer, Device};
use shardgraph_ops::{self as ops, Adjacency, Copy2d, SparseProduct};

use super::operations::{Lists, Matrix, RelationMap, RelationResult};
use super::prefetch::{CopyStreams, StreamedLists, TilePass, TileRange, TileRows};
use crate::kernels::{PairLists, Terms};
use crate::layer::plan::LayerPlan;

/// The sources of a layer, cut into tiles of about as many pairs each.
#[derive(Debug)]
pub(super) struct Tiles {
    storage: Storage,
    ranges: Vec<Range<usize>>,
    n_sources: usize,
    size: LayerSize,
}

/// The place of the tiles' lists between passes.
#[derive(Debug)]
enum Storage {
    /// On the device.
    Resident(Vec<Tile>),
    /// In host memory, as a plan: each pass uploads the lists of all tiles, with two on the device at a time.
    Streamed(StreamedLists),
}

/// Consecutive sources, and the matrix by which their pairs' messages are added.
#[derive(Debug)]
pub(super) struct Tile {
    pub(super) range: TileRange,
    pub(super) lists: PairLists,
    /// Pairs by targets.
    sends: Matrix,
}

/// The sizes of a layer whose sources are cut into tiles.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerSize {
    pub(super) n_relations: usize,
    pub(super) n_targets: usize,
}

/// Messages of a tile: rows of their own, or made of the sources' and the relations' rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Messages<'t> {
    Rows,
    OfRelations { terms: Terms, table: &'t Buffer },
}

impl Tile {
    /// Copies the lists of some of a plan's sources to the device.
    pub(super) fn upload(
        device: &Device,
        plan: &LayerPlan,
        range: TileRange,
        size: LayerSize,
    ) -> Result<Tile, device::Error> {
        let mut of_tile = LayerPlan::default();
        plan.copy_to(range.sources.clone(), &mut of_tile);
        let sends = Lists::of_plan(&of_tile, size.n_targets);
        Ok(Tile {
            range,
            lists: PairLists::upload(device, &of_tile, size.n_relations)?,
            sends: Matrix::upload(device, &sends)?,
        })
    }

    /// Makes the lists another stream's, behind their copies.
    pub(super) fn adopt(&mut self, stream: &Device) -> Result<(), device::Error> {
        self.lists.adopt(stream)?;
        self.sends.adopt(stream)
    }

    /// Adds the sums of the tile's messages to those of the targets.
    ///
    /// # Shapes
    /// `rows` has a row for each source, or for each pair where rows are messages; `sums [n_targets, width]`.
    pub(super) fn add_sums(
        &self,
        device: &Device,
        rows: Buffer,
        messages: Messages<'_>,
        sums: &mut Buffer,
    ) -> Result<(), device::Error> {
        let messages = match messages {
            Messages::Rows => rows,
            Messages::OfRelations { terms, table } => {
                let mut messages = device.allocate(self.lists.n_pairs * terms.width)?;
                self.lists
                    .messages(device, terms, &rows, table, &mut messages)?;
                drop(rows);
                messages
            }
        };
        let mut part = device.allocate(sums.len())?;
        let n_targets = self.sends.n_columns();
        let product = SparseProduct {
            adjacency: Adjacency::Resident(self.sends.transposed()),
            n_rows: n_targets,
            n_columns: self.lists.n_pairs,
            width: sums.len() / n_targets.max(1),
        };
        ops::sparse_product(device, product, &messages, &mut part)?;
        add(device, &part, sums)
    }

    /// The gradient of the tile's messages from that of the sums.
    ///
    /// # Shapes
    /// `dy [n_targets, width]`; the result `[n_pairs, width]`.
    pub(super) fn message_gradient(
        &self,
        device: &Device,
        dy: &Buffer,
    ) -> Result<Buffer, device::Error> {
        let n_targets = self.sends.n_columns();
        let width = dy.len() / n_targets.max(1);
        let mut messages = device.allocate(self.lists.n_pairs * width)?;
        let product = SparseProduct {
            adjacency: Adjacency::Resident(self.sends.lists()),
            n_rows: self.lists.n_pairs,
            n_columns: n_targets,
            width,
        };
        ops::sparse_product(device, product, dy, &mut messages)?;
        Ok(messages)
    }

    /// The gradient of the sources' rows from that of the sums.
    pub(super) fn source_gradient(
        &self,
        device: &Device,
        messages: Messages<'_>,
        dy: &Buffer,
    ) -> Result<Buffer, device::Error> {
        let of_messages = self.message_gradient(device, dy)?;
        let Messages::OfRelations { terms, table } = messages else {
            return Ok(of_messages);
        };
        let mut rows = device.allocate(self.range.sources.len() * terms.source_len)?;
        self.lists
            .source_gradient(device, terms, table, &of_messages, &mut rows)?;
        Ok(rows)
    }

    /// Adds the tile's part of the gradient of the relations' rows, from the sources' rows and the gradient of the messages.
    pub(super) fn add_relation_gradient(
        &self,
        device: &Device,
        terms: Terms,
        rows: &Buffer,
        of_messages: &Buffer,
        sum: &mut Buffer,
    ) -> Result<(), device::Error> {
        let mut part = device.allocate(sum.len())?;
        self.lists
            .relation_gradient(device, terms, rows, of_messages, &mut part)?;
        add(device, &part, sum)
    }
}

impl Tiles {
    /// A plan's sources in at most `n_tiles` tiles, with all lists on the device.
    ///
    /// # Errors
    /// The device's.
    /// # Complexity
    /// O(pairs + messages + tiles * (relations + targets)).
    pub(super) fn resident(
        device: &Device,
        plan: &LayerPlan,
        size: LayerSize,
        n_tiles: usize,
    ) -> Result<Tiles, device::Error> {
        let ranges = cut(plan, n_tiles);
        let upload = |sources: &Range<usize>| {
            let range = TileRange::new(plan, sources.clone());
            Tile::upload(device, plan, range, size)
        };
        let tiles: Result<Vec<Tile>, device::Error> = ranges.iter().map(upload).collect();
        Ok(Tiles::new(plan, ranges, size, Storage::Resident(tiles?)))
    }

    /// The same, with the lists of two tiles at a time on the device.
    ///
    /// # Complexity
    /// A pass makes the lists anew, as [`Tiles::resident`] does once.
    pub(super) fn streamed(
        streams: &CopyStreams,
        plan: &Arc<LayerPlan>,
        size: LayerSize,
        n_tiles: usize,
    ) -> Tiles {
        let lists = StreamedLists {
            plan: Arc::clone(plan),
            size,
            streams: streams.clone(),
        };
        let storage = Storage::Streamed(lists);
        Tiles::new(plan, cut(plan, n_tiles), size, storage)
    }

    fn new(
        plan: &LayerPlan,
        ranges: Vec<Range<usize>>,
        size: LayerSize,
        storage: Storage,
    ) -> Tiles {
        Tiles {
            storage,
            ranges,
            n_sources: plan.n_sources(),
            size,
        }
    }

    /// Tiles that there are.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Rows of relations, and of the targets.
    pub(super) fn size(&self) -> LayerSize {
        self.size
    }

    /// Does a pass over all tiles, in the order of the sources.
    ///
    /// # Errors
    /// Those of the pass; the device's.
    pub(super) fn pass(
        &self,
        device: &Device,
        pass: &mut impl TilePass,
    ) -> Result<(), device::Error> {
        match &self.storage {
            // Their rows are there, too.
            Storage::Resident(tiles) => tiles
                .iter()
                .try_for_each(|tile| pass.compute(device, tile, None).map(drop)),
            Storage::Streamed(lists) => lists.pass(device, &self.ranges, pass),
        }
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

/// A layer's sums over messages of activations, or of rows that are on the device.
impl RelationMap for Tiles {
    const NAME: &'static str = "relation_sums";

    fn n_rows(&self) -> [usize; 3] {
        let LayerSize {
            n_relations,
            n_targets,
        } = self.size;
        [self.n_sources, n_relations, n_targets]
    }

    fn compute(
        &self,
        device: &Device,
        terms: Terms,
        result: RelationResult,
        [a, b]: [&Buffer; 2],
        out: &mut Buffer,
    ) -> Result<(), device::Error> {
        device.clear(out)?;
        self.pass(
            device,
            &mut ResidentPass {
                terms,
                result,
                operands: [a, b],
                out,
            },
        )
    }
}

/// A pass over rows that are on the device.
struct ResidentPass<'p> {
    terms: Terms,
    result: RelationResult,
    /// As [`RelationMap::compute`] has them.
    operands: [&'p Buffer; 2],
    out: &'p mut Buffer,
}

impl ResidentPass<'_> {
    /// The first number of a tile's rows.
    fn first(&self, tile: &Tile) -> usize {
        tile.range.sources.start * self.terms.source_len
    }

    /// A copy of a tile's rows.
    fn rows(&self, device: &Device, tile: &Tile) -> Result<Buffer, device::Error> {
        let mut rows = device.allocate(tile.range.sources.len() * self.terms.source_len)?;
        let copy = Copy2d {
            source_first: self.first(tile),
            ..whole(rows.len())
        };
        ops::copy_2d(device, copy, self.operands[0], &mut rows)?;
        Ok(rows)
    }
}

impl TilePass for ResidentPass<'_> {
    fn load(&self, _: &Device, _: &TileRange) -> Result<Option<TileRows>, device::Error> {
        Ok(None)
    }

    fn compute(
        &mut self,
        device: &Device,
        tile: &Tile,
        _: Option<TileRows>,
    ) -> Result<Option<TileRows>, device::Error> {
        let (terms, [a, b]) = (self.terms, self.operands);
        match self.result {
            RelationResult::Value => {
                let messages = Messages::OfRelations { terms, table: b };
                tile.add_sums(device, self.rows(device, tile)?, messages, self.out)?;
            }
            RelationResult::SourceGradient => {
                let messages = Messages::OfRelations { terms, table: a };
                let rows = tile.source_gradient(device, messages, b)?;
                let copy = Copy2d {
                    target_first: self.first(tile),
                    ..whole(rows.len())
                };
                ops::copy_2d(device, copy, &rows, self.out)?;
            }
            RelationResult::RelationGradient => {
                let of_messages = tile.message_gradient(device, b)?;
                let rows = self.rows(device, tile)?;
                tile.add_relation_gradient(device, terms, &rows, &of_messages, self.out)?;
            }
        }
        Ok(None)
    }

    fn take_back(&mut self, _: &Device, _: &TileRange, _: &TileRows) -> Result<(), device::Error> {
        Ok(())
    }
}
