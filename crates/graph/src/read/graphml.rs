//! GraphML, as NetworkX, igraph and Gephi write it: nodes by `id`, edges by `source` and `target`, and of the data the
//! `weight` of edges and the `label` or `name` of nodes.
//!
//! Nodes are called by their label, or else their name, where every node has one and no two have the same; else by
//! their id. All other data and ports are left out. Hyperedges, graphs inside of nodes and several graphs are refused.
//! Entities are XML's own five and numbers: none is expanded.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use shardgraph_storage::{Source, unpacking_error};

use super::edge_list::{MAX_LABEL, integer};
use super::{Policy, Streamed, fields, lines::Line, tally::Tally};
use crate::{Error, ErrorKind, Labels, MAX_NODES, labels::Interner};

pub(crate) fn read(source: &Source<'_>, tally: Tally<'_>) -> Result<Streamed, Error> {
    let mut xml = Reader::from_reader(CountedLines {
        inner: BufReader::new(source.unpacked()?),
        n_lines: 0,
    });
    let mut parser = Parser::new(source.name(), tally);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let event = xml.read_event_into(&mut buffer);
        // An element is at the line where its tag ends.
        parser.line = xml.get_ref().n_lines + 1;
        match event {
            Ok(Event::Eof) => return parser.finish(),
            Ok(event) => parser.event(&event)?,
            Err(quick_xml::Error::Io(error)) => {
                let error = Arc::into_inner(error).unwrap_or_else(|| io::Error::other("no read"));
                return Err(unpacking_error(error, source.name(), parser.line).into());
            }
            Err(error) => {
                return Err(parser.syntax(format!("expected well-formed XML, found: {error}")));
            }
        }
    }
}

/// Counts the ends of lines that were handed out.
struct CountedLines<'a> {
    inner: BufReader<Box<dyn Read + 'a>>,
    n_lines: u64,
}

impl Read for CountedLines<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(into)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for CountedLines<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        let taken = &self.inner.buffer()[..n];
        self.n_lines += taken.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.inner.consume(n);
    }
}

/// Data of one meaning: the key that a file gave it, and the names of all nodes in it.
#[derive(Default)]
struct NodeNames {
    key: Option<String>,
    of_nodes: Vec<(u32, String)>,
}

/// An edge whose element is open.
struct OpenEdge {
    ends: [u32; 2],
    weight: Option<f32>,
}

/// What the text of the open element is.
enum Wanted {
    /// The name of this node, by one of [`NAMES`].
    Name { node: u32, by: usize },
    /// The weight of the open edge.
    Weight,
    /// The weight of edges that have none.
    DefaultWeight,
}

/// Attributes that hold the names of nodes, the preferred one first.
const NAMES: [&str; 2] = ["label", "name"];

struct Parser<'f, 't> {
    file: &'f str,
    line: u64,
    tally: Tally<'t>,
    ids: Interner,
    /// For each node the line of an edge that named it first, 0 once it is declared.
    wanted_by_line: Vec<u64>,
    names: [NodeNames; 2],
    weight_key: Option<String>,
    default_weight: Option<f32>,
    /// Elements that are open.
    depth: u64,
    /// Graphs that began.
    n_graphs: u64,
    /// Whether the `key` of the weights is open, whose `default` counts.
    is_in_weight_key: bool,
    node: Option<u32>,
    edge: Option<OpenEdge>,
    wanted: Option<Wanted>,
    text: String,
}

impl<'f, 't> Parser<'f, 't> {
    fn new(file: &'f str, tally: Tally<'t>) -> Parser<'f, 't> {
        Parser {
            file,
            line: 1,
            tally,
            ids: Interner::default(),
            wanted_by_line: Vec::new(),
            names: Default::default(),
            weight_key: None,
            default_weight: None,
            depth: 0,
            n_graphs: 0,
            is_in_weight_key: false,
            node: None,
            edge: None,
            wanted: None,
            text: String::new(),
        }
    }

    fn at(&self) -> Line<'f> {
        Line {
            bytes: b"",
            number: self.line,
            file: self.file,
        }
    }

    #[cold]
    fn syntax(&self, message: String) -> Error {
        self.at().error(ErrorKind::Syntax, 0, message)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Error> {
        match event {
            Event::Start(element) => {
                self.depth += 1;
                self.begin(element)
            }
            Event::Empty(element) => {
                self.depth += 1;
                self.begin(element)?;
                self.depth -= 1;
                self.end(element.name().into_inner())
            }
            Event::End(element) => {
                self.depth -= 1;
                self.end(element.name().into_inner())
            }
            _ if self.wanted.is_none() => Ok(()),
            Event::Text(text) => {
                self.text.push_str(&text.xml10_content());
                Ok(())
            }
            Event::CData(text) => {
                self.text.push_str(&text.xml10_content());
                Ok(())
            }
            Event::GeneralRef(entity) => match resolve_xml_entity(entity) {
                Some(text) => {
                    self.text.push_str(text);
                    Ok(())
                }
                None => match entity.resolve_char_ref() {
                    Ok(Some(character)) => {
                        self.text.push(character);
                        Ok(())
                    }
                    _ => Err(self.syntax(format!(
                        "expected an entity of XML, found `&{};`",
                        &**entity
                    ))),
                },
            },
            _ => Ok(()),
        }
    }

    fn begin(&mut self, element: &BytesStart<'_>) -> Result<(), Error> {
        match element.name().into_inner() {
            "key" => self.key(element),
            "default" if self.is_in_weight_key => {
                self.want(Wanted::DefaultWeight);
                Ok(())
            }
            "graph" => self.graph(element),
            "node" => self.begin_node(element),
            "edge" => self.begin_edge(element),
            "data" => self.data(element),
            "hyperedge" => {
                Err(self.syntax("expected edges of two nodes, found `<hyperedge>`".into()))
            }
            "graphml" => Ok(()),
            other if self.depth <= 1 && self.n_graphs == 0 => {
                Err(self.syntax(format!("expected `<graphml>`, found `<{other}>`")))
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, name: &str) -> Result<(), Error> {
        match name {
            "key" => self.is_in_weight_key = false,
            "default" | "data" => self.take_text()?,
            "node" => self.node = None,
            "edge" => {
                if let Some(edge) = self.edge.take() {
                    let weight = edge.weight.or(self.default_weight);
                    let ([u, v], line) = (edge.ends, self.at());
                    self.tally.edge(line, u, v, weight.unwrap_or(1.0))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The value of an attribute, if it is there.
    fn value(&self, element: &BytesStart<'_>, name: &str) -> Result<Option<String>, Error> {
        let wrong = |reason: String| self.syntax(format!("expected attributes, found: {reason}"));
        let found = element.try_get_attribute(name);
        let Some(attribute) = found.map_err(|error| wrong(error.to_string()))? else {
            return Ok(None);
        };
        let value = attribute.normalized_value(XmlVersion::Implicit1_0);
        let value = value.map_err(|error| wrong(error.to_string()))?;
        Ok(Some(value.into_owned()))
    }

    fn required(&self, element: &BytesStart<'_>, name: &str) -> Result<String, Error> {
        self.value(element, name)?.ok_or_else(|| {
            let tag = element.name().into_inner();
            self.syntax(format!("expected an attribute `{name}` of `<{tag}>`"))
        })
    }

    fn key(&mut self, element: &BytesStart<'_>) -> Result<(), Error> {
        let id = self.required(element, "id")?;
        let name = self.value(element, "attr.name")?;
        let domain = self.value(element, "for")?.unwrap_or("all".to_owned());
        let Some(name) = name else { return Ok(()) };
        if name == "weight" && (domain == "edge" || domain == "all") {
            self.weight_key = Some(id.clone());
            self.is_in_weight_key = true;
        }
        if domain == "node" || domain == "all" {
            for (kind, names) in NAMES.iter().zip(&mut self.names) {
                if name == *kind {
                    names.key = Some(id.clone());
                }
            }
        }
        Ok(())
    }

    fn graph(&mut self, element: &BytesStart<'_>) -> Result<(), Error> {
        self.n_graphs += 1;
        if self.node.is_some() || self.n_graphs > 1 {
            return Err(self.syntax("expected one graph, found another `<graph>`".into()));
        }
        if self.value(element, "edgedefault")?.as_deref() == Some("directed") {
            self.directed()?;
        }
        Ok(())
    }

    fn directed(&mut self) -> Result<(), Error> {
        self.tally.report.directed_merged = true;
        match self.tally.options.directed {
            Policy::Report => Ok(()),
            Policy::Refuse => {
                let message = "expected an undirected graph, and directed input is to be refused";
                Err(self.at().error(ErrorKind::Policy, 0, message))
            }
        }
    }

    /// The node of this id, made if it is new.
    fn node_of(&mut self, id: &str) -> Result<u32, Error> {
        if id.is_empty() || id.len() > MAX_LABEL || id.bytes().any(|byte| byte.is_ascii_control()) {
            let what = "expected an id of 1 to 4096 bytes without control characters";
            return Err(self.syntax(what.to_owned()));
        }
        let node = self.ids.intern(id.as_bytes());
        let limit = self.tally.options.max_nodes.unwrap_or(MAX_NODES - 1);
        if self.ids.len() > limit.min(MAX_NODES - 1) {
            let message = format!("expected at most {limit} nodes, found more");
            return Err(self.at().error(ErrorKind::TooLarge, 0, message));
        }
        if node as usize == self.wanted_by_line.len() {
            self.wanted_by_line.push(self.line);
        }
        Ok(node)
    }

    fn begin_node(&mut self, element: &BytesStart<'_>) -> Result<(), Error> {
        let id = self.required(element, "id")?;
        let is_known = self.ids.find(id.as_bytes());
        if is_known.is_some_and(|node| self.wanted_by_line[node as usize] == 0) {
            return Err(self.syntax(format!("expected a new node, found another of id `{id}`")));
        }
        let node = self.node_of(&id)?;
        self.wanted_by_line[node as usize] = 0;
        self.node = Some(node);
        Ok(())
    }

    fn begin_edge(&mut self, element: &BytesStart<'_>) -> Result<(), Error> {
        let source = self.required(element, "source")?;
        let target = self.required(element, "target")?;
        if self.value(element, "directed")?.as_deref() == Some("true") {
            self.directed()?;
        }
        let ends = [self.node_of(&source)?, self.node_of(&target)?];
        self.edge = Some(OpenEdge { ends, weight: None });
        Ok(())
    }

    fn data(&mut self, element: &BytesStart<'_>) -> Result<(), Error> {
        let key = self.value(element, "key")?;
        if self.edge.is_some() {
            if key.is_some() && key == self.weight_key {
                self.want(Wanted::Weight);
            }
        } else if let Some(node) = self.node {
            let by = self
                .names
                .iter()
                .position(|names| key.is_some() && names.key == key);
            if let Some(by) = by {
                self.want(Wanted::Name { node, by });
            }
        }
        Ok(())
    }

    fn want(&mut self, wanted: Wanted) {
        self.text.clear();
        self.wanted = Some(wanted);
    }

    /// Takes the text of an element that ends.
    fn take_text(&mut self) -> Result<(), Error> {
        let text = std::mem::take(&mut self.text);
        match self.wanted.take() {
            None => {}
            Some(Wanted::Name { node, by }) => self.names[by].of_nodes.push((node, text)),
            Some(Wanted::Weight) => {
                let weight = self.weight(&text)?;
                if let Some(edge) = &mut self.edge {
                    edge.weight = Some(weight);
                }
            }
            Some(Wanted::DefaultWeight) => self.default_weight = Some(self.weight(&text)?),
        }
        Ok(())
    }

    fn weight(&self, text: &str) -> Result<f32, Error> {
        fields::finite(text.trim().as_bytes()).ok_or_else(|| {
            let found = fields::shortened(text.trim().as_bytes());
            let message =
                format!("expected a finite number of at most 3.4e38 as weight, found {found}");
            self.at().error(ErrorKind::OutOfRange, 0, message)
        })
    }

    fn finish(mut self) -> Result<Streamed, Error> {
        if self.depth > 0 || self.n_graphs == 0 {
            let expected = match self.n_graphs {
                0 => "a `<graph>`",
                _ => "`</graphml>`",
            };
            return Err(self.syntax(format!("expected {expected}, found the end of the file")));
        }
        if let Some(node) = self.wanted_by_line.iter().position(|&line| line > 0) {
            self.line = self.wanted_by_line[node];
            let id = String::from_utf8_lossy(self.ids.get(node as u32)).into_owned();
            return Err(self.syntax(format!(
                "expected ends of edges that are nodes, found `{id}`"
            )));
        }
        let weighted = self.tally.weighted(self.weight_key.is_some());
        let n_nodes = self.ids.len();
        let labels = self.names.iter().find_map(|names| names.labels(n_nodes));
        let labels = labels.unwrap_or_else(|| as_labels(self.ids));
        Ok(self.tally.finish(n_nodes, weighted, labels))
    }
}

impl NodeNames {
    /// Labels, if these name every node, and each by another name that fits on a line.
    fn labels(&self, n_nodes: u32) -> Option<Labels> {
        if self.of_nodes.len() != n_nodes as usize || n_nodes == 0 {
            return None;
        }
        let mut by_node: Vec<&(u32, String)> = self.of_nodes.iter().collect();
        by_node.sort_by_key(|(node, _)| *node);
        let mut names = Interner::default();
        for (number, (node, name)) in (0..).zip(by_node) {
            let fits = !name.trim().is_empty() && name.len() <= MAX_LABEL;
            let is_line = fits && !name.bytes().any(|byte| byte.is_ascii_control());
            if *node != number || !is_line || names.intern(name.as_bytes()) != number {
                return None;
            }
        }
        Some(as_labels(names))
    }
}

/// Numbers where the names are ascending numbers, as of a graph that was written without labels.
fn as_labels(names: Interner) -> Labels {
    let n_nodes = names.len();
    let numbers: Option<Vec<u64>> = (0..n_nodes).map(|v| integer(names.get(v))).collect();
    match numbers {
        Some(numbers) if numbers.is_sorted_by(|u, v| u < v) && n_nodes > 0 => {
            let is_dense = numbers[n_nodes as usize - 1] - numbers[0] == u64::from(n_nodes - 1);
            match is_dense {
                true => Labels::offset(numbers[0], n_nodes),
                false => Labels::integers(numbers),
            }
        }
        _ => Labels::text(names),
    }
}
