//! The device's copy of a network: its parameters, then the constants of its programs.

use std::sync::{Arc, Mutex};

use shardgraph_autodiff::{ParamId, Params, Shape};
use shardgraph_device::Device;

use super::operations::{Lists, Matrix};
use super::prefetch::CopyStreams;
use super::streamed::{HostRows, StreamedInput};
use super::tiles::{LayerSize, Tiles};
use super::{
    Bias, DeviceBudget, DeviceInput, DeviceLayer, DeviceModel, Handover, Labelled, LayerSums,
    RankPlace, Relations, StepRule, Tiling,
};
use crate::Error;
use crate::kernels::{Form, PairLists, Terms};
use crate::layer::coefficients::{Coefficients, WeightScheme};
use crate::layer::plan::LayerPlan;
use crate::model::input::InputTable;
use crate::model::loss::Targets;
use crate::model::network::Network;
use crate::train::state::{Part, flat};

/// The sets of labels of a run.
pub(crate) struct LabelSets<'t> {
    pub(crate) train: &'t Targets,
    pub(crate) valid: Option<&'t Targets>,
}

/// The parameters of a layer that are trained.
struct Trained {
    rows: Option<ParamId>,
    bases: Option<ParamId>,
    bias: Option<ParamId>,
}

struct Builder<'n, 'a> {
    device: &'n Device,
    place: RankPlace,
    network: &'n Network<'a>,
    tiling: Tiling,
    /// Where the input's rows and the lists come from host memory.
    streams: Option<CopyStreams>,
    params: Params,
}

impl DeviceModel {
    /// The network of a rank after `n_steps` steps, on a device that is no host, in tiles of its layers' sources.
    pub(crate) fn in_tiles(
        device: &Device,
        network: &mut Network<'_>,
        labels: &LabelSets<'_>,
        n_steps: u32,
        tiling: Tiling,
    ) -> Result<DeviceModel, Error> {
        let n_held = device.held_bytes();
        let mut means = [Part::First, Part::Second].map(|part| flat(network, part));
        let place = RankPlace {
            rank: network.rank as u32,
            size: network.layout.n_ranks() as u32,
        };
        let mut builder = Builder {
            device,
            place,
            network,
            tiling,
            streams: match tiling.is_streamed {
                true => Some(CopyStreams::new(device)?),
                false => None,
            },
            params: Params::new(),
        };
        // In the order of the tensors of a state.
        let is_learnt = !network.input.is_fixed;
        let learnt = (is_learnt && !tiling.is_streamed).then(|| builder.input());
        let trained: Vec<Trained> = (0..network.layers.len())
            .map(|layer| builder.trained(layer))
            .collect();
        let first = trained.first().into_iter();
        let relations = first.flat_map(|layer| layer.rows.into_iter().chain(layer.bases));
        let decayed = learnt.into_iter().chain(relations).collect();
        builder.params.freeze_rest();
        let input = match &builder.streams {
            Some(streams) => {
                let input = builder.streamed_input(streams, &mut means);
                DeviceInput::Streamed(Arc::new(input))
            }
            None => DeviceInput::Resident(learnt.unwrap_or_else(|| builder.input())),
        };
        let layers = builder.layers(&input, trained)?;
        let train = builder.labelled(labels.train)?;
        let valid = labels.valid.map(|valid| builder.labelled(valid));
        let valid = valid.transpose()?;
        let params = builder.params;
        let mut rule = StepRule::new(network.config, params.trained_len(), n_steps);
        if let StepRule::Adam(adam) = &mut rule {
            for (moment, mean) in adam.moments_mut().into_iter().zip(&means) {
                moment.copy_from_slice(mean);
            }
        }
        Ok(DeviceModel {
            device: device.clone(),
            place,
            params,
            rule,
            input,
            n_steps: 0,
            traffic: device.traffic(),
            layers,
            decay: network.decay_of(0),
            decayed,
            train,
            valid,
            memory: DeviceBudget {
                beside: n_held,
                predicted: 0,
            },
            best: None,
        })
    }
}

impl Builder<'_, '_> {
    fn add(&mut self, name: &str, shape: Shape, values: &[f32]) -> ParamId {
        let mut values = values.iter();
        self.params
            .add(name, shape, || values.next().copied().unwrap_or_default())
    }

    fn ones(&mut self, name: &str, shape: Shape) -> ParamId {
        self.params.add(name, shape, || 1.0)
    }

    fn input(&mut self) -> ParamId {
        let input = &self.network.input;
        let len = input.row_len();
        let shape = Shape::new(input.rows.len() / len.max(1), len);
        self.add("input", shape, &input.rows)
    }

    /// The input with its rows in host memory; their means are taken off the front of all means.
    fn streamed_input(&self, streams: &CopyStreams, means: &mut [Vec<f32>; 2]) -> StreamedInput {
        let Network { input, plans, .. } = self.network;
        let is_learnt = !input.is_fixed;
        let n_means = match is_learnt {
            true => input.rows.len(),
            false => 0,
        };
        let rows = HostRows {
            values: input.rows.to_vec(),
            means: means
                .each_mut()
                .map(|means| means.drain(..n_means.min(means.len())).collect()),
        };
        let Tiling { n_tiles, .. } = self.tiling;
        StreamedInput {
            tiles: Arc::new(Tiles::streamed(streams, &plans[0], self.size(0), n_tiles)),
            terms: self.network.layers[0]
                .coefficients
                .is_some()
                .then(|| self.terms(0)),
            row_len: input.row_len(),
            is_learnt,
            rows: Mutex::new(rows),
        }
    }

    fn trained(&mut self, layer: usize) -> Trained {
        let of_layer = &self.network.layers[layer];
        let (mut rows, mut bases) = (None, None);
        if let Some(relations) = &of_layer.coefficients {
            let Coefficients {
                shape, n_relations, ..
            } = *relations;
            let (n_columns, shared) = match relations.scheme {
                WeightScheme::Coefficients => (shape.n_terms, None),
                WeightScheme::Whole => (shape.len(), None),
                WeightScheme::Shared { n_bases } => (n_bases, Some(n_bases)),
            };
            let (own, of_bases) = relations.params.split_at(n_relations * n_columns);
            let name = format!("layer{layer}.relations");
            rows = Some(self.add(&name, Shape::new(n_relations, n_columns), own));
            bases = shared.map(|n_bases| {
                let shape = Shape::new(n_bases, shape.len());
                self.add(&format!("layer{layer}.bases"), shape, of_bases)
            });
        }
        let bias = &of_layer.bias;
        let name = format!("layer{layer}.bias");
        let bias = (!bias.is_empty()).then(|| self.add(&name, Shape::new(1, bias.len()), bias));
        Trained { rows, bases, bias }
    }

    /// The layers with their lists, of which those with the same messages share one copy.
    fn layers(
        &mut self,
        input: &DeviceInput,
        trained: Vec<Trained>,
    ) -> Result<Vec<DeviceLayer>, Error> {
        let network = self.network;
        let mut layers: Vec<DeviceLayer> = Vec::new();
        for (idx, Trained { rows, bases, bias }) in trained.into_iter().enumerate() {
            let plan = self.plan(idx);
            let same = (0..idx).find(|&other| std::ptr::eq(self.plan(other), plan));
            let relations = rows.map(|rows| Relations {
                terms: self.terms(idx),
                rows,
                bases,
            });
            let sums = match (input, same.map(|same| &layers[same])) {
                (DeviceInput::Streamed(input), _) if idx == 0 => {
                    LayerSums::Tiled(Arc::clone(&input.tiles))
                }
                (DeviceInput::Streamed(_), Some(same)) => same.sums.clone(),
                (_, Some(same)) if same.relations.is_some() == relations.is_some() => {
                    same.sums.clone()
                }
                _ => self.sums(idx, relations.is_some())?,
            };
            let ranks = 0..network.layout.n_ranks();
            let kept = ranks.map(|rank| network.layout.places(idx + 1, rank).len());
            let kept: Arc<[usize]> = kept.collect();
            let n_own = kept[network.rank];
            let bias = bias.map(|row| Bias {
                row,
                ones: self.ones(&format!("layer{idx}.ones"), Shape::new(n_own, 1)),
            });
            let by_pair = idx == 0 && network.input.table == InputTable::ByPair;
            let n_rows = match by_pair {
                true => network.plans[0].n_pairs(),
                false => network.layout.places(idx, network.rank).len(),
            };
            let messages = network.rank_messages.get(idx);
            let handover =
                messages.map(|messages| Handover::new(self.device, messages, n_rows, by_pair));
            layers.push(DeviceLayer {
                handover: handover.transpose()?,
                kept,
                sums,
                relations,
                bias,
            });
        }
        Ok(layers)
    }

    /// The messages that this rank computes in a layer.
    fn plan(&self, layer: usize) -> &LayerPlan {
        match self.network.rank_messages.get(layer) {
            Some(messages) => &messages.plan,
            None => &self.network.plans[layer],
        }
    }

    fn size(&self, layer: usize) -> LayerSize {
        let layout = self.network.layout;
        LayerSize {
            n_relations: layout.n_relations(),
            n_targets: layout.sets[layer + 1].len(),
        }
    }

    /// The lists of a layer's messages.
    fn sums(&self, layer: usize, has_relations: bool) -> Result<LayerSums, Error> {
        let (device, plan, size) = (self.device, self.plan(layer), self.size(layer));
        let LayerSize {
            n_relations,
            n_targets,
        } = size;
        let n_tiles = self.tiling.n_tiles;
        if let Some(streams) = &self.streams {
            let tiles = Tiles::streamed(streams, &self.network.plans[layer], size, n_tiles);
            return Ok(LayerSums::Tiled(Arc::new(tiles)));
        }
        if has_relations && n_tiles > 1 {
            let tiles = Tiles::resident(device, plan, size, n_tiles)?;
            return Ok(LayerSums::Tiled(Arc::new(tiles)));
        }
        let lists = match has_relations {
            true => Some(Arc::new(PairLists::upload(device, plan, n_relations)?)),
            false => None,
        };
        let sends = Matrix::upload(device, &Lists::of_plan(plan, n_targets))?;
        Ok(LayerSums::Whole {
            sends: Arc::new(sends),
            lists,
        })
    }

    /// The rows that a layer's messages are made of.
    fn terms(&self, layer: usize) -> Terms {
        let network = self.network;
        let of_layer = &network.layers[layer];
        let shape = of_layer
            .coefficients
            .as_ref()
            .map(|relations| relations.shape);
        let shape = shape.unwrap_or(network.input.shape);
        match (layer, network.input.table) {
            (0, InputTable::ByNode) => Terms {
                form: Form::Bases,
                n_terms: shape.n_terms,
                width: shape.width,
                source_len: network.input.row_len(),
            },
            _ => Terms {
                form: Form::Weights,
                n_terms: shape.n_terms,
                width: shape.width,
                source_len: shape.n_inputs,
            },
        }
    }

    /// The constants of labelled nodes.
    fn labelled(&mut self, targets: &Targets) -> Result<Labelled, Error> {
        let layout = self.network.layout;
        let n_outputs = layout.places(layout.n_layers(), self.network.rank).len();
        let n_classes = self.network.layers.last().map_or(0, |layer| layer.width);
        let rows = targets.rows();
        let (n_nodes, n_own) = (targets.n_nodes(), rows.len());
        let lists = Lists {
            starts: (0..=n_own as u64).collect(),
            columns: rows.iter().map(|labelled| labelled.row as u32).collect(),
            weights: vec![1.0; n_own],
            n_columns: n_outputs,
        };
        let mut weights = vec![0.0; n_own * n_classes];
        let mut classes = weights.clone();
        for (node, labelled) in rows.iter().enumerate() {
            let at = node * n_classes + labelled.class as usize;
            weights[at] = (-labelled.weight / n_nodes as f64) as f32;
            classes[at] = 1.0;
        }
        let shape = Shape::new(n_own, n_classes);
        Ok(Labelled {
            place: self.place,
            n_nodes,
            selection: Arc::new(Matrix::upload(self.device, &lists)?),
            weights: self.add("weights", shape, &weights),
            classes: self.add("classes", shape, &classes),
            row: self.ones("row", Shape::new(1, n_own)),
            column: self.ones("column", Shape::new(n_classes, 1)),
        })
    }
}
