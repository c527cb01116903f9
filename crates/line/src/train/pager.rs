//! The tables of an order, a buffer a part: where rows begin, and how jobs get theirs.

use shardgraph_device::{Buffer, Device};
use shardgraph_graph::random::Stream;

use super::cell::Cell;
use super::plan::Job;
use super::step::Work;
use crate::{Config, Embedding, Error, Store};

/// The parts of a table; those that a job works on are away.
type Parts<T> = Vec<Option<Buffer<T>>>;

/// The tables of one order.
#[derive(Debug)]
pub(crate) struct Pager<'p, T: Cell> {
    store: &'p Store,
    device: &'p Device,
    dim: usize,
    /// Order 1 has the first alone.
    tables: Vec<Parts<T>>,
}

impl<'p, T: Cell> Pager<'p, T> {
    /// All rows as they are before training.
    pub(crate) fn new(
        store: &'p Store,
        device: &'p Device,
        config: &Config,
        order: u32,
    ) -> Result<Pager<'p, T>, Error> {
        let part = |table, part| -> Result<Option<Buffer<T>>, Error> {
            let rows = first_rows(store, config, (order, table), part);
            Ok(Some(device.upload(&rows)?))
        };
        let table = |table| (0..store.n_parts()).map(|p| part(table, p)).collect();
        let tables = (0..order).map(table).collect::<Result<_, Error>>()?;
        Ok(Pager {
            store,
            device,
            dim: config.dim,
            tables,
        })
    }

    /// Hands out the rows of a job's parts.
    pub(crate) fn take<'j>(&mut self, job: &'j Job) -> Work<'j, T> {
        const AT_HOME: &str = "a part is in one job of a step, and was put back after the last";
        let (a, b) = (job.pair.0 as usize, job.pair.1 as usize);
        let first = self.tables[0][a].take().expect(AT_HOME);
        let second = match self.tables.len() {
            1 if a == b => None,
            1 => Some(self.tables[0][b].take().expect(AT_HOME)),
            _ => Some(self.tables[1][b].take().expect(AT_HOME)),
        };
        Work { job, first, second }
    }

    /// Takes rows back.
    pub(crate) fn put_back(&mut self, work: Work<'_, T>) {
        let (a, b) = (work.job.pair.0 as usize, work.job.pair.1 as usize);
        self.tables[0][a] = Some(work.first);
        if work.second.is_some() {
            let table = self.tables.len() - 1;
            self.tables[table][b] = work.second;
        }
    }

    /// The rows of the first table by node.
    pub(crate) fn into_embedding(mut self) -> Result<Embedding, Error> {
        self.tables.truncate(1);
        let dim = self.dim;
        let mut values = vec![0.0; self.store.n_nodes() as usize * dim];
        for (part, buffer) in (0u32..).zip(self.tables.remove(0)) {
            let buffer = buffer.expect("all parts are put back after a step");
            let rows = self.device.download(&buffer)?;
            for (row, cells) in (0u32..).zip(rows.chunks_exact(dim)) {
                let node = self.store.node(part, row) as usize;
                let to = &mut values[node * dim..][..dim];
                for (to, cell) in to.iter_mut().zip(cells) {
                    *to = cell.to_f32();
                }
            }
        }
        Embedding::new(dim, values, self.store.labels().clone())
    }
}

/// The rows of a part before training: uniform within half a column's share for vertices, zeros for contexts.
///
/// # Source
/// LINE's and word2vec's own way.
fn first_rows<T: Cell>(
    store: &Store,
    config: &Config,
    (order, table): (u32, u32),
    part: u32,
) -> Vec<T> {
    let n_cells = store.deal().n_rows(part) as usize * config.dim;
    if table == 1 {
        return vec![T::default(); n_cells];
    }
    let mut stream = Stream::new(super::seed_of(config, order), "line rows", u64::from(part));
    let scale = 1.0 / config.dim as f32;
    let cell = |_| T::from_f32((stream.uniform_f32() - 0.5) * scale);
    (0..n_cells).map(cell).collect()
}
