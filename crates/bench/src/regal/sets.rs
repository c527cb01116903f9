//! The sets of graphs that the tables are about, and which graphs of them are kept back for tuning.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use shardgraph_costgraph::generate::{Synthetic, synthetic};
use shardgraph_costgraph::{
    DecoderKind, DeviceSet, Graph, ModelOptions, Objective, Problem, topology,
};
use shardgraph_costgraph_io::{ReadOptions, read_bytes, read_graphs};
use shardgraph_regal::{GeneticOptions, PlaceOptions, search};

use crate::paths;
use crate::report::{Failure, Report};

/// Graphs that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SetName {
    /// The paper's A.1.4, with its filter.
    Synthetic,
    Tensorflow,
    TorchForward,
    TorchTraining,
    Graphnet,
    Msr,
}

/// Which graphs a command is about.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    pub(super) set: SetName,
    /// No more than this many; absent: all there are (100 synthetic ones).
    #[serde(default)]
    max_graphs: Option<usize>,
    /// Those kept back for tuning instead of the others.
    #[serde(default)]
    held_out: bool,
    /// The filter's bar for synthetic graphs: what ten times the evaluations gain; absent: the paper's.
    #[serde(default)]
    min_gain: Option<f64>,
    /// Of the filter's searches.
    #[serde(default)]
    pub(super) genetic: GeneticOptions,
    /// A folder where which synthetic candidates pass the filter is kept from one call to the next of a series: minutes each time.
    #[serde(default)]
    kept: Option<PathBuf>,
}

/// Graphs with how they came about.
pub(super) struct Set {
    pub(super) graphs: Vec<Graph>,
    /// How many graphs there are without `max_graphs`.
    pub(super) n_available: usize,
    pub(super) candidates: Vec<Candidate>,
}

/// A synthetic graph before the filter.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Candidate {
    pub(super) model: String,
    /// By how much ten times the evaluations lower the runtime.
    pub(super) gain: f64,
    pub(super) is_kept: bool,
}

/// A.1.4: "keeping only the graphs whose runtime improved by at least 18%".
const MIN_GAIN: f64 = 0.18;
/// Evaluations of the filter's two searches.
const FILTER_EVALUATIONS: [u64; 2] = [1000, 10_000];
const N_SYNTHETIC: usize = 100;
/// The set's seed, and that of the graphs for tuning.
const SEEDS: [u64; 2] = [1, 2];
/// Of the graphs in order of size, one in this many is for tuning.
const HELD_OUT_EACH: usize = 40;
const HELD_OUT_FIRST: usize = HELD_OUT_EACH / 2;

impl Source {
    /// The graphs; `None`, after a line that says so, where the data folder lacks them.
    pub(super) fn load(&self, out: &mut Report) -> Result<Option<Set>, Failure> {
        if self.set == SetName::Synthetic {
            return self.generated().map(Some);
        }
        let Some(mut graphs) = self.read(out)? else {
            return Ok(None);
        };
        graphs.sort_by_key(Graph::n_ops);
        let chosen = split(graphs.len(), self.set, self.held_out);
        let n_available = chosen.len();
        let chosen = &chosen[..n_available.min(self.max_graphs.unwrap_or(n_available))];
        Ok(Some(Set {
            graphs: chosen.iter().map(|&at| graphs[at].clone()).collect(),
            n_available,
            candidates: Vec::new(),
        }))
    }

    /// What this source leaves to tuning, or the other way round.
    pub(super) fn complement(&self) -> Source {
        Source {
            held_out: !self.held_out,
            ..self.clone()
        }
    }

    fn read(&self, out: &mut Report) -> Result<Option<Vec<Graph>>, Failure> {
        let folder = paths::data().join("costgraphs");
        let (file, mode) = match self.set {
            SetName::Synthetic => return Ok(None),
            SetName::Tensorflow => ("tf_costgraph", None),
            SetName::TorchForward => ("torch_graphs.jsonl.gz", Some("fwd")),
            SetName::TorchTraining => ("torch_graphs.jsonl.gz", Some("train")),
            SetName::Graphnet => ("graphnet.jsonl.gz", None),
            SetName::Msr => ("msr_graphs.jsonl.gz", None),
        };
        let path = folder.join(file);
        if !path.exists() {
            out.skip(&format!("the data folder has no costgraphs/{file}"));
            return Ok(None);
        }
        if path.is_dir() {
            return files_of(&path).map(Some);
        }
        lines_of(&path, mode).map(Some)
    }

    /// Where it stands which candidates pass.
    fn kept_file(&self, n_graphs: usize, min_gain: f64) -> Option<PathBuf> {
        let (seed, n) = (SEEDS[usize::from(self.held_out)], self.genetic.population);
        let name = format!("kept-{n_graphs}-{min_gain}-{seed}-{n}.json");
        self.kept.as_ref().map(|folder| folder.join(name))
    }

    /// The first synthetic candidates of a new topology that pass the filter.
    fn generated(&self) -> Result<Set, Failure> {
        let n_graphs = self.max_graphs.unwrap_or(N_SYNTHETIC);
        let min_gain = self.min_gain.unwrap_or(MIN_GAIN);
        let seed = SEEDS[usize::from(self.held_out)];
        let kept = self.kept_file(n_graphs, min_gain);
        if let Some(known) = known(kept.as_deref(), seed)? {
            return Ok(known);
        }
        let mut passed: Vec<u64> = Vec::new();
        let mut set = Set {
            graphs: Vec::new(),
            n_available: n_graphs,
            candidates: Vec::new(),
        };
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..50 * n_graphs as u64 {
            if set.graphs.len() == n_graphs {
                break;
            }
            let graph = synthetic(&Synthetic::default(), seed, index)?;
            let topology = topology::in_degree_hash(&graph);
            if !seen.insert(topology) {
                continue;
            }
            let candidate = self.candidate(&graph, topology, min_gain)?;
            let is_kept = candidate.is_kept;
            set.candidates.push(candidate);
            if is_kept {
                passed.push(index);
                set.graphs.push(graph);
            }
        }
        if let Some(path) = kept {
            fs::write(path, serde_json::to_vec(&passed)?)?;
        }
        match set.graphs.len() < n_graphs {
            true => Err(format!("the filter leaves fewer than {n_graphs} graphs").into()),
            false => Ok(set),
        }
    }

    fn candidate(&self, graph: &Graph, topology: u64, min_gain: f64) -> Result<Candidate, Failure> {
        let gain = match min_gain > 0.0 {
            true => gain(graph, &self.genetic, topology)?,
            false => 0.0,
        };
        let model = graph
            .name()
            .trim_end_matches(|c: char| c == '-' || c.is_ascii_digit());
        Ok(Candidate {
            model: model.to_owned(),
            gain,
            is_kept: gain >= min_gain,
        })
    }
}

/// The synthetic graphs that an earlier call found to pass.
fn known(kept: Option<&Path>, seed: u64) -> Result<Option<Set>, Failure> {
    let Some(indices) = kept.and_then(|path| fs::read(path).ok()) else {
        return Ok(None);
    };
    let indices: Vec<u64> = serde_json::from_slice(&indices)?;
    let graphs = indices
        .iter()
        .map(|&index| synthetic(&Synthetic::default(), seed, index));
    Ok(Some(Set {
        n_available: indices.len(),
        graphs: graphs.collect::<Result<_, _>>()?,
        candidates: Vec::new(),
    }))
}

/// By how much the genetic algorithm gains from ten times the evaluations. The seed is the topology's, so that no later search
/// repeats these.
fn gain(graph: &Graph, genetic: &GeneticOptions, seed: u64) -> Result<f64, Failure> {
    let devices = DeviceSet::uniform(2, None)?;
    let problem = Problem::new(graph, &devices, Objective::Runtime, ModelOptions::default())?;
    let mut runtimes = [0.0; 2];
    for (runtime, evaluations) in runtimes.iter_mut().zip(FILTER_EVALUATIONS) {
        let options = PlaceOptions {
            decoder: Some(DecoderKind::Paper),
            evaluations,
            seed,
            genetic: *genetic,
            ..PlaceOptions::default()
        };
        let best = search(&problem, &options, Vec::new(), None)?.best;
        *runtime = best.fitness.1 as f64;
    }
    Ok(1.0 - runtimes[1] / runtimes[0])
}

fn files_of(folder: &Path) -> Result<Vec<Graph>, Failure> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    let graph = |path: &PathBuf| -> Result<Graph, Failure> {
        Ok(read_graphs(path, &ReadOptions::default())?.single()?.graph)
    };
    paths.iter().map(graph).collect()
}

/// The graphs of JSON lines whose `mode` is the one asked for.
fn lines_of(path: &Path, mode: Option<&str>) -> Result<Vec<Graph>, Failure> {
    #[derive(Deserialize)]
    struct Mode {
        mode: String,
    }
    let mut text = String::new();
    MultiGzDecoder::new(fs::File::open(path)?).read_to_string(&mut text)?;
    let mut graphs = Vec::new();
    for line in text.lines() {
        if mode.is_none_or(|mode| {
            serde_json::from_str(line).is_ok_and(|found: Mode| found.mode == mode)
        }) {
            let read = read_bytes("graph.jsonl", line.as_bytes(), &ReadOptions::default())?;
            graphs.push(read.single()?.graph);
        }
    }
    Ok(graphs)
}

/// Which of `n` graphs in order of size are kept back, or are not. All beginnings of the list have graphs of all sizes (the order is
/// that of the fractional parts of the multiples of the golden ratio), but for TensorFlow's, where the smaller ones come first: sixteen
/// are too few to keep any back, and the larger ones take minutes each.
fn split(n: usize, set: SetName, held_out: bool) -> Vec<usize> {
    let is_small = set == SetName::Tensorflow;
    let is_held_out = |at: usize| !is_small && at % HELD_OUT_EACH == HELD_OUT_FIRST;
    let mut chosen: Vec<usize> = (0..n).filter(|&at| is_held_out(at) == held_out).collect();
    if !is_small {
        chosen.sort_by_key(|&at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_graph_is_both_reported_and_tuned_on_and_none_is_lost() {
        for (set, n, n_kept_back) in [
            (SetName::Tensorflow, 16, 0),
            (SetName::Msr, 24, 1),
            (SetName::Graphnet, 292, 7),
        ] {
            let (reported, kept_back) = (split(n, set, false), split(n, set, true));
            let mut all = [&reported[..], &kept_back[..]].concat();
            all.sort_unstable();
            assert_eq!(kept_back.len(), n_kept_back, "{set:?}");
            assert_eq!(all, (0..n).collect::<Vec<_>>(), "{set:?}");
            let first: usize = reported.iter().take(8).filter(|&&at| at < n / 2).count();
            let is_spread = set == SetName::Tensorflow || (3..=5).contains(&first);
            assert!(is_spread, "{set:?}: {reported:?}");
        }
    }
}
