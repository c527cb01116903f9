//! Gantt charts: lanes of spans, a level below each lane, links between lanes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::axis::Axis;
use crate::svg::{GREY, Svg, colour, ending, escaped, shortened, tooltip, width};

/// Measures in pixels.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 36.0;
const LEVEL: f64 = 44.0;
const GAP: f64 = 16.0;
const HEAD: f64 = 40.0;
const MARGIN: f64 = 10.0;
/// The widest name of a lane.
const WIDEST: f64 = 220.0;
/// Spans wider than this carry their name.
const LABELLED: f64 = 40.0;
/// Kinds with a colour of their own; the others share grey. Names inside boxes are white, so that the last, yellow, is left out.
const N_KINDS: usize = 7;
/// A limit is drawn where it is at most this many times the highest level.
const MAX_HEADROOM: f64 = 4.0;
const BAR: f64 = 14.0;
const LEGEND: f64 = 20.0;

/// A schedule as a chart; times are in nanoseconds and are shown in a unit that fits.
///
/// ```
/// use shardgraph_plot::{Gantt, Lane, Span};
///
/// let span = Span { start_ns: 0, end_ns: 2_000, name: "matmul".into(), ..Span::default() };
/// let lane = Lane { name: "gpu 0".into(), spans: vec![span], ..Lane::default() };
/// let chart = Gantt { title: "A plan".into(), lanes: vec![lane], ..Gantt::default() };
/// assert!(chart.svg().contains("matmul"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Gantt {
    /// Heading.
    pub title: String,
    /// Text for screen readers.
    pub description: String,
    /// Rows, from above.
    pub lanes: Vec<Lane>,
    /// Lines between rows.
    pub links: Vec<Link>,
    /// A bar below the rows for comparison: what it stands for, and its length in time.
    pub reference: Option<(String, u64)>,
}

/// A row of spans with a curve below.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Name on the left.
    pub name: String,
    /// Smaller text below the name.
    pub note: String,
    /// Boxes; a span without length is not drawn.
    pub spans: Vec<Span>,
    /// Steps of a level, as times and values from then on; one scale for all lanes.
    pub levels: Vec<(u64, u64)>,
    /// What the level should stay below: a broken line, where it is not far above all levels.
    pub limit: Option<u64>,
}

/// A box on a lane.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// Start.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Name inside the box, where it is wide enough.
    pub name: String,
    /// Spans of one kind have one colour; the legend has the kinds that take most time.
    pub kind: String,
    /// On the critical path: with a dark border.
    pub is_critical: bool,
    /// Text under the pointer.
    pub tooltip: String,
}

/// A line from one lane to another.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// Start, on lane `from`.
    pub start_ns: u64,
    /// End, on lane `to`.
    pub end_ns: u64,
    /// Index of the first lane.
    pub from: usize,
    /// Index of the second lane.
    pub to: usize,
    /// On the critical path: a heavy line.
    pub is_critical: bool,
    /// Text under the pointer.
    pub tooltip: String,
}

impl Gantt {
    /// The chart as an SVG document. Each box is a `rect` of class `op`.
    #[must_use]
    pub fn svg(&self) -> String {
        let chart = Chart::new(self);
        let bar = if self.reference.is_some() {
            BAR + GAP
        } else {
            0.0
        };
        let height = chart.y(self.lanes.len()) + bar + 36.0 + LEGEND;
        let size = [chart.left + WIDTH + 60.0, height];
        let mut svg = Svg::new(size, &self.title, &self.description);
        svg.text([MARGIN, 20.0], "font-size=\"14\"", &self.title);
        chart.draw_axis(&mut svg, height - 24.0 - LEGEND);
        for (i, lane) in self.lanes.iter().enumerate() {
            chart.draw_lane(&mut svg, i, lane);
        }
        if let Some((name, length_ns)) = &self.reference {
            chart.draw_reference(&mut svg, self.lanes.len(), name, *length_ns);
        }
        svg.line(format_args!("<g stroke=\"#fff\" stroke-width=\"0.4\">"));
        for (i, lane) in self.lanes.iter().enumerate() {
            let spans = lane.spans.iter().filter(|span| span.start_ns < span.end_ns);
            spans.for_each(|span| chart.draw_span(&mut svg, i, span));
        }
        svg.line(format_args!("</g>"));
        svg.line(format_args!(
            "<g stroke=\"#333\" stroke-width=\"0.7\" stroke-opacity=\"0.6\">"
        ));
        self.links
            .iter()
            .for_each(|link| chart.draw_link(&mut svg, link));
        svg.line(format_args!("</g>"));
        chart.draw_legend(&mut svg, height - LEGEND + 10.0);
        svg.finish()
    }
}

/// What a reader has to know of the marks that this chart has.
fn marks(gantt: &Gantt, has_limit: bool) -> Vec<&'static str> {
    let mut lanes = gantt.lanes.iter();
    let is_critical = |lane: &Lane| lane.spans.iter().any(|span| span.is_critical);
    let marks = [
        (
            gantt.lanes.iter().any(is_critical),
            "dark border: critical path",
        ),
        (!gantt.links.is_empty(), "line between rows: transfer"),
        (lanes.any(|lane| !lane.levels.is_empty()), "curve: memory"),
        (has_limit, "broken line: memory limit"),
    ];
    let drawn = marks.into_iter().filter(|mark| mark.0);
    drawn.map(|mark| mark.1).collect()
}

/// Places of times and levels, and the colours of kinds.
struct Chart<'g> {
    left: f64,
    end_ns: u64,
    highest: u64,
    /// Kinds with colours of their own, those with most time first.
    kinds: Vec<&'g str>,
    /// What the borders, lines and curves that are drawn mean.
    marks: Vec<&'static str>,
}

impl<'g> Chart<'g> {
    fn new(gantt: &'g Gantt) -> Chart<'g> {
        let lanes = || gantt.lanes.iter();
        let names = lanes().flat_map(|lane| [width(&lane.name), width(&lane.note)]);
        let names = names.chain(gantt.reference.iter().map(|(name, _)| width(name)));
        let ends = lanes().flat_map(|lane| lane.spans.iter().map(|span| span.end_ns));
        let ends = ends.chain(gantt.links.iter().map(|link| link.end_ns));
        let ends = ends.chain(gantt.reference.iter().map(|(_, length_ns)| *length_ns));
        let levels = lanes().flat_map(|lane| lane.levels.iter().map(|(_, value)| *value));
        let highest = levels.max().unwrap_or(0).max(1);
        let is_near = |limit: &u64| *limit as f64 <= MAX_HEADROOM * highest as f64;
        let limits = lanes().filter_map(|lane| lane.limit.filter(is_near));
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for span in lanes().flat_map(|lane| &lane.spans) {
            *times.entry(&span.kind).or_default() += span.end_ns - span.start_ns;
        }
        let mut kinds: Vec<&str> = times.keys().copied().collect();
        kinds.retain(|kind| !kind.is_empty() && times[kind] > 0);
        kinds.sort_by_key(|kind| std::cmp::Reverse(times[kind]));
        kinds.truncate(N_KINDS);
        Chart {
            left: 2.0 * MARGIN + names.fold(60.0, f64::max).min(WIDEST),
            end_ns: ends.max().unwrap_or(0).max(1),
            highest: limits.clone().max().unwrap_or(0).max(highest),
            kinds,
            marks: marks(gantt, limits.count() > 0),
        }
    }

    fn x(&self, time_ns: u64) -> f64 {
        self.left + WIDTH * (time_ns as f64 / self.end_ns as f64)
    }

    fn y(&self, lane: usize) -> f64 {
        HEAD + lane as f64 * (ROW + LEVEL + GAP)
    }

    fn draw_lane(&self, svg: &mut Svg, i: usize, lane: &Lane) {
        let y = self.y(i);
        svg.text([MARGIN, y + 22.0], "", &shortened(&lane.name, WIDEST));
        let note = shortened(&lane.note, WIDEST);
        svg.text([MARGIN, y + ROW + 24.0], "fill=\"#666\"", &note);
        svg.line(format_args!(
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{WIDTH}\" height=\"{ROW}\" fill=\"#f2f2f2\"/>",
            self.left
        ));
        let base = y + ROW + LEVEL;
        let scale = (LEVEL - 6.0) / self.highest as f64;
        if let Some(limit) = lane.limit.filter(|limit| *limit <= self.highest) {
            let y = base - limit as f64 * scale;
            let style = "class=\"limit\" stroke=\"#c0392b\" stroke-dasharray=\"6 4\"";
            svg.segment([self.left, y], [self.left + WIDTH, y], style);
        }
        let mut path = format!("M{:.1} {base:.1}", self.left);
        let mut last = base;
        for &(time_ns, value) in &lane.levels {
            let (x, y) = (
                self.x(time_ns.min(self.end_ns)),
                base - value as f64 * scale,
            );
            // Writing to a String cannot fail.
            let _ = write!(path, "L{x:.1} {last:.1}L{x:.1} {y:.1}");
            last = y;
        }
        let right = self.left + WIDTH;
        let _ = write!(path, "L{right:.1} {last:.1}L{right:.1} {base:.1}Z");
        svg.line(format_args!(
            "<path d=\"{path}\" fill=\"#cfe3f5\" stroke=\"#4a86c5\" stroke-width=\"0.6\"/>"
        ));
    }

    fn draw_span(&self, svg: &mut Svg, lane: usize, span: &Span) {
        let (x, y) = (self.x(span.start_ns), self.y(lane));
        let length = self.x(span.end_ns) - x;
        let (fill, tooltip) = (self.colour_of(&span.kind), tooltip(&span.tooltip));
        let border = match span.is_critical {
            true => " stroke=\"#000\" stroke-width=\"1.2\"",
            false => "",
        };
        svg.line(format_args!(
            "<rect class=\"op\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{length:.2}\" height=\"{ROW}\" \
             fill=\"{fill}\"{border}>{tooltip}</rect>"
        ));
        if length > LABELLED {
            let style = "stroke=\"none\" fill=\"#fff\" pointer-events=\"none\"";
            let name = ending(&span.name, length - 6.0);
            svg.text([x + 3.0, y + 22.0], style, &name);
        }
    }

    fn draw_link(&self, svg: &mut Svg, link: &Link) {
        let (x1, x2) = (self.x(link.start_ns), self.x(link.end_ns));
        let [y1, y2] = [link.from, link.to].map(|lane| self.y(lane) + ROW / 2.0);
        let tooltip = tooltip(&link.tooltip);
        let weight = match link.is_critical {
            true => " stroke=\"#000\" stroke-width=\"1.8\" stroke-opacity=\"1\"",
            false => "",
        };
        svg.line(format_args!(
            "<line x1=\"{x1:.2}\" y1=\"{y1:.1}\" x2=\"{x2:.2}\" y2=\"{y2:.1}\"{weight}>{tooltip}</line>"
        ));
    }

    fn colour_of(&self, kind: &str) -> &'static str {
        let place = self.kinds.iter().position(|of| *of == kind);
        match place {
            Some(place) => colour(place),
            // Without kinds there is one colour, and nothing to tell apart.
            None if self.kinds.is_empty() => colour(0),
            None => GREY,
        }
    }

    /// The kinds with most time, then what the borders and lines mean.
    fn draw_legend(&self, svg: &mut Svg, y: f64) {
        let mut x = self.left;
        for kind in &self.kinds {
            let (fill, name) = (self.colour_of(kind), shortened(kind, 120.0));
            let top = y - 9.0;
            svg.line(format_args!(
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"10\" height=\"10\" fill=\"{fill}\"/>"
            ));
            svg.text([x + 14.0, y], "", &name);
            x += 30.0 + width(&name);
        }
        if !self.marks.is_empty() {
            let marks = self.marks.join("; ");
            svg.text([x + 10.0, y], "fill=\"#666\"", &marks);
        }
    }

    fn draw_reference(&self, svg: &mut Svg, lane: usize, name: &str, length_ns: u64) {
        let y = self.y(lane);
        svg.text([MARGIN, y + 11.0], "", &shortened(name, WIDEST));
        let length = self.x(length_ns) - self.left;
        svg.line(format_args!(
            "<rect class=\"reference\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR}\" fill=\"{GREY}\"/>",
            self.left
        ));
    }

    /// Ticks at round times, with lines through all lanes.
    fn draw_axis(&self, svg: &mut Svg, bottom: f64) {
        let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
        let end = self.end_ns as f64;
        let fits = |unit: &(f64, &str)| end >= unit.0;
        let (unit_ns, name) = units.into_iter().find(fits).unwrap_or((1.0, "ns"));
        let span = Axis::linear("")
            .from_zero()
            .span([end / unit_ns].into_iter());
        for (value, label) in span.ticks {
            let time_ns = value * unit_ns;
            if time_ns > end * (1.0 + 1e-9) {
                continue;
            }
            let x = self.left + WIDTH * time_ns / end;
            svg.segment([x, HEAD], [x, bottom], "stroke=\"#e3e3e3\"");
            let text = format!("{} {name}", escaped(&label));
            let style = "text-anchor=\"middle\" fill=\"#666\"";
            svg.text([x, bottom + 14.0], style, &text);
        }
    }
}
