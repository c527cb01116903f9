//! An answer with its graph, for other programs: GraphML, Graphviz, and a drawing of a small graph.

use std::fmt::Write as _;
use std::path::Path;

use shardgraph_graph::{Graph, Labels};
use shardgraph_plot::Network;
use shardgraph_solver::problem::{MAXIMUM_CLIQUE, MAXIMUM_CUT, Problem};

use crate::exit::BadInput;
use crate::graph_argument::Origin;

/// More nodes are a blot, and their layout takes long.
const MOST_NODES: usize = 1000;
const MOST_EDGES: usize = 20_000;

/// What a file holds besides a list of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    GraphMl,
    Dot,
}

impl Form {
    /// The form that a file's ending asks for; of others the answer is a list of nodes.
    pub(super) fn of(path: &Path) -> Option<Form> {
        match path.extension()?.to_str()? {
            "graphml" => Some(Form::GraphMl),
            "dot" | "gv" => Some(Form::Dot),
            _ => None,
        }
    }
}

/// A graph with its answer.
#[derive(Clone, Copy)]
pub(super) struct Solved<'a> {
    problem: &'static Problem,
    name: &'a str,
    graph: &'a Graph,
    labels: &'a Labels,
    nodes: &'a [u32],
}

impl<'a> Solved<'a> {
    pub(super) fn new(
        problem: &'static Problem,
        origin: &'a Origin,
        graph: &'a Graph,
        nodes: &'a [u32],
    ) -> Solved<'a> {
        Solved {
            problem,
            name: &origin.name,
            graph,
            labels: &origin.labels,
            nodes,
        }
    }

    fn is_in_answer(&self) -> Vec<bool> {
        let mut inside = vec![false; self.graph.n_nodes() as usize];
        for &node in self.nodes {
            inside[node as usize] = true;
        }
        inside
    }

    /// Each edge once, the smaller id first, with its weight.
    fn edges(&self) -> impl Iterator<Item = (u32, u32, Option<f64>)> + '_ {
        let graph = self.graph;
        (0..graph.n_nodes()).flat_map(move |u| {
            let weights = graph.weights_of(u);
            let edge = move |(i, &v): (usize, &u32)| {
                let weight = weights.map(|weights| f64::from(weights[i]));
                (u < v).then_some((u, v, weight))
            };
            graph.neighbors(u).iter().enumerate().filter_map(edge)
        })
    }

    /// The graph as text, with the attribute `in_answer` of each node.
    pub(super) fn text(&self, form: Form) -> String {
        match form {
            Form::GraphMl => self.graphml(),
            Form::Dot => self.dot(),
        }
    }

    fn graphml(&self) -> String {
        let mut text = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
             <key id=\"label\" for=\"node\" attr.name=\"label\" attr.type=\"string\"/>\n\
             <key id=\"in_answer\" for=\"node\" attr.name=\"in_answer\" attr.type=\"boolean\"/>\n\
             <key id=\"weight\" for=\"edge\" attr.name=\"weight\" attr.type=\"double\"/>\n\
             <graph edgedefault=\"undirected\">\n",
        );
        for (node, is_inside) in (0..).zip(self.is_in_answer()) {
            let label = escaped_xml(&self.labels.get(node));
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "<node id=\"n{node}\"><data key=\"label\">{label}</data>\
                 <data key=\"in_answer\">{is_inside}</data></node>"
            );
        }
        for (u, v, weight) in self.edges() {
            let weight = weight.map(|weight| format!("<data key=\"weight\">{weight}</data>"));
            let weight = weight.unwrap_or_default();
            let _ = writeln!(
                text,
                "<edge source=\"n{u}\" target=\"n{v}\">{weight}</edge>"
            );
        }
        text.push_str("</graph>\n</graphml>\n");
        text
    }

    fn dot(&self) -> String {
        let mut text = String::from("graph {\n");
        for (node, is_inside) in (0..).zip(self.is_in_answer()) {
            let label = self.labels.get(node);
            let label = label.replace('\\', "\\\\").replace('"', "\\\"");
            let look = match is_inside {
                true => ", style=filled, fillcolor=\"#d55e00\"",
                false => "",
            };
            let _ = writeln!(
                text,
                "  n{node} [label=\"{label}\", in_answer={is_inside}{look}];"
            );
        }
        for (u, v, weight) in self.edges() {
            let weight = weight.map(|weight| format!(" [weight={weight}]"));
            let _ = writeln!(text, "  n{u} -- n{v}{};", weight.unwrap_or_default());
        }
        text.push_str("}\n");
        text
    }

    /// The drawing. Edges of a cut and of a clique are in colour.
    pub(super) fn svg(&self) -> String {
        let is_marked = self.is_in_answer();
        let is_strong = |u: u32, v: u32| {
            let ends = (is_marked[u as usize], is_marked[v as usize]);
            match self.problem.name {
                name if name == MAXIMUM_CUT.name => ends.0 != ends.1,
                name if name == MAXIMUM_CLIQUE.name => ends == (true, true),
                _ => false,
            }
        };
        let edges = self.edges().map(|(u, v, _)| (u, v, is_strong(u, v)));
        let edges = edges.collect();
        let labels = 0..self.graph.n_nodes();
        let network = Network {
            title: format!("{}: {}", self.name, self.problem.title),
            description: format!(
                "The {} nodes of the answer are in colour.",
                self.nodes.len()
            ),
            labels: labels.map(|node| self.labels.get(node)).collect(),
            is_marked,
            edges,
        };
        network.svg()
    }
}

/// Refuses what no picture shows.
pub(super) fn check_size(graph: &Graph, name: &str) -> Result<(), BadInput> {
    let (n_nodes, n_edges) = (graph.n_nodes() as usize, graph.n_edges() as usize);
    match n_nodes > MOST_NODES || n_edges > MOST_EDGES {
        true => Err(BadInput(format!(
            "{name}: {n_nodes} nodes and {n_edges} edges, and --svg draws at most {MOST_NODES} and \
             {MOST_EDGES}: write a .graphml or .dot file by --out"
        ))),
        false => Ok(()),
    }
}

fn escaped_xml(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_solver::problem::MINIMUM_VERTEX_COVER;

    #[test]
    fn texts_hold_every_node_and_edge_once() {
        let graph = Graph::from_edges(3, &[(0, 1), (2, 1)]).unwrap();
        let labels = Labels::offset(7, 3);
        let solved = Solved {
            problem: &MINIMUM_VERTEX_COVER,
            name: "a & b",
            graph: &graph,
            labels: &labels,
            nodes: &[1],
        };
        let graphml = solved.text(Form::GraphMl);
        assert_eq!(
            (
                graphml.matches("<node").count(),
                graphml.matches("<edge").count()
            ),
            (3, 2)
        );
        assert_eq!(graphml.matches(">true<").count(), 1);
        let dot = solved.text(Form::Dot);
        assert!(dot.contains("n1 [label=\"8\", in_answer=true"), "{dot}");
        assert_eq!(dot.matches(" -- ").count(), 2);
        assert!(solved.svg().contains("a &amp; b"));
        assert_eq!(escaped_xml("<a&b>\u{1}"), "&lt;a&amp;b&gt; ");
    }

    #[test]
    fn endings_choose_the_form() {
        assert_eq!(Form::of(Path::new("x.graphml")), Some(Form::GraphMl));
        assert_eq!(Form::of(Path::new("x.gv")), Some(Form::Dot));
        assert_eq!(
            (Form::of(Path::new("x.txt")), Form::of(Path::new("-"))),
            (None, None)
        );
    }
}
