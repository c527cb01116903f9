//! What `shardgraph place` writes: a plan as a trace for Perfetto, as a chart, and as data.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use shardgraph_costgraph::{
    Pipeline, Problem, Simulation, Span, Step, chrome_trace, device_map, gantt_svg,
};
use shardgraph_plot::{Axis, Figure, Panel, Point, Series};
use shardgraph_regal::{Comparison, PipelinePlan, Plan};

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
    /// Draw a picture: the schedule as a Gantt chart, with --compare the methods as bars
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

    /// Refuses the pictures of a schedule for a pipeline.
    pub(crate) fn check_pipeline(&self) -> Result<(), BadInput> {
        let given = [("--trace", &self.trace), ("--svg", &self.svg)];
        match given.into_iter().find(|(_, path)| path.is_some()) {
            None => Ok(()),
            Some((flag, _)) => Err(BadInput(format!(
                "{flag} shows one pass, and --objective throughput asks for many: leave it out, or take --plan"
            ))),
        }
    }

    /// Refuses paths that cannot be written, an input, one path for two files, and files of many plans.
    pub(crate) fn check(
        &self,
        inputs: &[&Path],
        is_many: bool,
        report: &ReportArgs,
    ) -> Result<(), BadInput> {
        let paths: Vec<&Path> = self.paths().collect();
        report.leave_output_to(
            paths
                .iter()
                .copied()
                .find(|p| output_file::is_standard_output(p)),
        );
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

    /// Writes them together, as [`output_file::write_all`] does; of a comparison, the picture shows that.
    pub(crate) fn write(
        &self,
        problem: &Problem<'_>,
        plan: &Plan,
        comparison: Option<&Comparison>,
        report: &ReportArgs,
    ) -> anyhow::Result<()> {
        let mut files: Vec<(&Path, String)> = Vec::new();
        if let Some(path) = &self.trace {
            files.push((path, chrome_trace(problem, &plan.schedule)?));
        }
        if let Some(path) = &self.svg {
            files.push((
                path,
                match comparison {
                    Some(comparison) => bars_svg(comparison),
                    None => gantt_svg(problem, &plan.schedule)?,
                },
            ));
        }
        if let Some(path) = &self.plan {
            files.push((path, plan_json(problem, plan)?));
        }
        files.extend(self.map_file(problem, &plan.schedule.placement)?);
        output_file::write_all(&files)?;
        for path in self.paths() {
            report.note(&format!("wrote {}", path.display()));
        }
        Ok(())
    }

    /// The same for a pipeline.
    pub(crate) fn write_pipeline(
        &self,
        problem: &Problem<'_>,
        plan: &PipelinePlan,
        report: &ReportArgs,
    ) -> anyhow::Result<()> {
        let mut files: Vec<(&Path, String)> = Vec::new();
        if let Some(path) = &self.plan {
            files.push((path, pipeline_json(problem, &plan.pipeline)?));
        }
        files.extend(self.map_file(problem, &plan.pipeline.placement)?);
        output_file::write_all(&files)?;
        for path in self.paths() {
            report.note(&format!("wrote {}", path.display()));
        }
        Ok(())
    }

    /// The device map, where it is asked for.
    fn map_file(
        &self,
        problem: &Problem<'_>,
        placement: &[u8],
    ) -> anyhow::Result<Option<(&Path, String)>> {
        let Some(path) = &self.device_map else {
            return Ok(None);
        };
        let map = device_map(problem, placement);
        if map.is_empty() {
            let graph = crate::text::printable(problem.graph().name());
            return Err(BadInput(format!(
                "--device-map: no op of {graph} has a module in its name, as in `layer1.0.conv1/node_3`: export with torch.onnx, or leave it out"
            ))
            .into());
        }
        Ok(Some((path, serde_json::to_string_pretty(&map)? + "\n")))
    }
}

/// The methods as bars: how far each is above the best that fits.
fn bars_svg(comparison: &Comparison) -> String {
    let rows = || comparison.rows.iter();
    let names = rows().map(|row| match row.decoder {
        Some(decoder) => format!("{}, {}", row.method.name(), decoder.name()),
        None => row.method.name().to_owned(),
    });
    let bars = (0..).map(f64::from).zip(rows()).map(|(place, row)| {
        let percent = 100.0 * row.gap_to_best.unwrap_or(0.0);
        let text = match row.gap_to_best {
            Some(_) => format!("{percent:.2} %"),
            None => "does not fit".to_owned(),
        };
        Point::from((percent, place)).with_text(text)
    });
    let x = Axis::linear("% above the best").from_zero();
    let panel = Panel::new(x, Axis::named("", names))
        .sized(420.0, 22.0 * comparison.rows.len() as f64)
        .with(Series::bars("plans", bars));
    let graph = crate::text::printable(&comparison.graph);
    let most = rows().map(|row| row.evaluations).max().unwrap_or(0);
    let title = format!("{graph}: methods, at most {most} evaluations each");
    let description = "A bar for each method: how far its plan is above the best one.";
    Figure::new(title, description).panel(panel).svg()
}

/// A pipeline as one JSON object, an op or transfer of micro-batch 0 a line; each repeats after every period.
fn pipeline_json(problem: &Problem<'_>, pipeline: &Pipeline) -> anyhow::Result<String> {
    let graph = problem.graph();
    let mut rows: Vec<(u64, serde_json::Value)> = Vec::new();
    for (op, (&device, &start_ns)) in
        (0u32..).zip(pipeline.placement.iter().zip(&pipeline.op_starts_ns))
    {
        let end_ns = start_ns + problem.cost_ns(op, usize::from(device));
        let name = graph.op_name(op);
        rows.push((
            start_ns,
            json!({
                "op": op, "name": name, "kind": graph.op_kind(op), "module": graph.module_of(op),
                "persistent_bytes": graph.persistent_bytes(op), "device": device,
                "start_ns": start_ns, "end_ns": end_ns,
            }),
        ));
    }
    for sent in &pipeline.transfers {
        let producer = graph.producer(sent.tensor);
        let from = pipeline.placement[producer as usize];
        let duration = problem.transfer_ns(sent.tensor, usize::from(from), usize::from(sent.to));
        rows.push((
            sent.start_ns,
            json!({
                "tensor": sent.tensor, "of": graph.op_name(producer), "from": from, "to": sent.to,
                "bytes": graph.tensor_bytes(sent.tensor),
                "start_ns": sent.start_ns, "end_ns": sent.start_ns + duration,
            }),
        ));
    }
    rows.sort_by_key(|(start_ns, _)| *start_ns);
    let head = json!({
        "schema_version": 1, "graph": graph.name(), "objective": "throughput",
        "period_ns": pipeline.period_ns, "latency_ns": pipeline.latency_ns,
        "peak_bytes": pipeline.peak_bytes,
    });
    let head = head.to_string();
    let rows: Vec<String> = rows.iter().map(|(_, row)| format!("\n{row}")).collect();
    Ok(format!(
        "{},\"steps\":[{}\n]}}\n",
        &head[..head.len() - 1],
        rows.join(",")
    ))
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
        kind: &'a str,
        module: Option<String>,
        /// Weights and whatever else stays on the device from start to end.
        persistent_bytes: u64,
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
            kind: graph.op_kind(op),
            module: graph.module_of(op),
            persistent_bytes: graph.persistent_bytes(op),
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
