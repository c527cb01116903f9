//! Files of labels: a table with a header, columns by name or the first and the last, or
//! `node,class` as numbers without one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use shardgraph_graph::Labels as Names;
use shardgraph_storage::Unpacked;

use super::NewIds;
use super::fields::{self, fields};
use super::lines::{Lines, shortened};
use crate::{Error, Labels};

/// The files that hold the labels; the three sets may share no node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LabelFiles {
    /// Labels to learn from.
    pub train: PathBuf,
    /// Labels to test on.
    pub test: Option<PathBuf>,
    /// Labels to choose settings by.
    pub valid: Option<PathBuf>,
}

/// The columns of a table with a header.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LabelColumns {
    /// The column of nodes; `None` for the first.
    pub node: Option<String>,
    /// The column of classes; `None` for the last.
    pub class: Option<String>,
}

/// Labels of a graph's nodes, and what the classes are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledNodes {
    /// The labels by id.
    pub labels: Labels,
    /// The classes' names: ascending as numbers where all are whole numbers, else as text.
    pub classes: Vec<String>,
}

struct Row {
    node: u32,
    class: String,
    set: usize,
    line: u64,
}

/// Reads labels of the nodes called `names`.
///
/// # Errors
/// [`Error::Labels`], with file and line where there is one: a column that is not there, a node
/// that the graph has not or that has a label already, a class without a node to learn from, fewer
/// than two classes, a file without a label. [`Error::Io`].
pub fn read_labels(
    files: &LabelFiles,
    columns: &LabelColumns,
    names: &Names,
) -> Result<LabelledNodes, Error> {
    let mut rows = Vec::new();
    let sets = [
        Some(&files.train),
        files.test.as_ref(),
        files.valid.as_ref(),
    ];
    for (set, path) in sets.iter().enumerate() {
        if let Some(path) = path {
            read_file(path, set, columns, names, &mut rows)?;
        }
    }
    check_once(&rows, &sets, names)?;
    let classes = class_names(&rows);
    let ids: BTreeMap<&str, u32> = classes.iter().map(String::as_str).zip(0..).collect();
    let mut labels = [Vec::new(), Vec::new(), Vec::new()];
    let mut is_learnt = vec![false; classes.len()];
    for row in &rows {
        let class = ids[row.class.as_str()];
        labels[row.set].push((row.node, class));
        is_learnt[class as usize] |= row.set == 0;
    }
    if let Some(class) = is_learnt.iter().position(|&is_learnt| !is_learnt) {
        let reason = format!(
            "class `{}` has no training node: expected one or more",
            classes[class]
        );
        return Err(at(&files.train, 0, &reason));
    }
    let n_classes = classes.len() as u32;
    if n_classes < 2 {
        let reason = format!("{n_classes} classes: expected 2 or more");
        return Err(at(&files.train, 0, &reason));
    }
    let [train, test, valid] = labels;
    Ok(LabelledNodes {
        labels: Labels::new(n_classes, train, test, valid)?,
        classes,
    })
}

impl LabelledNodes {
    /// All labelled nodes: those to learn from, to test on and to choose by, in this order.
    #[must_use]
    pub fn nodes(&self) -> Vec<u32> {
        let sets = [self.labels.train(), self.labels.test(), self.labels.valid()];
        sets.concat().iter().map(|&(node, _)| node).collect()
    }

    /// The same labels for the pruned graph.
    ///
    /// # Errors
    /// [`Error::Labels`] for a labelled node that was pruned.
    pub fn renumbered(&self, ids: &NewIds) -> Result<LabelledNodes, Error> {
        let moved = |labels: &[(u32, u32)]| -> Result<Vec<(u32, u32)>, Error> {
            let moved = labels.iter().map(|&(node, class)| match ids.get(node) {
                Some(id) => Ok((id, class)),
                None => {
                    let reason = format!("the labelled node {node} was pruned");
                    Err(Error::new(Error::Labels, reason))
                }
            });
            moved.collect()
        };
        let (train, test) = (moved(self.labels.train())?, moved(self.labels.test())?);
        let valid = moved(self.labels.valid())?;
        Ok(LabelledNodes {
            labels: Labels::new(self.labels.n_classes(), train, test, valid)?,
            classes: self.classes.clone(),
        })
    }
}

fn at(path: &Path, line: u64, reason: &str) -> Error {
    let file = path.display().to_string();
    Error::at(Error::Labels, &file, line, 0, reason)
}

/// The places of the two columns.
struct Layout {
    separator: char,
    node: usize,
    class: usize,
    n_columns: usize,
    has_header: bool,
    header: String,
}

impl Layout {
    fn of(first_line: &str, columns: &LabelColumns) -> Result<Layout, String> {
        let separator = fields::separator(first_line);
        let fields: Vec<Cow<'_, str>> = fields(first_line, separator).collect::<Result<_, _>>()?;
        if fields.len() < 2 {
            let found = shortened(first_line.as_bytes());
            return Err(format!(
                "expected two or more columns between tabs or commas, found {found}"
            ));
        }
        let is_number = |field: &Cow<'_, str>| super::integers::whole(field.as_bytes()).is_some();
        let has_names = columns.node.is_some() || columns.class.is_some();
        let has_header = !fields.iter().all(is_number);
        if has_names && !has_header {
            return Err("columns are named, but the file has no header".to_owned());
        }
        let find = |name: &Option<String>| match name {
            None => Ok(None),
            Some(name) => match fields.iter().position(|field| field == name) {
                Some(idx) => Ok(Some(idx)),
                None => Err(format!(
                    "there is no column `{name}`; the header has {}",
                    fields.join(", ")
                )),
            },
        };
        Ok(Layout {
            separator,
            node: find(&columns.node)?.unwrap_or(0),
            class: find(&columns.class)?.unwrap_or(fields.len() - 1),
            n_columns: fields.len(),
            has_header,
            header: fields.join(", "),
        })
    }

    /// The node and the class of a line.
    fn cells<'l>(&self, line: &'l str) -> Result<(Cow<'l, str>, Cow<'l, str>), String> {
        let mut fields: Vec<Cow<'_, str>> =
            fields(line, self.separator).collect::<Result<_, _>>()?;
        let (wanted, found) = (self.n_columns, fields.len());
        if found != wanted {
            return Err(format!(
                "expected {wanted} columns, as on the first line, found {found}"
            ));
        }
        let node = fields[self.node].clone();
        let class = std::mem::take(&mut fields[self.class]);
        match (node.is_empty(), class.is_empty()) {
            (true, _) => Err("the node is empty".to_owned()),
            (_, true) => Err("the class is empty".to_owned()),
            _ => Ok((node, class)),
        }
    }

    /// As [`Layout::of`]; a first line that would be the header and names a node of the graph is a
    /// label without one.
    fn of_first_line(line: &str, columns: &LabelColumns, names: &Names) -> Result<Layout, String> {
        let layout = Layout::of(line, columns)?;
        let node = layout.cells(line).ok().map(|(node, _)| node);
        if layout.has_header && node.and_then(|node| find_node(names, &node)).is_some() {
            let reason = "the first line names a node of the graph: expected a header above it";
            return Err(reason.to_owned());
        }
        Ok(layout)
    }

    fn unknown(&self, node: &str) -> String {
        let found = shortened(node.as_bytes());
        match self.has_header {
            true => format!(
                "{found} is no node of the graph (the columns are {}: name the one of nodes if it is not the first)",
                self.header
            ),
            false => format!("{found} is no node of the graph"),
        }
    }
}

fn read_file(
    path: &Path,
    set: usize,
    columns: &LabelColumns,
    names: &Names,
    rows: &mut Vec<Row>,
) -> Result<(), Error> {
    let unpacked = Unpacked::open(path)?;
    let file = unpacked.name().to_owned();
    let mut lines = Lines::new(&file, Box::new(unpacked));
    let mut layout = None;
    let n_before = rows.len();
    while let Some(line) = lines.next_filled()? {
        let refuse = |column, reason: String| Err(line.error(Error::Labels, column, reason));
        let text = match line.text() {
            Ok(text) => text,
            Err(column) => return refuse(column, "expected UTF-8, found other bytes".to_owned()),
        };
        let layout = match &layout {
            Some(layout) => layout,
            None => match Layout::of_first_line(text, columns, names) {
                Err(reason) => return refuse(0, reason),
                Ok(first) if first.has_header => {
                    layout = Some(first);
                    continue;
                }
                Ok(first) => layout.insert(first),
            },
        };
        let (node, class) = match layout.cells(text) {
            Ok(cells) => cells,
            Err(reason) => return refuse(0, reason),
        };
        let Some(node) = find_node(names, &node) else {
            return refuse(0, layout.unknown(&node));
        };
        rows.push(Row {
            node,
            class: class.into_owned(),
            set,
            line: line.number,
        });
    }
    if rows.len() == n_before {
        return Err(at(path, 0, "the file holds no label"));
    }
    Ok(())
}

/// The node of that name, in brackets or without.
fn find_node(names: &Names, name: &str) -> Option<u32> {
    let bare = name.strip_prefix('<').and_then(|n| n.strip_suffix('>'));
    names.find(bare.unwrap_or(name))
}

/// No node has two labels, in one file or in two.
fn check_once(rows: &[Row], files: &[Option<&PathBuf>; 3], names: &Names) -> Result<(), Error> {
    let mut first_rows: BTreeMap<u32, &Row> = BTreeMap::new();
    for row in rows {
        let Some(first) = first_rows.insert(row.node, row) else {
            continue;
        };
        let file = |set: usize| files[set].map_or(Path::new(""), PathBuf::as_path);
        let reason = format!(
            "node {} has a label already, at {}:{}",
            shortened(names.get(row.node).as_bytes()),
            file(first.set).display(),
            first.line
        );
        return Err(at(file(row.set), row.line, &reason));
    }
    Ok(())
}

/// The classes that occur, in an order that does not depend on that of the rows.
fn class_names(rows: &[Row]) -> Vec<String> {
    let mut classes: Vec<String> = rows.iter().map(|row| row.class.clone()).collect();
    classes.sort_unstable();
    classes.dedup();
    let numbers: Option<Vec<u64>> = classes.iter().map(|class| class.parse().ok()).collect();
    if let Some(numbers) = numbers {
        let mut by_number: Vec<(u64, String)> = numbers.into_iter().zip(classes).collect();
        by_number.sort_unstable();
        return by_number.into_iter().map(|(_, class)| class).collect();
    }
    classes
}
