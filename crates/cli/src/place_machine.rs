//! The machine of `shardgraph place`: devices, the links between them, and what the performance model makes of them.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use shardgraph_costgraph::{Device, DeviceSet, Graph, Link, ModelOptions, NAMED_LINKS};
use shardgraph_costgraph_io::{NAMED_CARDS, NamedCard};

use crate::exit::BadInput;
use crate::settings_file::SettingsFile;
use crate::{duration, quantity};

/// The link between any two devices unless flags say otherwise.
const USUAL_LINKS: &str = "pcie4";

/// Devices and links, and what the performance model makes of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machine and model")]
pub(crate) struct MachineArgs {
    /// Devices: from 1 to 64 [default: 2]
    #[arg(long, value_name = "N")]
    devices: Option<usize>,
    /// Memory of each device: such as 16GiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    device_memory: Option<u64>,
    /// The cards: a TOML or JSON file of devices with `name`, `memory` and `speed` (a factor), or one of v100, t4, a100-40, a100-80, l4,
    /// l40s, h100, h200, b200 or rtx4090, which sets the memory, the estimates of ONNX ops, and how much shorter other files' costs
    /// become, which are taken as those of a V100
    #[arg(long, value_name = "NAME|FILE")]
    device_spec: Option<PathBuf>,
    /// What connects the devices: ethernet100, pcie4, pcie5, nvlink4, unlimited (transfers take no time), or a TOML or JSON file with
    /// `bandwidth_gbs`, `latency` and, for single pairs, `pairs`
    #[arg(long, value_name = "NAME|FILE", default_value = USUAL_LINKS)]
    links: PathBuf,
    /// Bandwidth between any two devices in GB/s, in place of that of --links; inf for transfers that take their latency alone
    #[arg(long, value_name = "GBPS", value_parser = quantity::gigabytes_per_s)]
    bandwidth: Option<f64>,
    /// What every transfer takes besides, such as 5us, in place of that of --links
    #[arg(long, value_name = "DURATION", value_parser = duration::nanoseconds)]
    latency: Option<u64>,
    /// Transfers occupy the link alone; else they wait for both devices and occupy both
    #[arg(long)]
    async_transfers: bool,
    /// What a control dependency between devices does: delay the later op, or make both devices wait for each other
    #[arg(long, value_enum, value_name = "HOW", default_value = "precedence")]
    control_edges: ControlEdges,
    /// Device of a module or op by name, with `*` for any one part of it; may be given several times. Or which op runs on device 0 where
    /// devices are alike and nothing is pinned by name, largest or none [default: largest]
    #[arg(long, value_name = "NAME=DEVICE|WHICH", value_parser = pin)]
    pin: Vec<Pin>,
    /// Module whose ops share a device; `layers.*` is each layer by itself, and names with commas share one; may be given several times
    #[arg(long, value_name = "NAMES")]
    together: Vec<String>,
    /// Tensors without a consumer stay until the end
    #[arg(long)]
    keep_outputs: bool,
    /// Leave persistent memory (weights) out of account
    #[arg(long)]
    ignore_persistent: bool,
}

/// What control dependencies do, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ControlEdges {
    Precedence,
    Block,
}

/// What `--pin` says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pin {
    Largest,
    None,
    Named { name: String, device: String },
}

/// What `--pin` and `--together` ask for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes {
    pins: Vec<(String, u8)>,
    together: Vec<String>,
}

impl Wishes {
    /// The graph with ops that share devices.
    pub(crate) fn on(&self, graph: Graph) -> Result<Graph, shardgraph_costgraph::Error> {
        graph.with_named_colocation(&self.together, &self.pins)
    }
}

/// `--links FILE`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinksFile {
    bandwidth_gbs: Option<f64>,
    #[serde(default)]
    latency: String,
    #[serde(default)]
    pairs: Vec<LinkOfPair>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkOfPair {
    from: usize,
    to: usize,
    bandwidth_gbs: f64,
    #[serde(default)]
    latency: String,
}

/// `--device-spec FILE`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DevicesFile {
    devices: Vec<DeviceOfFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceOfFile {
    name: String,
    memory: Option<String>,
    #[serde(default = "one")]
    speed: f64,
}

fn one() -> f64 {
    1.0
}

/// What answers say of the links. A bandwidth of null is unlimited.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LinksAnswer {
    pub(crate) name: String,
    pub(crate) bandwidth_gbs: Option<f64>,
    pub(crate) latency_seconds: f64,
    /// Some pairs of devices have links of their own.
    pub(crate) pairs_differ: bool,
}

/// A machine, ready to place on.
pub(crate) struct Machine {
    pub(crate) devices: DeviceSet,
    pub(crate) links: LinksAnswer,
    pub(crate) model: ModelOptions,
    /// The card that was asked for by name.
    pub(crate) card: Option<NamedCard>,
    /// Which ops share a device.
    pub(crate) wishes: Wishes,
}

impl MachineArgs {
    /// The card that is asked for by name.
    fn card(&self) -> Option<NamedCard> {
        let spec = self.device_spec.as_deref()?;
        let mut cards = NAMED_CARDS.into_iter();
        cards.find(|card| Path::new(card.name) == spec)
    }

    /// The files among the arguments.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let named = [Some(&self.links), self.device_spec.as_ref()];
        let paths = named.into_iter().flatten().map(PathBuf::as_path);
        paths.filter(|path| path.is_file())
    }

    /// The devices and the links between them.
    pub(crate) fn machine(&self) -> Result<Machine, BadInput> {
        let mut devices = self.devices()?;
        let links = self.link(&mut devices)?;
        let wishes = self.wishes(&devices)?;
        Ok(Machine {
            devices,
            links,
            model: self.model(),
            card: self.card(),
            wishes,
        })
    }

    fn wishes(&self, devices: &DeviceSet) -> Result<Wishes, BadInput> {
        let mut pins = Vec::new();
        for pin in &self.pin {
            let Pin::Named { name, device } = pin else {
                continue;
            };
            let known = devices.devices();
            let by_name = known.iter().position(|of| of.name == *device);
            let by_number = device.parse().ok().filter(|&number| number < known.len());
            let Some(number) = by_name.or(by_number) else {
                let names: Vec<&str> = known.iter().map(|of| of.name.as_str()).collect();
                return Err(BadInput(format!(
                    "--pin {name}={device}: no such device; they are 0..{}: {}",
                    known.len(),
                    names.join(", ")
                )));
            };
            pins.push((name.clone(), number as u8));
        }
        Ok(Wishes {
            pins,
            together: self.together.clone(),
        })
    }

    fn devices(&self) -> Result<DeviceSet, BadInput> {
        let wrong =
            |error: shardgraph_costgraph::Error, flag: String| BadInput(format!("{flag}: {error}"));
        let n = self.devices.unwrap_or(2);
        let Some(spec) = &self.device_spec else {
            let devices = DeviceSet::uniform(n, self.device_memory);
            return devices.map_err(|error| wrong(error, format!("--devices {n}")));
        };
        let flag = format!("--device-spec {}", spec.display());
        if let Some(card) = self.card() {
            let device = |idx| Device {
                name: format!("{} {idx}", card.name),
                memory_bytes: self.device_memory.or(Some(card.memory_gib << 30)),
                class: 0,
                // Graphs come with the costs of the card.
                cost_factor: 1.0,
            };
            let few = n.min(shardgraph_costgraph::MAX_DEVICES + 1);
            let devices = DeviceSet::new((0..few).map(device).collect());
            return devices.map_err(|error| wrong(error, format!("--devices {n}")));
        }
        if !spec.exists() {
            let names = NAMED_CARDS.map(|card| card.name).join(", ");
            return Err(BadInput(format!(
                "{flag}: expected a file, or one of {names}"
            )));
        }
        let file: DevicesFile = SettingsFile::read(spec)?.parse()?;
        if self.devices.is_some_and(|n| n != file.devices.len()) {
            let found = file.devices.len();
            return Err(BadInput(format!(
                "--devices {n}: {} has {found} devices: leave one of the two out",
                spec.display()
            )));
        }
        let device = |of: &DeviceOfFile| {
            let memory = of.memory.as_deref().map(quantity::bytes).transpose();
            let memory = memory
                .map_err(|why| BadInput(format!("{flag}: memory of `{}`: {why}", of.name)))?;
            Ok(Device {
                name: of.name.clone(),
                memory_bytes: self.device_memory.or(memory),
                class: 0,
                cost_factor: 1.0 / of.speed,
            })
        };
        let devices: Result<Vec<Device>, BadInput> = file.devices.iter().map(device).collect();
        DeviceSet::new(devices?).map_err(|error| wrong(error, flag))
    }

    /// Sets the links and says what they are.
    fn link(&self, devices: &mut DeviceSet) -> Result<LinksAnswer, BadInput> {
        let flag = format!("--links {}", self.links.display());
        let named = NAMED_LINKS
            .iter()
            .find(|named| Path::new(named.name) == self.links);
        let (mut link, mut pairs) = (Link::FREE, Vec::new());
        if let Some(named) = named {
            link = named.link;
        } else if self.links.exists() {
            let file: LinksFile = SettingsFile::read(&self.links)?.parse()?;
            link.bandwidth_gbs = file.bandwidth_gbs.unwrap_or(f64::INFINITY);
            link.latency_ns = latency(&file.latency, &flag)?;
            pairs = file.pairs;
        } else {
            let names = NAMED_LINKS.map(|named| named.name).join(", ");
            return Err(BadInput(format!(
                "{flag}: expected a file, or one of {names}"
            )));
        }
        link.bandwidth_gbs = self.bandwidth.unwrap_or(link.bandwidth_gbs);
        link.latency_ns = self.latency.unwrap_or(link.latency_ns);
        let wrong = |error: shardgraph_costgraph::Error| BadInput(format!("{flag}: {error}"));
        *devices = devices.clone().with_link(link).map_err(wrong)?;
        for pair in &pairs {
            let link = Link {
                bandwidth_gbs: pair.bandwidth_gbs,
                latency_ns: latency(&pair.latency, &flag)?,
            };
            devices.set_link(pair.from, pair.to, link).map_err(wrong)?;
        }
        Ok(LinksAnswer {
            name: self.links.display().to_string(),
            bandwidth_gbs: link.bandwidth_gbs.is_finite().then_some(link.bandwidth_gbs),
            latency_seconds: link.latency_ns as f64 / 1e9,
            pairs_differ: !pairs.is_empty(),
        })
    }

    fn model(&self) -> ModelOptions {
        ModelOptions {
            control_blocks: self.control_edges == ControlEdges::Block,
            asynchronous: self.async_transfers,
            keep_outputs: self.keep_outputs,
            count_persistent: !self.ignore_persistent,
            fix_largest: !self.pin.contains(&Pin::None),
        }
    }
}

fn pin(text: &str) -> Result<Pin, String> {
    match (text, text.rsplit_once('=')) {
        ("largest", _) => Ok(Pin::Largest),
        ("none", _) => Ok(Pin::None),
        (_, Some((name, device))) if !name.is_empty() && !device.is_empty() => Ok(Pin::Named {
            name: name.to_owned(),
            device: device.to_owned(),
        }),
        _ => Err("expected NAME=DEVICE, such as layer1=0, or largest or none".to_owned()),
    }
}

fn latency(text: &str, flag: &str) -> Result<u64, BadInput> {
    if text.is_empty() {
        return Ok(0);
    }
    let wrong = |why| BadInput(format!("{flag}: latency: {why}"));
    duration::nanoseconds(text).map_err(wrong)
}
