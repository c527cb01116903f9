//! Which kernel a step launches, and how.

use super::{EdgeOrder, Element, FallingRate, Samples, Tables, Trainer};
use shardgraph_device::{Arg, Buffer, Error, Launch};

/// Threads of a block: what the kernels declare.
pub(super) const BLOCK: u32 = 128;
/// Negatives of a group that a warp keeps in registers.
const REGISTER_NEGATIVES: u32 = 5;
/// Negatives of a group on tensor cores: the columns of a fragment.
const FRAGMENT_NEGATIVES: u32 = 8;
/// Shared memory that a block has without asking.
const SHARED_BYTES: usize = 48 << 10;

impl Trainer {
    /// The kernels' common parameters; `n_context` is the length of the context table.
    pub(super) fn job<'a>(
        &self,
        samples: &Samples<'a>,
        rate: FallingRate,
        n_context: usize,
    ) -> Vec<Arg<'a>> {
        let settings = self.settings;
        let edges = samples.edges;
        let (drawn, first_edge) = match samples.order {
            EdgeOrder::Listed { first } => (0, first % (edges.len() as u64).max(1)),
            EdgeOrder::Drawn => (1, 0),
        };
        let alias = edges.weights.as_ref().map_or(&edges.pairs, |w| &w.pairs); // read where `drawn`
        debug_assert!(samples.negatives.len() * settings.dim <= n_context);
        vec![
            Arg::read(&edges.pairs),
            Arg::u64(edges.len() as u64),
            Arg::read(alias),
            Arg::u32(drawn),
            Arg::u32(samples.reversed.into()),
            Arg::read(&samples.negatives.pairs),
            Arg::u32(samples.negatives.len() as u32),
            Arg::u32(settings.dim as u32),
            Arg::u32(settings.n_negatives),
            Arg::u32(settings.group),
            Arg::u64(settings.seed),
            Arg::u64(samples.first),
            Arg::u64(first_edge),
            Arg::u64(samples.count),
            Arg::f32(rate.first),
            Arg::f32(rate.slope),
        ]
    }

    /// Warps for `n_items` items, each of which may take up to `most` of them in turn.
    pub(super) fn warps(&self, n_items: u64, most: u64) -> Launch {
        // Work for some thousand warps first, then more for each: a block that does little costs its start.
        let each = (n_items / (1 << 14)).clamp(1, most);
        let n_blocks = n_items.div_ceil(each).div_ceil(u64::from(self.block) / 32);
        let limit = self.max_blocks.min(Launch::MAX_BLOCKS as usize);
        Launch::blocks((n_blocks as usize).min(limit), self.block)
    }

    pub(super) fn launch<T: Element>(
        &mut self,
        samples: &Samples<'_>,
        rate: FallingRate,
        tables: Tables<'_, T>,
        losses: Option<&mut Buffer>,
    ) -> Result<(), Error> {
        let variant = self.variant::<T>(samples.count, losses.is_some());
        let (order, n_context) = match &tables {
            Tables::Order1(table) => (1, table.len()),
            Tables::Order2 { context, .. } => (2, context.len()),
        };
        let mut args = self.job(samples, rate, n_context);
        if variant.has_losses {
            let with_loss = Arg::u32(losses.is_some().into());
            args.extend([with_loss, Arg::write(losses.unwrap_or(&mut self.unasked))]);
        }
        match tables {
            Tables::Order1(table) => args.push(Arg::write(table)),
            Tables::Order2 { vertex, context } => {
                args.extend([Arg::write(vertex), Arg::write(context)]);
            }
        }
        let kernel = format!("sgns_order{order}_{}{}", T::NAME, variant.suffix);
        // SAFETY: every edge and negative names a row that exists, and `losses` holds all samples (checked by `step`).
        unsafe { self.device.launch(&kernel, variant.shape, &args) }
    }

    /// The kernel for these settings and as many samples.
    fn variant<T: Element>(&self, count: u64, wants_losses: bool) -> Variant {
        let settings = self.settings;
        let n_negatives = settings.n_negatives;
        let in_registers = settings.dim.is_multiple_of(4) && settings.dim <= 256;
        let padded = if settings.dim <= 128 { 128 } else { 256 };
        let is_narrow = in_registers && padded == 128;
        let is_shared = settings.group > 1 && n_negatives > 0 && in_registers;
        let n_groups = count.div_ceil(settings.group.into());
        let is_in_fragments =
            is_narrow && settings.dim.is_multiple_of(8) && n_negatives <= FRAGMENT_NEGATIVES;
        if self.on_tensor_cores
            && is_shared
            && is_in_fragments
            && size_of::<T>() == 2
            && !wants_losses
        {
            return Variant {
                suffix: "_tensor",
                has_losses: false,
                shape: self.warps(n_groups, 4),
            };
        }
        if is_shared && is_narrow && n_negatives <= REGISTER_NEGATIVES && !wants_losses {
            return Variant {
                suffix: "_shared5",
                has_losses: false,
                shape: self.warps(n_groups, 4),
            };
        }
        // Rows of the negatives, and their sums.
        let warps = self.block as usize / 32;
        let shared = 2 * n_negatives as usize * padded * size_of::<f32>() * warps;
        if is_shared && shared <= SHARED_BYTES {
            return Variant {
                suffix: "_shared",
                has_losses: true,
                shape: self.warps(n_groups, 4).with_shared(shared),
            };
        }
        let has_losses = !is_narrow || wants_losses;
        Variant {
            suffix: if has_losses { "_any" } else { "" },
            has_losses,
            shape: self.warps(count, 16),
        }
    }
}

/// A kernel of `cuda/line/sgns.cu`, without its order and element.
struct Variant {
    suffix: &'static str,
    /// It has the parameters of the losses.
    has_losses: bool,
    shape: Launch,
}
