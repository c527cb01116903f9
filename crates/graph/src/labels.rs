//! The names that nodes had in their file, kept so that answers can be written in the user's own terms.

use std::io;

use shardgraph_storage::hash;

/// Original node labels: consecutive integers, ascending integers, or text.
///
/// ```
/// use shardgraph_graph::Labels;
///
/// let labels = Labels::offset(1, 3);
/// assert_eq!(labels.get(2), "3");
/// assert_eq!(labels.find("3"), Some(2));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Labels(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Offset { first: u64, n_nodes: u32 },
    Integers(Vec<u64>),
    Text(Interner),
}

impl Labels {
    /// Node `v` is called `first + v`.
    #[must_use]
    pub fn offset(first: u64, n_nodes: u32) -> Labels {
        Labels(Kind::Offset { first, n_nodes })
    }

    /// Node `v` is called `labels[v]`.
    ///
    /// # Panics
    /// When `labels` is not strictly ascending.
    #[must_use]
    pub fn integers(labels: Vec<u64>) -> Labels {
        assert!(
            labels.windows(2).all(|pair| pair[0] < pair[1]),
            "integer labels must ascend, so that they can be searched"
        );
        Labels(Kind::Integers(labels))
    }

    /// Node `v` is called as the `v`-th text of `interner`.
    #[must_use]
    pub fn text(interner: Interner) -> Labels {
        Labels(Kind::Text(interner))
    }

    /// Number of labelled nodes.
    #[must_use]
    pub fn n_nodes(&self) -> u32 {
        match &self.0 {
            Kind::Offset { n_nodes, .. } => *n_nodes,
            Kind::Integers(labels) => labels.len() as u32,
            Kind::Text(interner) => interner.len(),
        }
    }

    /// The label of node `v`.
    ///
    /// # Panics
    /// When `v` is not a labelled node.
    #[must_use]
    pub fn get(&self, v: u32) -> String {
        match &self.0 {
            Kind::Offset { first, .. } => (first + u64::from(self.checked(v))).to_string(),
            Kind::Integers(labels) => labels[v as usize].to_string(),
            Kind::Text(interner) => String::from_utf8_lossy(interner.get(v)).into_owned(),
        }
    }

    /// The labels of some of the nodes, which become 0, 1, ... in the order of `nodes`.
    ///
    /// # Panics
    /// When `nodes` is not strictly ascending, or holds what is not a labelled node.
    #[must_use]
    pub fn subset(&self, nodes: &[u32]) -> Labels {
        let numbers = |number: &dyn Fn(u32) -> u64| {
            Labels::integers(nodes.iter().map(|&v| number(v)).collect())
        };
        match &self.0 {
            Kind::Offset { first, .. } => numbers(&|v| first + u64::from(self.checked(v))),
            Kind::Integers(labels) => numbers(&|v| labels[v as usize]),
            Kind::Text(interner) => {
                assert!(nodes.is_sorted_by(|u, v| u < v), "the nodes must ascend");
                let mut kept = Interner::default();
                for &v in nodes {
                    kept.intern(interner.get(v));
                }
                Labels::text(kept)
            }
        }
    }

    /// Writes the label of node `v`, and nothing after it.
    ///
    /// # Errors
    /// Those of `out`.
    ///
    /// # Panics
    /// When `v` is not a labelled node.
    pub fn write_label(&self, v: u32, out: &mut dyn io::Write) -> io::Result<()> {
        match &self.0 {
            Kind::Offset { first, .. } => write!(out, "{}", first + u64::from(self.checked(v))),
            Kind::Integers(labels) => write!(out, "{}", labels[v as usize]),
            Kind::Text(interner) => out.write_all(interner.get(v)),
        }
    }

    /// The name of `v`, where names are text.
    pub(crate) fn text_of(&self, v: u32) -> Option<&[u8]> {
        match &self.0 {
            Kind::Text(interner) => Some(interner.get(v)),
            _ => None,
        }
    }

    /// The node called `label`, if there is one.
    #[must_use]
    pub fn find(&self, label: &str) -> Option<u32> {
        match &self.0 {
            Kind::Text(interner) => interner.find(label.as_bytes()),
            Kind::Integers(labels) => {
                let position = labels.binary_search(&label.parse().ok()?).ok()?;
                Some(position as u32)
            }
            Kind::Offset { first, n_nodes } => {
                let v = label.parse::<u64>().ok()?.checked_sub(*first)?;
                (v < u64::from(*n_nodes)).then_some(v as u32)
            }
        }
    }

    fn checked(&self, v: u32) -> u32 {
        assert!(v < self.n_nodes(), "node {v} has no label");
        v
    }
}

/// Text labels in order of first sight: one byte arena and an open-addressing table of ids.
///
/// (std's `HashMap` would own every string; ids come from the order of insertion, so nothing depends on the hash.)
///
/// ```
/// use shardgraph_graph::Interner;
///
/// let mut names = Interner::default();
/// let ids = ["ann", "bob", "ann"].map(|name| names.intern(name.as_bytes()));
/// assert_eq!((ids, names.len(), names.get(1)), ([0, 1, 0], 2, &b"bob"[..]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interner {
    arena: Vec<u8>,
    /// Ends of the labels in the arena.
    ends: Vec<u64>,
    /// Ids, or `EMPTY`; a power of two long, at most half full.
    table: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

impl PartialEq for Interner {
    fn eq(&self, other: &Interner) -> bool {
        self.ends == other.ends && self.arena == other.arena
    }
}

impl Interner {
    /// Number of labels.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let (arena, ends) = (self.arena.capacity(), 8 * self.ends.capacity());
        (arena + ends + 4 * self.table.len()) as u64
    }

    /// A label.
    ///
    /// # Panics
    /// When there is no such id.
    #[must_use]
    pub fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.arena[start as usize..self.ends[id] as usize]
    }

    /// The id of `label`, if it was ever seen.
    #[must_use]
    pub fn find(&self, label: &[u8]) -> Option<u32> {
        if self.table.is_empty() {
            return None;
        }
        let id = self.table[self.slot(label)];
        (id != EMPTY).then_some(id)
    }

    /// The id of `label`, a new one if it was never seen.
    ///
    /// # Complexity
    /// O(length) amortised; memory 12 to 24 B a label and its text.
    pub fn intern(&mut self, label: &[u8]) -> u32 {
        if 2 * (self.ends.len() + 1) > self.table.len() {
            self.grow();
        }
        let slot = self.slot(label);
        if self.table[slot] == EMPTY {
            self.table[slot] = self.len();
            self.arena.extend_from_slice(label);
            self.ends.push(self.arena.len() as u64);
        }
        self.table[slot]
    }

    /// Position of `label`, or of the gap for it.
    fn slot(&self, label: &[u8]) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = hash(label) as usize & mask;
        while self.table[slot] != EMPTY && self.get(self.table[slot]) != label {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        self.table = vec![EMPTY; (2 * self.table.len()).max(16)];
        for id in 0..self.len() {
            let slot = self.slot(self.get(id));
            self.table[slot] = id;
        }
    }
}
