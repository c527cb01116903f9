//! The memory of a run: one account through which training allocates, and through which a dry run of
//! the same code counts. The account is that of `job`.

/// Bytes of a run in memory, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    /// The head of the store, and all edges where they are in memory.
    pub(crate) graph: u64,
    /// Noise distributions of the parts.
    pub(crate) negatives: u64,
    /// Rows of the tables, with their sums of squares.
    pub(crate) rows: u64,
    /// The buffer between rows and files.
    pub(crate) transfer: u64,
    /// Buckets that jobs work on, in the forms that they go through.
    pub(crate) edges: u64,
    /// Losses of samples.
    pub(crate) losses: u64,
    /// Rows of the answer by node.
    pub(crate) answer: u64,
}

/// The field of [`Bytes`] that memory counts in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Graph,
    Negatives,
    Rows,
    Transfer,
    Edges,
    Losses,
    Answer,
}

impl shardgraph_job::Bytes for Bytes {
    type Purpose = Purpose;

    fn of(&mut self, purpose: Purpose) -> &mut u64 {
        match purpose {
            Purpose::Graph => &mut self.graph,
            Purpose::Negatives => &mut self.negatives,
            Purpose::Rows => &mut self.rows,
            Purpose::Transfer => &mut self.transfer,
            Purpose::Edges => &mut self.edges,
            Purpose::Losses => &mut self.losses,
            Purpose::Answer => &mut self.answer,
        }
    }

    fn total(&self) -> u64 {
        let beside_rows = self.graph + self.negatives + self.transfer + self.edges + self.losses;
        beside_rows + self.rows + self.answer
    }
}

/// The account of a run.
pub(crate) type Memory = shardgraph_job::Memory<Bytes>;

/// Bytes that an account counts for as long as this exists.
pub(crate) type Held = shardgraph_job::Held<Bytes>;

/// Numbers of a [`Memory`].
pub(crate) type Array<T> = shardgraph_job::Array<T, Bytes>;
