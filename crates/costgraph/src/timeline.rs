//! A schedule as something to look at: a trace for Perfetto and chrome://tracing.

mod gantt;

pub use gantt::gantt_svg;

use std::fmt::Write;

use crate::{Error, Problem, Schedule, Simulation, Step};

/// The schedule as Chrome trace events, a JSON document that ui.perfetto.dev and chrome://tracing open.
///
/// One lane for each device with its ops and, where they occupy it, its transfers; arrows from sender to receiver; one counter of
/// memory for each device. With asynchronous transfers each link has a lane of its own. Events of no length are kept: they show as
/// ticks. Times are in microseconds with three decimals, as the format asks for.
///
/// # Errors
/// `Schedule` when the schedule is not valid for the problem.
///
/// # Source
/// The Trace Event Format: complete events (X), flow events (s, f), counters (C), metadata (M).
pub fn chrome_trace(problem: &Problem<'_>, schedule: &Schedule) -> Result<String, Error> {
    let simulation = schedule.simulate(problem)?;
    let mut trace = Trace {
        problem,
        schedule,
        simulation: &simulation,
        json: String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":["),
        n_events: 0,
    };
    trace.lanes();
    for idx in 0..schedule.steps.len() {
        match schedule.steps[idx] {
            Step::Op(op) => trace.op(idx, op),
            Step::Transfer { tensor, to } => trace.transfer(idx, tensor, usize::from(to)),
        }
    }
    trace.memory();
    let outcome = simulation.outcome;
    let _ = write!(
        trace.json,
        "\n],\"otherData\":{{\"graph\":{},\"runtime_ns\":{},\"peak_bytes\":{}}}}}\n",
        quoted(problem.graph().name()),
        outcome.runtime_ns,
        outcome.peak_bytes
    );
    Ok(trace.json)
}

struct Trace<'a, 'g> {
    problem: &'a Problem<'g>,
    schedule: &'a Schedule,
    simulation: &'a Simulation,
    json: String,
    n_events: usize,
}

impl Trace<'_, '_> {
    /// Writing to a String does not fail: hence the results that are dropped in this file.
    fn event(&mut self, fields: std::fmt::Arguments<'_>) {
        let comma = if self.n_events == 0 { "" } else { "," };
        let _ = write!(self.json, "{comma}\n{{\"pid\":1,{fields}}}");
        self.n_events += 1;
    }

    fn lanes(&mut self) {
        let n = self.problem.n_devices();
        let name = quoted(self.problem.graph().name());
        self.event(format_args!(
            "\"ph\":\"M\",\"name\":\"process_name\",\"args\":{{\"name\":{name}}}"
        ));
        for (lane, device) in self.problem.devices().clone().devices().iter().enumerate() {
            self.lane(lane, &device.name);
        }
        if self.problem.options().asynchronous {
            for (from, to) in (0..n * n)
                .map(|pair| (pair / n, pair % n))
                .filter(|(a, b)| a != b)
            {
                self.lane(self.link_lane(from, to), &format!("link {from} to {to}"));
            }
        }
    }

    fn lane(&mut self, lane: usize, name: &str) {
        let name = quoted(name);
        self.event(format_args!(
            "\"tid\":{lane},\"ph\":\"M\",\"name\":\"thread_name\",\"args\":{{\"name\":{name}}}"
        ));
    }

    fn link_lane(&self, from: usize, to: usize) -> usize {
        let n = self.problem.n_devices();
        n + from * n + to
    }

    fn span(&self, idx: usize) -> (String, String) {
        let span = self.simulation.spans[idx];
        (micros(span.start_ns), micros(span.end_ns - span.start_ns))
    }

    fn op(&mut self, idx: usize, op: u32) {
        let graph = self.problem.graph();
        let (ts, dur) = self.span(idx);
        let lane = self.schedule.placement[op as usize];
        let (name, kind) = (quoted(graph.op_name(op)), quoted(graph.op_kind(op)));
        self.event(format_args!(
            "\"tid\":{lane},\"ph\":\"X\",\"cat\":\"op\",\"ts\":{ts},\"dur\":{dur},\"name\":{name},\"args\":{{\"kind\":{kind},\"op\":{op},\"step\":{idx}}}"
        ));
    }

    fn transfer(&mut self, idx: usize, tensor: u32, to: usize) {
        let graph = self.problem.graph();
        let (ts, dur) = self.span(idx);
        let producer = graph.producer(tensor);
        let from = usize::from(self.schedule.placement[producer as usize]);
        let bytes = graph.tensor_bytes(tensor);
        let name = quoted(&format!("send {} [{tensor}]", graph.op_name(producer)));
        let lanes = if self.problem.options().asynchronous {
            vec![self.link_lane(from, to)]
        } else {
            vec![from, to]
        };
        for &lane in &lanes {
            self.event(format_args!(
                "\"tid\":{lane},\"ph\":\"X\",\"cat\":\"transfer\",\"ts\":{ts},\"dur\":{dur},\"name\":{name},\"args\":{{\"bytes\":{bytes},\"from\":{from},\"to\":{to},\"step\":{idx}}}"
            ));
        }
        if let [from, to] = lanes[..] {
            self.event(format_args!(
                "\"tid\":{from},\"ph\":\"s\",\"cat\":\"transfer\",\"id\":{idx},\"ts\":{ts},\"name\":\"transfer\""
            ));
            self.event(format_args!(
                "\"tid\":{to},\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"transfer\",\"id\":{idx},\"ts\":{ts},\"name\":\"transfer\""
            ));
        }
    }

    /// Memory during a step from its start, and after it from its end. Simulation time is the order of steps: where a device's
    /// steps are out of order in time (asynchronous transfers), the counter follows the times.
    fn memory(&mut self) {
        let mut points: Vec<(u64, usize, u8, u64)> = Vec::new();
        for (at, point) in self.simulation.memory.iter().enumerate() {
            let span = self.simulation.spans[point.step as usize];
            points.push((span.start_ns, 2 * at, point.device, point.during_bytes));
            points.push((span.end_ns, 2 * at + 1, point.device, point.after_bytes));
        }
        points.sort_unstable();
        for (time_ns, _, device, bytes) in points {
            let ts = micros(time_ns);
            self.event(format_args!(
                "\"ph\":\"C\",\"ts\":{ts},\"name\":\"memory of device {device}\",\"args\":{{\"bytes\":{bytes}}}"
            ));
        }
    }
}

fn micros(time_ns: u64) -> String {
    format!("{}.{:03}", time_ns / 1000, time_ns % 1000)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::{chrome_trace, gantt_svg};
    use crate::tests::random_problems::{for_problems, keys};
    use crate::{Decoder, DecoderKind};

    #[test]
    fn traces_are_json_that_ends_when_the_schedule_does() {
        for_problems(200, 30, |problem, seed| {
            let schedule = Decoder::new(problem, DecoderKind::Paper).schedule(&keys(seed, problem));
            let outcome = schedule.verify(problem).unwrap().outcome;
            let trace: serde_json::Value =
                serde_json::from_str(&chrome_trace(problem, &schedule).unwrap()).unwrap();
            let events = trace["traceEvents"].as_array().unwrap();
            let number =
                |event: &serde_json::Value, field: &str| event[field].as_f64().unwrap_or(0.0);
            let end = events
                .iter()
                .map(|e| number(e, "ts") + number(e, "dur"))
                .fold(0.0, f64::max);
            assert!(
                (end * 1000.0 - outcome.runtime_ns as f64).abs() < 0.01,
                "{end}"
            );
            let of = |phase: &'static str| events.iter().filter(move |e| e["ph"] == phase);
            let peak = of("C")
                .map(|e| e["args"]["bytes"].as_u64().unwrap())
                .max()
                .unwrap();
            assert!(peak <= outcome.peak_bytes);
            // A device that runs nothing has no counter; its persistent bytes are 0.
            assert_eq!(peak, outcome.peak_bytes);
            let n_ops = of("X").filter(|e| e["cat"] == "op").count();
            assert_eq!(n_ops, problem.graph().n_ops());
            assert_eq!(of("s").count(), of("f").count());
            let n_lanes = of("M").filter(|e| e["name"] == "thread_name").count();
            assert!(n_lanes >= problem.n_devices());
        });
    }

    #[test]
    fn charts_have_a_box_for_each_op_that_takes_time() {
        for_problems(200, 30, |problem, seed| {
            let schedule = Decoder::new(problem, DecoderKind::Paper).schedule(&keys(seed, problem));
            let svg = gantt_svg(problem, &schedule).unwrap();
            let graph = problem.graph();
            let n_timed = (0..graph.n_ops() as u32)
                .filter(|&op| problem.cost_ns(op, usize::from(schedule.placement[op as usize])) > 0)
                .count();
            assert_eq!(svg.matches("class=\"op\"").count(), n_timed);
            assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
            assert!(svg.ends_with("</svg>\n"));
        });
    }
}
