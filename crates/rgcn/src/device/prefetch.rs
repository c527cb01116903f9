//! Passes over tiles that lie in host memory: while one is computed, two streams for copies bring the next and take the one
//! before it back.
//!
//! Two tiles with their rows, and what the work on one takes, are on the device at a time.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_device::{self as device, Buffer, Device, Event};

use super::tiles::{LayerSize, Tile};
use crate::layer::plan::LayerPlan;

/// The streams that copies of tiles go through, one for each way.
#[derive(Debug, Clone)]
pub(super) struct CopyStreams {
    to_device: Device,
    to_host: Device,
}

impl CopyStreams {
    /// Those beside a device's stream, which counts their bytes.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn new(device: &Device) -> Result<CopyStreams, device::Error> {
        Ok(CopyStreams {
            to_device: device.copy_stream()?,
            to_host: device.copy_stream()?,
        })
    }
}

/// The sources of a tile and their pairs.
#[derive(Debug, Clone)]
pub(super) struct TileRange {
    pub(super) sources: Range<usize>,
    pub(super) pairs: Range<usize>,
}

impl TileRange {
    pub(super) fn new(plan: &LayerPlan, sources: Range<usize>) -> TileRange {
        let pair = |source: usize| plan.pair_starts[source] as usize;
        TileRange {
            pairs: pair(sources.start)..pair(sources.end),
            sources,
        }
    }
}

/// Rows of a tile on the device, with their means by Adam where they have come.
#[derive(Debug)]
pub(super) struct TileRows {
    pub(super) values: Buffer,
    pub(super) means: Option<[Buffer; 2]>,
}

impl TileRows {
    fn adopt(&mut self, stream: &Device) -> Result<(), device::Error> {
        let mut buffers = self.means.iter_mut().flatten();
        stream.adopt(&mut self.values)?;
        buffers.try_for_each(|buffer| stream.adopt(buffer))
    }
}

/// The work of a pass over tiles.
pub(super) trait TilePass {
    /// Copies the rows of a tile to the device, where they come from host memory.
    ///
    /// # Errors
    /// The device's.
    fn load(
        &self,
        to_device: &Device,
        range: &TileRange,
    ) -> Result<Option<TileRows>, device::Error>;

    /// Gives the kernels of a tile to the device; the rows that go back to host memory.
    ///
    /// # Errors
    /// The device's.
    fn compute(
        &mut self,
        device: &Device,
        tile: &Tile,
        rows: Option<TileRows>,
    ) -> Result<Option<TileRows>, device::Error>;

    /// Copies the rows that [`TilePass::compute`] gave to host memory.
    ///
    /// # Errors
    /// The device's.
    fn take_back(
        &mut self,
        to_host: &Device,
        range: &TileRange,
        rows: &TileRows,
    ) -> Result<(), device::Error>;
}

/// The lists of a layer in host memory.
#[derive(Debug)]
pub(super) struct StreamedLists {
    pub(super) plan: Arc<LayerPlan>,
    pub(super) size: LayerSize,
    pub(super) streams: CopyStreams,
}

/// A tile that is on its way.
struct Coming {
    tile: Tile,
    rows: Option<TileRows>,
}

impl StreamedLists {
    /// Does a pass over tiles of these sources.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn pass(
        &self,
        device: &Device,
        tiles: &[Range<usize>],
        pass: &mut impl TilePass,
    ) -> Result<(), device::Error> {
        let mut stepped: Option<(TileRange, TileRows)> = None;
        let mut tiles = tiles.iter();
        let begin = device.record()?;
        let mut coming = self.load(tiles.next(), &begin, pass)?;
        while let Some(Coming { mut tile, mut rows }) = coming {
            // Behind this point the device has given back the tile before.
            let freed = device.record()?;
            tile.adopt(device)?;
            if let Some(rows) = &mut rows {
                rows.adopt(device)?;
            }
            let (results, _work) = device.keep_peak(|| pass.compute(device, &tile, rows));
            let mut results = results?;
            if let Some(rows) = &mut results {
                rows.adopt(&self.streams.to_host)?;
            }
            if let Some((range, rows)) = stepped.take() {
                pass.take_back(&self.streams.to_host, &range, &rows)?;
            }
            coming = self.load(tiles.next(), &freed, pass)?;
            stepped = results.map(|rows| (tile.range.clone(), rows));
        }
        match stepped {
            Some((range, rows)) => pass.take_back(&self.streams.to_host, &range, &rows),
            None => Ok(()),
        }
    }

    /// Brings a tile behind an event, where there is one more.
    fn load(
        &self,
        sources: Option<&Range<usize>>,
        behind: &Event,
        pass: &impl TilePass,
    ) -> Result<Option<Coming>, device::Error> {
        let Some(sources) = sources else {
            return Ok(None);
        };
        let to_device = &self.streams.to_device;
        to_device.wait(behind)?;
        let range = TileRange::new(&self.plan, sources.clone());
        let rows = pass.load(to_device, &range)?;
        let tile = Tile::upload(to_device, &self.plan, range, self.size)?;
        Ok(Some(Coming { tile, rows }))
    }
}
