//! The residual graph over a bit matrix, for dense graphs.

use std::borrow::Cow;
use std::ops::Range;

use crate::kernels::bits::{ColumnSumScratch, column_sums, compact};
use shardgraph_collectives::Op;
use shardgraph_layers::ScoreTable;
use shardgraph_shard::{BitShard, Partition};

use super::degrees::Degrees;
use super::lists::gather_degrees;
use super::{Counts, Ranks, Residual, offer_all};
use crate::Error;
use crate::select::TopD;

/// Rows and columns of nodes without an edge are dropped once fewer than this share are left.
const COMPACT_BELOW: f64 = 0.8;
/// Below this many rows the whole matrix is in the nearest cache anyway.
const COMPACT_FROM: usize = 256;

/// All rows restricted to own columns as bits, with the degrees of all rows and the neighbour degrees of own columns.
///
/// Rows are numbered anew when the matrix is compacted; `nodes` gives each row's node, always ascending.
pub(crate) struct BitsResidual<'a> {
    words: Cow<'a, [u64]>,
    words_per_row: usize,
    nodes: Vec<u32>,
    /// Node to row; stale for dropped nodes.
    rows: Vec<u32>,
    /// The rows of each rank's own nodes.
    rank_rows: Vec<Range<usize>>,
    rank: usize,
    degrees: Degrees,
    counts: Counts,
    /// Zeros where it is not counted.
    d2: Vec<u64>,
    scratch: ColumnSumScratch,
    sums: Vec<u32>,
    selected: Vec<u32>,
}

impl<'a> BitsResidual<'a> {
    pub(crate) fn new(
        shard: &'a BitShard,
        partition: &Partition,
        counts: Counts,
        ranks: &mut Ranks<'_>,
    ) -> Result<Self, Error> {
        let n_nodes = partition.n_rows();
        let words_per_row = shard.words_per_row();
        let n_own = shard.columns_range().len();
        let rows_of = |rank: u32| {
            let range = partition.range(rank);
            range.start as usize..range.end as usize
        };
        let mut residual = Self {
            words: Cow::Borrowed(shard.words()),
            words_per_row,
            nodes: (0..n_nodes).collect(),
            rows: (0..n_nodes).collect(),
            rank_rows: (0..partition.n_ranks()).map(rows_of).collect(),
            rank: ranks.comm.rank() as usize,
            degrees: Degrees::new(Vec::new()),
            counts,
            d2: vec![0; n_own],
            scratch: ColumnSumScratch::default(),
            sums: vec![0; 64 * words_per_row],
            selected: Vec::new(),
        };
        let all: Vec<u32> = (0..n_nodes).collect();
        residual.sum_columns(&all);
        let degrees = gather_degrees(residual.sums[..n_own].to_vec(), partition, ranks)?;
        residual.degrees = Degrees::new(degrees);
        if counts == Counts::WithNeighborDegrees {
            residual.count_neighbor_degrees();
        }
        Ok(residual)
    }

    /// `d2_w = sum over neighbours of deg`, one bit of the degrees at a time: the rows whose degree has bit `b` set
    /// count `2^b` each.
    fn count_neighbor_degrees(&mut self) {
        let n_bits = u32::BITS - self.degrees.max().leading_zeros();
        for bit in 0..n_bits {
            let has_bit = |&row: &u32| self.degrees.get(row as usize) >> bit & 1 == 1;
            let rows: Vec<u32> = (0..self.nodes.len() as u32).filter(has_bit).collect();
            self.sum_columns(&rows);
            for (d2, &sum) in self.d2.iter_mut().zip(&self.sums) {
                *d2 += u64::from(sum) << bit;
            }
        }
    }

    fn sum_columns(&mut self, rows: &[u32]) {
        column_sums(
            &self.words,
            self.words_per_row,
            rows,
            &mut self.sums,
            &mut self.scratch,
        );
    }

    fn own_rows(&self) -> Range<usize> {
        self.rank_rows[self.rank].clone()
    }

    fn candidates(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        let own = self.own_rows();
        let degrees = &self.degrees.values()[own.clone()];
        let nodes = &self.nodes[own];
        let all = nodes.iter().zip(degrees).zip(&self.d2);
        all.filter(|((_, degree), _)| **degree > 0)
            .map(|((&node, &degree), &d2)| (node, degree, d2))
    }

    /// For each pick its neighbours, gone or not, as bits of all rows, rank by rank: `[rank][pick][words of rank]`.
    fn gather_neighbors(
        &self,
        picks: &[u32],
        ranks: &mut Ranks<'_>,
    ) -> Result<(Vec<u64>, Vec<usize>), Error> {
        let words_of = |rows: &Range<usize>| rows.len().div_ceil(64);
        let mut own = Vec::with_capacity(picks.len() * self.words_per_row);
        let n_words = words_of(&self.rank_rows[self.rank]);
        for &pick in picks {
            let row = self.rows[pick as usize] as usize;
            let row = &self.words[row * self.words_per_row..][..n_words];
            own.extend_from_slice(row);
        }
        let counts: Vec<usize> = self.rank_rows.iter().map(words_of).collect();
        if ranks.comm.size() == 1 {
            return Ok((own, counts));
        }
        let lengths: Vec<usize> = counts.iter().map(|count| count * picks.len()).collect();
        let mut all = vec![0u64; lengths.iter().sum()];
        let op = Op::AllGatherV {
            send: (&own[..]).into(),
            recv: (&mut all[..]).into(),
            counts: &lengths,
        };
        ranks.comm.run(op, ranks.timeout)?;
        Ok((all, counts))
    }

    /// Lists the rows of pick `i`'s residual neighbours: a node that has left has no edge.
    fn select_neighbors(&mut self, all: &[u64], counts: &[usize], n_picks: usize, i: usize) {
        self.selected.clear();
        let mut first = 0;
        for (rows, &count) in self.rank_rows.iter().zip(counts) {
            let words = &all[first + i * count..][..count];
            first += count * n_picks;
            for (w, &word) in words.iter().enumerate() {
                let mut word = word;
                while word != 0 {
                    let row = rows.start + 64 * w + word.trailing_zeros() as usize;
                    word &= word - 1;
                    if self.degrees.get(row) > 0 {
                        self.selected.push(row as u32);
                    }
                }
            }
        }
    }

    fn remove_one(&mut self, row: usize) {
        if self.counts == Counts::WithNeighborDegrees {
            self.lower_neighbor_degrees(u64::from(self.degrees.get(row)));
        }
        self.degrees.clear(row);
        for &u in &self.selected {
            self.degrees.decrement(u as usize);
        }
    }

    /// What the removal of a node with this degree and the selected neighbours takes from the sums.
    fn lower_neighbor_degrees(&mut self, degree: u64) {
        let own = self.own_rows();
        column_sums(
            &self.words,
            self.words_per_row,
            &self.selected,
            &mut self.sums,
            &mut self.scratch,
        );
        for (d2, &common) in self.d2.iter_mut().zip(&self.sums) {
            *d2 = d2.wrapping_sub(u64::from(common));
        }
        for &u in &self.selected {
            if own.contains(&(u as usize)) {
                let d2 = &mut self.d2[u as usize - own.start];
                *d2 = d2.wrapping_sub(degree);
            }
        }
    }

    /// Drops rows and columns of nodes without an edge. All ranks see the same degrees, so all do this together.
    fn compact_if_worthwhile(&mut self) {
        let n_rows = self.nodes.len();
        let n_candidates = self.degrees.n_candidates();
        if n_rows < COMPACT_FROM || f64::from(n_candidates) >= COMPACT_BELOW * n_rows as f64 {
            return;
        }
        let has_edge = |&row: &u32| self.degrees.get(row as usize) > 0;
        let kept: Vec<u32> = (0..n_rows as u32).filter(has_edge).collect();
        let own = self.own_rows();
        let mut keep_columns = vec![0u64; self.words_per_row];
        for column in 0..own.len() {
            let keep = u64::from(self.degrees.get(own.start + column) > 0);
            keep_columns[column / 64] |= keep << (column % 64);
        }
        let first_kept = |row: usize| kept.partition_point(|&kept| (kept as usize) < row);
        let own_kept = first_kept(own.start)..first_kept(own.end);
        let own_columns = kept[own_kept].iter();
        self.d2 = own_columns
            .map(|&row| self.d2[row as usize - own.start])
            .collect();
        for rows in &mut self.rank_rows {
            *rows = first_kept(rows.start)..first_kept(rows.end);
        }
        self.words_per_row = compact(
            self.words.to_mut(),
            self.words_per_row,
            &keep_columns,
            &kept,
        );
        self.nodes = kept.iter().map(|&row| self.nodes[row as usize]).collect();
        for (row, &node) in self.nodes.iter().enumerate() {
            self.rows[node as usize] = row as u32;
        }
        self.degrees.keep(&kept);
        self.sums.resize(64 * self.words_per_row, 0);
    }
}

impl Residual for BitsResidual<'_> {
    fn n_candidates(&self) -> u32 {
        self.degrees.n_candidates()
    }

    fn max_degree(&self) -> u32 {
        self.degrees.max()
    }

    fn for_each_own(&self, f: &mut dyn FnMut(u32, u32, u64)) {
        self.candidates()
            .for_each(|(node, degree, d2)| f(node, degree, d2));
    }

    fn offer(&mut self, table: &ScoreTable, scale: f32, top: &mut TopD) {
        offer_all(self.candidates(), table, scale, top);
    }

    fn remove(
        &mut self,
        picks: &[u32],
        keep_isolated: bool,
        ranks: &mut Ranks<'_>,
        cover: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let (all, counts) = self.gather_neighbors(picks, ranks)?;
        for (i, &pick) in picks.iter().enumerate() {
            let row = self.rows[pick as usize] as usize;
            if self.degrees.get(row) == 0 && !keep_isolated {
                continue;
            }
            self.select_neighbors(&all, &counts, picks.len(), i);
            self.remove_one(row);
            cover.push(pick);
        }
        self.compact_if_worthwhile();
        Ok(())
    }
}
