//! The neighbour sum of a batch of graph states on one rank: adjacency blocks under masks, one pass for all states.

use std::sync::{Arc, OnceLock};

use shardgraph_autodiff::device::{Buffer, Device};
use shardgraph_autodiff::ops;
use shardgraph_autodiff::ops::{Adjacency, Copy2d, MaskedProduct};
use shardgraph_autodiff::{Ctx, DeviceComm, Error, Operand, Shape, Var};
use shardgraph_shard::ExchangePlan;

use super::exchange::BatchExchange;
use super::{BatchLayout, RowShard};

/// The operator `y_b = scale_b * keep_b A keep_b x_b` for each state `b` of each graph of a batch.
///
/// The residual graph is the graph under a mask: `keep_b` is 0 for nodes that have left it. The
/// adjacency is symmetric and `scale_b` is one number a state, so the operator is its own adjoint.
/// Masks and scales stay on the device that applies it first: a propagation, with its clones, is for one device.
#[derive(Debug, Clone)]
pub struct Propagation {
    layout: Arc<BatchLayout>,
    shards: Vec<RowShard>,
    /// For each group `[n_nodes * n_states]`, 1 for nodes in the residual graph.
    keep: Vec<Vec<f32>>,
    /// One factor a state of the batch.
    scale: Vec<f32>,
    /// Masks and factors as values of a program, in place of `keep` and `scale`.
    mask_inputs: Option<MaskInputs>,
    /// Masks and factors on the device that applied the operator first.
    on_device: Arc<OnceLock<Vec<Masks>>>,
    /// The row numbers that blocks exchange, on that device.
    exchange: Arc<OnceLock<BatchExchange>>,
    gathered_rows: OnceLock<Vec<Vec<usize>>>,
}

/// The rows of all ranks, rank by rank, as an all-gather leaves them.
#[derive(Clone, Copy)]
pub(super) struct Gathered<'b> {
    pub(super) rows: &'b Buffer,
    pub(super) width: usize,
    /// Masks and scales of the run, where they are values of the program.
    pub(super) masks: Option<MaskOperands<'b>>,
}

/// The masks and factors of one group.
#[derive(Debug)]
struct Masks {
    keep: Buffer,
    scale: Buffer,
}

/// The same, wherever they are.
#[derive(Clone, Copy)]
pub(super) struct MaskOperands<'b> {
    pub(super) keep: &'b Buffer,
    pub(super) scale: &'b Buffer,
}

impl Masks {
    fn operands(&self) -> MaskOperands<'_> {
        MaskOperands {
            keep: &self.keep,
            scale: &self.scale,
        }
    }
}

/// Masks and scales as inputs of a recorded program: each run has the values that they were given last.
#[derive(Debug, Clone, Copy)]
pub struct MaskInputs {
    /// `[n_nodes * n_states, 1]`: 1 for nodes in the residual graph, 0 for the others.
    pub keep: Var,
    /// `[n_states, 1]`: one factor a state.
    pub scale: Var,
}

impl MaskInputs {
    /// Inputs without values, for one graph's layout.
    ///
    /// # Errors
    /// [`Error::Usage`] for a layout of several graphs; the recorder's.
    pub fn record(ctx: &mut dyn Ctx, layout: &BatchLayout) -> Result<Self, Error> {
        let [group] = layout.groups() else {
            return Err(several_graphs());
        };
        let n_rows = group.partition.n_rows() as usize * group.n_states;
        Ok(Self {
            keep: ctx.input(Shape::new(n_rows, 1), &[])?,
            scale: ctx.input(Shape::new(group.n_states, 1), &[])?,
        })
    }
}

fn several_graphs() -> Error {
    Error::Usage("propagation: masks as inputs are for a batch of one graph".to_string())
}

impl Propagation {
    /// Puts adjacency blocks, masks and scales together.
    ///
    /// # Shapes
    /// One shard and one `keep [n_nodes, n_states]` (row-major, all nodes of the graph) a group; one scale a state.
    /// # Errors
    /// When a count does not fit the layout, a shard does not hold the rank's rows, ways of sharing differ, or a mask of blocks is neither 0
    /// nor 1.
    pub fn new(
        layout: Arc<BatchLayout>,
        shards: Vec<RowShard>,
        keep: Vec<Vec<f32>>,
        scale: Vec<f32>,
    ) -> Result<Self, Error> {
        let wrong = |text: String| Err(Error::Usage(text));
        let n_groups = layout.groups().len();
        if shards.len() != n_groups || keep.len() != n_groups || scale.len() != layout.n_states() {
            return wrong(format!(
                "propagation of {n_groups} groups and {} states: {} shards, {} masks and {} scales were given",
                layout.n_states(),
                shards.len(),
                keep.len(),
                scale.len()
            ));
        }
        for (i, group) in layout.groups().iter().enumerate() {
            let own = group.partition.range(layout.rank());
            if shards[i].own_rows() != own {
                return wrong(format!(
                    "propagation: the shard of group {i} has rows {:?}, its partition gives this rank {own:?}",
                    shards[i].own_rows()
                ));
            }
            let wanted = group.partition.n_rows() as usize * group.n_states;
            if keep[i].len() != wanted {
                return wrong(format!(
                    "propagation: the mask of group {i} has {} elements, {wanted} are needed",
                    keep[i].len()
                ));
            }
        }
        check_blocks(&shards, &keep)?;
        Ok(Self {
            layout,
            shards,
            keep,
            scale,
            mask_inputs: None,
            on_device: Arc::default(),
            exchange: Arc::default(),
            gathered_rows: OnceLock::new(),
        })
    }

    /// A graph whose masks and scales are inputs of the program that applies the operator: it is recorded once for all states.
    ///
    /// # Errors
    /// [`Error::Usage`] for several graphs, a shard of other rows than the rank's, and blocks: these mask rows by their numbers.
    pub fn with_inputs(
        layout: Arc<BatchLayout>,
        shard: RowShard,
        masks: MaskInputs,
    ) -> Result<Self, Error> {
        let [group] = layout.groups() else {
            return Err(several_graphs());
        };
        if shard.has_block() {
            let text =
                "propagation: blocks mask rows by their numbers, and take no masks as inputs";
            return Err(Error::Usage(text.to_string()));
        }
        let n_rows = group.partition.n_rows() as usize * group.n_states;
        let (keep, scale) = (vec![1.0; n_rows], vec![1.0; group.n_states]);
        let mut graph = Self::new(layout, vec![shard], vec![keep], scale)?;
        (graph.keep, graph.scale) = (Vec::new(), Vec::new());
        graph.mask_inputs = Some(masks);
        Ok(graph)
    }

    /// Masks and scales, where they are values of a program.
    pub(super) fn mask_inputs(&self) -> Option<MaskInputs> {
        self.mask_inputs
    }

    /// The rows of this rank.
    pub fn layout(&self) -> &Arc<BatchLayout> {
        &self.layout
    }

    /// Refuses masks as operands where they are values of their own, and those of another shape.
    pub(super) fn check_masks(&self, operands: &[Shape]) -> Result<(), String> {
        let wanted: Vec<Shape> = match (self.mask_inputs, self.layout.groups()) {
            (Some(_), [group]) => {
                let n_rows = group.partition.n_rows() as usize * group.n_states;
                [n_rows, group.n_states]
                    .map(|rows| Shape::new(rows, 1))
                    .to_vec()
            }
            _ => Vec::new(),
        };
        match operands == wanted {
            true => Ok(()),
            false => Err(format!(
                "the masks' shapes are {operands:?}, {wanted:?} are expected"
            )),
        }
    }

    /// The masks, one a group.
    #[cfg(test)]
    pub(super) fn keep(&self) -> &[Vec<f32>] {
        &self.keep
    }

    /// The scales, one a state.
    #[cfg(test)]
    pub(super) fn scale(&self) -> &[f32] {
        &self.scale
    }

    /// The shards, one a group.
    #[cfg(test)]
    pub(super) fn shards(&self) -> &[RowShard] {
        &self.shards
    }

    /// The blocks' exchange plans, one a group; none where all rows are gathered.
    pub(super) fn wirings(&self) -> Vec<&ExchangePlan> {
        let wirings = self.shards.iter().filter_map(RowShard::wiring);
        wirings.map(AsRef::as_ref).collect()
    }

    /// A group's block.
    pub(super) fn adjacency(&self, group: usize) -> Adjacency<'_> {
        self.shards[group].adjacency()
    }

    /// True if a node is in the residual graph of a state of a group.
    pub(super) fn keeps(&self, group: usize, node: u32, state: usize) -> bool {
        let n_states = self.layout.groups()[group].n_states;
        self.keep[group][node as usize * n_states + state] != 0.0
    }

    /// The factor of a node's sum in a state of a group.
    pub(super) fn factor(&self, group: usize, node: u32, state: usize) -> f32 {
        let kept = f32::from(u8::from(self.keeps(group, node, state)));
        kept * self.scale[self.layout.group_states(group).start + state]
    }

    /// Applies the operator where ranks have blocks.
    pub(super) fn apply_blocks(
        &self,
        ranks: &mut DeviceComm<'_>,
        x: Operand<'_>,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let exchange = match self.exchange.get() {
            Some(exchange) => exchange,
            None => {
                let made = BatchExchange::new(ranks.device(), self)?;
                self.exchange.get_or_init(|| made)
            }
        };
        exchange.apply(self, ranks, x, out)
    }

    /// True if ranks have blocks; else they have whole rows.
    pub(super) fn has_blocks(&self) -> bool {
        self.shards.first().is_some_and(RowShard::has_block)
    }

    /// Applies the operator to the rows of all ranks: own rows into `out`, whose contents so far do not matter.
    pub(super) fn apply(
        &self,
        device: &Device,
        gathered: Gathered<'_>,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        if self.layout.n_rows() == 0 {
            return Ok(()); // other ranks have all graphs
        }
        if self.shards.len() == 1 {
            return self.apply_group(device, gathered, 0, out);
        }
        for group in 0..self.shards.len() {
            let rows = self.layout.group_rows(group);
            if rows.is_empty() {
                continue; // other ranks have this graph
            }
            let mut sums = device.zeros(rows.len() * gathered.width)?;
            self.apply_group(device, gathered, group, &mut sums)?;
            let first = rows.start * gathered.width;
            ops::copy_2d(device, run(sums.len(), 0, first), &sums, out)?;
        }
        Ok(())
    }

    fn apply_group(
        &self,
        device: &Device,
        gathered: Gathered<'_>,
        group: usize,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let partition = &self.layout.groups()[group].partition;
        let n_states = self.layout.groups()[group].n_states;
        let own = partition.range(self.layout.rank());
        let masks = match gathered.masks {
            Some(masks) => masks,
            None => self.masks(device)?[group].operands(),
        };
        let whole;
        let x = match self.shards.len() == 1 {
            true => gathered.rows, // rank by rank is in node order
            false => {
                whole = self.collect_group(device, gathered, group)?;
                &whole
            }
        };
        let product = MaskedProduct {
            adjacency: self.shards[group].adjacency(),
            n_rows: own.len(),
            n_columns: partition.n_rows() as usize,
            n_states,
            width: gathered.width,
            first_row: own.start as usize,
            keep: Some(masks.keep),
            scale: Some(masks.scale),
            bias: None,
            relu: false,
        };
        Ok(ops::masked_sparse_product(device, product, x, out)?)
    }

    fn masks(&self, device: &Device) -> Result<&[Masks], Error> {
        if let Some(masks) = self.on_device.get() {
            return Ok(masks);
        }
        let mut masks = Vec::with_capacity(self.keep.len());
        for (group, keep) in self.keep.iter().enumerate() {
            masks.push(Masks {
                keep: device.upload(keep)?,
                scale: device.upload(&self.scale[self.layout.group_states(group)])?,
            });
        }
        Ok(self.on_device.get_or_init(|| masks))
    }

    /// One group's rows of all nodes, in node order, out of the rank-by-rank rows of all groups.
    fn collect_group(
        &self,
        device: &Device,
        gathered: Gathered<'_>,
        group: usize,
    ) -> Result<Buffer, Error> {
        let width = gathered.width;
        let groups = self.layout.groups();
        let n_nodes = groups[group].partition.n_rows() as usize;
        let mut whole = device.zeros(n_nodes * groups[group].n_states * width)?;
        let rows_of =
            |i: usize, rank: u32| groups[i].partition.range(rank).len() * groups[i].n_states;
        let mut filled = 0;
        for rank in 0..groups[group].partition.n_ranks() {
            let len = rows_of(group, rank) * width;
            let first = self.gathered_rows()[group][rank as usize] * width;
            ops::copy_2d(device, run(len, first, filled), gathered.rows, &mut whole)?;
            filled += len;
        }
        Ok(whole)
    }

    /// For each group where each rank's rows of it begin among the rows of all ranks; found once a batch.
    fn gathered_rows(&self) -> &[Vec<usize>] {
        self.gathered_rows.get_or_init(|| {
            let groups = self.layout.groups();
            let mut first_rows = vec![Vec::new(); groups.len()];
            let mut first = 0;
            for rank in 0..groups.first().map_or(0, |group| group.partition.n_ranks()) {
                for (group, first_rows) in groups.iter().zip(&mut first_rows) {
                    first_rows.push(first);
                    first += group.partition.range(rank).len() * group.n_states;
                }
            }
            first_rows
        })
    }
}

/// Refuses shards that share sums in different ways, and values other than 0 and 1 where rows are masked by their numbers.
fn check_blocks(shards: &[RowShard], keep: &[Vec<f32>]) -> Result<(), Error> {
    let wrong = |text: &str| Err(Error::Usage(format!("propagation: {text}")));
    let way = |shard: &RowShard| shard.wiring().map(|wiring| wiring.communication());
    if shards.iter().any(|shard| way(shard) != way(&shards[0])) {
        return wrong("the shards have different ways of sharing sums");
    }
    let is_wired = shards.first().is_some_and(|shard| way(shard).is_some());
    let is_mask = |keep: &f32| keep.abs() * (keep - 1.0).abs() <= 0.0;
    if is_wired && !keep.iter().flatten().all(is_mask) {
        return wrong("a mask is neither 0 nor 1");
    }
    Ok(())
}

/// A copy of `len` adjacent elements.
fn run(len: usize, source_first: usize, target_first: usize) -> Copy2d {
    Copy2d {
        rows: 1,
        width: len,
        source_first,
        source_stride: len,
        target_first,
        target_stride: len,
    }
}
