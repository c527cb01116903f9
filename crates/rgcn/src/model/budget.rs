//! The budget of a rank's device: the bytes that are predicted, those that are held, and tiles
//! where not all sources fit.

use std::sync::Arc;

use super::bytes::{copies, input_row_len};
use super::layout::RankContext;
use super::tiles::{TileRows, TileSource, Tiles};
use crate::Error;
use crate::layer::coefficients::RelationShape;
use crate::layer::plan::LayerPlan;
use crate::size::size;

/// The bytes of a rank's device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    /// The most that it may hold.
    limit: Option<u64>,
    /// The most that it was predicted to hold.
    pub(crate) predicted: u64,
    /// The most that it has held.
    pub(crate) peak: u64,
}

impl Budget {
    /// That of a rank, and its tiles; none where everything fits.
    ///
    /// # Errors
    /// [`Error::Memory`] with the least budget that does, where no tiles would fit, and where
    /// messages are not dealt by source.
    pub(crate) fn new(
        context: RankContext<'_>,
        plans: &[Arc<LayerPlan>],
    ) -> Result<(Budget, Option<Tiles>), Error> {
        let limit = context.layout.budget;
        let whole = context.bytes(false).total();
        let fitted = match limit {
            Some(limit) if whole > limit || context.layout.is_dealt_by_pair() => {
                Some(tiles(context, plans, limit)?)
            }
            _ => None,
        };
        let (tiles, predicted) = match fitted {
            Some((tiles, held)) => (Some(tiles), held),
            None => (None, whole),
        };
        let budget = Budget {
            limit,
            predicted,
            peak: 0,
        };
        Ok((budget, tiles))
    }

    /// Counts the bytes that are held at this moment.
    ///
    /// # Errors
    /// [`Error::Memory`] where that is more than the limit: the prediction was wrong.
    pub(crate) fn note(&mut self, held: u64) -> Result<(), Error> {
        self.peak = self.peak.max(held);
        match self.limit.filter(|&limit| held > limit) {
            None => Ok(()),
            Some(limit) => {
                let message = format!(
                    "--device-memory {limit}: {held} bytes are held, which was not predicted"
                );
                Err(Error::new(Error::Memory, message))
            }
        }
    }
}

/// Tiles within a limit, and the most bytes that are held with them.
fn tiles(
    context: RankContext<'_>,
    plans: &[Arc<LayerPlan>],
    limit: u64,
) -> Result<(Tiles, u64), Error> {
    let RankContext {
        config,
        layout,
        rank,
        n_classes,
    } = context;
    let refuse = |why: String| Err(Error::new(Error::Memory, why));
    if layout.is_dealt_by_pair() {
        return refuse(format!(
            "--device-memory {}: expected --partition source, whose ranks hold no copies and can take their sources in tiles",
            size(limit)
        ));
    }
    let source = TileSource {
        plans,
        rows: TileRows {
            row_len: input_row_len(config, &RelationShape::of_layers(config, n_classes)),
            by_pair: !config.has_first_table(),
            // Embeddings have a gradient beside them.
            n_copies: copies(config) as usize + usize::from(config.embedding > 0),
        },
    };
    let tiled = context.bytes(true);
    let resident = tiled.resident() - tiled.edges;
    let least = resident + 2 * source.largest();
    if least > limit {
        return refuse(format!(
            "--device-memory {}: rank {rank} needs {} in one piece, and with the smallest tiles {} ({least} bytes), which is the least budget for {} ranks",
            size(limit),
            size(context.bytes(false).total()),
            size(least),
            layout.n_ranks()
        ));
    }
    let (tiles, held) = source.cut((limit - resident) / 2);
    Ok((tiles, resident + held))
}
