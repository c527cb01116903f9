//! What ranks kept and exchanged for sums over neighbours, beside the paper's formulas, as it is printed.

use serde::Serialize;
use shardgraph_solver::{Exchange, PaperModel};

/// The fields are the keys of the JSON object `exchange`.
#[derive(Debug, Serialize)]
pub(crate) struct ExchangeReport {
    communication: String,
    /// What the rank with most took in for each step, picks and degrees included; null where ranks read each other's buffers on a device.
    received_bytes_per_step: Option<u64>,
    /// Equations 3 and 5.
    paper_bytes_per_step: u64,
    /// The adjacency of the rank with most.
    matrix_bytes: u64,
    /// Section 5.2.
    paper_matrix_bytes: u64,
}

impl ExchangeReport {
    /// Of a job of so many steps, in each of which the paper's ranks would exchange so many bytes.
    pub(crate) fn new(exchange: &Exchange, n_steps: u64, paper: (&PaperModel, u64)) -> Self {
        Self {
            communication: exchange.communication.to_string(),
            received_bytes_per_step: exchange.received_bytes.map(|bytes| bytes / n_steps.max(1)),
            paper_bytes_per_step: paper.1,
            matrix_bytes: exchange.matrix_bytes,
            paper_matrix_bytes: paper.0.matrix_bytes(),
        }
    }

    /// Where each step evaluates the policy on one state.
    pub(crate) fn of_evaluations(exchange: &Exchange, n_steps: u64, paper: &PaperModel) -> Self {
        Self::new(exchange, n_steps, (paper, paper.evaluation_bytes()))
    }
}
