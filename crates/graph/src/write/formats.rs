//! The text of each format.

use super::unsupported;
use crate::read::edge_list::{are_column_names, integer};
use crate::{Error, Format, Graph, Labels};
use std::io::{self, Write};

pub(super) fn write(
    out: &mut dyn Write,
    graph: &Graph,
    labels: Option<&Labels>,
    format: Format,
    is_csv: bool,
) -> io::Result<()> {
    match format {
        Format::MatrixMarket => matrix_market(out, graph),
        Format::EdgeList => edge_list(out, graph, labels, is_csv),
        Format::Dimacs => numbered(out, graph, "p edge", "e "),
        Format::Pace => numbered(out, graph, "p td", ""),
        Format::Metis => metis(out, graph),
        Format::Gset => gset(out, graph),
        Format::Ml4co => ml4co(out, graph),
        Format::GraphMl => graphml(out, graph, labels),
    }
}

/// Symmetric, so the lower triangle: row above column in number.
fn matrix_market(out: &mut dyn Write, graph: &Graph) -> io::Result<()> {
    let is_weighted = graph.weights().is_some();
    let field = if is_weighted { "real" } else { "pattern" };
    let (n, m) = (graph.n_nodes(), graph.n_edges());
    writeln!(out, "%%MatrixMarket matrix coordinate {field} symmetric")?;
    writeln!(out, "{n} {n} {m}")?;
    for (u, v, weight) in graph.weighted_edges() {
        // (+1 as u64 would only matter for an id of u32::MAX, which no graph has.)
        match is_weighted {
            true => writeln!(out, "{} {} {weight}", v + 1, u + 1)?,
            false => writeln!(out, "{} {}", v + 1, u + 1)?,
        }
    }
    Ok(())
}

/// Whether a reader would take the first edge for the names of columns: it has these, or is the only one with text at both ends
/// while the others are integers.
fn looks_like_header(graph: &Graph, labels: &Labels) -> bool {
    let mut edges = graph.weighted_edges();
    let Some((u, v, _)) = edges.next() else {
        return false;
    };
    let (Some(first), Some(second)) = (labels.text_of(u), labels.text_of(v)) else {
        return false;
    };
    let is_text = |v: u32| {
        labels
            .text_of(v)
            .is_some_and(|text| integer(text).is_none())
    };
    let mut is_alone = || !edges.any(|(u, v, _)| is_text(u) || is_text(v));
    are_column_names(first, second)
        || are_column_names(second, first)
        || is_text(u) && is_text(v) && graph.n_edges() > 1 && is_alone()
}

/// An error for a label with a quote, which no line of an edge list can hold.
pub(super) fn check_names(labels: Option<&Labels>) -> Result<(), Error> {
    let names = labels.iter().flat_map(|labels| {
        let names = (0..labels.n_nodes()).map_while(|v| labels.text_of(v));
        names.filter(|name| name.contains(&b'"'))
    });
    match names.map(String::from_utf8_lossy).next() {
        None => Ok(()),
        Some(name) => Err(unsupported(format!(
            "an edge list cannot hold the label `{name}`, which has a quote: take .graphml"
        ))),
    }
}

/// Whether a reader would cut a name, trim it or take its line for a comment.
fn needs_quotes(name: &[u8]) -> bool {
    let is_cut = name.contains(&b',') || name[0].is_ascii_digit() && name.contains(&b' ');
    is_cut || b"#% ".contains(&name[0]) || name.ends_with(b" ")
}

/// The label of `v`, in quotes where it needs them.
fn write_name(out: &mut dyn Write, labels: &Labels, v: u32) -> io::Result<()> {
    let quote: &[u8] = match labels.text_of(v).is_some_and(needs_quotes) {
        true => b"\"",
        false => b"",
    };
    out.write_all(quote)?;
    labels.write_label(v, out)?;
    out.write_all(quote)
}

/// Commas and the names of the columns in a `.csv` file; tabs and a comment in others, as SNAP has them.
fn edge_list(
    out: &mut dyn Write,
    graph: &Graph,
    labels: Option<&Labels>,
    is_csv: bool,
) -> io::Result<()> {
    let separator = if is_csv { "," } else { "\t" };
    if is_csv {
        let weight = graph.weights().map_or("", |_| ",weight");
        writeln!(out, "source,target{weight}")?;
    } else {
        let (n, m) = (graph.n_nodes(), graph.n_edges());
        writeln!(out, "# Undirected graph: each edge once")?;
        writeln!(out, "# Nodes: {n} Edges: {m}")?;
    }
    let numbers = Labels::offset(0, graph.n_nodes());
    let labels = labels.unwrap_or(&numbers);
    let n_last = usize::from(looks_like_header(graph, labels));
    let first_last = graph.weighted_edges().take(n_last);
    for (u, v, weight) in graph.weighted_edges().skip(n_last).chain(first_last) {
        write_name(out, labels, u)?;
        out.write_all(separator.as_bytes())?;
        write_name(out, labels, v)?;
        match graph.weights() {
            Some(_) => writeln!(out, "{separator}{weight}")?,
            None => out.write_all(b"\n")?,
        }
    }
    Ok(())
}

/// Ids are the labels, as NetworkX writes them; numbers from 0 where there are none.
fn graphml(out: &mut dyn Write, graph: &Graph, labels: Option<&Labels>) -> io::Result<()> {
    let numbers = Labels::offset(0, graph.n_nodes());
    let labels = labels.unwrap_or(&numbers);
    let id = |v: u32| escaped(&labels.get(v));
    let is_weighted = graph.weights().is_some();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">"
    )?;
    if is_weighted {
        let key = "<key id=\"weight\" for=\"edge\" attr.name=\"weight\" attr.type=\"double\"/>";
        writeln!(out, "{key}")?;
    }
    writeln!(out, "<graph edgedefault=\"undirected\">")?;
    for v in 0..graph.n_nodes() {
        writeln!(out, "<node id=\"{}\"/>", id(v))?;
    }
    for (u, v, weight) in graph.weighted_edges() {
        write!(out, "<edge source=\"{}\" target=\"{}\"", id(u), id(v))?;
        match is_weighted {
            true => writeln!(out, "><data key=\"weight\">{weight}</data></edge>")?,
            false => writeln!(out, "/>")?,
        }
    }
    writeln!(out, "</graph>\n</graphml>")
}

/// A label as the value of an attribute.
fn escaped(label: &str) -> String {
    let mut text = String::with_capacity(label.len());
    for character in label.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            other => text.push(other),
        }
    }
    text
}

fn numbered(out: &mut dyn Write, graph: &Graph, problem: &str, kind: &str) -> io::Result<()> {
    writeln!(out, "{problem} {} {}", graph.n_nodes(), graph.n_edges())?;
    for (u, v) in graph.edges() {
        writeln!(out, "{kind}{} {}", u + 1, v + 1)?;
    }
    Ok(())
}

fn gset(out: &mut dyn Write, graph: &Graph) -> io::Result<()> {
    writeln!(out, "{} {}", graph.n_nodes(), graph.n_edges())?;
    for (u, v, weight) in graph.weighted_edges() {
        writeln!(out, "{} {} {weight}", u + 1, v + 1)?;
    }
    Ok(())
}

/// A label of 0 for each node: a graph has no answer.
fn ml4co(out: &mut dyn Write, graph: &Graph) -> io::Result<()> {
    for (u, v) in graph.edges() {
        write!(out, "{u} {v} ")?;
    }
    write!(out, "label")?;
    for _ in 0..graph.n_nodes() {
        write!(out, " 0")?;
    }
    writeln!(out)
}

fn metis(out: &mut dyn Write, graph: &Graph) -> io::Result<()> {
    let fmt = if graph.weights().is_some() { " 1" } else { "" };
    writeln!(out, "{} {}{fmt}", graph.n_nodes(), graph.n_edges())?;
    for u in 0..graph.n_nodes() {
        for (i, &v) in graph.neighbors(u).iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(out, "{space}{}", v + 1)?;
            if let Some(weights) = graph.weights_of(u) {
                write!(out, " {}", weights[i])?;
            }
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// METIS takes positive whole numbers as edge weights, and nothing else.
pub(super) fn check_metis_weights(graph: &Graph) -> Result<(), Error> {
    let is_count = |weight: f32| weight >= 1.0 && weight.fract().to_bits() == 0;
    match graph
        .weighted_edges()
        .find(|&(_, _, weight)| !is_count(weight))
    {
        None => Ok(()),
        Some((u, v, weight)) => Err(unsupported(format!(
            "edge ({u}, {v}) has weight {weight}, and METIS weights are positive whole numbers: write Matrix Market instead"
        ))),
    }
}
