//! A figure's rows as a picture: ours solid, the paper dashed, a peer dotted, a colour for each series.

use shardgraph_plot::{Axis, Panel, Point, Series};

use crate::figure::Figure;
use crate::row::Row;

/// Draws the rows that have an x.
pub fn drawn(figure: &Figure, rows: &[Row]) -> shardgraph_plot::Figure {
    let numbers = |row: &Row| [row.x, row.own(), row.paper, row.peer];
    let all = rows.iter().filter(|row| row.x.is_some()).flat_map(numbers);
    let is_log = figure.log && all.flatten().all(|number| number > 0.0);
    let axis = |label: &str| match is_log {
        true => Axis::log(label),
        false => Axis::linear(label),
    };
    let y = with_unit(&figure.y, &figure.unit);
    let mut panel = Panel::new(axis(&figure.x), axis(&y));
    for (idx, name) in names(rows).into_iter().enumerate() {
        let of = |number: fn(&Row) -> Option<f64>| points(rows, name, number);
        let (ours, paper, peer) = (of(Row::own), of(|row| row.paper), of(|row| row.peer));
        if !ours.is_empty() {
            panel = panel.with(Series::line(name, ours).coloured(idx));
        }
        if !paper.is_empty() {
            let name = format!("paper: {name}");
            panel = panel.with(Series::line(name, paper).coloured(idx).dashed());
        }
        if !peer.is_empty() {
            let name = format!("peer: {name}");
            panel = panel.with(Series::line(name, peer).coloured(idx).dotted());
        }
    }
    let description = format!("{} by {}.", figure.y, figure.x);
    shardgraph_plot::Figure::new(&figure.title, description).panel(panel)
}

/// The picture as SVG.
pub fn svg(figure: &Figure, rows: &[Row]) -> String {
    drawn(figure, rows).svg()
}

/// `seconds [s]`; without a unit the name alone.
pub(crate) fn with_unit(name: &str, unit: &str) -> String {
    match unit {
        "" | "1" => name.to_owned(),
        unit => format!("{name} [{unit}]"),
    }
}

/// Series in the order in which they come.
fn names(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.series.as_str()) {
            names.push(&row.series);
        }
    }
    names
}

fn points(rows: &[Row], name: &str, number: fn(&Row) -> Option<f64>) -> Vec<Point> {
    let own = rows.iter().filter(|row| row.series == name);
    let finite = |y: &f64| y.is_finite();
    let points = own.filter_map(|row| Some((row.x?, number(row).filter(finite)?)));
    points.map(Point::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Measured;

    #[test]
    fn lines_have_their_points_and_missing_ones_none() {
        let text =
            "title = 't < u'\nwhy = 'w'\nx = 'ranks'\ny = 'seconds'\nlog = true\nseries = []";
        let figure: Figure = toml::from_str(text).unwrap();
        let row = |series: &str, x: f64, paper: Option<f64>, ours: Option<f64>| Row {
            series: series.to_owned(),
            x: Some(x),
            paper,
            values: ours
                .map(|y| Measured::new("seconds", vec![y]))
                .into_iter()
                .collect(),
            ..Row::default()
        };
        let rows = [
            row("a", 1.0, Some(12.0), Some(1.0)),
            row("a", 2.0, None, Some(100.0)),
            row("c", 2.0, None, None),
        ];
        let picture = svg(&figure, &rows);
        assert!(picture.contains("t &lt; u") && picture.contains("paper: a"));
        assert!(!picture.contains("NaN") && !picture.contains("peer"));
        assert_eq!(points(&rows, "a", Row::own).len(), 2);
        assert!(svg(&figure, &[]).ends_with("</svg>\n"));
        // A zero has no place on a logarithmic axis.
        assert!(!svg(&figure, &[row("a", 0.0, None, Some(1.0))]).contains("inf"));
    }
}
