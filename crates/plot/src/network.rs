//! A graph as dots and lines, some of them marked.

use crate::svg::{GREY, Svg, colour, tooltip};

/// Width and height of the drawing in pixels.
const SIDE: f64 = 800.0;
const MARGIN: f64 = 24.0;
/// Rounds of the layout; the farthest step of a round falls from a tenth of the drawing to nothing.
const ROUNDS: u32 = 200;

/// A small graph, drawn by springs and repulsion.
///
/// The layout is that of Fruchterman and Reingold (*Graph drawing by force-directed placement*,
/// Software: Practice and Experience 21, 1991) from places on a spiral, so that one graph has one
/// drawing. It takes O(n² + m) time a round.
///
/// ```
/// use shardgraph_plot::Network;
///
/// let network = Network {
///     title: "a path".to_owned(),
///     description: "Node 1 covers both edges.".to_owned(),
///     labels: ["0", "1", "2"].map(str::to_owned).to_vec(),
///     is_marked: vec![false, true, false],
///     edges: vec![(0, 1, false), (1, 2, false)],
/// };
/// assert_eq!(network.svg().matches("<circle").count(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    /// Its name.
    pub title: String,
    /// What the drawing shows, for readers of screens.
    pub description: String,
    /// One a node, shown beside its dot of a small graph and as its tooltip.
    pub labels: Vec<String>,
    /// One a node: true draws it in colour.
    pub is_marked: Vec<bool>,
    /// Two nodes, and true for an edge that is drawn in colour.
    pub edges: Vec<(u32, u32, bool)>,
}

impl Network {
    /// The drawing as SVG.
    ///
    /// # Panics
    /// Where an edge names a node that has no label, or labels and marks differ in number.
    #[must_use]
    pub fn svg(&self) -> String {
        let n = self.labels.len();
        assert_eq!(n, self.is_marked.len(), "a mark for each node");
        let places = self.places();
        let mut svg = Svg::new([SIDE, SIDE], &self.title, &self.description);
        for is_strong in [false, true] {
            let look = match is_strong {
                true => format!("stroke=\"{}\" stroke-width=\"2\"", colour(0)),
                false => "stroke=\"#ccc\"".to_owned(),
            };
            for &(u, v, _) in self.edges.iter().filter(|edge| edge.2 == is_strong) {
                svg.segment(places[u as usize], places[v as usize], &look);
            }
        }
        let radius = (120.0 / (n as f64).sqrt()).clamp(2.5, 9.0);
        for (i, [x, y]) in places.iter().enumerate() {
            let fill = if self.is_marked[i] { colour(1) } else { GREY };
            let tip = tooltip(&self.labels[i]);
            svg.line(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{fill}\" \
                 stroke=\"#fff\">{tip}</circle>"
            ));
        }
        if n <= 60 {
            for (label, [x, y]) in self.labels.iter().zip(&places) {
                svg.text([x + radius, y - radius], "font-size=\"11\"", label);
            }
        }
        svg.finish()
    }

    /// Places in pixels.
    fn places(&self) -> Vec<[f64; 2]> {
        let n = self.labels.len();
        let golden = std::f64::consts::PI * (3.0 - 5f64.sqrt());
        let on_spiral = |i: usize| {
            let (radius, angle) = (((i as f64 + 0.5) / n as f64).sqrt(), golden * i as f64);
            [radius * angle.cos(), radius * angle.sin()]
        };
        let mut places: Vec<[f64; 2]> = (0..n).map(on_spiral).collect();
        let ideal = 2.0 / (n.max(1) as f64).sqrt();
        for round in 0..ROUNDS {
            let longest = 0.2 * (1.0 - f64::from(round) / f64::from(ROUNDS));
            let forces = self.forces(&places, ideal);
            for (place, force) in places.iter_mut().zip(forces) {
                let length = force[0].hypot(force[1]).max(1e-12);
                let step = length.min(longest) / length;
                place[0] += force[0] * step;
                place[1] += force[1] * step;
            }
        }
        fitted(&places)
    }

    /// Repulsion between all nodes, springs along edges, and a weak pull to the middle that keeps
    /// components together.
    fn forces(&self, places: &[[f64; 2]], ideal: f64) -> Vec<[f64; 2]> {
        let mut forces: Vec<[f64; 2]> =
            places.iter().map(|[x, y]| [-0.05 * x, -0.05 * y]).collect();
        let mut push = |i: usize, j: usize, strength: fn(f64, f64) -> f64| {
            let (dx, dy) = (places[i][0] - places[j][0], places[i][1] - places[j][1]);
            let distance = dx.hypot(dy).max(1e-6);
            let scale = strength(distance, ideal) / distance;
            for (node, sign) in [(i, 1.0), (j, -1.0)] {
                forces[node][0] += sign * scale * dx;
                forces[node][1] += sign * scale * dy;
            }
        };
        for i in 0..places.len() {
            for j in 0..i {
                push(i, j, |distance, ideal| ideal * ideal / distance);
            }
        }
        for &(u, v, _) in &self.edges {
            push(u as usize, v as usize, |distance, ideal| {
                -distance * distance / ideal
            });
        }
        forces
    }
}

/// Places moved and scaled into the drawing.
fn fitted(places: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let side = |axis: usize| {
        let values = places.iter().map(|place| place[axis]);
        let low = values.clone().fold(f64::INFINITY, f64::min);
        (low, values.fold(f64::NEG_INFINITY, f64::max) - low)
    };
    let ((left, width), (top, height)) = (side(0), side(1));
    let scale = (SIDE - 2.0 * MARGIN) / width.max(height).max(1e-9);
    let middle = |length: f64| MARGIN + (SIDE - 2.0 * MARGIN - length * scale) / 2.0;
    let (x, y) = (middle(width), middle(height));
    let fit = |place: &[f64; 2]| [x + (place[0] - left) * scale, y + (place[1] - top) * scale];
    places.iter().map(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(n: usize, edges: &[(u32, u32)]) -> Network {
        Network {
            title: "t".to_owned(),
            description: "d".to_owned(),
            labels: (0..n).map(|i| i.to_string()).collect(),
            is_marked: vec![false; n],
            edges: edges.iter().map(|&(u, v)| (u, v, false)).collect(),
        }
    }

    #[test]
    fn graphs_without_nodes_or_edges_are_drawn() {
        for n in [0, 1, 2] {
            let svg = network(n, &[]).svg();
            assert_eq!(svg.matches("<circle").count(), n);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn neighbours_are_nearer_than_others() {
        // Two triangles with one edge between them.
        let edges = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3)];
        let places = network(6, &edges).places();
        let distance =
            |i: usize, j: usize| (places[i][0] - places[j][0]).hypot(places[i][1] - places[j][1]);
        assert!(distance(1, 2) < distance(1, 4) && distance(4, 5) < distance(2, 5));
        let is_inside = |place: &[f64; 2]| place.iter().all(|x| (0.0..=SIDE).contains(x));
        assert!(places.iter().all(is_inside), "{places:?}");
    }

    #[test]
    fn marks_have_colours() {
        let mut network = network(2, &[(0, 1)]);
        network.is_marked[1] = true;
        network.edges[0].2 = true;
        let svg = network.svg();
        assert!(svg.contains(colour(1)) && svg.contains(colour(0)), "{svg}");
    }
}
