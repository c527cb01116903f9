//! A schedule as an SVG chart: a row of boxes for each device, its memory below.

use std::fmt::Write;

use crate::{Error, Problem, Schedule, Simulation, Step};

/// The chart's measures, in pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 110.0;
const ROW: f64 = 36.0;
const CURVE: f64 = 44.0;
const GAP: f64 = 16.0;
const HEAD: f64 = 40.0;

/// Boxes wider than this many pixels carry their op's name.
const LABELLED: f64 = 40.0;

/// The schedule as an SVG document: for each device a row with its ops, lines for transfers, and a curve of its memory.
///
/// Every box has a tooltip with name, kind, start and end. Ops of no length are not drawn.
///
/// # Errors
/// `Schedule` when the schedule is not valid for the problem.
pub fn gantt_svg(problem: &Problem<'_>, schedule: &Schedule) -> Result<String, Error> {
    let simulation = schedule.simulate(problem)?;
    let height = HEAD + problem.n_devices() as f64 * (ROW + CURVE + GAP) + 30.0;
    let mut chart = Chart {
        problem,
        schedule,
        simulation: &simulation,
        svg: format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{height}\" viewBox=\"0 0 {w} {height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
            w = WIDTH + MARGIN + 60.0
        ),
    };
    chart.head();
    for device in 0..problem.n_devices() {
        chart.device(device);
    }
    chart.ops();
    chart.transfers();
    chart.axis(height - 12.0);
    chart.svg.push_str("</svg>\n");
    Ok(chart.svg)
}

struct Chart<'a, 'g> {
    problem: &'a Problem<'g>,
    schedule: &'a Schedule,
    simulation: &'a Simulation,
    svg: String,
}

// Writing to a String does not fail: hence the results that are dropped.
impl Chart<'_, '_> {
    fn x(&self, time_ns: u64) -> f64 {
        let runtime = self.simulation.outcome.runtime_ns.max(1);
        MARGIN + WIDTH * (time_ns as f64 / runtime as f64)
    }

    fn y(&self, device: usize) -> f64 {
        HEAD + device as f64 * (ROW + CURVE + GAP)
    }

    fn head(&mut self) {
        let outcome = self.simulation.outcome;
        let name = escaped(self.problem.graph().name());
        let _ = writeln!(
            self.svg,
            "<text x=\"10\" y=\"20\" font-size=\"14\">{name}: {} ns, peak {} bytes</text>",
            outcome.runtime_ns, outcome.peak_bytes
        );
    }

    fn device(&mut self, device: usize) {
        let y = self.y(device);
        let name = escaped(&self.problem.devices().devices()[device].name);
        let peak = self.simulation.peaks[device];
        let _ = writeln!(
            self.svg,
            "<text x=\"10\" y=\"{:.1}\">{name}</text><text x=\"10\" y=\"{:.1}\" fill=\"#666\">peak {peak} B</text>\n\
             <rect x=\"{MARGIN}\" y=\"{y:.1}\" width=\"{WIDTH}\" height=\"{ROW}\" fill=\"#f2f2f2\"/>",
            y + 22.0,
            y + ROW + 24.0
        );
        self.memory(device);
    }

    /// A step curve in units of the largest peak.
    fn memory(&mut self, device: usize) {
        let base = self.y(device) + ROW + CURVE;
        let scale = (CURVE - 6.0) / self.simulation.outcome.peak_bytes.max(1) as f64;
        let mut path = format!("M{MARGIN:.1} {base:.1}");
        let mut last = base;
        for point in self
            .simulation
            .memory
            .iter()
            .filter(|p| usize::from(p.device) == device)
        {
            let span = self.simulation.spans[point.step as usize];
            for (time_ns, bytes) in [
                (span.start_ns, point.during_bytes),
                (span.end_ns, point.after_bytes),
            ] {
                let (x, y) = (self.x(time_ns), base - bytes as f64 * scale);
                let _ = write!(path, "L{x:.1} {last:.1}L{x:.1} {y:.1}");
                last = y;
            }
        }
        let _ = write!(
            path,
            "L{:.1} {last:.1}L{:.1} {base:.1}Z",
            MARGIN + WIDTH,
            MARGIN + WIDTH
        );
        let _ = writeln!(
            self.svg,
            "<path d=\"{path}\" fill=\"#cfe3f5\" stroke=\"#4a86c5\" stroke-width=\"0.6\"/>"
        );
    }

    fn ops(&mut self) {
        let graph = self.problem.graph();
        self.svg
            .push_str("<g stroke=\"#fff\" stroke-width=\"0.4\">\n");
        for (&step, span) in self.schedule.steps.iter().zip(&self.simulation.spans) {
            let Step::Op(op) = step else { continue };
            if span.start_ns == span.end_ns {
                continue;
            }
            let (x, end) = (self.x(span.start_ns), self.x(span.end_ns));
            let y = self.y(usize::from(self.schedule.placement[op as usize]));
            let (name, kind) = (escaped(graph.op_name(op)), escaped(graph.op_kind(op)));
            let _ = writeln!(
                self.svg,
                "<rect class=\"op\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{ROW}\" fill=\"{}\"><title>{name} {kind}: {} to {} ns</title></rect>",
                end - x,
                colour(graph.op_kind(op)),
                span.start_ns,
                span.end_ns
            );
            if end - x > LABELLED {
                let shown: String = graph
                    .op_name(op)
                    .chars()
                    .take(((end - x) / 6.5) as usize)
                    .collect();
                let _ = writeln!(
                    self.svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\" stroke=\"none\" fill=\"#fff\" pointer-events=\"none\">{}</text>",
                    x + 3.0,
                    y + 22.0,
                    escaped(&shown)
                );
            }
        }
        self.svg.push_str("</g>\n");
    }

    fn transfers(&mut self) {
        let graph = self.problem.graph();
        self.svg
            .push_str("<g stroke=\"#333\" stroke-width=\"0.7\" stroke-opacity=\"0.6\">\n");
        for (&step, span) in self.schedule.steps.iter().zip(&self.simulation.spans) {
            let Step::Transfer { tensor, to } = step else {
                continue;
            };
            let producer = graph.producer(tensor);
            let from = usize::from(self.schedule.placement[producer as usize]);
            let (x1, x2) = (self.x(span.start_ns), self.x(span.end_ns));
            let (y1, y2) = (
                self.y(from) + ROW / 2.0,
                self.y(usize::from(to)) + ROW / 2.0,
            );
            let name = escaped(graph.op_name(producer));
            let _ = writeln!(
                self.svg,
                "<line x1=\"{x1:.2}\" y1=\"{y1:.1}\" x2=\"{x2:.2}\" y2=\"{y2:.1}\"><title>{name}, {} bytes: {} to {} ns</title></line>",
                graph.tensor_bytes(tensor),
                span.start_ns,
                span.end_ns
            );
        }
        self.svg.push_str("</g>\n");
    }

    fn axis(&mut self, y: f64) {
        let runtime = u128::from(self.simulation.outcome.runtime_ns);
        for tick in 0..=4u128 {
            let time_ns = (runtime * tick / 4) as u64;
            let x = self.x(time_ns);
            let _ = writeln!(
                self.svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#666\">{time_ns} ns</text>"
            );
        }
    }
}

/// A colour for a kind of op: the same in every chart.
fn colour(kind: &str) -> &'static str {
    const COLOURS: [&str; 8] = [
        "#4a86c5", "#c5584a", "#5da05a", "#9a6fb0", "#b8862b", "#3f9a9a", "#7d7d7d", "#c46a9b",
    ];
    let hash = kind.bytes().fold(0u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    COLOURS[hash as usize % COLOURS.len()]
}

/// Text inside of SVG; control characters and the two code points that XML has no place for become spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push(' '),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}
