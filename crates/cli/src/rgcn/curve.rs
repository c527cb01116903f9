//! A learning curve as SVG: loss and training accuracy of each epoch, a thin line a seed.

use std::fmt::Write as _;

use shardgraph_rgcn::{EpochReport, Outcome};

const WIDTH: f64 = 640.0;
const PANEL: f64 = 220.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 30.0;
const GAP: f64 = 50.0;

/// One of the two panels: what it shows, and where.
struct Panel<'a> {
    title: &'a str,
    top: f64,
    largest: f64,
    n_epochs: f64,
}

impl Panel<'_> {
    fn x(&self, epoch: f64) -> f64 {
        LEFT + (WIDTH - LEFT - 20.0) * epoch / self.n_epochs
    }

    fn y(&self, value: f64) -> f64 {
        self.top + PANEL * (1.0 - value / self.largest)
    }

    /// The frame with its title and the ends of both axes.
    fn frame(&self, svg: &mut String) {
        let (left, right) = (self.x(0.0), self.x(self.n_epochs));
        let (top, bottom) = (self.top, self.top + PANEL);
        let labels = [
            (left, top - 8.0, "start", self.title.to_owned()),
            (left - 6.0, top + 4.0, "end", format!("{:.3}", self.largest)),
            (left - 6.0, bottom, "end", "0".to_owned()),
            (left, bottom + 16.0, "middle", "0".to_owned()),
            (right, bottom + 16.0, "middle", self.n_epochs.to_string()),
        ];
        let _ = writeln!(
            svg,
            r##"<path d="M{left:.1} {top:.1}V{bottom:.1}H{right:.1}" fill="none" stroke="#444"/>"##
        );
        for (x, y, anchor, text) in labels {
            let _ = writeln!(
                svg,
                r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
            );
        }
    }

    fn line(
        &self,
        svg: &mut String,
        colour: &str,
        reports: &[EpochReport],
        of: fn(&EpochReport) -> f64,
    ) {
        let point = |report: &EpochReport| {
            format!(
                "{:.2},{:.2}",
                self.x(report.step as f64),
                self.y(of(report))
            )
        };
        let points: Vec<String> = reports.iter().map(point).collect();
        let _ = writeln!(
            svg,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-opacity="0.6"/>"#,
            points.join(" ")
        );
    }
}

/// The picture of all seeds; empty panels where no epoch ran.
pub(super) fn svg(outcomes: &[Outcome]) -> String {
    let reports = || outcomes.iter().flat_map(|outcome| &outcome.reports);
    let n_epochs = reports().map(|report| report.step).max().unwrap_or(1) as f64;
    let largest = reports().map(|report| report.loss).fold(0.0, f64::max);
    let loss = Panel {
        title: "loss (mean cross entropy of the training nodes)",
        top: TOP,
        largest: if largest > 0.0 { largest } else { 1.0 },
        n_epochs,
    };
    let accuracy = Panel {
        title: "training accuracy",
        top: TOP + PANEL + GAP,
        largest: 1.0,
        n_epochs,
    };
    let height = TOP + 2.0 * PANEL + 1.5 * GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n"
    );
    loss.frame(&mut svg);
    accuracy.frame(&mut svg);
    for outcome in outcomes {
        loss.line(&mut svg, "#c0392b", &outcome.reports, |report| report.loss);
        accuracy.line(&mut svg, "#2471a3", &outcome.reports, |report| {
            report.train_accuracy
        });
    }
    svg.push_str("</svg>\n");
    svg
}
