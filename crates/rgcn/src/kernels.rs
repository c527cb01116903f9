//! Launches of `cuda/rgcn/relation_messages.cu`: the messages of a layer on a device, and their
//! gradients.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};
use shardgraph_ops::{Copy2d, RowIndex, copy_2d, scatter_rows};

use crate::layer::plan::LayerPlan;
use crate::model::csr::Csr;

/// Threads of a block: what the kernels declare.
const BLOCK: u32 = 256;

/// The most columns of a sum over chunks.
const MAX_WIDTH: usize = 1 << 20;

/// The most pairs of a chunk, whose gradients one thread adds up.
const CHUNK: usize = 256;

/// The pairs of a layer in a device's memory, by source and by relation.
#[derive(Debug)]
pub(crate) struct PairLists {
    sources: Buffer<u32>,
    relations: Buffer<u32>,
    /// The relations as rows of the table, to add up what their pairs have.
    relation_rows: RowIndex,
    /// The first pair of each source, and the end of the last.
    starts: Buffer<u32>,
    /// The pairs in the order of their relations.
    by_relation: Buffer<u32>,
    /// The first of each chunk in `by_relation`, and the end of the last.
    chunk_starts: Buffer<u32>,
    /// The relation of each chunk.
    chunk_relations: RowIndex,
    pub(crate) n_sources: usize,
    pub(crate) n_pairs: usize,
    pub(crate) n_relations: usize,
}

/// The factor of a message's terms that has a number for each output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The source: its row has each basis' outputs, and the relation a coefficient for each basis.
    Bases,
    /// The relation: it has weights from each input to each output.
    Weights,
}

/// The lengths of the rows that messages are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) form: Form,
    /// Bases, or inputs.
    pub(crate) n_terms: usize,
    /// Outputs.
    pub(crate) width: usize,
    /// Numbers of a source, padding included.
    pub(crate) source_len: usize,
}

impl Terms {
    /// Numbers of a relation.
    pub(crate) fn relation_len(self) -> usize {
        match self.form {
            Form::Bases => self.n_terms,
            Form::Weights => self.n_terms * self.width,
        }
    }

    fn kernel(self, bases: &'static str, weights: &'static str) -> &'static str {
        match self.form {
            Form::Bases => bases,
            Form::Weights => weights,
        }
    }

    fn args(self) -> [Arg<'static>; 3] {
        [self.source_len, self.n_terms, self.width].map(|n| Arg::u32(n as u32))
    }

    /// Launches a kernel with a thread for each number of `out`, which has `n_rows` rows.
    ///
    /// # Safety
    /// As [`Device::launch`].
    unsafe fn launch<const N: usize>(
        self,
        device: &Device,
        kernel: &'static str,
        read: [Arg<'_>; N],
        out: &mut Buffer,
        n_rows: usize,
    ) -> Result<(), Error> {
        let shape = Launch::threads(out.len(), BLOCK);
        let mut args: Vec<Arg<'_>> = read.into();
        args.extend([Arg::write(out), Arg::u32(n_rows as u32)]);
        args.extend(self.args());
        // SAFETY: the caller's promise.
        unsafe { device.launch(kernel, shape, &args) }
    }
}

impl PairLists {
    /// Those of a plan whose relations are fewer than `n_relations`.
    ///
    /// # Errors
    /// The device's.
    /// # Complexity
    /// O(pairs + relations); 24 bytes a pair and 4 a source on the device.
    pub(crate) fn upload(
        device: &Device,
        plan: &LayerPlan,
        n_relations: usize,
    ) -> Result<PairLists, Error> {
        let n_sources = plan.n_sources();
        let sources = (0..n_sources).flat_map(|source| plan.pairs(source).map(move |_| source));
        let sources: Vec<u32> = sources.map(|source| source as u32).collect();
        let by_relation = Csr::group(n_relations, &plan.relations);
        let (mut pairs, mut starts, mut of_chunks) = (Vec::new(), vec![0u32], Vec::new());
        for relation in 0..n_relations {
            for chunk in by_relation.members(relation).chunks(CHUNK) {
                pairs.extend_from_slice(chunk);
                starts.push(pairs.len() as u32);
                of_chunks.push(relation as u32);
            }
        }
        Ok(PairLists {
            sources: device.upload(&sources)?,
            relations: device.upload(&plan.relations)?,
            relation_rows: RowIndex::upload(device, n_relations, &plan.relations[..])?,
            starts: device.upload(&plan.pair_starts)?,
            by_relation: device.upload(&pairs)?,
            chunk_starts: device.upload(&starts)?,
            chunk_relations: RowIndex::upload(device, n_relations, of_chunks)?,
            n_sources,
            n_pairs: plan.n_pairs(),
            n_relations,
        })
    }

    /// Makes the lists of another stream of the device this stream's, behind their copies.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn adopt(&mut self, stream: &Device) -> Result<(), Error> {
        let lists = [
            &mut self.sources,
            &mut self.relations,
            &mut self.starts,
            &mut self.by_relation,
            &mut self.chunk_starts,
        ];
        lists.into_iter().try_for_each(|list| stream.adopt(list))?;
        self.relation_rows.adopt(stream)?;
        self.chunk_relations.adopt(stream)
    }

    /// The message of each pair.
    ///
    /// # Shapes
    /// `x [n_sources, source_len]`, `table [n_relations, relation_len]`, `out [n_pairs, width]`.
    /// # Errors
    /// The device's; the host has no kernels.
    pub(crate) fn messages(
        &self,
        device: &Device,
        terms: Terms,
        x: &Buffer,
        table: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        self.check_source(terms, x)?;
        self.check_relation(terms, table)?;
        self.check_messages(terms, out)?;
        let kernel = terms.kernel(
            "relation_messages_bases_fwd",
            "relation_messages_weights_fwd",
        );
        let read = [
            Arg::read(x),
            Arg::read(table),
            Arg::read(&self.sources),
            Arg::read(&self.relations),
        ];
        // SAFETY: the lengths of x, table and out are checked above; sources and relations number
        // their rows (`upload`).
        unsafe { terms.launch(device, kernel, read, out, self.n_pairs) }
    }

    /// The gradient of the sources' rows from that of the messages.
    ///
    /// # Shapes
    /// As [`PairLists::messages`]: `dy` like the messages, `dx` like `x`.
    /// # Errors
    /// As [`PairLists::messages`].
    pub(crate) fn source_gradient(
        &self,
        device: &Device,
        terms: Terms,
        table: &Buffer,
        dy: &Buffer,
        dx: &mut Buffer,
    ) -> Result<(), Error> {
        self.check_relation(terms, table)?;
        self.check_messages(terms, dy)?;
        self.check_source(terms, dx)?;
        let kernel = terms.kernel(
            "relation_messages_bases_source_bwd",
            "relation_messages_weights_source_bwd",
        );
        let read = [
            Arg::read(table),
            Arg::read(dy),
            Arg::read(&self.starts),
            Arg::read(&self.relations),
        ];
        // SAFETY: the lengths of table, dy and dx are checked above; starts ascend to the number of
        // pairs, and relations number the table's rows (`upload`).
        unsafe { terms.launch(device, kernel, read, dx, self.n_sources) }
    }

    /// The gradient of the relations' rows from that of the messages.
    ///
    /// # Shapes
    /// As [`PairLists::messages`]: `dy` like the messages, `out` like `table`.
    /// # Errors
    /// As [`PairLists::messages`].
    /// # Determinism
    /// Chunks of pairs are fixed, and their sums are added in one order.
    pub(crate) fn relation_gradient(
        &self,
        device: &Device,
        terms: Terms,
        x: &Buffer,
        dy: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        self.check_source(terms, x)?;
        self.check_messages(terms, dy)?;
        self.check_relation(terms, out)?;
        let width = terms.relation_len();
        match terms.form {
            Form::Bases => {
                let partial = self.coefficient_gradient(device, terms, x, dy)?;
                scatter_rows(device, &self.relation_rows, width, &partial, out)
            }
            Form::Weights => {
                let partial = self.weight_gradient(device, terms, x, dy)?;
                self.add_chunks(device, width, &partial, out)
            }
        }
    }

    /// Adds the chunks' rows of `width` numbers by relation: some columns at a time, where there are more than the grid of a sparse
    /// product has.
    fn add_chunks(
        &self,
        device: &Device,
        width: usize,
        partial: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let chunks = &self.chunk_relations;
        if width <= MAX_WIDTH {
            return scatter_rows(device, chunks, width, partial, out);
        }
        for first in (0..width).step_by(MAX_WIDTH) {
            let n_columns = MAX_WIDTH.min(width - first);
            let mut columns = device.allocate(checks::elements(&[chunks.len(), n_columns]))?;
            let mut sums = device.allocate(checks::elements(&[self.n_relations, n_columns]))?;
            let cut = Copy2d {
                rows: chunks.len(),
                width: n_columns,
                source_first: first,
                source_stride: width,
                target_first: 0,
                target_stride: n_columns,
            };
            copy_2d(device, cut, partial, &mut columns)?;
            scatter_rows(device, chunks, n_columns, &columns, &mut sums)?;
            let put = Copy2d {
                rows: self.n_relations,
                source_first: 0,
                source_stride: n_columns,
                target_first: first,
                target_stride: width,
                ..cut
            };
            copy_2d(device, put, &sums, out)?;
        }
        Ok(())
    }

    /// The gradient of the coefficients that each pair read, `[n_pairs, n_terms]`.
    fn coefficient_gradient(
        &self,
        device: &Device,
        terms: Terms,
        x: &Buffer,
        dy: &Buffer,
    ) -> Result<Buffer, Error> {
        let mut out = device.allocate(checks::elements(&[self.n_pairs, terms.n_terms]))?;
        let (kernel, n_pairs) = ("relation_messages_bases_relation_bwd", self.n_pairs);
        let read = [Arg::read(x), Arg::read(dy), Arg::read(&self.sources)];
        // SAFETY: the caller checked the lengths of x and dy, and out has n_terms numbers a pair;
        // sources number the rows of x (`upload`).
        unsafe { terms.launch(device, kernel, read, &mut out, n_pairs)? };
        Ok(out)
    }

    /// The gradient of the weights that each chunk's pairs read, `[n_chunks, n_terms * width]`.
    fn weight_gradient(
        &self,
        device: &Device,
        terms: Terms,
        x: &Buffer,
        dy: &Buffer,
    ) -> Result<Buffer, Error> {
        let (n_chunks, len) = (self.chunk_relations.len(), terms.relation_len());
        let mut out = device.allocate(checks::elements(&[n_chunks, len]))?;
        let shape = Launch::wide(n_chunks, len.div_ceil(BLOCK as usize), BLOCK);
        let mut args = vec![
            Arg::read(x),
            Arg::read(dy),
            Arg::read(&self.sources),
            Arg::read(&self.by_relation),
            Arg::read(&self.chunk_starts),
            Arg::write(&mut out),
        ];
        args.extend(terms.args());
        // SAFETY: the caller checked the lengths of x and dy, and out has a row for each chunk; chunks
        // end at the number of pairs, by_relation numbers these and sources the rows of x (`upload`).
        unsafe { device.launch("relation_messages_weights_relation_bwd", shape, &args)? };
        Ok(out)
    }

    fn check_source(&self, terms: Terms, x: &Buffer) -> Result<(), Error> {
        check("x", [self.n_sources, terms.source_len], x)
    }

    fn check_relation(&self, terms: Terms, table: &Buffer) -> Result<(), Error> {
        check("table", [self.n_relations, terms.relation_len()], table)
    }

    fn check_messages(&self, terms: Terms, messages: &Buffer) -> Result<(), Error> {
        check("messages", [self.n_pairs, terms.width], messages)
    }
}

fn check(operand: &'static str, shape: [usize; 2], buffer: &Buffer) -> Result<(), Error> {
    checks::len(
        "relation_messages",
        operand,
        checks::elements(&shape),
        buffer,
    )
}
