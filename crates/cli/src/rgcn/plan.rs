//! `shardgraph rgcn plan`: how a relational graph is cut over devices, before anything runs.

use clap::Args;
use serde::Serialize;
use shardgraph_device::{Device, Timer};
use shardgraph_rgcn::import::ImportReport;
use shardgraph_rgcn::plan::{ModelShape, Plan, PlanOptions};

use super::PartitionArgs;
use super::data::DataArgs;
use super::settings::ModelArgs;
use crate::device_choice::DeviceArgs;
use crate::exit::BadInput;
use crate::quantity;
use crate::report::ReportArgs;
use crate::text::{Layout, reading};

const EXAMPLE: &str = "\
With --device cuda or emulated, which need not be there, bytes are those that training on it holds, and
tiles are taken without --tile.

Examples:
  shardgraph rgcn plan aifb_stripped.nt.gz --devices 4 --partition source --format json
  shardgraph rgcn plan ba-rel:800000:2.5:100 --devices 2 --device-memory 256MiB --tile
  shardgraph rgcn plan ba-rel:800000:2.5:100 --devices 4 --device cuda";

/// Print how a relational graph is cut over devices: costs, bytes, messages
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Devices: all alike, each gets one part
    #[arg(long, value_name = "N", default_value_t = 1)]
    devices: u32,
    #[command(flatten)]
    partition: PartitionArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Units of the output [default: the classes of the labels, else 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    n_classes: Option<u32>,
    /// Memory of each device: such as 8GiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    device_memory: Option<u64>,
    /// Take sources in tiles, one after the other, where the budget asks for it
    #[arg(long, requires = "device_memory")]
    tile: bool,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    #[serde(flatten)]
    plan: Plan,
    seconds: f64,
    load_seconds: f64,
    import: &'a Option<ImportReport>,
}

/// Loads the graph, cuts it and prints the answer.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    if args.device_memory == Some(0) {
        return Err(BadInput("device_memory = 0: expected a number of bytes".into()).into());
    }
    let data = args.data.load()?;
    let n_classes = data.labels.as_ref().map(|labelled| labelled.classes.len());
    let classes = args.n_classes.or(n_classes.map(|n| n as u32));
    let options = PlanOptions {
        method: args.partition.partition,
        n_devices: args.devices,
        shape: ModelShape {
            config: args.model.config(&data.graph)?,
            classes: classes.unwrap_or(16),
        },
        budget: args.device_memory,
        may_tile: args.tile,
        device: args.device.kind,
        labels: data.labels.as_ref().map(|labelled| labelled.labels.clone()),
    };
    let timer = Timer::start(&Device::host());
    let (_, plan) = Plan::new(&data.graph, &options)?;
    args.report.answer(
        &Answer {
            graph: &data.name,
            plan,
            seconds: timer.elapsed_s(),
            load_seconds: data.load_seconds,
            import: &data.report,
        },
        &Layout {
            below: reading(data.report.as_ref()),
            ..Layout::first("cost_max_over_mean")
        },
    )
}
