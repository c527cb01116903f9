//! How a run that predicts links is carried out.

use std::path::PathBuf;

/// The ranks, memory and folder of a run that predicts links.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// Ranks that share a step, each a thread: up to 16 with the loss over all nodes, else 1; with
    /// an encoder they share its messages too.
    pub n_ranks: u32,
    /// The most bytes that the ranks may hold together; absent: what the machine has free.
    pub memory: Option<u64>,
    /// The folder for checkpoints and metrics; absent: none are written.
    pub folder: Option<PathBuf>,
    /// Go on from the folder's newest checkpoint.
    pub resume: bool,
    /// Epochs between two checkpoints; 0: none but those of `checkpoint_s`, and the last.
    pub checkpoint_epochs: u32,
    /// Seconds between two checkpoints, at least ten times what the last one took; absent: epochs
    /// decide alone.
    pub checkpoint_s: Option<f64>,
}

impl Default for LinkOptions {
    /// One rank, no folder.
    fn default() -> LinkOptions {
        LinkOptions {
            n_ranks: 1,
            memory: None,
            folder: None,
            resume: false,
            checkpoint_epochs: 0,
            checkpoint_s: None,
        }
    }
}
