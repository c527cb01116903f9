//! A picture of an embedding: rows along their two principal axes, as SVG or PNG.

mod canvas;
mod png;

use std::io::{self, Write};

use shardgraph_graph::random::Stream;

use super::Classes;
use crate::Embedding;

pub use png::write_png;

const MAX_STEPS: usize = 500;
/// How far an axis may still turn (the sine of the angle) for the next step to be left out.
const TOLERANCE: f64 = 1e-7;

/// Nodes on the plane of the two principal axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// The nodes, ascending.
    pub nodes: Vec<u32>,
    /// Their places along the first axis and the second; the mean of all is (0, 0).
    pub points: Vec<[f64; 2]>,
    /// The axes' shares of the variance, between 0 and 1.
    pub shares: [f64; 2],
}

/// Principal component analysis of at most `n_points` rows, which are drawn at random where there are more.
///
/// ```
/// use shardgraph_line::nodes::plane;
/// use shardgraph_line::{Embedding, NodeLabels};
///
/// let rows = vec![1.0, 2.0, 0.0, 2.0, 4.0, 0.0, 3.0, 6.0, 0.0]; // on one line
/// let plane = plane(&Embedding::new(3, rows, NodeLabels::numbers(3))?, 100, 1);
/// assert!((plane.shares[0] - 1.0).abs() < 1e-9 && plane.points[1][0].abs() < 1e-9);
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Complexity
/// O(n dim) for each of at most 500 steps.
///
/// # Determinism
/// The largest part of an axis is positive, so that it has one direction.
///
/// # Source
/// Orthogonal iteration (Golub and Van Loan, "Matrix Computations", 7.3.2).
#[must_use]
pub fn plane(embedding: &Embedding, n_points: usize, seed: u64) -> Plane {
    let n_nodes = embedding.n_nodes() as u64;
    let mut stream = Stream::new(seed, "line picture", 0);
    let nodes: Vec<u32> = match n_nodes <= n_points as u64 {
        true => (0..n_nodes as u32).collect(),
        false => {
            let mut drawn = stream.sample_without_replacement(n_nodes, n_points);
            drawn.sort_unstable();
            drawn.into_iter().map(|node| node as u32).collect()
        }
    };
    let rows = centered(embedding, &nodes);
    let total: f64 = rows.iter().flatten().map(|x| x * x).sum();
    let axes = principal_axes(&rows, embedding.dim(), &mut stream);
    let places = |row: &Vec<f64>| axes.each_ref().map(|axis| dot(row, axis));
    let points: Vec<[f64; 2]> = rows.iter().map(places).collect();
    let share = |axis: usize| {
        let along: f64 = points.iter().map(|point| point[axis].powi(2)).sum();
        if total > 0.0 { along / total } else { 0.0 }
    };
    Plane {
        shares: [share(0), share(1)],
        nodes,
        points,
    }
}

fn centered(embedding: &Embedding, nodes: &[u32]) -> Vec<Vec<f64>> {
    let row = |&node: &u32| embedding.row(node).iter().map(|&x| f64::from(x)).collect();
    let mut rows: Vec<Vec<f64>> = nodes.iter().map(row).collect();
    let n = rows.len().max(1) as f64;
    let mut mean = vec![0.0; embedding.dim()];
    for row in &rows {
        mean.iter_mut()
            .zip(row)
            .for_each(|(mean, x)| *mean += x / n);
    }
    for row in &mut rows {
        row.iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean);
    }
    rows
}

/// Two orthogonal directions of the most variance; zeros where there is no more variance.
fn principal_axes(rows: &[Vec<f64>], dim: usize, stream: &mut Stream) -> [Vec<f64>; 2] {
    let mut axes = [0, 1].map(|_| (0..dim).map(|_| stream.normal()).collect::<Vec<f64>>());
    orthonormalise(&mut axes);
    for _ in 0..MAX_STEPS {
        let mut next = [vec![0.0; dim], vec![0.0; dim]];
        for row in rows {
            for (next, axis) in next.iter_mut().zip(&axes) {
                let along = dot(row, axis);
                next.iter_mut()
                    .zip(row)
                    .for_each(|(to, x)| *to += along * x);
            }
        }
        orthonormalise(&mut next);
        let turned = |(a, b): (&Vec<f64>, &Vec<f64>)| 1.0 - dot(a, b).powi(2).min(1.0);
        let farthest = axes.iter().zip(&next).map(turned).fold(0.0, f64::max);
        axes = next;
        if farthest < TOLERANCE * TOLERANCE {
            break;
        }
    }
    axes.map(|axis| {
        let largest = axis
            .iter()
            .copied()
            .max_by(|a, b| a.abs().total_cmp(&b.abs()));
        let sign = if largest.unwrap_or(0.0) < 0.0 {
            -1.0
        } else {
            1.0
        };
        axis.into_iter().map(|x| sign * x).collect()
    })
}

/// Gram and Schmidt's way; what is nothing beside the others becomes zeros.
fn orthonormalise(axes: &mut [Vec<f64>; 2]) {
    let [first, second] = axes;
    let before = dot(second, second).sqrt();
    normalise(first, 0.0);
    // Twice is enough (Kahan and Parlett).
    for _ in 0..2 {
        let along = dot(first, second);
        second
            .iter_mut()
            .zip(first.iter())
            .for_each(|(x, f)| *x -= along * f);
    }
    normalise(second, 1e-12 * before);
}

fn normalise(axis: &mut [f64], least: f64) {
    let norm = dot(axis, axis).sqrt();
    let factor = if norm > least { norm.recip() } else { 0.0 };
    axis.iter_mut().for_each(|x| *x *= factor);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Okabe and Ito's colours, which the colour-blind tell apart, and grey for the ninth class and those behind it.
const COLORS: [&str; 9] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000",
    "#999999",
];
const SIZE: f64 = 800.0;
const MARGIN: f64 = 40.0;

/// Writes the plane as an SVG picture; nodes are coloured by their first class, those without one are light grey.
///
/// # Errors
/// Those of `out`.
pub fn write_svg(
    plane: &Plane,
    embedding: &Embedding,
    classes: Option<&Classes>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {SIZE} {SIZE}\" font-family=\"sans-serif\" font-size=\"12\">"
    )?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>")?;
    writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"24\">{}</text>",
        caption(plane)
    )?;
    let scale = Scale::of(&plane.points);
    for (&node, point) in plane.nodes.iter().zip(&plane.points) {
        let [x, y] = scale.place(point);
        let (color, label) = (
            color_of(node, classes),
            escaped(embedding.labels().get(node as usize)),
        );
        writeln!(
            out,
            "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"2.5\" fill=\"{color}\" fill-opacity=\"0.7\"><title>{label}</title></circle>"
        )?;
    }
    svg_legend(classes, out)?;
    writeln!(out, "</svg>")
}

fn caption(plane: &Plane) -> String {
    let [first, second] = plane.shares.map(|share| 100.0 * share);
    format!(
        "{} nodes along two principal axes: {first:.1} % and {second:.1} % of the variance",
        plane.nodes.len()
    )
}

/// That of the node's first class; light grey without one, and all alike where there are no classes.
fn color_of(node: u32, classes: Option<&Classes>) -> &'static str {
    let Some(classes) = classes else {
        return COLORS[0];
    };
    let listed = classes.of_nodes();
    let at = listed.binary_search_by_key(&node, |(node, _)| *node);
    at.map_or("#cccccc", |at| color(listed[at].1[0]))
}

fn color(class: u32) -> &'static str {
    COLORS[(class as usize).min(COLORS.len() - 1)]
}

/// Colours and what they stand for, from above.
fn legend(classes: Option<&Classes>) -> Vec<(&'static str, &str)> {
    let names = classes.map(Classes::names).unwrap_or_default();
    let entry = |(class, name)| {
        let rest = names.len() > COLORS.len() && class as usize == COLORS.len() - 1;
        (color(class), if rest { "others" } else { name })
    };
    let shown = (0u32..).zip(names.iter().map(String::as_str));
    shown.take(COLORS.len()).map(entry).collect()
}

/// Where the legend's dots are.
fn legend_y(entry: usize) -> f64 {
    44.0 + 16.0 * entry as f64
}

fn svg_legend(classes: Option<&Classes>, out: &mut dyn Write) -> io::Result<()> {
    for (entry, (color, name)) in legend(classes).into_iter().enumerate() {
        let (y, name) = (legend_y(entry), escaped(name));
        writeln!(
            out,
            "<circle cx=\"{MARGIN}\" cy=\"{y}\" r=\"4\" fill=\"{color}\"/><text x=\"{}\" y=\"{}\">{name}</text>",
            MARGIN + 10.0,
            y + 4.0
        )?;
    }
    Ok(())
}

/// From the plane to the picture: one factor for both axes, so that angles stay.
struct Scale {
    low: [f64; 2],
    factor: f64,
}

impl Scale {
    fn of(points: &[[f64; 2]]) -> Scale {
        let end = |axis: usize, pick: fn(f64, f64) -> f64, start: f64| {
            points.iter().map(|point| point[axis]).fold(start, pick)
        };
        let low = [0, 1].map(|axis| end(axis, f64::min, f64::INFINITY));
        let high = [0, 1].map(|axis| end(axis, f64::max, f64::NEG_INFINITY));
        let span = (high[0] - low[0]).max(high[1] - low[1]);
        Scale {
            low,
            factor: if span > 0.0 {
                (SIZE - 2.0 * MARGIN) / span
            } else {
                0.0
            },
        }
    }

    /// The second axis goes up.
    fn place(&self, point: &[f64; 2]) -> [f64; 2] {
        let along = |axis: usize| MARGIN + (point[axis] - self.low[axis]) * self.factor;
        [along(0), SIZE - along(1)]
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
