//! The rows of a batch of graph states that a rank has, and their division into blocks and states.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use shardgraph_autodiff::Error;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::ops::RowIndex;
use shardgraph_shard::Partition;

/// Some states of one graph in a batch.
#[derive(Debug, Clone)]
pub struct Group {
    /// The cut of the graph's nodes over ranks.
    pub partition: Partition,
    /// States of this graph in the batch.
    pub n_states: usize,
}

/// The rows that one rank has of a batch: for each group, own node and state one row, in that order.
///
/// # Shapes
/// The row of state `b` at own node `v` of a group is `first_row + (v - own.start) * n_states + b`. Blocks are the
/// graph's fixed row blocks (see [`shardgraph_shard::block_rows`]) times its states: they do not depend on the number
/// of ranks, which is what makes sums over them repeatable.
#[derive(Debug, Clone)]
pub struct BatchLayout {
    groups: Vec<Group>,
    rank: u32,
    first_rows: Vec<usize>,
    first_states: Vec<usize>,
    bounds: Vec<usize>,
    states: Vec<u32>,
    partials: Vec<u32>,
    n_partials: usize,
    /// `partials` on the device that used them first.
    partials_on_device: Arc<OnceLock<RowIndex>>,
}

impl BatchLayout {
    /// The layout of `rank`'s rows.
    pub fn new(groups: Vec<Group>, rank: u32) -> Self {
        let n_states = groups.iter().map(|group| group.n_states).sum::<usize>();
        let mut layout = Self {
            groups: Vec::new(),
            rank,
            first_rows: vec![0],
            first_states: vec![0],
            bounds: vec![0],
            states: Vec::new(),
            partials: Vec::new(),
            n_partials: 0,
            partials_on_device: Arc::default(),
        };
        for group in groups {
            layout.push(group, n_states);
        }
        layout
    }

    fn push(&mut self, group: Group, total_states: usize) {
        let own = group.partition.range(self.rank);
        let block_rows = group.partition.block_rows().max(1);
        let first_state = self.n_states();
        let mut local_block = 0;
        let mut node = own.start;
        while node < own.end {
            let end = own.end.min((node / block_rows + 1) * block_rows);
            for _ in node..end {
                for state in first_state..first_state + group.n_states {
                    self.states.push(state as u32);
                    self.partials
                        .push((local_block * total_states + state) as u32);
                }
            }
            self.bounds.push(self.states.len());
            local_block += 1;
            self.n_partials = self.n_partials.max(local_block);
            node = end;
        }
        self.first_rows.push(self.states.len());
        self.first_states.push(first_state + group.n_states);
        self.groups.push(group);
    }

    /// The groups of the batch.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The rank whose rows these are.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Own rows of the batch.
    pub fn n_rows(&self) -> usize {
        self.states.len()
    }

    /// States in the batch, over all groups.
    pub fn n_states(&self) -> usize {
        *self.first_states.last().unwrap_or(&0)
    }

    /// The start of each own block, and the end of the last.
    pub fn bounds(&self) -> &[usize] {
        &self.bounds
    }

    /// Number of own blocks.
    pub fn n_blocks(&self) -> usize {
        self.bounds.len() - 1
    }

    /// The own rows of a group.
    pub fn group_rows(&self, group: usize) -> Range<usize> {
        self.first_rows[group]..self.first_rows[group + 1]
    }

    /// The states of a group.
    pub fn group_states(&self, group: usize) -> Range<usize> {
        self.first_states[group]..self.first_states[group + 1]
    }

    /// The state of each own row.
    pub fn states(&self) -> &[u32] {
        &self.states
    }

    /// For each own row its slot among `n_partials * n_states` partial sums: no slot gets rows of two blocks of one
    /// graph, so a slot's sum has the same bits for every number of ranks.
    ///
    /// They are in the memory of the first device that needs them: a layout, with its clones, is for one device.
    pub(super) fn partials_on(&self, device: &Device) -> Result<&RowIndex, Error> {
        if let Some(index) = self.partials_on_device.get() {
            return Ok(index);
        }
        let n_slots = self.n_partials * self.n_states();
        let index = RowIndex::upload(device, n_slots, self.partials.as_slice())?;
        Ok(self.partials_on_device.get_or_init(|| index))
    }

    /// The own row of a node in a state of a group, if this rank has that node.
    pub fn row(&self, group: usize, node: u32, state_of_group: usize) -> Option<usize> {
        let own = self.groups[group].partition.range(self.rank);
        let n_states = self.groups[group].n_states;
        own.contains(&node).then(|| {
            self.first_rows[group] + (node - own.start) as usize * n_states + state_of_group
        })
    }

    /// Rows of the batch on each rank.
    pub fn counts(&self) -> Vec<usize> {
        let n_ranks = self.groups.first().map_or(1, |g| g.partition.n_ranks());
        (0..n_ranks)
            .map(|rank| {
                let rows = |g: &Group| g.partition.range(rank).len() * g.n_states;
                self.groups.iter().map(rows).sum()
            })
            .collect()
    }
}
