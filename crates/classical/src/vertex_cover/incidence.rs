//! [`Incidence`]: a graph's entries with weights, two for each edge, that know each other.

use shardgraph_graph::Graph;

use crate::vertex_cover::{Error, ErrorKind};

/// Marks an edge that is covered.
pub(crate) const COVERED: u32 = u32::MAX;

/// Neighbours and weights in rows, so that going through a row reads memory in order. Entries are numbered row after row; an
/// edge goes by the lower number of its two.
pub(crate) struct Incidence {
    offsets: Vec<u32>,
    /// The neighbour, and the weight of the edge to it.
    entries: Vec<(u32, u32)>,
    twins: Vec<u32>,
}

impl Incidence {
    pub(crate) fn new(graph: &Graph) -> Result<Incidence, Error> {
        let n_entries = graph.n_entries();
        if n_entries >= u64::from(COVERED) {
            return Err(ErrorKind::TooLarge { n_entries }.into());
        }
        let offsets: Vec<u32> = graph
            .offsets()
            .iter()
            .map(|&offset| offset as u32)
            .collect();
        let entries = graph.columns().iter().map(|&v| (v, 1)).collect();
        // Rows ascend, so that the rows of a node's neighbours name it in the order of their numbers.
        let mut next = offsets.clone();
        let mut twins = vec![0; n_entries as usize];
        for u in 0..graph.n_nodes() {
            for (entry, &v) in (offsets[u as usize]..).zip(graph.neighbors(u)) {
                twins[entry as usize] = next[v as usize];
                next[v as usize] += 1;
            }
        }
        Ok(Incidence {
            offsets,
            entries,
            twins,
        })
    }

    pub(crate) fn row(&self, v: u32) -> &[(u32, u32)] {
        &self.entries[self.first_entry(v) as usize..self.first_entry(v + 1) as usize]
    }

    pub(crate) fn first_entry(&self, v: u32) -> u32 {
        self.offsets[v as usize]
    }

    pub(crate) fn n_entries(&self) -> usize {
        self.entries.len()
    }

    /// The number that both entries of an edge agree on.
    pub(crate) fn edge(&self, entry: u32) -> u32 {
        entry.min(self.twins[entry as usize])
    }

    pub(crate) fn ends(&self, entry: u32) -> (u32, u32) {
        let twin = self.twins[entry as usize];
        (
            self.entries[twin as usize].0,
            self.entries[entry as usize].0,
        )
    }

    pub(crate) fn weight(&self, entry: u32) -> u32 {
        self.entries[entry as usize].1
    }

    pub(crate) fn add_weight(&mut self, entry: u32) {
        self.entries[entry as usize].1 += 1;
        let twin = self.twins[entry as usize];
        self.entries[twin as usize].1 += 1;
    }

    #[cfg(test)]
    pub(crate) fn set_weights(&mut self, all: u32) {
        self.entries.iter_mut().for_each(|entry| entry.1 = all);
    }

    /// Multiplies every weight by 3/10, downwards but to 1 at least, and gives the sum over edges.
    pub(crate) fn forget(&mut self) -> u64 {
        let mut sum = 0;
        for (_, weight) in &mut self.entries {
            *weight = ((u64::from(*weight) * 3 / 10) as u32).max(1);
            sum += u64::from(*weight);
        }
        sum / 2
    }
}
