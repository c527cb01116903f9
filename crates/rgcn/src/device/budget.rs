//! The memory of training on a device: predicted by a dry run before it begins, with fewer messages at a time where that
//! is too much.

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::{Device, DeviceKind, Traffic};

use super::{DeviceInput, DeviceLayer, DeviceModel, LabelSets, LayerSums, Tiling};
use crate::Error;
use crate::model::comm::RankComm;
use crate::model::network::Network;
use crate::size::size;
use crate::train::DeviceMemory;

/// The most tiles of a layer's sources.
const MAX_TILES: usize = 1 << 12;

/// The tiles of a rank's training on a device, and what it holds there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DevicePlan {
    tiling: Tiling,
    /// The most bytes that it holds there.
    pub(crate) predicted_bytes: u64,
    /// Tiles of the layer that has the most.
    pub(crate) n_tiles: usize,
}

impl DevicePlan {
    /// The fewest tiles that fit a limit: of messages alone where that does, else of the input's rows and all lists, too.
    /// One tile without a limit.
    ///
    /// # Errors
    /// [`Error::Memory`] with the least limit, where no tiles fit; the device's.
    /// # Complexity
    /// The lists are cut anew for each doubling of the tiles, in host memory; the device is left alone.
    pub(crate) fn new(
        kind: DeviceKind,
        network: &mut Network<'_>,
        labels: &LabelSets<'_>,
        limit: Option<u64>,
    ) -> Result<DevicePlan, Error> {
        let (mut whole, mut least) = (None, u64::MAX);
        // Rows that ranks hand to each other stay on the device.
        let can_stream = network.rank_messages.is_empty();
        for is_streamed in [false, true].into_iter().take(1 + usize::from(can_stream)) {
            let (mut n_tiles, mut last) = (1, u64::MAX);
            loop {
                let tiling = Tiling {
                    n_tiles,
                    is_streamed,
                };
                let DryRun { peak, n_cut } = DryRun::new(kind, network, labels, tiling)?;
                whole = whole.or(Some(peak));
                least = least.min(peak);
                if limit.is_none_or(|limit| peak <= limit) {
                    return Ok(DevicePlan {
                        tiling,
                        predicted_bytes: peak,
                        n_tiles: n_cut,
                    });
                }
                // Twice as many tiles take their time, for little or nothing; of streamed ones two are held at a time.
                let is_end = peak > last - last / 16 && !(is_streamed && n_tiles == 2);
                if is_end || n_tiles == MAX_TILES || n_cut < n_tiles {
                    break;
                }
                (n_tiles, last) = (2 * n_tiles, peak);
            }
        }
        let message = format!(
            "--device-memory {}: training on the device needs {} in one piece, and in tiles {} ({least} bytes), \
             which is the least budget",
            size(limit.unwrap_or_default()),
            size(whole.unwrap_or_default()),
            size(least)
        );
        Err(Error::new(Error::Memory, message))
    }
}

/// A run of the training's own code on a device without memory.
struct DryRun {
    /// The most bytes that were held.
    peak: u64,
    /// Tiles of the layer that has the most.
    n_cut: usize,
}

impl DryRun {
    /// Two epochs: the second begins with all that the first leaves on the device.
    fn new(
        kind: DeviceKind,
        network: &mut Network<'_>,
        labels: &LabelSets<'_>,
        tiling: Tiling,
    ) -> Result<DryRun, Error> {
        let device = Device::dry_run(kind)?;
        let mut model = DeviceModel::in_tiles(&device, network, labels, 0, tiling)?;
        let mut comm = Comm::dry_run(model.place.rank, model.place.size);
        let ranks = &mut RankComm::new(&mut comm, Timeout::default());
        for step in [1, 2] {
            model.step(step, ranks)?;
            if model.validate(ranks)?.is_some() {
                model.keep_best();
            }
        }
        // Ranks of one device read each other's buffers by a table of addresses.
        let addresses = match model.place.is_alone() {
            true => 0,
            false => 8 * u64::from(model.place.size),
        };
        Ok(DryRun {
            peak: device.take_peak_bytes() + addresses,
            n_cut: model.n_tiles(),
        })
    }
}

impl DeviceModel {
    /// The network of a rank after `n_steps` steps, on a device that is no host; with a limit in as few tiles as
    /// fit it.
    ///
    /// # Errors
    /// As [`DevicePlan::new`].
    pub(crate) fn new(
        device: &Device,
        network: &mut Network<'_>,
        labels: &LabelSets<'_>,
        n_steps: u32,
        limit: Option<u64>,
    ) -> Result<DeviceModel, Error> {
        let plan = DevicePlan::new(device.kind(), network, labels, limit)?;
        device.take_peak_bytes();
        let mut model = DeviceModel::in_tiles(device, network, labels, n_steps, plan.tiling)?;
        model.memory.predicted = plan.predicted_bytes;
        Ok(model)
    }

    /// Tiles of the layer that has the most.
    fn n_tiles(&self) -> usize {
        let of_layer = |layer: &DeviceLayer| match &layer.sums {
            LayerSums::Tiled(tiles) => tiles.len(),
            LayerSums::Whole { .. } => 1,
        };
        self.layers.iter().map(of_layer).max().unwrap_or(1)
    }

    /// The memory that training took so far.
    pub(crate) fn memory(&self) -> DeviceMemory {
        let peak = self.device.take_peak_bytes();
        let moved = |traffic: Traffic| traffic.to_device_bytes + traffic.to_host_bytes;
        let n_moved = moved(self.device.traffic()) - moved(self.traffic);
        DeviceMemory {
            predicted_bytes: self.memory.predicted,
            peak_bytes: peak.saturating_sub(self.memory.beside),
            tiles: self.n_tiles() as u64,
            moved_bytes: match self.input {
                DeviceInput::Resident(_) => 0,
                DeviceInput::Streamed(_) => n_moved / self.n_steps.max(1),
            },
            ..DeviceMemory::default()
        }
    }
}
