//! What `shardgraph place` writes: a plan as a trace for Perfetto, as a chart, and as data.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_costgraph::{Problem, Simulation, Span, Step, chrome_trace, device_map, gantt_svg};
use shardgraph_regal::Plan;

use crate::exit::BadInput;
use crate::output_file;
use crate::report::ReportArgs;

/// The files to write.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files (of the one plan, or of the best one of --compare)")]
pub(crate) struct FileArgs {
    /// Write a timeline that ui.perfetto.dev and chrome://tracing open
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw a picture: the schedule as a Gantt chart
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the plan as JSON: where and when each op and transfer runs
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Write a device for each module as JSON, as accelerate's dispatch_model takes it; needs op names with modules, as torch's ONNX
    /// exporter writes them
    #[arg(long, value_name = "FILE")]
    device_map: Option<PathBuf>,
}

impl FileArgs {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let paths = [&self.trace, &self.svg, &self.plan, &self.device_map];
        paths.into_iter().flatten().map(PathBuf::as_path)
    }

    /// Refuses paths that cannot be written, an input, one path for two files, and files of many plans.
    pub(crate) fn check(&self, inputs: &[&Path], is_many: bool) -> Result<(), BadInput> {
        let paths: Vec<&Path> = self.paths().collect();
        if is_many && !paths.is_empty() {
            let message = "--trace, --svg, --plan and --device-map show one plan: choose its graph with --index instead of --all";
            return Err(BadInput(message.into()));
        }
        for (i, path) in paths.iter().enumerate() {
            output_file::check(path, inputs.iter().copied())?;
            if let Some(other) = paths[..i].iter().find(|p| output_file::is_same(p, path)) {
                let (other, path) = (other.display(), path.display());
                return Err(BadInput(format!(
                    "{path}: two files cannot have one name, and {other} is the same file"
                )));
            }
        }
        Ok(())
    }

    /// Writes them together, as [`output_file::write_all`] does.
    pub(crate) fn write(
        &self,
        problem: &Problem<'_>,
        plan: &Plan,
        report: &ReportArgs,
    ) -> anyhow::Result<()> {
        let mut files: Vec<(&Path, String)> = Vec::new();
        if let Some(path) = &self.trace {
            files.push((path, chrome_trace(problem, &plan.schedule)?));
        }
        if let Some(path) = &self.svg {
            files.push((path, gantt_svg(problem, &plan.schedule)?));
        }
        if let Some(path) = &self.plan {
            files.push((path, plan_json(problem, plan)?));
        }
        if let Some(path) = &self.device_map {
            let map = device_map(problem, &plan.schedule.placement);
            if map.is_empty() {
                let graph = crate::place_answer::printable(problem.graph().name());
                return Err(BadInput(format!(
                    "--device-map: no op of {graph} has a module in its name, as in `layer1.0.conv1/node_3`: export with torch.onnx, or leave it out"
                ))
                .into());
            }
            files.push((path, serde_json::to_string_pretty(&map)? + "\n"));
        }
        output_file::write_all(&files)?;
        for path in self.paths() {
            report.note(&format!("wrote {}", path.display()));
        }
        Ok(())
    }
}

/// What stands before the steps.
#[derive(Serialize)]
struct Head<'a> {
    schema_version: u32,
    graph: &'a str,
    objective: shardgraph_costgraph::Objective,
    runtime: u64,
    peak_bytes: u64,
    devices: Vec<DeviceHead<'a>>,
}

#[derive(Serialize)]
struct DeviceHead<'a> {
    name: &'a str,
    memory_bytes: Option<u64>,
    peak_bytes: u64,
}

/// A step of the schedule; times are nanoseconds.
#[derive(Serialize)]
#[serde(untagged)]
enum Row<'a> {
    Op {
        op: u32,
        name: &'a str,
        device: u8,
        start_ns: u64,
        end_ns: u64,
    },
    Transfer {
        tensor: u32,
        of: &'a str,
        bytes: u64,
        from: u8,
        to: u8,
        start_ns: u64,
        end_ns: u64,
    },
}

/// One JSON object, a step a line.
fn plan_json(problem: &Problem<'_>, plan: &Plan) -> anyhow::Result<String> {
    let simulation = plan.schedule.simulate(problem)?;
    let head = serde_json::to_string(&head(problem, plan, &simulation))?;
    // The steps come before the brace that ends the object.
    let mut json = head[..head.len() - 1].to_owned();
    json.push_str(",\"steps\":[");
    for (i, (&step, &span)) in plan
        .schedule
        .steps
        .iter()
        .zip(&simulation.spans)
        .enumerate()
    {
        let row = serde_json::to_string(&row(problem, plan, step, span))?;
        let comma = if i == 0 { "" } else { "," };
        write!(json, "{comma}\n{row}")?;
    }
    json.push_str("\n]}\n");
    Ok(json)
}

fn head<'a>(problem: &'a Problem<'_>, plan: &Plan, simulation: &Simulation) -> Head<'a> {
    let devices = problem.devices().devices().iter().zip(&simulation.peaks);
    let device = |(device, &peak_bytes): (&'a shardgraph_costgraph::Device, &u64)| DeviceHead {
        name: &device.name,
        memory_bytes: device.memory_bytes,
        peak_bytes,
    };
    Head {
        schema_version: 1,
        graph: problem.graph().name(),
        objective: plan.objective,
        runtime: plan.outcome.runtime_ns,
        peak_bytes: plan.outcome.peak_bytes,
        devices: devices.map(device).collect(),
    }
}

fn row<'a>(problem: &Problem<'a>, plan: &Plan, step: Step, span: Span) -> Row<'a> {
    let graph = problem.graph();
    let placement = &plan.schedule.placement;
    let Span { start_ns, end_ns } = span;
    match step {
        Step::Op(op) => Row::Op {
            op,
            name: graph.op_name(op),
            device: placement[op as usize],
            start_ns,
            end_ns,
        },
        Step::Transfer { tensor, to } => Row::Transfer {
            tensor,
            of: graph.op_name(graph.producer(tensor)),
            bytes: graph.tensor_bytes(tensor),
            from: placement[graph.producer(tensor) as usize],
            to,
            start_ns,
            end_ns,
        },
    }
}
