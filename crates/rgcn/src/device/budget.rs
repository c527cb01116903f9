//! The memory of training on a device: predicted before it begins, with fewer messages at a time where that is too much.

use shardgraph_autodiff::Recorder;
use shardgraph_device::Device;

use super::{DeviceBudget, DeviceLayer, DeviceModel, LabelSets, Labelled, LayerSums, StepRule};
use crate::Error;
use crate::model::network::Network;
use crate::size::size;
use crate::train::DeviceMemory;

/// The most tiles of a layer's sources.
const MAX_TILES: usize = 1 << 12;

impl DeviceBudget {
    /// Of a model whose lists were made where `beside` bytes were held.
    pub(super) fn beside(device: &Device, beside: u64) -> DeviceBudget {
        DeviceBudget {
            beside,
            lists: device.held_bytes().saturating_sub(beside),
            predicted: 0,
        }
    }
}

impl DeviceModel {
    /// The network of a rank after `n_steps` steps, on a device that is no host; with a limit in as few tiles as
    /// fit it.
    ///
    /// # Errors
    /// [`Error::Memory`] with the least limit, where no tiles fit; the device's.
    /// # Complexity
    /// The lists are cut anew for each doubling of the tiles.
    pub(crate) fn new(
        device: &Device,
        network: &mut Network<'_>,
        labels: &LabelSets<'_>,
        n_steps: u32,
        limit: Option<u64>,
    ) -> Result<DeviceModel, Error> {
        let (mut n_tiles, mut whole) = (1, None);
        let mut least = u64::MAX;
        loop {
            let mut model = DeviceModel::in_tiles(device, network, labels, n_steps, n_tiles)?;
            let predicted = model.predict(network.config.patience > 0)?;
            model.memory.predicted = predicted;
            let whole = *whole.get_or_insert(predicted);
            least = least.min(predicted);
            let Some(limit) = limit.filter(|&limit| predicted > limit) else {
                device.take_peak_bytes();
                return Ok(model);
            };
            if n_tiles == MAX_TILES || model.n_tiles() < n_tiles {
                let message = format!(
                    "--device-memory {}: training on the device needs {} in one piece, and with the messages in \
                     tiles {} ({least} bytes), which is the least budget",
                    size(limit),
                    size(whole),
                    size(least)
                );
                return Err(Error::new(Error::Memory, message));
            }
            n_tiles *= 2;
        }
    }

    /// Tiles of the layer that has the most.
    fn n_tiles(&self) -> usize {
        let of_layer = |layer: &DeviceLayer| match &layer.sums {
            LayerSums::Tiled(tiles) => tiles.len(),
            LayerSums::Whole { .. } => 1,
        };
        self.layers.iter().map(of_layer).max().unwrap_or(1)
    }

    /// The most bytes of a step or a validation: lists, parameters and the optimiser's means, all values of the program and of
    /// its gradient, and what its largest operation takes beside them.
    fn predict(&self, has_patience: bool) -> Result<u64, Error> {
        let n_step = self.n_elements(&self.train, self.valid.as_ref(), true)?;
        let n_valid = match &self.valid {
            Some(valid) => self.n_elements(valid, Some(&self.train), false)?,
            None => 0,
        };
        let n_trained = self.params.trained_len();
        let n_means = match &self.rule {
            StepRule::Adam(_) => 2 * n_trained,
            StepRule::Sgd(_) => 0,
        };
        let n_decayed = match self.decay > 0.0 {
            true => self
                .decayed
                .iter()
                .map(|&id| self.params.shape(id).len())
                .sum(),
            false => 0,
        };
        let n_params = self.params.flat().len();
        let n_best = if has_patience { n_params } else { 0 };
        let n_all = n_params + n_means + n_decayed + n_best + n_step.max(n_valid);
        Ok(self.memory.lists + 4 * n_all as u64 + self.scratch_bytes())
    }

    /// The elements of a program's values on labelled nodes, without the parameters: all but the constants of the others.
    fn n_elements(
        &self,
        labelled: &Labelled,
        others: Option<&Labelled>,
        has_gradient: bool,
    ) -> Result<usize, Error> {
        let mut record = Recorder::new(&self.params, self.place.rank, self.place.size);
        let logits = self.logits(&mut record)?;
        let scores = labelled.score(&mut record, logits)?;
        if has_gradient {
            record.output_param_gradient(scores.loss)?;
        }
        let of_others = others.map_or(0, |others| {
            let ids = [others.weights, others.classes, others.row, others.column];
            ids.map(|id| self.params.shape(id).len()).iter().sum()
        });
        Ok(record.n_elements() - (self.params.flat().len() - of_others))
    }

    /// The most bytes that an operation takes beside its operands and its result.
    fn scratch_bytes(&self) -> u64 {
        let of_layer = |layer: &DeviceLayer| match (&layer.sums, &layer.relations) {
            (LayerSums::Tiled(tiles), Some(relations)) => tiles.scratch_bytes(relations.terms),
            (LayerSums::Whole { lists, .. }, Some(relations)) => lists
                .as_ref()
                .map_or(0, |lists| 4 * lists.gradient_len(relations.terms) as u64),
            _ => 0,
        };
        self.layers.iter().map(of_layer).max().unwrap_or(0)
    }

    /// The memory that training took so far.
    pub(crate) fn memory(&self) -> DeviceMemory {
        let peak = self.device.take_peak_bytes();
        DeviceMemory {
            predicted_bytes: self.memory.predicted,
            peak_bytes: peak.saturating_sub(self.memory.beside),
            tiles: self.n_tiles() as u64,
            ..DeviceMemory::default()
        }
    }
}
