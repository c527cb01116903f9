//! Figures of panels: frame, grid, legend, and the marks of all series.

use crate::axis::{Axis, Span};
use crate::series::{BAR_WIDTH, Colour, Marks, Point, Series};
use crate::svg::{GREY, N_COLOURS, Svg, colour, escaped, shortened, tooltip, width};

const MARGIN: f64 = 16.0;
const HEAD: f64 = 40.0;
/// Height of a line of text.
const LINE: f64 = 18.0;
/// The widest text of an axis or a legend.
const WIDEST: f64 = 300.0;

/// A title over one or more panels.
///
/// The crate's root has an example.
#[derive(Clone, Debug)]
pub struct Figure {
    title: String,
    description: String,
    panels: Vec<Panel>,
}

/// One frame with two axes and the series in it.
#[derive(Clone, Debug)]
pub struct Panel {
    title: String,
    x: Axis,
    y: Axis,
    size: [f64; 2],
    has_equal_units: bool,
    series: Vec<Series>,
}

impl Figure {
    /// A figure without panels; the description is read out by screen readers.
    #[must_use]
    pub fn new(title: impl Into<String>, description: impl Into<String>) -> Figure {
        Figure {
            title: title.into(),
            description: description.into(),
            panels: Vec::new(),
        }
    }

    /// The figure with one more panel, below the others.
    #[must_use]
    pub fn panel(mut self, panel: Panel) -> Figure {
        self.panels.push(panel);
        self
    }

    /// The figure as an SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        let mut top = HEAD;
        let mut layouts = Vec::new();
        for panel in &self.panels {
            let layout = Layout::new(panel, top);
            top = layout.end;
            layouts.push(layout);
        }
        let right = layouts.iter().map(|layout| layout.right);
        let right = right.fold(MARGIN + width(&self.title) * 1.2, f64::max);
        let mut svg = Svg::new([right + MARGIN, top], &self.title, &self.description);
        svg.text([MARGIN, 24.0], "font-size=\"14\"", &self.title);
        for layout in &layouts {
            layout.draw(&mut svg);
        }
        svg.finish()
    }
}

impl Panel {
    /// An empty panel of 560 x 320 pixels.
    #[must_use]
    pub fn new(x: Axis, y: Axis) -> Panel {
        Panel {
            title: String::new(),
            x,
            y,
            size: [560.0, 320.0],
            has_equal_units: false,
            series: Vec::new(),
        }
    }

    /// The panel with a title of its own.
    #[must_use]
    pub fn titled(self, title: impl Into<String>) -> Panel {
        Panel {
            title: title.into(),
            ..self
        }
    }

    /// The panel with a frame of other sides, in pixels.
    #[must_use]
    pub fn sized(self, width: f64, height: f64) -> Panel {
        Panel {
            size: [width, height],
            ..self
        }
    }

    /// One unit is as long on both axes, so that angles stay. For linear axes.
    #[must_use]
    pub fn with_equal_units(self) -> Panel {
        Panel {
            has_equal_units: true,
            ..self
        }
    }

    /// The panel with one more series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Panel {
        self.series.push(series);
        self
    }

    /// Texts behind horizontal bars, which may reach over the frame.
    fn bar_texts(&self) -> impl Iterator<Item = &str> {
        let bars = self.series.iter().map(|series| match &series.marks {
            Marks::Bars(bars) if self.y.is_named() => bars.as_slice(),
            _ => &[],
        });
        bars.flatten().map(|bar| bar.text.as_str())
    }

    /// Spans of both axes over all series.
    fn spans(&self) -> [Span; 2] {
        let values = |series: &Series| series.values(self.y.is_named());
        let all: Vec<[f64; 2]> = self.series.iter().flat_map(values).collect();
        let mut x = self.x.span(all.iter().map(|value| value[0]));
        let mut y = self.y.span(all.iter().map(|value| value[1]));
        if self.has_equal_units && !x.is_log && !y.is_log {
            let length = |span: &Span| span.ends[1] - span.ends[0];
            let unit = f64::max(length(&x) / self.size[0], length(&y) / self.size[1]);
            for (span, pixels) in [(&mut x, self.size[0]), (&mut y, self.size[1])] {
                let more = (unit * pixels - length(span)) / 2.0;
                span.ends = [span.ends[0] - more, span.ends[1] + more];
            }
        }
        [x, y]
    }

    /// The colour of each series: series of one name share theirs.
    fn colours(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = Vec::new();
        let mut colours = Vec::new();
        for series in &self.series {
            colours.push(match series.colour {
                Colour::Grey => GREY,
                Colour::Palette(idx) => colour(idx % N_COLOURS),
                Colour::Next => {
                    let known = names.iter().position(|name| *name == series.name);
                    let idx = known.unwrap_or(names.len());
                    if known.is_none() {
                        names.push(&series.name);
                    }
                    colour(idx)
                }
            });
        }
        colours
    }
}

/// A panel with its places in the figure.
struct Layout<'p> {
    panel: &'p Panel,
    x: Span,
    y: Span,
    colours: Vec<&'static str>,
    /// Upper left corner of the frame.
    corner: [f64; 2],
    /// Right end of the legend.
    right: f64,
    /// Lower end of everything.
    end: f64,
}

impl<'p> Layout<'p> {
    fn new(panel: &'p Panel, top: f64) -> Layout<'p> {
        let [x, y] = panel.spans();
        let labels = y.ticks.iter().map(|(_, label)| width(label).min(WIDEST));
        let labels = match panel.y.has_ticks {
            true => labels.fold(0.0, f64::max),
            false => 0.0,
        };
        let heads =
            [&panel.title, &panel.y.label].map(|text| f64::from(u8::from(!text.is_empty())));
        let corner = [
            MARGIN + labels + 8.0,
            top + LINE * heads.iter().sum::<f64>(),
        ];
        let frame = corner[0] + panel.size[0];
        let last = x.ticks.last().filter(|_| panel.x.has_ticks);
        // Half of the last label stands behind the frame; some fonts are wider than `width` has it.
        let behind = last.map_or(0.0, |(_, label)| 0.6 * width(label) - MARGIN);
        let mut layout = Layout {
            colours: panel.colours(),
            panel,
            x,
            y,
            corner,
            right: frame + behind.max(0.0),
            end: 0.0,
        };
        let legend: Vec<f64> = layout
            .legend()
            .map(|(i, _)| layout.legend_width(i))
            .collect();
        layout.right += legend.iter().copied().fold(0.0, f64::max);
        layout.right = panel.bar_texts().fold(layout.right, |right, text| {
            f64::max(right, frame + 6.0 + width(text))
        });
        let bottom = f64::max(panel.size[1], LINE * legend.len() as f64);
        layout.end = corner[1] + bottom + 2.5 * LINE + MARGIN;
        layout
    }

    /// Number and name of the first series of each name.
    fn legend(&self) -> impl Iterator<Item = (usize, &str)> {
        let series = &self.panel.series;
        let names = series.iter().map(|series| series.name.as_str());
        let is_first = |&(i, name): &(usize, &str)| series[..i].iter().all(|s| s.name != name);
        names
            .enumerate()
            .filter(|(_, name)| !name.is_empty())
            .filter(is_first)
    }

    fn legend_width(&self, series: usize) -> f64 {
        52.0 + width(&self.panel.series[series].name).min(WIDEST)
    }

    /// Where a point is, if both axes can show it.
    fn place(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        let [width, height] = self.panel.size;
        let down = match self.panel.y.is_named() {
            true => self.y.share(y)?,
            false => 1.0 - self.y.share(y)?,
        };
        let across = self.x.share(x)?;
        Some([
            self.corner[0] + width * across,
            self.corner[1] + height * down,
        ])
    }

    /// As [`Layout::place`], with what lies outside moved to the border.
    fn clamped(&self, x: f64, y: f64) -> [f64; 2] {
        let [width, height] = self.panel.size;
        let y = self.y.clamped(y);
        let down = if self.panel.y.is_named() { y } else { 1.0 - y };
        [
            self.corner[0] + width * self.x.clamped(x),
            self.corner[1] + height * down,
        ]
    }

    fn draw(&self, svg: &mut Svg) {
        self.draw_frame(svg);
        for (series, colour) in self.panel.series.iter().zip(&self.colours) {
            self.draw_series(svg, series, colour);
        }
        self.draw_legend(svg);
    }

    fn draw_frame(&self, svg: &mut Svg) {
        let [left, top] = self.corner;
        let [width, height] = self.panel.size;
        let (right, bottom) = (left + width, top + height);
        let (panel, grid) = (self.panel, "stroke=\"#e3e3e3\"");
        if panel.x.has_ticks {
            for (value, label) in &self.x.ticks {
                let [x, _] = self.clamped(*value, self.y.ends[0]);
                svg.segment([x, top], [x, bottom], grid);
                let at = [x, bottom + 16.0];
                svg.text(at, "text-anchor=\"middle\"", &shortened(label, WIDEST));
            }
        }
        if panel.y.has_ticks {
            for (value, label) in &self.y.ticks {
                let [_, y] = self.clamped(self.x.ends[0], *value);
                svg.segment([left, y], [right, y], grid);
                let at = [left - 6.0, y + 4.0];
                svg.text(at, "text-anchor=\"end\"", &shortened(label, WIDEST));
            }
        }
        svg.line(format_args!(
            "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#444\"/>"
        ));
        let middle = [left + width / 2.0, bottom + 34.0];
        svg.text(middle, "text-anchor=\"middle\"", &marked(&panel.x, &self.x));
        let mut y = top - 8.0;
        for (text, style) in [
            (marked(&panel.y, &self.y), "fill=\"#444\""),
            (panel.title.clone(), "font-weight=\"bold\""),
        ] {
            if !text.is_empty() {
                svg.text([left, y], style, &text);
                y -= LINE;
            }
        }
    }

    fn draw_series(&self, svg: &mut Svg, series: &Series, colour: &str) {
        let opacity = series.opacity;
        match &series.marks {
            Marks::Line { points, has_dots } => {
                self.draw_line(svg, series, colour);
                let dots = points.iter().filter(|_| *has_dots);
                dots.for_each(|point| self.draw_point(svg, point, colour, 1.0));
            }
            Marks::Points(points) => {
                let points = points.iter();
                points.for_each(|point| self.draw_point(svg, point, colour, opacity));
                if series.has_labels {
                    self.draw_labels(svg, series);
                }
            }
            Marks::Bars(bars) => {
                bars.iter().for_each(|bar| self.draw_bar(svg, bar, colour));
            }
        }
    }

    fn draw_line(&self, svg: &mut Svg, series: &Series, colour: &str) {
        let Marks::Line { points, .. } = &series.marks else {
            return;
        };
        let places = points
            .iter()
            .filter_map(|point| self.place(point.x, point.y));
        let places: Vec<String> = places.map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let (places, opacity) = (places.join(" "), series.opacity);
        let dashes = match series.dashes {
            "" => String::new(),
            dashes => format!(" stroke-dasharray=\"{dashes}\""),
        };
        svg.line(format_args!(
            "<polyline points=\"{places}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" \
             stroke-opacity=\"{opacity}\"{dashes}/>"
        ));
    }

    fn draw_point(&self, svg: &mut Svg, point: &Point, colour: &str, opacity: f64) {
        let Some([x, y]) = self.place(point.x, point.y) else {
            return;
        };
        let tooltip = tooltip(&point.text);
        svg.line(format_args!(
            "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"2.5\" fill=\"{colour}\" \
             fill-opacity=\"{opacity}\">{tooltip}</circle>"
        ));
    }

    fn draw_labels(&self, svg: &mut Svg, series: &Series) {
        let Marks::Points(points) = &series.marks else {
            return;
        };
        for point in points {
            if let Some(dot) = self.place(point.x, point.y) {
                svg.label(dot, self.corner[0] + self.panel.size[0], &point.text);
            }
        }
    }

    fn draw_bar(&self, svg: &mut Svg, bar: &Point, colour: &str) {
        let half = BAR_WIDTH / 2.0;
        let is_horizontal = self.panel.y.is_named();
        let (from, to) = match is_horizontal {
            true => ([0.0, bar.y - half], [bar.x, bar.y + half]),
            false => ([bar.x - half, 0.0], [bar.x + half, bar.y]),
        };
        if !bar.x.is_finite() || !bar.y.is_finite() {
            return;
        }
        let (a, b) = (self.clamped(from[0], from[1]), self.clamped(to[0], to[1]));
        let [x, y] = [0, 1].map(|axis| f64::min(a[axis], b[axis]));
        let [w, h] = [0, 1].map(|axis| (a[axis] - b[axis]).abs());
        svg.line(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" fill=\"{colour}\"/>"
        ));
        let (at, style) = match is_horizontal {
            true => ([x + w + 6.0, y + h / 2.0 + 4.0], "text-anchor=\"start\""),
            false => ([x + w / 2.0, y - 4.0], "text-anchor=\"middle\""),
        };
        if !bar.text.is_empty() {
            svg.text(at, style, &bar.text);
        }
    }

    fn draw_legend(&self, svg: &mut Svg) {
        let left = self.corner[0] + self.panel.size[0] + 14.0;
        for (row, (i, name)) in (0u32..).zip(self.legend()) {
            let (series, colour) = (&self.panel.series[i], self.colours[i]);
            let y = self.corner[1] + LINE * (f64::from(row) + 0.5);
            match &series.marks {
                Marks::Line { .. } => {
                    let dashes = series.dashes;
                    let style = format!(
                        "stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\""
                    );
                    svg.segment([left, y], [left + 24.0, y], &style);
                }
                Marks::Points(_) => svg.line(format_args!(
                    "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>",
                    left + 18.0
                )),
                Marks::Bars(_) => svg.line(format_args!(
                    "<path d=\"M{:.1} {:.1}h10v10h-10Z\" fill=\"{colour}\"/>",
                    left + 13.0,
                    y - 5.0
                )),
            }
            let (x, y, short) = (left + 30.0, y + 4.0, escaped(&shortened(name, WIDEST)));
            let full = match width(name) > WIDEST {
                true => tooltip(name),
                false => String::new(),
            };
            svg.line(format_args!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\">{short}{full}</text>"
            ));
        }
    }
}

/// The label of an axis, which says where the axis is logarithmic.
fn marked(axis: &Axis, span: &Span) -> String {
    match span.is_log {
        true => format!("{} (log)", axis.label).trim_start().to_owned(),
        false => axis.label.clone(),
    }
}
