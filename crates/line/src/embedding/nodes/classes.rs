//! The classes of nodes, as a text file lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use shardgraph_storage::{read_bounded, utf8_text};

use crate::{Error, NodeLabels};

/// Bytes that a file of classes may have whatever the graph.
const LEAST_LIMIT: u64 = 16 << 20;
/// Bytes that it may have for each node besides.
const LIMIT_PER_NODE: u64 = 1 << 10;

/// Some nodes, each with one or more classes.
///
/// ```
/// use shardgraph_line::NodeLabels;
/// use shardgraph_line::nodes::Classes;
///
/// let text = "# who plays what\nann flute\nbob flute,drums\n";
/// let classes = Classes::parse("band.txt", text, &NodeLabels::new(["ann", "bob", "cid"]))?;
/// assert_eq!(classes.names(), ["flute", "drums"]);
/// assert_eq!(classes.of_nodes(), [(0, vec![0]), (1, vec![0, 1])]);
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    names: Vec<String>,
    of_nodes: Vec<(u32, Vec<u32>)>,
}

/// Names of the first column that make a first line a header, where no node is called so.
const HEADERS: [&str; 5] = ["node", "node_id", "name", "label", "id"];

/// The fields of a line: between commas or tabs if a node stands before the first of them.
fn fields<'t>(line: &'t str, nodes: &BTreeMap<&str, u32>) -> Vec<&'t str> {
    let plain = |field: &'t str| {
        let field = field.trim();
        let quoted = field.strip_prefix('"');
        quoted
            .and_then(|field| field.strip_suffix('"'))
            .unwrap_or(field)
    };
    let is_named = |fields: &Vec<&str>| fields.len() > 1 && nodes.contains_key(fields[0]);
    let filled = |fields: Vec<&'t str>| -> Vec<&'t str> {
        fields
            .into_iter()
            .filter(|field| !field.is_empty())
            .collect()
    };
    for separator in [',', '\t'] {
        let fields = filled(line.split(separator).map(plain).collect());
        if is_named(&fields) {
            return fields;
        }
    }
    let is_gap = |c: char| c.is_whitespace() || c == ',';
    filled(line.split(is_gap).map(plain).collect())
}

impl Classes {
    /// Reads a file: on each line a node's label and its classes, separated by commas, tabs or
    /// blanks; `#` begins a comment, and a first line that begins with `node`, `name`, `label` or
    /// `id` is a header.
    ///
    /// What stands before the first comma, or else the first tab, may have blanks inside if the
    /// graph has a node of that name; so may the classes behind it. Quotes around a field go.
    ///
    /// A node that stands on several lines has the classes of all of them. Classes are numbered in
    /// order of first sight.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] with the line for a node that is not in the graph or has no
    /// class, and for a file without nodes.
    pub fn read(path: &Path, labels: &NodeLabels) -> Result<Classes, Error> {
        let name = path.display().to_string();
        let max_bytes = LEAST_LIMIT + LIMIT_PER_NODE * labels.len() as u64;
        let bytes = read_bounded(path, max_bytes).map_err(|e| Error::io("read", path, e))?;
        let text = utf8_text(bytes).map_err(|line| {
            let what = "expected UTF-8, found other bytes";
            Error::File(format!("{name}:{line}: {what}"))
        })?;
        Classes::parse(&name, &text, labels)
    }

    /// As [`Classes::read`], from text; `name` serves for messages.
    ///
    /// # Errors
    /// As [`Classes::read`].
    pub fn parse(name: &str, text: &str, labels: &NodeLabels) -> Result<Classes, Error> {
        let nodes: BTreeMap<&str, u32> = labels.iter().zip(0..).collect();
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut names = Vec::new();
        let mut of_nodes: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |what: String| Error::File(format!("{name}:{number}: {what}"));
            let fields = fields(line, &nodes);
            let mut fields = fields.into_iter();
            let Some(node) = fields.next().filter(|node| !node.starts_with('#')) else {
                continue;
            };
            let Some(&node_id) = nodes.get(node) else {
                if number == 1 && HEADERS.contains(&node.to_ascii_lowercase().as_str()) {
                    continue;
                }
                return Err(wrong(format!(
                    "expected a node of the graph, found `{node}`"
                )));
            };
            let own = of_nodes.entry(node_id).or_default();
            let n_before = own.len();
            for class in fields {
                own.insert(*numbers.entry(class).or_insert_with(|| {
                    names.push(class.to_owned());
                    names.len() as u32 - 1
                }));
            }
            if n_before == 0 && own.is_empty() {
                return Err(wrong(format!("expected a class behind the node `{node}`")));
            }
        }
        if of_nodes.is_empty() {
            let what = "expected lines `node class`, found none";
            return Err(Error::File(format!("{name}: {what}")));
        }
        let listed = |(node, classes): (u32, BTreeSet<u32>)| (node, classes.into_iter().collect());
        Ok(Classes {
            names,
            of_nodes: of_nodes.into_iter().map(listed).collect(),
        })
    }

    /// What the classes are called, by number.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The listed nodes in ascending order, each with the numbers of its classes in ascending
    /// order.
    #[must_use]
    pub fn of_nodes(&self) -> &[(u32, Vec<u32>)] {
        &self.of_nodes
    }
}
