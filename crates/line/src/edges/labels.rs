//! Labels of the nodes: one text and the end of each label in it.

use std::io::{self, Read, Write};
use std::path::Path;

use shardgraph_graph::Labels;
use shardgraph_storage::SpillFile;

use super::beside::beside;

/// A label for each node.
///
/// ```
/// use shardgraph_line::NodeLabels;
///
/// let labels = NodeLabels::new(["ann", "bob"]);
/// assert_eq!((labels.get(1), labels.find("bob"), labels.find("cid")), ("bob", Some(1), None));
/// assert_eq!(NodeLabels::numbers(3).get(2), "2");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLabels {
    text: String,
    ends: Vec<u64>,
}

impl NodeLabels {
    /// The given labels, from node 0 on.
    pub fn new<'l>(labels: impl IntoIterator<Item = &'l str>) -> NodeLabels {
        let mut list = NodeLabels::default();
        for label in labels {
            list.push(label);
        }
        list
    }

    /// Node `v` is called `v`.
    #[must_use]
    pub fn numbers(n_nodes: u32) -> NodeLabels {
        let mut list = NodeLabels::default();
        for v in 0..n_nodes {
            list.push(&v.to_string());
        }
        list
    }

    /// The labels that a reader found.
    #[must_use]
    pub fn of_graph(labels: &Labels) -> NodeLabels {
        let mut list = NodeLabels::default();
        for v in 0..labels.n_nodes() {
            list.push(&labels.get(v));
        }
        list
    }

    /// Adds the label of the next node.
    pub(crate) fn push(&mut self, label: &str) {
        self.text.push_str(label);
        self.ends.push(self.text.len() as u64);
    }

    /// Number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The label of node `v`.
    ///
    /// # Panics
    /// When `v` has none.
    #[must_use]
    pub fn get(&self, v: usize) -> &str {
        let start = if v == 0 { 0 } else { self.ends[v - 1] };
        &self.text[start as usize..self.ends[v] as usize]
    }

    /// The labels in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        (0..self.len()).map(|v| self.get(v))
    }

    /// The first node of that label.
    ///
    /// # Complexity
    /// O(n): it is asked for once in a while.
    #[must_use]
    pub fn find(&self, label: &str) -> Option<u32> {
        self.iter()
            .position(|other| other == label)
            .map(|v| v as u32)
    }

    /// Two nodes of one label, the first of them in the order of labels.
    ///
    /// # Complexity
    /// O(n log n) comparisons of labels.
    pub(crate) fn twins(&self) -> Option<(usize, usize)> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by(|&one, &other| self.get(one).cmp(self.get(other)));
        let mut pairs = order.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.find(|&(one, other)| self.get(one) == self.get(other))
    }

    /// The bytes of [`NodeLabels::write`].
    pub(crate) fn bytes(&self) -> u64 {
        8 * self.ends.len() as u64 + self.text.len() as u64
    }

    /// Writes ends, then text.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for end in &self.ends {
            out.write_all(&end.to_le_bytes())?;
        }
        out.write_all(self.text.as_bytes())
    }

    /// Reads what [`NodeLabels::write`] wrote; [`None`] where it is none.
    pub(crate) fn read(n_nodes: u32, bytes: &[u8]) -> Option<NodeLabels> {
        let (ends, text) = bytes.split_at_checked(8 * n_nodes as usize)?;
        let ends = ends.chunks_exact(8).map(|end| end.try_into().ok());
        let ends: Vec<u64> = ends
            .map(|end| end.map(u64::from_le_bytes))
            .collect::<Option<_>>()?;
        let text = std::str::from_utf8(text).ok()?.to_owned();
        let fits = ends.last().copied().unwrap_or(0) == text.len() as u64
            && ends.is_sorted()
            && ends.iter().all(|&end| text.is_char_boundary(end as usize));
        fits.then_some(NodeLabels { text, ends })
    }
}

/// Labels that are too many for memory, in the order of their nodes.
#[derive(Debug)]
pub(crate) struct LabelSpool {
    text: SpillFile,
    /// As u64, where each label ends in the text.
    ends: SpillFile,
}

impl LabelSpool {
    pub(crate) fn new(stem: &Path, what: &str, room: usize) -> LabelSpool {
        LabelSpool {
            text: SpillFile::new(beside(stem, what), room),
            ends: SpillFile::new(beside(stem, &format!("{what}-ends")), room),
        }
    }

    /// What [`LabelSpool::keep`] left in files, of so many bytes of text and of ends.
    pub(crate) fn kept(stem: &Path, what: &str, room: usize, bytes: [u64; 2]) -> io::Result<Self> {
        let [text, ends] = bytes;
        Ok(LabelSpool {
            text: SpillFile::kept(beside(stem, what), room, text)?,
            ends: SpillFile::kept(beside(stem, &format!("{what}-ends")), room, ends)?,
        })
    }

    /// As [`SpillFile::keep`]; gives the bytes of text and of ends.
    pub(crate) fn keep(&mut self) -> io::Result<[u64; 2]> {
        self.text.keep()?;
        self.ends.keep()?;
        Ok([self.text.bytes(), self.ends.bytes()])
    }

    pub(crate) fn push(&mut self, label: &[u8]) -> io::Result<()> {
        self.text.write(label)?;
        self.ends.write(&self.text.bytes().to_le_bytes())
    }

    pub(crate) fn path(&self) -> &Path {
        self.text.path()
    }

    pub(crate) fn len(&self) -> u64 {
        self.ends.bytes() / 8
    }

    /// As [`NodeLabels::bytes`].
    pub(crate) fn bytes(&self) -> u64 {
        self.ends.bytes() + self.text.bytes()
    }

    /// As [`NodeLabels::write`].
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        io::copy(&mut self.ends.read(), out)?;
        io::copy(&mut self.text.read(), out)?;
        Ok(())
    }

    pub(crate) fn iter(&self) -> LabelStream<impl Read + '_, impl Read + '_> {
        LabelStream::new(self.ends.read(), self.text.read())
    }
}

/// Labels one by one, from their ends and their text.
pub(crate) struct LabelStream<E, T> {
    ends: E,
    text: T,
    at: u64,
    label: Vec<u8>,
}

impl<E: Read, T: Read> LabelStream<E, T> {
    pub(crate) fn new(ends: E, text: T) -> LabelStream<E, T> {
        LabelStream {
            ends,
            text,
            at: 0,
            label: Vec::new(),
        }
    }

    /// The next label; there must be one.
    pub(crate) fn next(&mut self) -> io::Result<&[u8]> {
        let mut end = [0; 8];
        self.ends.read_exact(&mut end)?;
        let end = u64::from_le_bytes(end);
        let len = end.checked_sub(self.at);
        let len = len.ok_or_else(|| io::Error::other("the labels are damaged"))?;
        self.at = end;
        self.label.clear();
        let n = self.text.by_ref().take(len).read_to_end(&mut self.label)?;
        match n as u64 == len {
            true => Ok(&self.label),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
