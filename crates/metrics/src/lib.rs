//! Measures of an answer: link prediction, classification, clusters, and intervals over repeats.
//!
//! ```text
//! scores of edges and of other pairs ---> auc
//! ranks of true links ------------------> RankSums -> RankScores (MRR, hits)
//! rows + classes -> OneVsRest (Logistic) -> F1Counts -> F1
//!                                        -> confusion_matrix, wilson_interval
//! rows -> kmeans -> clusters + classes ---> mutual_information
//! rows -> principal_plane --------------> points of a picture
//! one number per run -------------------> mean_and_std, standard_error, t_interval
//! ```
//!
//! ```
//! use shardgraph_metrics::{auc, wilson_interval};
//!
//! assert_eq!(auc(&[3.0, 2.0], &[2.0, 1.0]), 0.875);
//! let (low, high) = wilson_interval(8, 10);
//! assert!(low < 0.8 && 0.8 < high);
//! ```

#![forbid(unsafe_code)]

mod auc;
mod f1;
mod kmeans;
mod logistic;
mod mutual_information;
#[cfg(test)]
mod naive;
mod pca;
mod ranks;
mod repeats;
mod shares;
#[cfg(test)]
mod tests;

pub use auc::auc;
pub use f1::{F1, F1Counts, OneVsRest};
pub use kmeans::kmeans;
pub use logistic::Logistic;
pub use mutual_information::mutual_information;
pub use pca::{PrincipalPlane, principal_plane};
pub use ranks::{RankScores, RankSums};
pub use repeats::{mean_and_std, standard_error, student_t, t_interval};
pub use shares::{confusion_matrix, wilson_interval};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
