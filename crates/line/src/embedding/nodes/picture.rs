//! Picture of an embedding: rows along their two principal axes.

use std::collections::BTreeMap;

use shardgraph_metrics::{PrincipalPlane, principal_plane};
use shardgraph_plot::{Axis, Figure, Panel, Point, Series};
use shardgraph_random::KeyedRng;

use super::Classes;
use crate::Embedding;

/// Nodes on the plane of the two principal axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// The nodes, ascending.
    pub nodes: Vec<u32>,
    /// Their coordinates along the first axis and the second; the mean of all is (0, 0).
    pub points: Vec<[f64; 2]>,
    /// The axes' shares of the variance, between 0 and 1.
    pub shares: [f64; 2],
}

/// Principal component analysis of at most `n_points` rows, drawn at random where there are more.
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
#[must_use]
pub fn plane(embedding: &Embedding, n_points: usize, seed: u64) -> Plane {
    let n_nodes = embedding.n_nodes() as u64;
    let mut rng = KeyedRng::new(seed, "line picture", 0);
    let nodes: Vec<u32> = match n_nodes <= n_points as u64 {
        true => (0..n_nodes as u32).collect(),
        false => {
            let mut drawn = rng.sample_without_replacement(n_nodes, n_points);
            drawn.sort_unstable();
            drawn.into_iter().map(|node| node as u32).collect()
        }
    };
    let rows = nodes.iter().flat_map(|&node| embedding.row(node));
    let rows: Vec<f32> = rows.copied().collect();
    let PrincipalPlane { points, shares } = principal_plane(&rows, embedding.dim(), &mut rng);
    Plane {
        nodes,
        points,
        shares,
    }
}

/// Classes that have a colour of their own; later ones are grey and called "others".
const N_COLOURED: u32 = 8;

/// Nodes of a picture whose labels stand beside their dots.
const N_LABELLED: usize = 64;

/// The plane as an SVG picture, each node with its label as tooltip; of few nodes with the labels
/// beside the dots, as far as none covers another.
///
/// Nodes are coloured by their first class; those without one are grey.
#[must_use]
pub fn svg(plane: &Plane, embedding: &Embedding, classes: Option<&Classes>) -> String {
    let [first, second] = plane.shares.map(|share| 100.0 * share);
    let axis = |number: u32, percent: f64| {
        Axis::linear(format!("axis {number}: {percent:.1} % of the variance")).without_ticks()
    };
    let mut panel = Panel::new(axis(1, first), axis(2, second))
        .sized(720.0, 720.0)
        .with_equal_units();
    for (group, points) in groups(plane, embedding, classes) {
        let series = group.series(classes, points);
        panel = panel.with(match plane.nodes.len() <= N_LABELLED {
            true => series.labelled(),
            false => series,
        });
    }
    let n_nodes = plane.nodes.len();
    let title = format!("{n_nodes} nodes along two principal axes");
    let description = format!(
        "A dot for each of {n_nodes} nodes; the axes hold {first:.1} % and {second:.1} % of the \
         variance."
    );
    Figure::new(title, description).panel(panel).svg()
}

/// Nodes of one colour, in the order of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    All,
    Class(u32),
    Others,
    WithoutClass,
}

impl Group {
    fn new(node: u32, classes: Option<&Classes>) -> Group {
        let Some(classes) = classes else {
            return Group::All;
        };
        let listed = classes.of_nodes();
        match listed.binary_search_by_key(&node, |(node, _)| *node) {
            Ok(at) if listed[at].1[0] < N_COLOURED => Group::Class(listed[at].1[0]),
            Ok(_) => Group::Others,
            Err(_) => Group::WithoutClass,
        }
    }

    fn series(self, classes: Option<&Classes>, points: Vec<Point>) -> Series {
        let names = classes.map(Classes::names).unwrap_or_default();
        match self {
            Group::All => Series::points("", points),
            Group::Class(class) => {
                let name = names.get(class as usize).cloned().unwrap_or_default();
                Series::points(name, points).coloured(class as usize)
            }
            Group::Others => Series::points("others", points).grey(),
            Group::WithoutClass => Series::points("no class", points).grey(),
        }
        .faint()
    }
}

/// The points of each group; groups without a node are left out.
fn groups(
    plane: &Plane,
    embedding: &Embedding,
    classes: Option<&Classes>,
) -> BTreeMap<Group, Vec<Point>> {
    let mut groups: BTreeMap<Group, Vec<Point>> = BTreeMap::new();
    for (&node, &[x, y]) in plane.nodes.iter().zip(&plane.points) {
        let point = Point::from((x, y)).with_text(embedding.labels().get(node as usize));
        groups
            .entry(Group::new(node, classes))
            .or_default()
            .push(point);
    }
    groups
}
