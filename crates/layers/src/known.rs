//! The kinds of layers that come with this crate.

use crate::kind::{EmbeddingKind, HeadKind, KnownKinds};
use crate::{Embedding, GraphSage, Head, MlpHead, QHead, Structure2Vec};

impl EmbeddingKind {
    /// [`Structure2Vec`], the paper's.
    pub const STRUCTURE2VEC: EmbeddingKind = Structure2Vec::KIND;
    /// [`GraphSage`]: means over neighbours, with weights of their own in each layer.
    pub const GRAPH_SAGE: EmbeddingKind = GraphSage::KIND;
}

impl HeadKind {
    /// [`QHead`], the paper's.
    pub const Q: HeadKind = QHead::KIND;
    /// [`MlpHead`]: a hidden layer over a node's embedding and the mean of all.
    pub const MLP: HeadKind = MlpHead::KIND;
}

impl KnownKinds for dyn Embedding {
    const WORD: &'static str = "embedding";

    fn known() -> &'static [EmbeddingKind] {
        const { &[EmbeddingKind::STRUCTURE2VEC, EmbeddingKind::GRAPH_SAGE] }
    }
}

impl KnownKinds for dyn Head {
    const WORD: &'static str = "head";

    fn known() -> &'static [HeadKind] {
        const { &[HeadKind::Q, HeadKind::MLP] }
    }
}
