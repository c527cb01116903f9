//! The options of an import.

use serde::{Deserialize, Serialize};

use super::format::TripleFormat;

/// The treatment of triples whose object is a literal. (R-GCN's authors keep them, DGL drops them.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Literals {
    /// A literal is a node; equal literals are one node.
    #[default]
    Keep,
    /// The triple is left out, and counted.
    Drop,
}

/// Options of the readers of triples.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// The form; `None` to go by the name, then by the first line.
    pub format: Option<TripleFormat>,
    /// The file of a tar archive, by its name with or without folders and endings; `None` for the
    /// only one, or the one called `train`.
    pub member: Option<String>,
    /// The treatment of literals.
    pub literals: Literals,
    /// The most bad lines; the default, 0, refuses the first one. Turtle has no lines: there the
    /// first error always ends it.
    pub max_bad_lines: u64,
    /// The nodes of a file of numbers; `None` for one more than its largest id.
    pub n_nodes: Option<u32>,
    /// The relations of a file of numbers, those without an edge among them; `None` for one more
    /// than its largest id, each with an edge.
    pub n_relations: Option<u32>,
    /// True if a triple that a file has twice counts twice; by default it is one, as in a set of
    /// triples.
    pub keep_duplicates: bool,
}
