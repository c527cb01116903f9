//! A partition with its costs, bytes and messages, before anything runs; and whether it fits a
//! budget.

use serde::Serialize;
use shardgraph_device::DeviceKind;

use crate::config::{Config, Mode, Sums};
use crate::device::{self, DevicePlan as OnDevice, LabelSets};
use crate::layer::coefficients::RelationShape;
pub use crate::memory::Bytes;
use crate::model::input::InputRows;
use crate::model::layout::{Extent, Layout, RankContext};
use crate::model::network::Network;
use crate::partition::{CostModel, Load, Loads, MAX_PARTS, Method, Pairs, Partition};
use crate::size::size;
use crate::{Error, Execution, Labels, RelationalGraph};

/// The model whose memory and messages are predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelShape {
    /// Its settings.
    pub config: Config,
    /// Width of the output.
    pub classes: u32,
}

impl ModelShape {
    fn layers(&self) -> Vec<RelationShape> {
        RelationShape::of_layers(&self.config, self.classes)
    }

    /// Relations of the model: those of the graph, and the self loop.
    fn n_relations(&self, pairs: &Pairs) -> usize {
        pairs.n_relations() as usize + usize::from(self.config.self_loop)
    }

    /// Numbers in a row of the input's weights, padding included.
    fn row_len(&self) -> u64 {
        InputRows::empty(&self.config, self.classes).row_len() as u64
    }

    /// The layout of the whole graph on one device.
    fn layout<'g>(&self, graph: &'g RelationalGraph) -> Result<Layout<'g>, Error> {
        let extent = Extent::new(&self.config, self.classes, graph, 1, Method::Source);
        Layout::new(graph, self.config.self_loop, None, extent)
    }

    /// The rank of a layout.
    fn context<'c>(&'c self, layout: &'c Layout<'c>, rank: usize) -> RankContext<'c> {
        RankContext {
            config: &self.config,
            layout,
            rank,
            n_classes: self.classes,
        }
    }

    /// The bytes of each device of a layout, found by dry runs; the graph itself is not counted.
    fn bytes(&self, layout: &Layout<'_>) -> Result<Vec<Bytes>, Error> {
        let bytes = (0..layout.n_ranks()).map(|rank| self.context(layout, rank).dry_run(None));
        bytes.collect()
    }
}

/// The request for a plan.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// The method of the partition.
    pub method: Method,
    /// Devices, one part each.
    pub n_devices: u32,
    /// The model.
    pub shape: ModelShape,
    /// The most bytes that a device may hold.
    pub budget: Option<u64>,
    /// True if a device that does not hold its part may take it in tiles, one after the other.
    pub may_tile: bool,
    /// The kind of the devices, which need not be there. With another one than the host what they
    /// hold is that of training on it, which takes tiles by itself.
    pub device: DeviceKind,
    /// The labels of that training.
    pub labels: Option<Labels>,
}

/// The work and the bytes of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DevicePlan {
    /// Its work in a step.
    #[serde(flatten)]
    pub load: Load,
    /// The cost of that in rows of hidden units.
    pub cost: u64,
    /// Its bytes with its part in one piece, as the host's arrays have them.
    pub bytes: Bytes,
    /// The tiles in which it takes its sources: 1, unless a budget asks for more.
    pub tiles: u64,
    /// The most bytes that it holds: all, or with tiles the resident ones and two tiles, one in
    /// work and one on its way; on another device than the host those of its buffers.
    pub held_bytes: u64,
}

/// Numbers that devices add up or hand around once in a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// The layer, counted from 0.
    pub layer: usize,
    /// The numbers that are exchanged.
    pub what: &'static str,
    /// Bytes of it all; a device gives or takes its part.
    pub bytes: u64,
}

/// A partition with its costs, bytes and messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Nodes.
    pub nodes: u32,
    /// Edges, inverse ones too.
    pub edges: u64,
    /// Relations, inverse ones too.
    pub relations: u32,
    /// Distinct pairs (source, relation).
    pub pairs: u64,
    /// The method of the partition.
    pub method: Method,
    /// The model.
    pub model: ModelShape,
    /// The part of the graph that an epoch works on: bytes and messages are those of all nodes.
    pub mode: Mode,
    /// The largest cost of a device over the mean.
    pub cost_max_over_mean: f64,
    /// The largest number of edges of a device over the mean.
    pub edges_max_over_mean: f64,
    /// The most bytes that each device holds.
    pub bytes_per_device: Vec<u64>,
    /// The bytes of one device that has the whole.
    pub bytes_whole: u64,
    /// The most bytes of NCCL's own buffers on a device, where cards exchange through it: they are
    /// in none of the counts of bytes.
    pub nccl_bytes_per_device: u64,
    /// Bytes of the input's rows that devices read and others own: copies that are sent in each
    /// step.
    pub replicated_bytes: u64,
    /// Relations with edges in more than one part.
    pub split_relations: usize,
    /// Messages of a step: one from each device to each other one in each exchange.
    pub messages_per_step: usize,
    /// The exchanges of a step.
    pub exchanges: Vec<Exchange>,
    /// The kind of the devices.
    pub device: String,
    /// The budget, where there is one.
    pub budget_per_device: Option<u64>,
    /// Device by device.
    pub devices: Vec<DevicePlan>,
}

impl Plan {
    /// Cuts a graph, and counts costs, bytes and messages.
    ///
    /// # Errors
    /// [`Error::Config`] for a number of devices out of range, and for settings that are trained on
    /// the host alone; [`Error::Memory`] where a part does not fit the budget: the message says what
    /// would.
    ///
    /// # Complexity
    /// As [`Partition::new`], and a pass over the edges for the layers' counts; up to eight times
    /// that to find what would fit. For another device than the host the parameters and the lists
    /// of one device after the other are in memory.
    pub fn new(graph: &RelationalGraph, options: &PlanOptions) -> Result<(Partition, Plan), Error> {
        device::check(&options.shape.config, options.device, Execution::Grouped)?;
        let (pairs, model) = (Pairs::of(graph), options.cost_model());
        let whole = options.shape.layout(graph)?;
        let cut = Cut {
            options,
            pairs: &pairs,
            whole: &whole,
        };
        let whole_bytes = options.shape.bytes(&whole)?;
        let partition = cut.partition(options.method, options.n_devices)?;
        let loads = partition.loads(&pairs);
        let bytes = match options.n_devices {
            1 => whole_bytes.clone(),
            _ => cut.bytes(&partition)?,
        };
        let mut bytes_whole = whole_bytes.iter().map(Bytes::total).sum();
        let mut devices: Vec<DevicePlan> = loads
            .as_slice()
            .iter()
            .zip(bytes)
            .map(|(load, bytes)| options.device(load, bytes))
            .collect();
        if options.device != DeviceKind::Host {
            bytes_whole = cut.on_device(&whole, 0, None)?.predicted_bytes;
            let layout = cut.layout(&partition);
            for (rank, device) in devices.iter_mut().enumerate() {
                let OnDevice {
                    predicted_bytes,
                    n_tiles,
                    ..
                } = cut.on_device(&layout, rank, options.budget)?;
                (device.held_bytes, device.tiles) = (predicted_bytes, n_tiles as u64);
            }
        } else if let Some(budget) = options.budget {
            cut.fit(&mut devices, budget)?;
        }
        let exchanges = options.exchanges(&pairs, &loads);
        let plan = Plan {
            nodes: pairs.n_nodes(),
            edges: pairs.n_edges(),
            relations: pairs.n_relations(),
            pairs: pairs.as_slice().len() as u64,
            method: options.method,
            model: options.shape_in_full_mode(),
            mode: Mode::Full,
            cost_max_over_mean: loads.max_over_mean(model),
            edges_max_over_mean: loads.edges_max_over_mean(),
            bytes_per_device: devices.iter().map(|device| device.held_bytes).collect(),
            bytes_whole,
            nccl_bytes_per_device: options.nccl_bytes(),
            replicated_bytes: options.replicated(&loads),
            split_relations: loads.n_split_relations(),
            messages_per_step: exchanges.len() * options.n_pairs_of_devices(),
            exchanges,
            device: options.device.to_string(),
            budget_per_device: options.budget,
            devices,
        };
        Ok((partition, plan))
    }
}

/// Bytes of NCCL's buffers on a card for each other one: of 32 channels, the most by default, each has
/// 10 MiB of buffers and 2 MiB for each way. `NCCL_MAX_NCHANNELS` and `NCCL_BUFFSIZE` make them fewer.
///
/// # Source
/// Allocations of an exchange among eight H100, <https://github.com/NVIDIA/nccl/issues/1685>.
const NCCL_BYTES_PER_PEER: u64 = 32 * (14 << 20);

/// The exchange after the messages of others' sources.
const RETURNED: &str = "gradients of messages to their sources' owners";

/// The exchange before an exact sum.
const MAGNITUDES: &str = "magnitudes of shared parameters' gradients";

/// The inputs of the first layer, and of the others.
const INPUTS: [&str; 2] = [
    "rows of the input to those that work on them",
    "activations to those that work on them",
];

impl PlanOptions {
    fn cost_model(&self) -> CostModel {
        CostModel::of(&self.shape.config)
    }

    /// True if devices compute messages of others' sources.
    fn is_dealt_by_pair(&self) -> bool {
        self.n_devices > 1 && self.method != Method::Source
    }

    /// The most bytes of NCCL's own buffers on a device.
    fn nccl_bytes(&self) -> u64 {
        match self.device {
            DeviceKind::Cuda(_) => NCCL_BYTES_PER_PEER * u64::from(self.n_devices - 1),
            _ => 0,
        }
    }

    fn device(&self, load: &Load, bytes: Bytes) -> DevicePlan {
        DevicePlan {
            load: *load,
            cost: self.cost_model().cost(load),
            bytes,
            tiles: 1,
            held_bytes: bytes.total(),
        }
    }

    fn shape_in_full_mode(&self) -> ModelShape {
        let config = Config {
            mode: Mode::Full,
            ..self.shape.config.clone()
        };
        ModelShape {
            config,
            ..self.shape
        }
    }

    /// Ordered pairs of different devices.
    fn n_pairs_of_devices(&self) -> usize {
        let n_devices = self.n_devices as usize;
        n_devices * (n_devices - 1)
    }

    /// Bytes of the input's rows that devices read and others own.
    fn replicated(&self, loads: &Loads) -> u64 {
        let n_rows = match (self.is_dealt_by_pair(), self.shape.config.has_first_table()) {
            (false, _) => 0,
            (true, true) => loads.n_foreign_sources(),
            (true, false) => loads.n_foreign_pairs(),
        };
        4 * n_rows * self.shape.row_len()
    }

    /// Bytes of a layer's exact sums, of so many numbers of relations and of a bias: they agree on
    /// one for each number, then add integers, and a count to the last.
    fn exact_sums(&self, width: u64, n_reduced: u64) -> [u64; 2] {
        let has_bias = self.shape.config.bias;
        let n_shared = n_reduced + if has_bias { width } else { 0 };
        let n_sums = u64::from(n_reduced > 0) + u64::from(has_bias);
        [n_shared, 8 * (n_shared + n_sums)]
    }

    /// The exchanges of a step, in its order; none with one device.
    fn exchanges(&self, pairs: &Pairs, loads: &Loads) -> Vec<Exchange> {
        let layers = match self.n_devices {
            1 => Vec::new(),
            _ => self.shape.layers(),
        };
        let width = |layer: usize| layers[layer].shape.width as u64;
        let n_nodes = u64::from(pairs.n_nodes());
        let (n_sources, n_pairs) = (loads.n_foreign_sources(), loads.n_foreign_pairs());
        let is_exact = self.shape.config.sums == Sums::Exact;
        let (n_bytes, largest) = if is_exact { (8, 4) } else { (4, 0) };
        let exchange = |layer, what, bytes| Exchange { layer, what, bytes };
        let forward = (0..layers.len()).flat_map(|layer| {
            let inputs = match layer {
                0 => self.replicated(loads),
                _ => 4 * n_sources * width(layer - 1),
            };
            let sums = n_bytes * n_nodes * width(layer);
            [
                exchange(layer, INPUTS[layer.min(1)], inputs),
                exchange(layer, "largest message", largest),
                exchange(layer, "sums of messages to their nodes", sums),
            ]
        });
        let n_relations = self.shape.n_relations(pairs);
        let backward = (0..layers.len()).rev().flat_map(|layer| {
            let (width, n_reduced) = (width(layer), n_relations * layers[layer].reduced_row());
            let [magnitudes, sums] = self.exact_sums(width, n_reduced as u64);
            [
                exchange(layer, "gradients of all nodes", 4 * n_nodes * width),
                exchange(layer, RETURNED, 4 * n_pairs * width),
                exchange(layer, MAGNITUDES, magnitudes),
                exchange(layer, "sums of shared parameters' gradients", sums),
            ]
        });
        let exchanges = forward.chain(backward);
        exchanges.filter(|exchange| exchange.bytes > 0).collect()
    }
}

/// A graph to cut, with its layout on one device.
struct Cut<'c> {
    options: &'c PlanOptions,
    pairs: &'c Pairs,
    whole: &'c Layout<'c>,
}

impl Cut<'_> {
    fn partition(&self, method: Method, n_devices: u32) -> Result<Partition, Error> {
        let (model, block) = (self.options.cost_model(), self.whole.blocks.size());
        Partition::new(self.pairs, method, n_devices, model, block)
    }

    /// The bytes of each device of a partition.
    fn bytes(&self, partition: &Partition) -> Result<Vec<Bytes>, Error> {
        self.options.shape.bytes(&self.layout(partition))
    }

    fn layout(&self, partition: &Partition) -> Layout<'_> {
        let mut layout = self.whole.clone();
        if partition.n_parts() > 1 {
            layout.cut(partition.clone());
        }
        layout
    }

    /// What training holds on a device of the options' kind, found by a dry run.
    fn on_device(
        &self,
        layout: &Layout<'_>,
        rank: usize,
        limit: Option<u64>,
    ) -> Result<OnDevice, Error> {
        let PlanOptions { shape, labels, .. } = self.options;
        let targets = |of: fn(&Labels) -> &[(u32, u32)]| {
            let labels = labels.as_ref().map_or(&[][..], of);
            let mut labels = labels.to_vec();
            labels.sort_unstable();
            layout.targets(rank, &labels)
        };
        let valid = (shape.config.patience > 0).then(|| targets(Labels::valid));
        let labels = LabelSets {
            train: &targets(Labels::train),
            valid: valid.as_ref(),
        };
        let mut network = Network::new(shape.context(layout, rank))?;
        OnDevice::new(self.options.device, &mut network, &labels, limit)
    }

    /// Divides what does not fit into tiles, or says what would fit.
    fn fit(&self, devices: &mut [DevicePlan], budget: u64) -> Result<(), Error> {
        let options = self.options;
        let fullest = devices.iter().map(|device| device.held_bytes).max();
        let fullest = fullest.unwrap_or(0);
        if fullest <= budget {
            return Ok(());
        }
        let least = devices.iter().map(smallest_tiled).max().unwrap_or(0);
        if !options.may_tile || least > budget {
            let message = format!(
                "--device-memory {}: the fullest of {} devices would hold {} by the method {}: {}",
                size(budget),
                options.n_devices,
                size(fullest),
                options.method,
                self.what_would_fit(budget, least)?
            );
            return Err(Error::new(Error::Memory, message));
        }
        for device in devices {
            device.tile(budget);
        }
        Ok(())
    }

    /// The end of the sentence: tiles, more devices, or a larger budget.
    fn what_would_fit(&self, budget: u64, least: u64) -> Result<String, Error> {
        let mut fitting = None;
        for factor in [2, 4, 8, 16, 32, 64] {
            let n_devices = self.options.n_devices.saturating_mul(factor);
            if n_devices > MAX_PARTS.min(self.pairs.n_nodes()) || fitting.is_some() {
                break;
            }
            let held = self.bytes(&self.partition(Method::Source, n_devices)?)?;
            let fits = held.iter().all(|bytes| bytes.total() <= budget);
            fitting = fits.then_some(n_devices);
        }
        let more = fitting.map(|n| format!("{n} devices by the method source would fit"));
        Ok(match (least <= budget, more) {
            (true, Some(more)) => format!("tiles would fit (--tile), and {more}"),
            (true, None) => "tiles would fit (--tile)".to_owned(),
            (false, Some(more)) => {
                format!("even the smallest tiles need {}, but {more}", size(least))
            }
            (false, None) => format!(
                "even the smallest tiles need {}, which is the least budget for so many devices",
                size(least)
            ),
        })
    }
}

/// The bytes of a device with its sources one by one: two of them beside the resident ones.
fn smallest_tiled(device: &DevicePlan) -> u64 {
    let n_sources = device.load.n_sources.max(1);
    let tile = device.bytes.streamed().div_ceil(n_sources);
    device.bytes.total().min(device.bytes.resident() + 2 * tile)
}

impl DevicePlan {
    /// Takes the fewest tiles of which two fit beside the resident bytes.
    fn tile(&mut self, budget: u64) {
        if self.bytes.total() <= budget {
            return;
        }
        let (resident, streamed) = (self.bytes.resident(), self.bytes.streamed());
        let room = budget.saturating_sub(resident).max(2);
        self.tiles = streamed.div_ceil(room / 2);
        self.held_bytes = resident + 2 * streamed.div_ceil(self.tiles);
    }
}
