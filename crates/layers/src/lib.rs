//! Graph network layers: structure2vec and the Q head of OpenGraphGym-MG, and others in their places, sharded over ranks.
//!
//! A [`Policy`] puts an [`Embedding`] and a [`Head`] together: it embeds the nodes of a batch of graph states ([`StateBatch`]) and scores
//! them. Every method takes `&mut dyn Ctx`, so the same code is checked for shapes, run, and differentiated. The special
//! paths of the embedding are chosen by one function, [`choose_path`]; [`ScoreTable`] is the closed form of the
//! two-layer policy that inference on unweighted graphs uses.
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
mod mlp_head;
mod path;
mod policy;
mod q_head;
mod score_table;
mod state_batch;
mod structure2vec;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod other_layers_tests;
#[cfg(test)]
mod tests;

pub use embedding::{Embedding, EmbeddingKind};
pub use graph_sage::GraphSage;
pub use head::{Head, HeadKind};
pub use mlp_head::MlpHead;
pub use path::{Path, choose_path};
pub use policy::{Policy, PolicyShape};
pub use q_head::QHead;
pub use score_table::ScoreTable;
pub use state_batch::StateBatch;
pub use structure2vec::Structure2Vec;

pub use shardgraph_autodiff as autodiff;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
