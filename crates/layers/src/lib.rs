//! Graph network layers: structure2vec and the Q head of OpenGraphGym-MG, and others in their
//! places, sharded over ranks.
//!
//! A [`Policy`] puts an [`Embedding`] and a [`Head`] together: it embeds the nodes of a batch of
//! graph states ([`StateBatch`]) and scores them. Every method takes `&mut dyn Ctx`, so the same
//! code is checked for shapes, run, and differentiated. [`Embedding::best_path`] chooses the
//! special path; [`ScoreTable`] is the closed form of the two-layer policy that inference on
//! unweighted graphs uses.
//!
//! ```text
//! PolicyShape: Sizes, EmbeddingKind, HeadKind ── build ──> Policy over Params
//!   EmbeddingKind = LayerKind<dyn Embedding>:  Structure2Vec, GraphSage, another crate's
//!   HeadKind      = LayerKind<dyn Head>:       QHead, MlpHead, another crate's
//!   LayerRegistry: the kinds that a policy file may name
//! StateBatch ── Embedding::embed (Path) ──> rows of K ── Head::scores ──> a score for each node
//!                                                        ScoreTable: the same in closed form, L <= 2
//!                                                        RowProgram: the same for some rows, L >= 3
//! ```
//!
//! # Source
//! OpenGraphGym-MG, equations 1 and 2, algorithms 2 and 3.
//!
//! ```
//! use shardgraph_layers::autodiff::{Params, Shape};
//! use shardgraph_layers::{Policy, PolicyShape, ScoreTable};
//!
//! let mut params = Params::new();
//! let mut next = 0.0;
//! let shape = PolicyShape { embed_dim: 4, n_layers: 2, ..PolicyShape::default() };
//! let policy = Policy::build(&mut params, shape, &mut || { next += 0.1; next })?;
//! let table = ScoreTable::new(&policy, &params).expect("two layers have a closed form");
//! assert!(table.score(2.0, 3.0) > table.score(1.0, 1.5)); // all weights are positive here
//! # Ok::<(), shardgraph_layers::autodiff::Error>(())
//! ```
#![forbid(unsafe_code)]

mod embedding;
mod graph_sage;
mod head;
mod kind;
mod known;
mod mlp_head;
mod path;
mod policy;
mod q_head;
mod row_program;
mod score_table;
mod shape;
mod sharded;
mod state_batch;
mod structure2vec;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;

pub use embedding::Embedding;
pub use graph_sage::GraphSage;
pub use head::Head;
pub use kind::{EmbeddingKind, HeadKind, KnownKinds, LayerKind, LayerRegistry, Parameter, Sizes};
pub use mlp_head::MlpHead;
pub use path::Path;
pub use policy::Policy;
pub use q_head::QHead;
pub use row_program::{FirstLayers, RowProgram};
pub use score_table::ScoreTable;
pub use shape::PolicyShape;
pub use sharded::{
    BatchLayout, Group, MaskInputs, Propagate, Propagation, ResidentShard, RowShard, ShardMatMul,
    ShardOuter, ShardedOps, StateBroadcast, StateSum,
};
pub use state_batch::{StateBatch, StateInputs};
pub use structure2vec::Structure2Vec;

pub use shardgraph_autodiff as autodiff;
pub use shardgraph_shard as shard;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
