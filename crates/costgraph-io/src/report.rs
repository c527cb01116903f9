//! What a reader assumed, left out or found beside the graph.

use super::Format;
use std::collections::BTreeMap;

/// Notes on one imported graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The format that the file was read as.
    pub format: Format,
    /// Tensors whose size is not known; they count as 0 bytes.
    pub unknown_sizes: u64,
    /// CostGraphDef outputs whose `alias_input_port` is absent or 0, which the format does not tell apart: views of their op's first
    /// input.
    pub implied_views: u64,
    /// Those of them that are no reshapes as TensorFlow writes them: of another size than the input, or in a file where no output has
    /// an `alias_input_port` at all.
    pub doubtful_views: u64,
    /// ONNX ops that the cost model has no meaning for, by kind, and how many of each; they cost a launch and their bytes.
    pub unknown_ops: BTreeMap<String, u64>,
    /// ONNX dimensions that the model leaves open, by name (`?` for those without one), and the size that was taken.
    pub assumed_dims: BTreeMap<String, u64>,
    /// ONNX weights whose data is in another file; their sizes are known, the file is not read.
    pub external_weights: u64,
    /// ONNX ops with sub-graphs (If, Loop, Scan); each is one op, what is inside is not costed.
    pub ops_with_subgraphs: u64,
    /// ONNX nodes that only make or rearrange numbers known beforehand (shapes, constants); they cost nothing.
    pub folded_ops: u64,
    /// dnn-partitioning nodes that no accelerator supports.
    pub ops_without_accelerator: u64,
    /// How many accelerators the file says there are.
    pub devices: Option<u32>,
    /// How many processors the file says there are.
    pub cpus: Option<u32>,
    /// The memory of an accelerator, as the file says.
    pub memory_bytes: Option<u64>,
}

impl Report {
    pub(crate) fn new(format: Format) -> Report {
        Report {
            format,
            unknown_sizes: 0,
            implied_views: 0,
            doubtful_views: 0,
            unknown_ops: BTreeMap::new(),
            assumed_dims: BTreeMap::new(),
            external_weights: 0,
            ops_with_subgraphs: 0,
            folded_ops: 0,
            ops_without_accelerator: 0,
            devices: None,
            cpus: None,
            memory_bytes: None,
        }
    }

    /// The notes that a reader of the graph ought to see, a sentence each; empty when nothing was assumed or left out.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |n: u64, text: &str| {
            if n > 0 {
                warnings.push(format!("{n} {text}"));
            }
        };
        warn(
            self.unknown_sizes,
            "tensors of unknown size count as 0 bytes",
        );
        warn(
            self.doubtful_views,
            "outputs without alias_input_port count as views of their op's first input and take no memory; write -1 where none is meant",
        );
        warn(
            self.external_weights,
            "weights are in another file, which is not read",
        );
        warn(
            self.ops_with_subgraphs,
            "ops have sub-graphs, whose inside is not costed",
        );
        warn(
            self.ops_without_accelerator,
            "nodes run on a processor only, and cost the same everywhere here",
        );
        for (kind, n) in &self.unknown_ops {
            warnings.push(format!(
                "{n} ops of the unknown kind `{kind}` cost a launch and their bytes only"
            ));
        }
        for (name, size) in &self.assumed_dims {
            warnings.push(format!("the open dimension `{name}` was taken as {size}"));
        }
        warnings
    }
}
