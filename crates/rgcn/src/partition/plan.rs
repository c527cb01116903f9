//! A partition with what it costs, holds and sends, before anything runs; and whether it fits a budget.

use std::fmt;

use serde::Serialize;

use super::{Bytes, CostModel, Load, Loads, MAX_PARTS, Method, ModelShape, Pairs, Partition};
use crate::config::{Config, Mode, Sums};
use crate::size::size;
use crate::{Error, ErrorKind};

/// What a plan is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanOptions {
    /// How the work is dealt out.
    pub method: Method,
    /// Devices, one part each.
    pub n_devices: u32,
    /// The model.
    pub shape: ModelShape,
    /// The most bytes that a device may hold.
    pub budget: Option<u64>,
    /// Whether a device that does not hold its part takes it in tiles, one after the other.
    pub may_tile: bool,
}

/// What one device does and holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DevicePlan {
    /// Its work in a step.
    #[serde(flatten)]
    pub load: Load,
    /// The cost of that in rows of hidden units.
    pub cost: u64,
    /// What it would hold with its part in one piece.
    pub bytes: Bytes,
    /// In how many tiles it takes its sources: 1, unless a budget asks for more.
    pub tiles: u64,
    /// What it holds at most: all, or with tiles what stays and two tiles, one in work and one on its way.
    pub held_bytes: u64,
}

/// Numbers that devices add up or hand around once in a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// The layer, counted from 0.
    pub layer: usize,
    /// What is exchanged.
    pub what: &'static str,
    /// Bytes of it all; a device gives or takes its part.
    pub bytes: u64,
}

/// A partition with what it costs, holds and sends.
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
    /// How the work is dealt out.
    pub method: Method,
    /// The model.
    pub model: ModelShape,
    /// What an epoch works on: bytes and messages are those of all nodes.
    pub mode: Mode,
    /// The largest cost of a device over the mean.
    pub cost_max_over_mean: f64,
    /// The largest number of edges of a device over the mean.
    pub edges_max_over_mean: f64,
    /// What each device holds at most.
    pub bytes_per_device: Vec<u64>,
    /// What one device would hold of the whole.
    pub bytes_whole: u64,
    /// Bytes of the input's rows that devices read and others own: copies that are sent in each step.
    pub replicated_bytes: u64,
    /// Relations with edges in more than one part.
    pub split_relations: usize,
    /// Messages of a step: one from each device to each other one in each exchange.
    pub messages_per_step: usize,
    /// What they are.
    pub exchanges: Vec<Exchange>,
    /// The budget, where there is one.
    pub budget_per_device: Option<u64>,
    /// Device by device.
    pub devices: Vec<DevicePlan>,
}

impl Plan {
    /// Cuts a graph and counts what comes of it.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a number of devices out of range; [`ErrorKind::Memory`] where a part does not fit the budget: the message
    /// says what would.
    ///
    /// # Complexity
    /// As [`Partition::new`]; up to eight times that to find what would fit.
    pub fn new(pairs: &Pairs, options: &PlanOptions) -> Result<(Partition, Plan), Error> {
        let model = options.cost_model();
        let block = options.shape.block(pairs.n_nodes(), pairs.n_relations());
        let partition = Partition::new(pairs, options.method, options.n_devices, model, block)?;
        let loads = partition.loads(pairs);
        let mut devices: Vec<DevicePlan> = loads
            .as_slice()
            .iter()
            .map(|load| options.device(load, pairs, options.is_dealt_by_pair()))
            .collect();
        if let Some(budget) = options.budget {
            options.fit(&mut devices, budget, pairs)?;
        }
        let exchanges = options.exchanges(pairs, &loads);
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
            bytes_whole: options
                .device(&whole(&partition, pairs, &loads), pairs, false)
                .bytes
                .total(),
            replicated_bytes: options.replicated(&loads),
            split_relations: loads.n_split_relations(),
            messages_per_step: exchanges.len() * options.n_pairs_of_devices(),
            exchanges,
            budget_per_device: options.budget,
            devices,
        };
        Ok((partition, plan))
    }
}

/// What one device alone would have to do.
fn whole(partition: &Partition, pairs: &Pairs, loads: &Loads) -> Load {
    let n_own_nodes = u64::from(pairs.n_nodes());
    Load {
        n_edges: pairs.n_edges(),
        n_pairs: pairs.as_slice().len() as u64,
        n_sources: loads.n_sources(),
        n_self_loops: if partition.has_self_loops() {
            n_own_nodes
        } else {
            0
        },
        n_relations: u64::from(pairs.n_relations()),
        n_own_nodes,
        n_own_pairs: pairs.as_slice().len() as u64,
        n_own_sources: loads.n_sources(),
        n_own_reads: loads.n_sources(),
        // A relation's sources of a block are all in one part.
        n_block_relations: loads
            .as_slice()
            .iter()
            .map(|load| load.n_block_relations)
            .sum(),
        ..Load::default()
    }
}

/// What those who work on messages of others' sources give back.
const RETURNED: &str = "gradients of messages to their sources' owners";

/// What an exact sum agrees on before it adds.
const MAGNITUDES: &str = "magnitudes of shared parameters' gradients";

/// What the first layer reads, and what the others do.
const INPUTS: [&str; 2] = [
    "rows of the input to those that work on them",
    "units to those that work on them",
];

impl PlanOptions {
    fn cost_model(&self) -> CostModel {
        CostModel::of(&self.shape.config)
    }

    /// Whether devices work on sources of others.
    fn is_dealt_by_pair(&self) -> bool {
        self.n_devices > 1 && self.method != Method::Source
    }

    fn device(&self, load: &Load, pairs: &Pairs, by_pair: bool) -> DevicePlan {
        let sizes = (pairs.n_nodes(), pairs.n_relations());
        let bytes = self.shape.bytes(load, sizes, by_pair);
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
        let n_rows = match (self.is_dealt_by_pair(), self.shape.is_by_node()) {
            (false, _) => 0,
            (true, true) => loads.n_foreign_sources(),
            (true, false) => loads.n_foreign_pairs(),
        };
        4 * n_rows * self.shape.row_len()
    }

    /// Bytes of a layer's exact sums, of so many numbers of relations and of a bias: they agree on one for each number, then add integers, and a count to
    /// the last.
    fn exact_sums(&self, width: u64, n_reduced: u64) -> [u64; 2] {
        let has_bias = self.shape.config.bias;
        let n_shared = n_reduced + if has_bias { width } else { 0 };
        let n_sums = u64::from(n_reduced > 0) + u64::from(has_bias);
        [n_shared, 8 * (n_shared + n_sums)]
    }

    /// What devices exchange in a step, in its order; nothing where there is one.
    fn exchanges(&self, pairs: &Pairs, loads: &Loads) -> Vec<Exchange> {
        let widths = match self.n_devices {
            1 => Vec::new(),
            _ => self.shape.widths(),
        };
        let n_nodes = u64::from(pairs.n_nodes());
        let (n_sources, n_pairs) = (loads.n_foreign_sources(), loads.n_foreign_pairs());
        let is_exact = self.shape.config.sums == Sums::Exact;
        let (n_bytes, largest) = if is_exact { (8, 4) } else { (4, 0) };
        let forward = widths.iter().enumerate().flat_map(|(layer, width)| {
            let units = |before: usize| 4 * n_sources * widths[before];
            let read = layer.checked_sub(1).map(units);
            [
                (
                    layer,
                    INPUTS[layer.min(1)],
                    read.unwrap_or(self.replicated(loads)),
                ),
                (layer, "largest message", largest),
                (
                    layer,
                    "sums of messages to their nodes",
                    n_bytes * n_nodes * width,
                ),
            ]
        });
        let layers = self.shape.layers(pairs.n_relations());
        let layers = widths.iter().zip(layers).enumerate().rev();
        let backward = layers.flat_map(|(layer, (width, size))| {
            let [magnitudes, sums] = self.exact_sums(*width, size.reduced);
            [
                (layer, "gradients of all nodes", 4 * n_nodes * width),
                (layer, RETURNED, 4 * n_pairs * width),
                (layer, MAGNITUDES, magnitudes),
                (layer, "sums of shared parameters' gradients", sums),
            ]
        });
        let exchanges = forward.chain(backward).filter(|(_, _, bytes)| *bytes > 0);
        exchanges
            .map(|(layer, what, bytes)| Exchange { layer, what, bytes })
            .collect()
    }

    /// Divides what does not fit into tiles, or says what would fit.
    fn fit(&self, devices: &mut [DevicePlan], budget: u64, pairs: &Pairs) -> Result<(), Error> {
        let fullest = devices.iter().map(|device| device.held_bytes).max();
        let fullest = fullest.unwrap_or(0);
        if fullest <= budget {
            return Ok(());
        }
        let least = devices.iter().map(smallest_tiled).max().unwrap_or(0);
        if !self.may_tile || least > budget {
            let message = format!(
                "budget_per_device = {}: the fullest of {} devices would hold {} by the method {}: {}",
                size(budget),
                self.n_devices,
                size(fullest),
                self.method,
                self.what_would_fit(budget, least, pairs)?
            );
            return Err(Error::new(ErrorKind::Memory, message));
        }
        for device in devices {
            device.tile(budget);
        }
        Ok(())
    }

    /// The end of the sentence: tiles, more devices, or a larger budget.
    fn what_would_fit(&self, budget: u64, least: u64, pairs: &Pairs) -> Result<String, Error> {
        let mut fitting = None;
        for factor in [2, 4, 8, 16, 32, 64] {
            let n_devices = self.n_devices.saturating_mul(factor);
            if n_devices > MAX_PARTS.min(pairs.n_nodes()) || fitting.is_some() {
                break;
            }
            let model = self.cost_model();
            let block = self.shape.block(pairs.n_nodes(), pairs.n_relations());
            let partition = Partition::new(pairs, Method::Source, n_devices, model, block)?;
            let loads = partition.loads(pairs);
            let held = loads
                .as_slice()
                .iter()
                .map(|load| self.device(load, pairs, false));
            let fits = held.map(|device| device.held_bytes).max() <= Some(budget);
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

/// What a device holds with its sources one by one: two of them beside what stays.
fn smallest_tiled(device: &DevicePlan) -> u64 {
    let n_sources = device.load.n_sources.max(1);
    let tile = device.bytes.streamed().div_ceil(n_sources);
    device.bytes.total().min(device.bytes.resident() + 2 * tile)
}

impl DevicePlan {
    /// The fewest tiles of which two fit beside what stays.
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

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "graph {} nodes, {} edges, {} relations, {} pairs",
            self.nodes, self.edges, self.relations, self.pairs
        )?;
        writeln!(f, "method {}", self.method)?;
        writeln!(f, "cost max/mean {:.4}", self.cost_max_over_mean)?;
        writeln!(f, "edges max/mean {:.4}", self.edges_max_over_mean)?;
        writeln!(f, "relations split {}", self.split_relations)?;
        writeln!(f, "replicated {}", size(self.replicated_bytes))?;
        writeln!(f, "one device would hold {}", size(self.bytes_whole))?;
        for (idx, device) in self.devices.iter().enumerate() {
            let load = &device.load;
            write!(
                f,
                "device {idx} edges {} pairs {} sources {} self loops {} relations {} holds {}",
                load.n_edges,
                load.n_pairs,
                load.n_sources,
                load.n_self_loops,
                load.n_relations,
                size(device.held_bytes)
            )?;
            match device.tiles {
                1 => writeln!(f)?,
                tiles => writeln!(f, " in {tiles} tiles")?,
            }
        }
        writeln!(f, "messages per step {}", self.messages_per_step)?;
        for exchange in &self.exchanges {
            writeln!(
                f,
                "  layer {}: {} {}",
                exchange.layer,
                exchange.what,
                size(exchange.bytes)
            )?;
        }
        Ok(())
    }
}
