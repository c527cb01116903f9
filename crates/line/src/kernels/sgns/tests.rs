//! The update of LINE on every back end, against f64 loops.

mod adagrad;
mod devices;
mod draws;
mod halves;
mod orders;
mod refusals;
mod updates;

use super::{AliasTable, EdgeList, EdgeOrder, Mode, Samples, Settings, Tables, Trainer};
use shardgraph_device::Device;

/// The most blocks of a launch, and the threads of each.
#[derive(Clone, Copy)]
struct LaunchSize {
    max_blocks: usize,
    block: u32,
}

impl LaunchSize {
    const fn new(max_blocks: usize, block: u32) -> LaunchSize {
        LaunchSize { max_blocks, block }
    }
}

/// One warp: samples run in order.
const ONE_WARP: LaunchSize = LaunchSize::new(1, 32);
/// As many as there is work for.
const ALL: LaunchSize = LaunchSize::new(usize::MAX, 128);

/// A fraction in -0.5..0.5, spread by a hash.
fn fraction(i: usize) -> f32 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    (mixed % 4001) as f32 / 4000.0 - 0.5
}

/// Two tables and what to train them on.
#[derive(Debug, Clone)]
struct Case {
    settings: Settings,
    n_sources: usize,
    n_targets: usize,
    pairs: Vec<u32>,
    degrees: Vec<u32>,
    count: u64,
    first: u64,
    rate: f32,
    reversed: bool,
    on_tensor_cores: bool,
}

impl Case {
    fn vertex(&self) -> Vec<f32> {
        (0..self.n_sources * self.settings.dim)
            .map(fraction)
            .collect()
    }

    fn context(&self) -> Vec<f32> {
        let len = self.n_targets * self.settings.dim;
        (0..len).map(|i| fraction(i + 1_000_003)).collect()
    }

    /// Trains both tables; gives them and the losses.
    fn order2(&self, device: &Device, size: LaunchSize) -> [Vec<f32>; 3] {
        let mut vertex = device.upload(&self.vertex()).unwrap();
        let mut context = device.upload(&self.context()).unwrap();
        let mut losses = device.zeros(self.count as usize).unwrap();
        let (vertex_mut, context_mut) = (&mut vertex, &mut context);
        let tables = Tables::Order2 {
            vertex: vertex_mut,
            context: context_mut,
        };
        self.step(device, size, tables, Some(&mut losses));
        [vertex, context, losses].map(|buffer| device.download(&buffer).unwrap())
    }

    /// The same tables by the kernels that compute no losses.
    fn order2_without_losses(&self, device: &Device, size: LaunchSize) -> [Vec<f32>; 2] {
        let mut vertex = device.upload(&self.vertex()).unwrap();
        let mut context = device.upload(&self.context()).unwrap();
        let tables = Tables::Order2 {
            vertex: &mut vertex,
            context: &mut context,
        };
        self.step(device, size, tables, None);
        [vertex, context].map(|buffer| device.download(&buffer).unwrap())
    }

    fn step<T: super::Element>(
        &self,
        device: &Device,
        size: LaunchSize,
        tables: Tables<'_, T>,
        losses: Option<&mut shardgraph_device::Buffer>,
    ) {
        let edges = EdgeList::upload(device, &self.pairs).unwrap();
        let negatives = AliasTable::from_degrees(device, &self.degrees).unwrap();
        let mut trainer = Trainer::new(device, self.settings).unwrap();
        (trainer.max_blocks, trainer.block) = (size.max_blocks, size.block);
        trainer.on_tensor_cores = self.on_tensor_cores;
        let samples = Samples {
            edges: &edges,
            negatives: &negatives,
            order: EdgeOrder::Listed { first: 1 },
            reversed: self.reversed,
            first: self.first,
            count: self.count,
        };
        trainer.step(&samples, self.rate, tables, losses).unwrap();
    }
}

fn settings(dim: usize, n_negatives: u32) -> Settings {
    Settings {
        dim,
        n_negatives,
        group: 1,
        seed: 0x5EED,
        mode: Mode::Hogwild,
    }
}

/// A small graph in which rows meet often.
fn case(dim: usize, n_negatives: u32, n_edges: usize) -> Case {
    let (n_sources, n_targets) = (7, 9);
    let id = |i: usize, n: usize| ((fraction(i) + 0.5) * 1e4) as u32 % n as u32;
    let pairs = (0..n_edges).flat_map(|i| [id(2 * i, n_sources), id(2 * i + 1, n_targets)]);
    Case {
        settings: settings(dim, n_negatives),
        n_sources,
        n_targets,
        pairs: pairs.collect(),
        degrees: (1..=n_targets as u32).collect(),
        count: n_edges as u64,
        first: 0,
        rate: 0.05,
        reversed: false,
        on_tensor_cores: false,
    }
}
