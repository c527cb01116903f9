//! A trained policy and its file: safetensors weights with the model's configuration in the header.

mod shipped;

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use shardgraph_layers::autodiff::Params;
use shardgraph_layers::{EmbeddingKind, HeadKind, LayerRegistry, Policy, PolicyShape};
use shardgraph_random::KeyedRng;
use shardgraph_storage::{hash_numbers, write_atomic};

use crate::Error;
use crate::problem::{Episode, MINIMUM_VERTEX_COVER, Problem};
use shipped::SHIPPED;

/// The header key that holds the configuration.
const HEADER_KEY: &str = "shardgraph.policy";
/// What this version writes and reads.
const SCHEMA_VERSION: u32 = 1;
/// Widest embedding that a file may ask for: a bound on what a malformed file can make us allocate.
pub(crate) const MAX_EMBED_DIM: usize = 4096;
/// More rounds than this are a mistake.
pub(crate) const MAX_LAYERS: usize = 64;
/// Most features of a node, for the same reason.
const MAX_NODE_FEATURES: usize = 1024;
/// The weights of such a policy, and room for a header.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// What the weights of edges mean to a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum AdjacencyScale {
    /// Edges of a residual graph weigh 1 / its largest degree, so that one policy serves graphs of any size.
    #[default]
    LargestDegree,
    /// Edges weigh 1, as the paper has it.
    One,
}

impl AdjacencyScale {
    /// The weight of an edge in a state of a problem.
    pub fn of_state(self, episode: &Episode) -> f32 {
        match self {
            Self::LargestDegree => episode.state().edge_scale(),
            Self::One => 1.0,
        }
    }

    /// The weight of an edge in a residual graph with this largest degree.
    pub fn of(self, max_degree: u32) -> f32 {
        match self {
            Self::LargestDegree => 1.0 / max_degree.max(1) as f32,
            Self::One => 1.0,
        }
    }
}

/// The model that a policy's weights belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// Version of this record; 1.
    pub schema_version: u32,
    /// The short name of the [`Problem`], such as "mvc".
    pub problem: String,
    /// K, the width of an embedding.
    pub embed_dim: usize,
    /// L, the rounds of neighbour sums.
    pub n_layers: usize,
    /// What edges weigh.
    pub adjacency_scale: AdjacencyScale,
    /// Features of a node beside its membership in the answer; those of the problem.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_node_features: usize,
    /// The embedding model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub embedding: EmbeddingKind,
    /// The action-evaluation model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub head: HeadKind,
}

fn is_default<T: Default + PartialEq>(kind: &T) -> bool {
    *kind == T::default()
}

/// Files of problems without features, and of the paper's model, are as they were before there were others.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl PolicyConfig {
    /// A minimum vertex cover model.
    pub fn new(embed_dim: usize, n_layers: usize, adjacency_scale: AdjacencyScale) -> Self {
        Self::of_problem(&MINIMUM_VERTEX_COVER, embed_dim, n_layers, adjacency_scale)
    }

    /// A model for a problem.
    pub fn of_problem(
        problem: &Problem,
        embed_dim: usize,
        n_layers: usize,
        adjacency_scale: AdjacencyScale,
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            problem: problem.name.to_string(),
            embed_dim,
            n_layers,
            adjacency_scale,
            n_node_features: problem.n_node_features,
            embedding: EmbeddingKind::default(),
            head: HeadKind::default(),
        }
    }

    /// The same with other layers.
    pub fn with_layers(self, embedding: EmbeddingKind, head: HeadKind) -> Self {
        Self {
            embedding,
            head,
            ..self
        }
    }

    /// The sizes of the model.
    pub fn shape(&self) -> PolicyShape {
        PolicyShape {
            embed_dim: self.embed_dim,
            n_layers: self.n_layers,
            n_node_features: self.n_node_features,
            embedding: self.embedding,
            head: self.head,
        }
    }

    /// Whether the layers are structure2vec and the Q head.
    pub(crate) fn has_default_layers(&self) -> bool {
        is_default(&self.embedding) && is_default(&self.head)
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::input(what));
        if self.schema_version != SCHEMA_VERSION {
            return wrong(format!(
                "policy version {} is not known here: this program reads version {SCHEMA_VERSION}",
                self.schema_version
            ));
        }
        if self.n_node_features > MAX_NODE_FEATURES {
            return wrong(format!(
                "a node has at most {MAX_NODE_FEATURES} features, not {}",
                self.n_node_features
            ));
        }
        let is_known_size = (1..=MAX_EMBED_DIM).contains(&self.embed_dim)
            && (1..=MAX_LAYERS).contains(&self.n_layers);
        if !is_known_size {
            return wrong(format!(
                "a policy has 1 to {MAX_EMBED_DIM} embedding columns and 1 to {MAX_LAYERS} layers, not {} and {}",
                self.embed_dim, self.n_layers
            ));
        }
        Ok(())
    }
}

/// A model with its weights.
///
/// ```
/// use shardgraph_solver::TrainedPolicy;
/// let policy = TrainedPolicy::shipped()?;
/// assert_eq!(policy.config.problem, "mvc");
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TrainedPolicy {
    /// The model's configuration.
    pub config: PolicyConfig,
    /// The model over its parameters.
    pub model: Policy,
    /// The weights: `theta1` to `theta7` of the paper's model.
    pub params: Params,
    /// Where the policy comes from, for reports.
    pub source: String,
}

impl TrainedPolicy {
    /// A model with normally distributed weights (mean 0), drawn from the seed's stream "policy".
    ///
    /// # Errors
    /// When the configuration cannot be right.
    pub fn random(config: PolicyConfig, seed: u64, std_dev: f32) -> Result<Self, Error> {
        config.check()?;
        let mut stream = KeyedRng::new(seed, "policy", 0);
        Self::build(
            config,
            &mut || std_dev * stream.normal() as f32,
            format!("random, seed {seed}"),
        )
    }

    /// The default policy, `mvc-default`: two layers, so every step has the closed form.
    ///
    /// # Errors
    /// When the embedded file is not a policy, which a test rules out.
    pub fn shipped() -> Result<Self, Error> {
        Self::from_bytes(SHIPPED[0].1, SHIPPED[0].0, &LayerRegistry::default())
    }

    /// The policy that comes with the program for a problem, such as `cut-default`.
    ///
    /// # Errors
    /// When there is none for this problem.
    pub fn shipped_for(problem: &Problem) -> Result<Self, Error> {
        let wanted = format!("{}-default", problem.name);
        match SHIPPED.iter().find(|(name, _)| *name == wanted) {
            Some((name, bytes)) => Self::from_bytes(bytes, name, &LayerRegistry::default()),
            None => Err(Error::input(format!(
                "no policy for problem `{}` comes with the program: train one and name its file",
                problem.name
            ))),
        }
    }

    /// The names of the policies that come with the program, trained by it on small graphs
    /// (`cargo xtask repro opengraphgym-mg policies`).
    pub fn shipped_names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Reads a policy file; the name of a shipped policy, where there is no such file, gives that one.
    ///
    /// # Errors
    /// When the file cannot be read or is no policy of this version.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::read_with(path, &LayerRegistry::default())
    }

    /// As [`TrainedPolicy::read`], for files that may name layers of other crates.
    ///
    /// # Errors
    /// As [`TrainedPolicy::read`].
    pub fn read_with(path: &Path, layers: &LayerRegistry) -> Result<Self, Error> {
        let is_named = |shipped: &&(&str, &[u8])| path.as_os_str() == shipped.0;
        if let Some((name, bytes)) = SHIPPED.iter().find(is_named)
            && !path.exists()
        {
            return Self::from_bytes(bytes, name, layers);
        }
        let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => no_policy(path, "there is no such file"),
            _ => Error::io(path)(error),
        })?;
        if metadata.is_dir() {
            return Err(no_policy(path, "this is a folder"));
        }
        if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
            return Err(Error::input(format!(
                "{}: expected a policy file of at most {} MiB",
                path.display(),
                MAX_FILE_BYTES >> 20
            )));
        }
        let bytes = std::fs::read(path).map_err(Error::io(path))?;
        Self::from_bytes(&bytes, &path.display().to_string(), layers)
    }

    /// Refuses to serve another problem.
    ///
    /// # Errors
    /// Naming the policy, its problem and the wanted one.
    pub fn check_problem(&self, problem: &Problem) -> Result<(), Error> {
        let config = &self.config;
        if config.problem != problem.name {
            return Err(Error::input(format!(
                "{}: the policy is for problem `{}`, not `{}`",
                self.source, config.problem, problem.name
            )));
        }
        match config.n_node_features == problem.n_node_features {
            true => Ok(()),
            false => Err(Error::input(format!(
                "{}: the policy reads {} features of a node, and problem `{}` has {}",
                self.source, config.n_node_features, config.problem, problem.n_node_features
            ))),
        }
    }

    fn from_bytes(bytes: &[u8], source: &str, layers: &LayerRegistry) -> Result<Self, Error> {
        let wrong = |why: String| Error::input(format!("{source}: {why}"));
        let (_, header) = SafeTensors::read_metadata(bytes)
            .map_err(|e| wrong(format!("this is no safetensors file: {e}")))?;
        let config = header
            .metadata()
            .as_ref()
            .and_then(|metadata| metadata.get(HEADER_KEY))
            .ok_or_else(|| {
                wrong(format!(
                    "the header has no `{HEADER_KEY}`: these weights are no shardgraph policy"
                ))
            })?;
        let config: PolicyConfig = serde_json::from_str(config)
            .or_else(|error| config_with(config, layers).ok_or(error))
            .map_err(|e| wrong(format!("the policy's configuration: {e}")))?;
        config.check().map_err(|e| wrong(e.to_string()))?;
        // Before any memory is taken for the weights: a small header may ask for gigabytes.
        let n_params = config.shape().n_params();
        if n_params > bytes.len() / size_of::<f32>() {
            return Err(wrong(format!(
                "its configuration needs {n_params} weights of 4 bytes, and the file has {} bytes",
                bytes.len()
            )));
        }
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| wrong(e.to_string()))?;
        let mut policy = Self::build(config, &mut || 0.0, source.to_string())?;
        let flat = read_params(&tensors, &policy.params).map_err(wrong)?;
        policy.params.set_flat(&flat)?;
        Ok(policy)
    }

    fn build(
        config: PolicyConfig,
        init: &mut dyn FnMut() -> f32,
        source: String,
    ) -> Result<Self, Error> {
        let mut params = Params::new();
        let model = Policy::build(&mut params, config.shape(), init)?;
        Ok(Self {
            config,
            model,
            params,
            source,
        })
    }

    /// A hash of the weights' bits: equal runs end with equal hashes, whatever their number of ranks and back end.
    ///
    /// It is the XXH3 hash of the weights (`theta1` to `theta7` of the paper's model) as little-endian bytes, one after the other.
    pub fn params_hash(&self) -> u64 {
        hash_numbers(self.params.flat().iter().copied())
    }

    /// Writes the policy as one file, atomically.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let config = serde_json::to_string(&self.config)
            .map_err(|e| Error::internal(format!("a configuration without JSON form: {e}")))?;
        let bytes = write_tensors(
            &[(String::new(), self.params.clone())],
            BTreeMap::from([(HEADER_KEY.to_string(), config)]),
        )?;
        write_atomic(path, |out| out.write_all(&bytes)).map_err(Error::io(path))
    }
}

/// A configuration that names layers of the registry beside the known ones.
fn config_with(text: &str, layers: &LayerRegistry) -> Option<PolicyConfig> {
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    let mut name = |key| {
        fields
            .remove(key)
            .map(|name| name.as_str().map(String::from))
    };
    let (embedding, head) = (name("embedding"), name("head"));
    let mut config: PolicyConfig = serde_json::from_value(fields.into()).ok()?;
    if let Some(name) = embedding {
        config.embedding = layers.embedding(&name?).ok()?;
    }
    if let Some(name) = head {
        config.head = layers.head(&name?).ok()?;
    }
    Some(config)
}

/// The weights of each set under its prefix, as one safetensors file.
pub(crate) fn write_tensors(
    sets: &[(String, Params)],
    header: BTreeMap<String, String>,
) -> Result<Vec<u8>, Error> {
    let mut tensors = Vec::new();
    for (prefix, params) in sets {
        for id in params.ids() {
            let bytes = params.values_of(id).iter().flat_map(|x| x.to_le_bytes());
            let shape = vec![params.shape(id).rows, params.shape(id).cols];
            tensors.push((
                format!("{prefix}{}", params.name(id)),
                shape,
                bytes.collect::<Vec<u8>>(),
            ));
        }
    }
    let views: Result<Vec<_>, _> = tensors
        .iter()
        .map(|(name, shape, bytes)| {
            TensorView::new(Dtype::F32, shape.clone(), bytes).map(|view| (name.clone(), view))
        })
        .collect();
    let failed = |e| Error::internal(format!("safetensors refused: {e}"));
    // The header is a hash map in the library's interface; with one entry its order is fixed.
    let header = Some(header.into_iter().collect());
    safetensors::serialize(views.map_err(failed)?, header).map_err(failed)
}

/// The flat values of all parameters, checked for names, shapes, type and finiteness.
pub(crate) fn read_params(tensors: &SafeTensors<'_>, params: &Params) -> Result<Vec<f32>, String> {
    read_params_under(tensors, "", params)
}

pub(crate) fn read_params_under(
    tensors: &SafeTensors<'_>,
    prefix: &str,
    params: &Params,
) -> Result<Vec<f32>, String> {
    let mut flat = Vec::with_capacity(params.flat().len());
    for id in params.ids() {
        let name = format!("{prefix}{}", params.name(id));
        let view = tensors
            .tensor(&name)
            .map_err(|_| format!("the tensor `{name}` is missing"))?;
        let shape = params.shape(id);
        if view.dtype() != Dtype::F32 || view.shape() != [shape.rows, shape.cols] {
            return Err(format!(
                "`{name}` is {:?} {:?}, expected F32 {shape}",
                view.dtype(),
                view.shape()
            ));
        }
        for (i, bytes) in view.data().chunks_exact(4).enumerate() {
            let value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            if !value.is_finite() {
                return Err(format!(
                    "`{name}`, element {i} is {value}: weights are finite"
                ));
            }
            flat.push(value);
        }
    }
    Ok(flat)
}

/// A name that is neither a file's nor a shipped policy's.
fn no_policy(path: &Path, why: &str) -> Error {
    let names: Vec<&str> = TrainedPolicy::shipped_names().collect();
    Error::input(format!(
        "{}: {why}, and no policy of that name: expected a policy file, or one of {}",
        path.display(),
        names.join(", ")
    ))
}
