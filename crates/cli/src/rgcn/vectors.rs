//! Vectors of a trained model as files: hidden units or embeddings of nodes, vectors of relations.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_collectives::Timeout;
use shardgraph_line::formats::{self, FileFormat};
use shardgraph_line::{Embedding, NodeLabels};
use shardgraph_rgcn::{LinkVectors, SavedLinks, hidden_units};

use super::data::DataArgs;
use crate::exit::BadInput;
use crate::output_file;
use crate::report::ReportArgs;
use crate::text::Layout;

/// Files of a model's vectors.
#[derive(Debug, Args)]
#[command(next_help_heading = "Vectors")]
pub(crate) struct VectorArgs {
    /// Write a vector for each node with its name: units of the last hidden layer, or of links what the decoder reads;
    /// .npy, .npz, .safetensors, .csv, .bin or .vec choose the format
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
    /// Write the vectors of relations with their names, of a model that predicts links; those of inverse relations, by
    /// which heads are asked for, are called inverse:NAME
    #[arg(long, value_name = "FILE")]
    relation_vectors: Option<PathBuf>,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    nodes: u32,
    columns: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relations_out: Option<&'a Path>,
}

impl VectorArgs {
    /// True if a file is asked for.
    pub(crate) fn is_set(&self) -> bool {
        self.vectors.is_some() || self.relation_vectors.is_some()
    }

    /// Loads data and model, writes the files and prints the answer.
    pub(crate) fn write(
        &self,
        data: &DataArgs,
        model: &Path,
        report: &ReportArgs,
    ) -> anyhow::Result<()> {
        for out in [&self.vectors, &self.relation_vectors]
            .into_iter()
            .flatten()
        {
            output_file::check_named(out, data.inputs())?;
        }
        match SavedLinks::is_in(model)? {
            true => self.of_links(data, model, report),
            false => self.of_classes(data, model, report),
        }
    }

    fn of_links(&self, data: &DataArgs, model: &Path, report: &ReportArgs) -> anyhow::Result<()> {
        let files = data.load_links()?;
        let vectors = SavedLinks::read(&files.links, model)?.vectors(&files.links)?;
        let (n_nodes, n_relations) = (files.links.n_nodes(), files.links.n_relations());
        let LinkVectors {
            width,
            nodes,
            relations,
            has_inverse_relations,
        } = vectors;
        if let Some(path) = &self.vectors {
            let names: Vec<String> = (0..n_nodes).map(|node| files.nodes.get(node)).collect();
            write(path, width, nodes, &names)?;
        }
        if let Some(path) = &self.relation_vectors {
            let name = |relation| files.relations.get(relation);
            let mut names: Vec<String> = (0..n_relations).map(name).collect();
            if has_inverse_relations {
                let inverse = |relation| format!("inverse:{}", files.relations.get(relation));
                names.extend((0..n_relations).map(inverse));
            }
            write(path, width, relations, &names)?;
        }
        report.answer(
            &Answer {
                graph: &files.name,
                nodes: n_nodes,
                columns: width,
                out: self.vectors.as_deref(),
                relations_out: self.relation_vectors.as_deref(),
            },
            &Layout::first("nodes"),
        )
    }

    fn of_classes(&self, data: &DataArgs, model: &Path, report: &ReportArgs) -> anyhow::Result<()> {
        if self.relation_vectors.is_some() {
            let text = "--relation-vectors is for models that predict links: classes have none";
            return Err(BadInput(text.to_owned()).into());
        }
        let data = data.load()?;
        let units = hidden_units(&data.graph, model, Timeout::default())?;
        let n_nodes = data.graph.n_nodes();
        if let Some(path) = &self.vectors {
            let names: Vec<String> = (0..n_nodes).map(|node| data.nodes.get(node)).collect();
            write(path, units.width, units.values, &names)?;
        }
        report.answer(
            &Answer {
                graph: &data.name,
                nodes: n_nodes,
                columns: units.width,
                out: self.vectors.as_deref(),
                relations_out: None,
            },
            &Layout::first("nodes"),
        )
    }
}

/// Writes rows with their names.
fn write(path: &Path, width: usize, values: Vec<f32>, names: &[String]) -> anyhow::Result<()> {
    let labels = NodeLabels::new(names.iter().map(String::as_str));
    formats::check_labels(path, &labels, Some(FileFormat::from_path(path)))?;
    Ok(formats::write(
        path,
        &Embedding::new(width, values, labels)?,
        None,
    )?)
}
