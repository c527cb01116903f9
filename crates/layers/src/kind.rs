//! Kinds of layers: the table entries by which settings and policy files name an embedding and a
//! head, and the registry that holds those of other crates beside the known ones.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use shardgraph_autodiff::{Error, ParamId, Params, Shape};

use crate::{Embedding, Head};

/// The sizes that every layer is built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// K: the width of an embedding.
    pub embed_dim: usize,
    /// L: the rounds of neighbour sums, at least 1.
    pub n_layers: usize,
    /// Features of a node beside its membership in the partial solution.
    pub n_node_features: usize,
}

/// A trained matrix of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, that of the tensor in policy files.
    pub name: String,
    /// Its rows and columns.
    pub shape: Shape,
}

impl Parameter {
    /// A matrix of this name and shape.
    pub fn new(name: impl Into<String>, rows: usize, cols: usize) -> Parameter {
        Parameter {
            name: name.into(),
            shape: Shape::new(rows, cols),
        }
    }
}

/// One kind of layer: a name, the parameters for each size, and the model over them.
///
/// A crate adds its own as a constant; `examples/add_an_embedding.rs` does.
pub struct LayerKind<M: ?Sized> {
    /// The name in settings and policy files.
    pub name: &'static str,
    /// The parameters, in an order that never changes.
    pub parameters: fn(Sizes) -> Vec<Parameter>,
    /// The model over these parameters, which come in that order.
    pub build: fn(Sizes, &[ParamId]) -> Arc<M>,
}

/// A kind of [`Embedding`].
pub type EmbeddingKind = LayerKind<dyn Embedding>;

/// A kind of [`Head`].
pub type HeadKind = LayerKind<dyn Head>;

/// The layers that come with this crate, for [`LayerKind::from_str`] and the default.
pub trait KnownKinds: 'static {
    /// The word for such a layer in messages.
    const WORD: &'static str;

    /// The known kinds; the first is the default.
    fn known() -> &'static [LayerKind<Self>];
}

impl<M: ?Sized> LayerKind<M> {
    /// The number of trained values.
    pub(crate) fn n_params(&self, sizes: Sizes) -> usize {
        let parameters = (self.parameters)(sizes);
        parameters.iter().map(|p| p.shape.len()).sum()
    }

    /// Adds the parameters and gives the model over them.
    pub(crate) fn add(
        &self,
        params: &mut Params,
        sizes: Sizes,
        init: &mut dyn FnMut() -> f32,
    ) -> Arc<M> {
        let parameters = (self.parameters)(sizes).into_iter();
        let ids: Vec<ParamId> = parameters
            .map(|p| params.add(&p.name, p.shape, &mut *init))
            .collect();
        (self.build)(sizes, &ids)
    }
}

/// The kinds by which a policy file may name its layers: the known ones, and those that the caller
/// adds.
///
/// ```
/// use shardgraph_layers::{EmbeddingKind, LayerRegistry};
///
/// let mine = EmbeddingKind { name: "mine", ..EmbeddingKind::GRAPH_SAGE };
/// let registry = LayerRegistry::default().with_embedding(mine);
/// assert_eq!(registry.embedding("mine")?, mine);
/// assert!(registry.embedding("yours").is_err());
/// # Ok::<(), shardgraph_layers::autodiff::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LayerRegistry {
    embeddings: Vec<EmbeddingKind>,
    heads: Vec<HeadKind>,
}

impl Default for LayerRegistry {
    fn default() -> LayerRegistry {
        LayerRegistry {
            embeddings: <dyn Embedding>::known().to_vec(),
            heads: <dyn Head>::known().to_vec(),
        }
    }
}

impl LayerRegistry {
    /// The same with one more embedding.
    pub fn with_embedding(mut self, kind: EmbeddingKind) -> LayerRegistry {
        self.embeddings.push(kind);
        self
    }

    /// The same with one more head.
    pub fn with_head(mut self, kind: HeadKind) -> LayerRegistry {
        self.heads.push(kind);
        self
    }

    /// The embedding of this name.
    ///
    /// # Errors
    /// When there is none; the message has the names.
    pub fn embedding(&self, name: &str) -> Result<EmbeddingKind, Error> {
        find(&self.embeddings, name)
    }

    /// The head of this name.
    ///
    /// # Errors
    /// When there is none; the message has the names.
    pub fn head(&self, name: &str) -> Result<HeadKind, Error> {
        find(&self.heads, name)
    }
}

fn find<M: KnownKinds + ?Sized>(kinds: &[LayerKind<M>], name: &str) -> Result<LayerKind<M>, Error> {
    let found = kinds.iter().find(|kind| kind.name == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        usage(format!(
            "`{name}` is no {}: expected {}",
            M::WORD,
            names.join(" or ")
        ))
    })
}

/// A call that cannot be right.
pub(crate) fn usage(text: impl Into<String>) -> Error {
    Error::Usage(text.into())
}

impl<M: ?Sized> Copy for LayerKind<M> {}

impl<M: ?Sized> Clone for LayerKind<M> {
    fn clone(&self) -> Self {
        *self
    }
}

/// Kinds are equal that have one name.
impl<M: ?Sized> PartialEq for LayerKind<M> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<M: ?Sized> Eq for LayerKind<M> {}

impl<M: KnownKinds + ?Sized + 'static> Default for LayerKind<M> {
    fn default() -> Self {
        M::known()[0]
    }
}

impl<M: ?Sized> fmt::Debug for LayerKind<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<M: ?Sized> fmt::Display for LayerKind<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Reads the name of a known kind.
impl<M: KnownKinds + ?Sized + 'static> FromStr for LayerKind<M> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        find(M::known(), text)
    }
}

impl<M: ?Sized> Serialize for LayerKind<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// Reads the name of a known kind; [`LayerRegistry`] has others.
impl<'de, M: KnownKinds + ?Sized + 'static> Deserialize<'de> for LayerKind<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = M::known().iter().find(|kind| kind.name == name);
        found.copied().ok_or_else(|| {
            let names = M::known().iter().map(|kind| format!("`{}`", kind.name));
            let names: Vec<String> = names.collect();
            de::Error::custom(format!(
                "unknown variant `{name}`, expected {}",
                names.join(" or ")
            ))
        })
    }
}
