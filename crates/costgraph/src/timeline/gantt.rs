//! A schedule as a Gantt chart.

use shardgraph_plot::{Gantt, Lane, Link, Span};

use crate::{Error, Problem, Schedule, Simulation, Step};

/// Gantt chart of a schedule as an SVG document: ops, transfers, and the memory of each device.
///
/// Each box has a tooltip with name, kind, start and end. Ops without length are not drawn.
///
/// # Errors
/// `Schedule` when the schedule is not valid for the problem.
pub fn gantt_svg(problem: &Problem<'_>, schedule: &Schedule) -> Result<String, Error> {
    let simulation = schedule.simulate(problem)?;
    let outcome = simulation.outcome;
    let n_devices = problem.n_devices();
    let mut chart = Gantt {
        title: format!(
            "{}: {} ns, peak {} bytes",
            problem.graph().name(),
            outcome.runtime_ns,
            outcome.peak_bytes
        ),
        description: format!(
            "Schedule on {n_devices} devices: a row of ops and the memory of each device; \
             lines are transfers."
        ),
        lanes: (0..n_devices)
            .map(|device| lane(problem, &simulation, device))
            .collect(),
        links: Vec::new(),
    };
    for (idx, &step) in schedule.steps.iter().enumerate() {
        match step {
            Step::Op(op) => {
                let device = usize::from(schedule.placement[op as usize]);
                let op = op_span(problem, &simulation, idx, op);
                chart.lanes[device].spans.push(op);
            }
            Step::Transfer { tensor, to } => {
                let producer = problem.graph().producer(tensor);
                let from = usize::from(schedule.placement[producer as usize]);
                let link = transfer_link(problem, &simulation, idx, tensor);
                let to = usize::from(to);
                chart.links.push(Link { from, to, ..link });
            }
        }
    }
    Ok(chart.svg())
}

fn op_span(problem: &Problem<'_>, simulation: &Simulation, step: usize, op: u32) -> Span {
    let (graph, times) = (problem.graph(), simulation.spans[step]);
    let (name, kind) = (graph.op_name(op), graph.op_kind(op));
    let (start_ns, end_ns) = (times.start_ns, times.end_ns);
    Span {
        start_ns,
        end_ns,
        name: name.to_owned(),
        kind: kind.to_owned(),
        tooltip: format!("{name} {kind}: {start_ns} to {end_ns} ns"),
    }
}

/// The line of a transfer, without its lanes.
fn transfer_link(problem: &Problem<'_>, simulation: &Simulation, step: usize, tensor: u32) -> Link {
    let (graph, times) = (problem.graph(), simulation.spans[step]);
    let (name, bytes) = (
        graph.op_name(graph.producer(tensor)),
        graph.tensor_bytes(tensor),
    );
    let (start_ns, end_ns) = (times.start_ns, times.end_ns);
    Link {
        start_ns,
        end_ns,
        tooltip: format!("{name}, {bytes} bytes: {start_ns} to {end_ns} ns"),
        ..Link::default()
    }
}

/// A device's row with its memory, without ops.
fn lane(problem: &Problem<'_>, simulation: &Simulation, device: usize) -> Lane {
    let mut levels = Vec::new();
    for point in &simulation.memory {
        if usize::from(point.device) == device {
            let times = simulation.spans[point.step as usize];
            levels.push((times.start_ns, point.during_bytes));
            levels.push((times.end_ns, point.after_bytes));
        }
    }
    Lane {
        name: problem.devices().devices()[device].name.clone(),
        note: format!("peak {} B", simulation.peaks[device]),
        spans: Vec::new(),
        levels,
    }
}
