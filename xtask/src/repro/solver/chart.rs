//! A figure's rows as CSV and as a line chart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Row;
use crate::statistics::shown;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 370.0;
const COLOURS: [&str; 8] = [
    "#2471a3", "#c0392b", "#1e8449", "#b9770e", "#76448a", "#117a65", "#a04000", "#566573",
];

/// What stands around the lines.
pub(super) struct Axes<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// Both axes by powers.
    pub(super) is_log: bool,
}

/// One line a row; commas within a name become semicolons.
pub(super) fn csv(rows: &[Row]) -> String {
    let mut text = String::from("series,x,paper,ours,pytorch,note\n");
    for row in rows {
        let cell = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let plain = |text: &str| text.replace(',', ";");
        let _ = writeln!(
            text,
            "{},{},{},{},{},{}",
            plain(&row.series),
            row.x,
            cell(row.paper),
            cell(row.ours),
            cell(row.peer),
            plain(&row.note)
        );
    }
    text
}

/// A line of points.
struct Line {
    name: String,
    /// Solid for ours, dashed for the paper, dotted for PyTorch.
    dashes: &'static str,
    colour: &'static str,
    points: Vec<(f64, f64)>,
}

/// Lines of ours, of the paper and of PyTorch; a series keeps its colour.
pub(super) fn svg(axes: &Axes<'_>, rows: &[Row]) -> String {
    let lines = lines(rows);
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (xs, ys) = (
        Scale::of(all().map(|p| p.0), axes.is_log),
        Scale::of(all().map(|p| p.1), axes.is_log),
    );
    let height = f64::max(BOTTOM + 50.0, TOP + 18.0 * lines.len() as f64 + 20.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n"
    );
    frame(&mut svg, axes, (&xs, &ys));
    for (i, line) in lines.iter().enumerate() {
        let place = |&(x, y): &(f64, f64)| {
            (
                LEFT + (RIGHT - LEFT) * xs.share(x),
                BOTTOM - (BOTTOM - TOP) * ys.share(y),
            )
        };
        let points: Vec<(f64, f64)> = line.points.iter().map(place).collect();
        line.draw(&mut svg, &points, TOP + 18.0 * i as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The title, the axes, and the ends of both.
fn frame(svg: &mut String, axes: &Axes<'_>, (xs, ys): (&Scale, &Scale)) {
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{}</text>",
        escaped(axes.title)
    );
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"#444\"/>"
    );
    let ends = [
        (LEFT, BOTTOM + 16.0, "start", shown(xs.low)),
        (RIGHT, BOTTOM + 16.0, "end", shown(xs.high)),
        (LEFT - 6.0, BOTTOM, "end", shown(ys.low)),
        (LEFT - 6.0, TOP + 4.0, "end", shown(ys.high)),
        (
            (LEFT + RIGHT) / 2.0,
            BOTTOM + 34.0,
            "middle",
            axes.x.to_owned(),
        ),
        (LEFT, TOP - 8.0, "start", axes.y.to_owned()),
    ];
    for (x, y, anchor, text) in ends {
        let text = escaped(&text);
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }
}

fn lines(rows: &[Row]) -> Vec<Line> {
    let mut order: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let n_known = order.len();
        let at = *order.entry(&row.series).or_insert(n_known);
        for (who, dashes, value) in [
            ("ours", "", row.own()),
            ("paper", "6 4", row.paper),
            ("PyTorch", "2 3", row.peer),
        ] {
            let Some(y) = value.filter(|y| y.is_finite()) else {
                continue;
            };
            let name = format!("{who}: {}", row.series);
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((row.x, y)),
                None => lines.push(Line {
                    name,
                    dashes,
                    colour: COLOURS[at % COLOURS.len()],
                    points: vec![(row.x, y)],
                }),
            }
        }
    }
    lines
}

impl Line {
    fn draw(&self, svg: &mut String, points: &[(f64, f64)], legend_y: f64) {
        let Line {
            name,
            dashes,
            colour,
            ..
        } = self;
        let words: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let words = words.join(" ");
        let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"");
        let _ = writeln!(svg, "<polyline points=\"{words}\" {stroke}/>");
        for (x, y) in points {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>"
            );
        }
        let (from, to, text) = (RIGHT + 16.0, RIGHT + 40.0, RIGHT + 46.0);
        let _ = writeln!(svg, "<path d=\"M{from} {legend_y}H{to}\" {stroke}/>");
        let _ = writeln!(
            svg,
            "<text x=\"{text}\" y=\"{:.1}\" font-size=\"10\">{}</text>",
            legend_y + 4.0,
            escaped(name)
        );
    }
}

/// The span of an axis.
struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64> + Clone, is_log: bool) -> Scale {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        Scale {
            low,
            high,
            is_log: is_log && low > 0.0,
        }
    }

    /// 0 at the low end, 1 at the high one; in the middle where all values are one.
    fn share(&self, value: f64) -> f64 {
        let place = |value: f64| if self.is_log { value.ln() } else { value };
        let span = place(self.high) - place(self.low);
        match span > 0.0 {
            true => (place(value) - place(self.low)) / span,
            false => 0.5,
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(series: &str, x: f64, paper: Option<f64>, ours: Option<f64>) -> Row {
        Row {
            series: series.to_owned(),
            x,
            paper,
            ours,
            ..Row::default()
        }
    }

    #[test]
    fn each_line_has_its_points_and_missing_ones_none() {
        let rows = [
            row("a, b", 1.0, Some(12.0), Some(1.0)),
            row("a, b", 2.0, None, Some(100.0)),
            row("c", 2.0, None, None),
        ];
        let axes = Axes {
            title: "t < u",
            x: "ranks",
            y: "seconds",
            is_log: true,
        };
        let picture = svg(&axes, &rows);
        assert_eq!(picture.matches("<polyline").count(), 2);
        assert_eq!(picture.matches("<circle").count(), 3);
        assert!(picture.contains("t &lt; u") && !picture.contains("NaN"));
        // By powers 12 lies above the middle of 1 to 100, and the last point at the top right.
        assert!(
            picture.contains(&format!("{RIGHT:.1},{TOP:.1}")),
            "{picture}"
        );
        let text = csv(&rows);
        assert_eq!(text.lines().nth(1), Some("a; b,1,12,1,,"));
        assert_eq!(text.lines().nth(3), Some("c,2,,,,"));
    }

    #[test]
    fn an_empty_figure_and_one_point_are_drawn() {
        let axes = Axes {
            title: "",
            x: "",
            y: "",
            is_log: false,
        };
        for rows in [vec![], vec![row("a", 1.0, None, Some(0.0))]] {
            let picture = svg(&axes, &rows);
            assert!(
                picture.ends_with("</svg>\n")
                    && !picture.contains("NaN")
                    && !picture.contains("inf")
            );
        }
    }
}
