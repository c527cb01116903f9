//! The ranks, memory, device and folder of a run.

use std::path::PathBuf;

use shardgraph_collectives::Timeout;
use shardgraph_device::Device;

use super::execution::Execution;
use crate::partition::Method;

/// The ranks, memory and folder of a run; with exact sums nothing here changes a bit of what it
/// computes.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Ranks that share the sources; threads of this process.
    pub n_ranks: u32,
    /// The partition of the messages.
    pub partition: Method,
    /// The execution of the first layer.
    pub execution: Execution,
    /// The device of the epochs: the host, or one whose streams, or which and those behind it, the
    /// ranks train on without batches, dropout, blocks and Adagrad. The scores at the end are the host's.
    pub device: Device,
    /// The most bytes that a rank's device may hold, the graph not counted; what does not fit is
    /// taken in tiles. Absent: everything stays.
    pub budget_per_device: Option<u64>,
    /// The most bytes that this process' ranks may hold together; absent: what the machine has
    /// free.
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
    /// The longest wait for another rank.
    pub deadline: Timeout,
    /// The names of the classes, which the folder keeps; may be empty.
    pub class_names: Vec<String>,
    /// The names of the relations without inverse ones, which the folder keeps; may be empty.
    pub relation_names: Vec<String>,
    /// True if the outcome has the model, for [`crate::RelationalClassifier::from_outcome`].
    pub keeps_model: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            n_ranks: 1,
            partition: Method::Source,
            execution: Execution::Grouped,
            device: Device::host(),
            budget_per_device: None,
            memory: None,
            folder: None,
            resume: false,
            checkpoint_epochs: 0,
            checkpoint_s: None,
            deadline: Timeout::default(),
            class_names: Vec::new(),
            relation_names: Vec::new(),
            keeps_model: false,
        }
    }
}
