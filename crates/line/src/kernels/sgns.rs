//! Skip-gram with negative sampling over edges: the update of LINE, on f32 or fp16 tables.
//!
//! A sample is an edge `(u, v)` with `K` negatives. With `x = vertex[u] . context[t]` for each target `t` (the edge's
//! own `v`, then the negatives) and `g = rate * ([t is v] - sigmoid(x))`, the sample adds `g * vertex[u]` to
//! `context[t]` and the sum of `g * context[t]` to `vertex[u]`, from rows as it found them (a
//! target that is drawn twice may show its own first addition). Order 2 has two tables,
//! order 1 uses one for both roles. The sigmoid is computed, with `x` cut at +-[`DOT_CLAMP`].
//!
//! Edges come in list order or are drawn by weight, negatives are drawn from an [`AliasTable`]; both draws are functions
//! of (seed, sample number) alone, made where the samples are worked on, so nothing but the edges is ever uploaded.
//!
//! ```
//! use shardgraph_device::Device;
//! use shardgraph_line::kernels::sgns::{AliasTable, EdgeList, EdgeOrder, Mode, Samples, Settings, Tables, Trainer};
//!
//! let device = Device::host();
//! let edges = EdgeList::upload(&device, &[0, 1, 1, 2])?; // 0 -> 1, 1 -> 2
//! let negatives = AliasTable::from_degrees(&device, &[1, 2, 1])?;
//! let settings = Settings { dim: 2, n_negatives: 1, group: 1, seed: 7, mode: Mode::Hogwild };
//! let mut trainer = Trainer::new(&device, settings)?;
//! let (mut vertex, mut context) = (device.upload(&[0.1; 6])?, device.upload(&[0.1; 6])?);
//! let order = EdgeOrder::Listed { first: 0 };
//! let samples = Samples { edges: &edges, negatives: &negatives, order, reversed: false, first: 0, count: 100 };
//! let mut losses = device.zeros::<f32>(100)?;
//! let tables = Tables::Order2 { vertex: &mut vertex, context: &mut context };
//! trainer.step(&samples, 0.1, tables, Some(&mut losses))?;
//! let losses = device.download(&losses)?;
//! assert!(losses[98..].iter().sum::<f32>() < losses[..2].iter().sum());
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

mod batch;
mod draws;
mod element;
mod host;
mod launch;
mod permutation;
#[cfg(test)]
mod tests;

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};

use permutation::Permutation;

pub use draws::AliasTable;
pub use element::{Element, narrow, widen};

/// Where a dot product is cut before the sigmoid: the slope there is 1e-13, and `exp` neither over- nor underflows.
pub const DOT_CLAMP: f32 = 30.0;

/// The largest number of negatives: the edge's own target and they fill a warp.
pub const MAX_NEGATIVES: u32 = 31;

/// Edges as pairs (source, target), and the weights to draw them by.
#[derive(Debug)]
pub struct EdgeList {
    pairs: Buffer<u32>,
    /// The largest source and target; [`None`] without edges.
    largest: Option<(u32, u32)>,
    weights: Option<AliasTable>,
}

impl EdgeList {
    /// Bytes of a list of so many edges.
    #[must_use]
    pub const fn bytes_of(n_edges: u64, is_weighted: bool) -> u64 {
        let pairs = n_edges * size_of::<[u32; 2]>() as u64;
        match is_weighted {
            false => pairs,
            true => pairs + AliasTable::bytes_of(n_edges),
        }
    }

    /// The edges `(pairs[0], pairs[1]), (pairs[2], pairs[3]), ...`, to be visited in order.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Length`] for an odd number of ids; what the upload fails with.
    pub fn upload(device: &Device, pairs: &[u32]) -> Result<Self, Error> {
        check_len("edge list", "pairs", pairs.len() / 2 * 2, pairs.len())?;
        Ok(Self {
            pairs: device.upload(pairs)?,
            largest: largest(pairs),
            weights: None,
        })
    }

    /// Edges that [`EdgeOrder::Drawn`] draws in proportion to their weights.
    ///
    /// # Errors
    /// As [`EdgeList::upload`] and [`AliasTable::upload`]; [`shardgraph_device::ErrorKind::Length`] unless each edge has a weight.
    pub fn upload_weighted(device: &Device, pairs: &[u32], weights: &[f64]) -> Result<Self, Error> {
        check_len("edge list", "weights", pairs.len() / 2, weights.len())?;
        let weights = AliasTable::upload(device, weights)?;
        let edges = Self::upload(device, pairs)?;
        Ok(Self {
            weights: Some(weights),
            ..edges
        })
    }

    /// Overwrites the list with as many other edges, which have no weights: the next block of a stream.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Length`] unless the number of ids is the same.
    pub fn rewrite(&mut self, device: &Device, pairs: &[u32]) -> Result<(), Error> {
        device.write(pairs, &mut self.pairs)?;
        self.largest = largest(pairs);
        self.weights = None;
        Ok(())
    }

    /// The edges in a random order, the same for the same key, in the device's memory; they have no weights.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Invalid`] for 2^32 edges or more, and for a list with weights; the device's.
    /// # Complexity
    /// 16 B an edge on a device; on the host one pass with a look-up an edge.
    /// # Source
    /// Mitchell, Stokes, Frank, Holmes, "Bandwidth-optimal random shuffling for GPUs" (TOPC 2022), section 4.
    pub fn permuted(&self, device: &Device, key: u64) -> Result<EdgeList, Error> {
        const OP: &str = "permute edges";
        if self.weights.is_some() {
            let why = "edges with weights are drawn, so their order is nothing";
            return Err(Error::invalid(OP, why));
        }
        let n_edges = u32::try_from(self.len())
            .map_err(|_| Error::invalid(OP, "a list has at most 2^32 - 1 edges"))?;
        let order = Permutation::new(n_edges, key);
        let permuted_list = |pairs| EdgeList {
            pairs,
            largest: self.largest,
            weights: None,
        };
        if device.is_host() {
            let pairs = self.pairs.on_host(OP)?;
            let pick = |i: u32| {
                let at = 2 * order.of(i) as usize;
                [pairs[at], pairs[at + 1]]
            };
            let permuted = (0..n_edges).flat_map(pick).collect::<Vec<u32>>();
            return Ok(permuted_list(permuted.into()));
        }
        let mut permuted = device.allocate(self.pairs.len())?;
        let args = [
            Arg::read(&self.pairs),
            Arg::write(&mut permuted),
            Arg::u32(n_edges),
            Arg::u32(order.half_bits),
            Arg::u32(order.keys[0]),
            Arg::u32(order.keys[1]),
        ];
        let shape = Launch::threads(n_edges as usize, 256);
        // SAFETY: both lists have n_edges pairs, and the permutation gives numbers below n_edges.
        unsafe { device.launch("sgns_permute_edges", shape, &args)? };
        Ok(permuted_list(permuted))
    }

    /// Makes the list one of another stream of the same device: see [`Device::adopt`].
    ///
    /// # Errors
    /// As [`Device::adopt`].
    pub fn adopt(&mut self, stream: &Device) -> Result<(), Error> {
        stream.adopt(&mut self.pairs)?;
        match &mut self.weights {
            Some(weights) => stream.adopt(&mut weights.pairs),
            None => Ok(()),
        }
    }

    /// Whether edges are drawn by weight.
    pub fn is_weighted(&self) -> bool {
        self.weights.is_some()
    }

    /// The number of edges.
    pub fn len(&self) -> usize {
        self.pairs.len() / 2
    }

    /// Whether there are no edges.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

fn largest(pairs: &[u32]) -> Option<(u32, u32)> {
    let sources = pairs.iter().step_by(2).max();
    sources
        .copied()
        .zip(pairs.iter().skip(1).step_by(2).max().copied())
}

/// Which edge a sample takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeOrder {
    /// The edges in list order from number `first` on, starting again behind the last.
    Listed {
        /// The edge of the first sample.
        first: u64,
    },
    /// An edge drawn by weight.
    Drawn,
}

/// The samples of one call.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a> {
    /// The edges.
    pub edges: &'a EdgeList,
    /// The distribution of the negatives over the rows of the context table.
    pub negatives: &'a AliasTable,
    /// Which edge a sample takes.
    pub order: EdgeOrder,
    /// Whether edges are taken from their target to their source.
    pub reversed: bool,
    /// The number of the first sample in the whole run: draws depend on it, and on nothing else but the seed.
    pub first: u64,
    /// How many samples to work on.
    pub count: u64,
}

/// A learning rate that changes by the same number from each sample of a call to the next; samples of a group have their first one's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FallingRate {
    /// The rate of the first sample.
    pub first: f32,
    /// What is added from one sample to the next: 0 or less.
    pub slope: f32,
}

impl FallingRate {
    /// One rate for all samples.
    pub fn constant(rate: f32) -> Self {
        Self {
            first: rate,
            slope: 0.0,
        }
    }
}

/// How concurrent samples meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One sample after the other on the host; on a GPU all at once, on rows that others update meanwhile. f32 rows are
    /// added to atomically; of two fp16 updates that meet, one may be lost.
    ///
    /// # Source
    /// Recht et al., "Hogwild" (NeurIPS 2011).
    Hogwild,
    /// Batches, cut at multiples of `batch` in sample numbers: all gradients of a batch are taken from the tables as the
    /// batch found them, and each row is updated once. Slow (the lists of a batch are made on the host), and the same
    /// bits for every launch geometry.
    Deterministic {
        /// Samples of a batch; 1 is plain sequential descent.
        batch: u32,
    },
}

/// What does not change from call to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Columns of the tables. GPU kernels are tuned for 128; multiples of 4 up to 256 stay in registers.
    pub dim: usize,
    /// Negatives of a sample, at most [`MAX_NEGATIVES`].
    pub n_negatives: u32,
    /// Consecutive samples that share their negatives; 1 is LINE's own way. The samples of a group may see the
    /// negatives' rows as the group found them.
    pub group: u32,
    /// The seed of all draws.
    pub seed: u64,
    /// How concurrent samples meet.
    pub mode: Mode,
}

impl Settings {
    /// The bytes that one sample moves between the tables and the processor: it reads and writes the vertex row, the
    /// target's row, and its share of the rows of the negatives. The 8 B of the edge and the draws are left out.
    ///
    /// 7168 for 128 columns of f32 with 5 negatives; 1184 for fp16 with negatives shared by 16.
    pub fn bytes_per_sample<T: Element>(&self) -> f64 {
        let row = 2.0 * (self.dim * size_of::<T>()) as f64;
        row * (2.0 + f64::from(self.n_negatives) / f64::from(self.group))
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |why: &str| Err(Error::invalid(OP, why));
        if self.dim == 0 || self.dim > u32::MAX as usize {
            return refuse("dim must be in 1..2^32");
        }
        if self.n_negatives > MAX_NEGATIVES {
            return refuse("n_negatives must be at most 31");
        }
        if self.group == 0 {
            return refuse("group must be at least 1");
        }
        match self.mode {
            Mode::Deterministic { batch } if batch == 0 || self.places(batch).is_none() => {
                refuse("batch must be at least 1, and batch * (n_negatives + 1) below 2^31")
            }
            _ => Ok(()),
        }
    }

    /// Targets of a batch.
    fn places(&self, batch: u32) -> Option<u32> {
        let places = batch.checked_mul(self.n_negatives + 1)?;
        (places < 1 << 31).then_some(places)
    }
}

/// The tables that a step updates, row-major with `dim` columns.
#[derive(Debug)]
pub enum Tables<'a, T: Element> {
    /// First-order proximity: one table for both ends of an edge.
    Order1(&'a mut Buffer<T>),
    /// Second-order proximity: vertices and contexts apart.
    Order2 {
        /// The rows of the sources.
        vertex: &'a mut Buffer<T>,
        /// The rows of the targets and negatives.
        context: &'a mut Buffer<T>,
    },
}

/// Numbers in each of the two tables.
struct TableLens {
    vertex: usize,
    context: usize,
}

impl<T: Element> Tables<'_, T> {
    /// Numbers of the vertex and of the context table.
    fn lens(&self) -> TableLens {
        let (vertex, context) = match self {
            Tables::Order1(table) => (table.len(), table.len()),
            Tables::Order2 { vertex, context } => (vertex.len(), context.len()),
        };
        TableLens { vertex, context }
    }
}

const OP: &str = "sgns";

/// Works through samples; holds the working memory of a device.
#[derive(Debug)]
pub struct Trainer {
    device: Device,
    settings: Settings,
    /// Where the kernels write losses that nobody asked for: they do not, but want an address.
    unasked: Buffer,
    /// At most this many blocks of this many threads in a launch (tests vary both).
    max_blocks: usize,
    block: u32,
    on_tensor_cores: bool,
}

impl Trainer {
    /// A trainer on a device.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Invalid`] for settings that make no sense.
    pub fn new(device: &Device, settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        Ok(Self {
            device: device.clone(),
            settings,
            unasked: device.zeros(1)?,
            max_blocks: usize::MAX,
            block: launch::BLOCK,
            on_tensor_cores: false,
        })
    }

    /// Lets a GPU take groups that share negatives 16 samples at a time, by products on tensor cores: on fp16 tables of at most 128
    /// columns, a multiple of 8, with at most 8 negatives and without losses; other calls go on as they were.
    ///
    /// Of two samples of a tile that share a row, one loses its update to it, as in [`Mode::Hogwild`] two that run at once may;
    /// and so does an edge from a node to itself in order 1.
    pub fn use_tensor_cores(&mut self) {
        self.on_tensor_cores = true;
    }

    /// Lets a device work on at most so many samples at once (at least 1; groups of samples that share negatives count as one).
    /// The host works on one for each thread anyway.
    pub fn limit_samples_in_flight(&mut self, most: u32) {
        // A warp has one sample at a time.
        let warps = most.clamp(1, launch::BLOCK / 32);
        self.block = 32 * warps;
        self.max_blocks = (most / warps).max(1) as usize;
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Updates the tables with the given samples; where wanted, `losses[i]` becomes the loss of sample `i` before its
    /// update, `-ln sigmoid(x)` for its edge and `-ln sigmoid(-x)` for its negatives.
    ///
    /// # Shapes
    /// Tables `[n, dim]` with more rows than any edge or negative names; `losses [samples.count]`.
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Length`], [`shardgraph_device::ErrorKind::Index`] and [`shardgraph_device::ErrorKind::Invalid`] where the operands do not fit one another.
    /// # Complexity
    /// [`Settings::bytes_per_sample`] of random rows.
    /// # Determinism
    /// The host and [`Mode::Deterministic`] repeat their bits; [`Mode::Hogwild`] on a GPU does not.
    /// # Source
    /// Tang et al., "LINE" (WWW 2015), equations 3, 6, 7; the update of its second part, section 4.2.
    pub fn step<T: Element>(
        &mut self,
        samples: &Samples<'_>,
        rate: f32,
        tables: Tables<'_, T>,
        losses: Option<&mut Buffer>,
    ) -> Result<(), Error> {
        self.check(samples, rate, tables.lens(), self.settings.dim)?;
        if let Some(losses) = &losses {
            check_len(OP, "losses", samples.count as usize, losses.len())?;
        }
        if samples.count == 0 {
            return Ok(());
        }
        match (self.settings.mode, self.device.is_host()) {
            (Mode::Deterministic { batch }, _) => {
                self.step_in_batches(batch, samples, rate, tables, losses)
            }
            (_, true) => host::sequential(self.settings, samples, rate, tables, None, losses),
            (_, false) => self.launch(samples, FallingRate::constant(rate), tables, losses),
        }
    }

    /// As [`Trainer::step`] in one launch of [`Mode::Hogwild`], with a rate that falls from sample to sample and without losses.
    ///
    /// # Errors
    /// As [`Trainer::step`]; [`shardgraph_device::ErrorKind::Unsupported`] on the host and in [`Mode::Deterministic`], where the rate
    /// is one number a call.
    pub fn step_falling<T: Element>(
        &mut self,
        samples: &Samples<'_>,
        rate: FallingRate,
        tables: Tables<'_, T>,
    ) -> Result<(), Error> {
        let last = rate.first + rate.slope * samples.count as f32;
        self.check(samples, rate.first, tables.lens(), self.settings.dim)?;
        self.check(samples, last, tables.lens(), self.settings.dim)?;
        match (self.settings.mode, self.device.is_host()) {
            (Mode::Hogwild, false) if samples.count > 0 => self.launch(samples, rate, tables, None),
            (Mode::Hogwild, false) => Ok(()),
            _ => Err(self.unsupported("a rate that falls within a call")),
        }
    }

    /// As [`Trainer::step`], with a rate of its own for each row: `squares` has a number for each row of the tables, to which the mean
    /// square of the row's gradient is added at each update; the row's rate is `rate` divided by the root of that sum.
    ///
    /// # Errors
    /// As [`Trainer::step`]; [`shardgraph_device::ErrorKind::Unsupported`] on a GPU and in [`Mode::Deterministic`], which has no such update.
    /// # Complexity
    /// As [`Trainer::step`], with 8 B more for each row.
    /// # Source
    /// Duchi, Hazan, Singer, "Adaptive subgradient methods" (JMLR 2011), with one sum a row as Lerer et al., "PyTorch-BigGraph"
    /// (SysML 2019).
    pub fn step_adagrad<T: Element>(
        &mut self,
        samples: &Samples<'_>,
        rate: f32,
        tables: Tables<'_, T>,
        squares: Tables<'_, f32>,
        losses: Option<&mut Buffer>,
    ) -> Result<(), Error> {
        self.check(samples, rate, tables.lens(), self.settings.dim)?;
        self.check(samples, rate, squares.lens(), 1)?;
        if let Some(losses) = &losses {
            check_len(OP, "losses", samples.count as usize, losses.len())?;
        }
        match (self.settings.mode, self.device.is_host()) {
            (Mode::Hogwild, true) => {
                let squares = Some(squares);
                host::sequential(self.settings, samples, rate, tables, squares, losses)
            }
            _ => Err(self.unsupported("Adagrad")),
        }
    }

    fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(&format!("{OP}: {what}"), self.device.kind())
    }

    /// Every row that an edge or a negative names exists in tables of so many numbers, `dim` in a row.
    fn check(
        &self,
        samples: &Samples<'_>,
        rate: f32,
        lens: TableLens,
        dim: usize,
    ) -> Result<(), Error> {
        if !rate.is_finite() {
            return Err(Error::invalid(OP, format!("the rate {rate} is not finite")));
        }
        let rows = |len: usize, operand| {
            let n_rows = len / dim;
            check_len(OP, operand, checks::elements(&[n_rows, dim]), len)?;
            Ok::<usize, Error>(n_rows)
        };
        let n_sources = rows(lens.vertex, "vertex")?;
        let n_targets = rows(lens.context, "context")?;
        check_draws(self.settings, samples)?;
        let (mut source, mut target) = samples.edges.largest.unwrap_or((0, 0));
        if samples.reversed {
            (source, target) = (target, source);
        }
        if samples.count == 0 {
            return Ok(());
        }
        let last_negative = samples.negatives.len().saturating_sub(1) as u64;
        check_row(source.into(), n_sources)?;
        check_row(target.into(), n_targets)?;
        check_row(last_negative, n_targets)
    }
}

fn check_row(row: u64, n_rows: usize) -> Result<(), Error> {
    match row < n_rows as u64 {
        true => Ok(()),
        false => Err(Error::index(OP, row, n_rows as u64)),
    }
}

/// There is something to draw, and sample numbers do not overflow.
fn check_draws(settings: Settings, samples: &Samples<'_>) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::invalid(OP, why));
    let edges = samples.edges;
    if samples.count > 0 && edges.is_empty() {
        return refuse("samples without edges");
    }
    if samples.count > 0 && settings.n_negatives > 0 && samples.negatives.is_empty() {
        return refuse("negatives are drawn from an empty table");
    }
    if samples.first.checked_add(samples.count).is_none() || samples.count > 1 << 40 {
        return refuse("sample numbers must stay below 2^64, and a call below 2^40 samples");
    }
    if samples.order == EdgeOrder::Drawn && edges.weights.is_none() {
        return refuse(
            "edges are drawn from a list without weights: use EdgeList::upload_weighted",
        );
    }
    if settings.mode == Mode::Hogwild && !samples.first.is_multiple_of(settings.group.into()) {
        return refuse("the first sample must be a multiple of the group");
    }
    Ok(())
}

fn check_len(
    op: &'static str,
    operand: &'static str,
    wanted: usize,
    given: usize,
) -> Result<(), Error> {
    match wanted == given {
        true => Ok(()),
        false => Err(Error::length(op, operand, wanted, given)),
    }
}
