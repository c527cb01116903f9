//! A schedule as a Gantt chart.

use shardgraph_plot::{Gantt, Lane, Link, Span};

use crate::baseline::{OpOrder, one_device};
use crate::{Error, Problem, Schedule, Simulation, Step, Usage};

/// Gantt chart of a schedule as an SVG document: ops, transfers, and the memory of each device.
///
/// Each box has a tooltip with name, kind, start and end. Ops without length are not drawn. Marked are the critical path, limits of
/// memory, the idle time of each device, and how long the best single device takes.
///
/// # Errors
/// `Schedule` when the schedule is not valid for the problem.
pub fn gantt_svg(problem: &Problem<'_>, schedule: &Schedule) -> Result<String, Error> {
    let simulation = schedule.simulate(problem)?;
    let outcome = simulation.outcome;
    let usage = Usage::new(problem, schedule, &simulation);
    let n_devices = problem.n_devices();
    let mut chart = Gantt {
        title: format!(
            "{}: {}, peak {}",
            problem.graph().name(),
            duration_text(outcome.runtime_ns),
            bytes_text(outcome.peak_bytes)
        ),
        description: format!(
            "Schedule on {n_devices} devices: a row of ops and the memory of each device; \
             lines are transfers."
        ),
        lanes: (0..n_devices)
            .map(|device| lane(problem, &simulation, &usage, device))
            .collect(),
        links: Vec::new(),
        reference: one_device_bar(problem)?,
    };
    let mut is_critical = vec![false; schedule.steps.len()];
    for &step in &usage.critical_path.steps {
        is_critical[step as usize] = true;
    }
    for (idx, &step) in schedule.steps.iter().enumerate() {
        match step {
            Step::Op(op) => {
                let device = usize::from(schedule.placement[op as usize]);
                let op = Span {
                    is_critical: is_critical[idx],
                    ..op_span(problem, &simulation, idx, op)
                };
                chart.lanes[device].spans.push(op);
            }
            Step::Transfer { tensor, to } => {
                let producer = problem.graph().producer(tensor);
                let from = usize::from(schedule.placement[producer as usize]);
                let link = transfer_link(problem, &simulation, idx, tensor);
                let to = usize::from(to);
                chart.links.push(Link {
                    from,
                    to,
                    is_critical: is_critical[idx],
                    ..link
                });
            }
        }
    }
    Ok(chart.svg())
}

fn op_span(problem: &Problem<'_>, simulation: &Simulation, step: usize, op: u32) -> Span {
    let (graph, times) = (problem.graph(), simulation.spans[step]);
    let (name, kind) = (graph.op_name(op), graph.op_kind(op));
    let (start_ns, end_ns) = (times.start_ns, times.end_ns);
    let title = format!("{name} {kind}");
    let title = title.trim_end();
    Span {
        start_ns,
        end_ns,
        name: name.to_owned(),
        kind: kind.to_owned(),
        tooltip: format!("{title}: {start_ns} to {end_ns} ns"),
        is_critical: false,
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
fn lane(problem: &Problem<'_>, simulation: &Simulation, usage: &Usage, device: usize) -> Lane {
    let mut levels = Vec::new();
    for point in &simulation.memory {
        if usize::from(point.device) == device {
            let times = simulation.spans[point.step as usize];
            levels.push((times.start_ns, point.during_bytes));
            levels.push((times.end_ns, point.after_bytes));
        }
    }
    let of = &problem.devices().devices()[device];
    let runtime = simulation.outcome.runtime_ns.max(1) as f64;
    let idle = 100.0 * usage.devices[device].idle_ns as f64 / runtime;
    let peak = bytes_text(simulation.peaks[device]);
    Lane {
        name: format!("{}, idle {idle:.0} %", of.name),
        note: match of.memory_bytes {
            Some(limit) => format!("peak {peak} of {}", bytes_text(limit)),
            None => format!("peak {peak}"),
        },
        spans: Vec::new(),
        levels,
        limit: of.memory_bytes,
    }
}

/// How long the best single device takes, where there are several.
fn one_device_bar(problem: &Problem<'_>) -> Result<Option<(String, u64)>, Error> {
    let n = problem.n_devices();
    if n == 1 {
        return Ok(None);
    }
    let mut best = u64::MAX;
    for device in 0..n {
        // Alone, each device counts as the one on which the largest op belongs.
        let schedule = one_device(problem, device, OpOrder::Topological).pinned(problem);
        best = best.min(schedule.simulate(problem)?.outcome.runtime_ns);
    }
    Ok(Some((format!("one device, {}", duration_text(best)), best)))
}

/// As `1.234 ms`.
fn duration_text(ns: u64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    match units.into_iter().find(|(unit, _)| ns as f64 >= *unit) {
        Some((unit, name)) => format!("{:.4} {name}", ns as f64 / unit),
        None => format!("{ns} ns"),
    }
}

/// As `1.23 MiB`.
fn bytes_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, name)) => format!("{:.2} {name}", bytes as f64 / f64::from(1u32 << shift)),
        None => format!("{bytes} B"),
    }
}
