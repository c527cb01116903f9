//! A graph cut into P row shards: CSR and bit-matrix forms, COO views, and the partitioners.
//!
//! The way through this crate, in order: [`AdjacencyBuilder`] takes edges from a reader or a generator and keeps them in the
//! form that is smaller ([`choose_storage`]); the finished [`Adjacency`] is a whole graph, as lists or as bits; a [`Partition`]
//! cuts its rows into P contiguous ranges whose borders never depend on P (they fall on the borders of fixed blocks,
//! [`block_rows`]); and each rank holds one [`CsrShard`] or [`BitShard`], or the [`BlockShard`] that a [`Communication`] other than the
//! all-gather asks for.
//!
//! ```text
//! edges ── AdjacencyBuilder ──> Adjacency (Storage: lists or bits) <── Graph
//! Partition ── range(rank) ──> CsrShard | BitShard         the rows of one rank, all columns
//! Communication (gather, halo, grid, paper)
//!   └─ BlockShard ── BlockEntries                          the rows and columns of one rank
//!        └─ ExchangePlan                                   which rows go to which rank, and when
//! ```
//!
//! Bytes per stored entry: a list shard takes 4 (the column id) plus 8 per row, and 4 more when edges have weights; a bit
//! matrix takes N/8 per row over all ranks, whatever the density. Triples of 64-bit row, 64-bit column and a 32-bit value
//! take 20.
//!
//! ```
//! use shardgraph_graph::Graph;
//! use shardgraph_shard::{CsrShard, Partition};
//!
//! let square = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3), (3, 0)])?;
//! let halves = Partition::by_nonzeros(&square, 2);
//! let first = CsrShard::by_rows(&square, halves.range(0));
//! let second = CsrShard::by_rows(&square, halves.range(1));
//! assert_eq!(first.n_entries() + second.n_entries(), square.n_entries());
//! assert_eq!(second.row(3), &[0, 2]);
//! # Ok::<(), shardgraph_graph::Error>(())
//! ```
#![forbid(unsafe_code)]

mod adjacency;
mod bits;
mod block;
mod builder;
mod communication;
mod csr;
mod error;
mod exchange_plan;
mod half_matrix;
mod partition;
mod transpose;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;

pub use adjacency::{Adjacency, Storage, choose_storage};
pub use bits::BitShard;
pub use block::{BlockEntries, BlockShard};
pub use builder::AdjacencyBuilder;
pub use communication::Communication;
pub use csr::CsrShard;
pub use error::Error;
pub use exchange_plan::ExchangePlan;
pub use partition::{Partition, ROW_WORK, block_rows};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
