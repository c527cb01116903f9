//! `shardgraph rgcn plan`: how a relational graph is cut over devices, before anything runs.

use std::fmt;

use clap::Args;
use serde::Serialize;
use shardgraph_device::{Device, Timer};
use shardgraph_rgcn::import::ImportReport;
use shardgraph_rgcn::partition::{Method, Pairs};
use shardgraph_rgcn::plan::{ModelShape, Plan, PlanOptions};

use super::data::{Data, DataArgs};
use super::settings::ModelArgs;
use crate::exit::BadInput;
use crate::quantity;
use crate::report::ReportArgs;

const EXAMPLE: &str = "\
Examples:
  shardgraph rgcn plan aifb_stripped.nt.gz --devices 4 --partition source --format json
  shardgraph rgcn plan ba-rel:800000:2.5:100 --devices 2 --device-memory 256MiB --tile";

/// Print how a relational graph is cut over devices: costs, bytes, messages
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Devices: all alike, each gets one part
    #[arg(long, value_name = "N", default_value_t = 1)]
    devices: u32,
    /// How messages are cut over ranks: source (ranges of sources), m1 (whole relations, edges balanced),
    /// m2 (whole relations, in a snake), lpt (relations by cost, large ones cut) or grid (relations by
    /// sources)
    #[arg(long, value_name = "METHOD", default_value = "source")]
    partition: Method,
    #[command(flatten)]
    model: ModelArgs,
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
    #[serde(skip)]
    data: &'a Data,
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
        method: args.partition,
        n_devices: args.devices,
        shape: ModelShape {
            config: args.model.config(&data.graph)?,
            classes: classes.unwrap_or(16),
        },
        budget: args.device_memory,
        may_tile: args.tile,
    };
    let timer = Timer::start(&Device::host());
    let (_, plan) = Plan::new(&Pairs::of(&data.graph), &options)?;
    args.report.answer(&Answer {
        graph: &data.name,
        plan,
        seconds: timer.elapsed_s(),
        load_seconds: data.load_seconds,
        import: &data.report,
        data: &data,
    })
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.data)?;
        // The graph's own line stands above, with what reading it dropped.
        write!(f, "{}", self.plan)?;
        writeln!(f, "load seconds {:.6}", self.load_seconds)
    }
}
