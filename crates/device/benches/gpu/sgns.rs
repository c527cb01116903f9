//! LINE's edge update: samples a second, and bytes against the copy rate.

use shardgraph_device::Error;
use shardgraph_device::sgns::{
    AliasTable, EdgeList, EdgeOrder, Element, Mode, Samples, Settings, Tables, Trainer,
};

use crate::graphs::Draws;
use crate::report::{Report, Work};

pub(crate) fn run(report: &Report) -> Result<(), Error> {
    for (name, group) in [("own negatives", 1), ("negatives shared by 16", 16)] {
        case::<f32>(report, &format!("sgns d=128 f32 {name}"), group)?;
        case::<u16>(report, &format!("sgns d=128 f16 {name}"), group)?;
    }
    Ok(())
}

/// Uniform random edges over tables far larger than the second-level cache.
fn case<T: Element + From<u8>>(report: &Report, series: &str, group: u32) -> Result<(), Error> {
    let device = &report.device;
    let n_rows = report.size(4 << 20, 300);
    let n_edges = report.size(16 << 20, 400);
    let settings = Settings {
        dim: report.size(128, 32),
        n_negatives: 5,
        group,
        seed: 14,
        mode: Mode::Hogwild,
    };
    let mut draws = Draws(15);
    let pairs: Vec<u32> = (0..2 * n_edges)
        .map(|_| (draws.next() % n_rows as u64) as u32)
        .collect();
    let edges = EdgeList::upload(device, &pairs)?;
    let negatives = AliasTable::from_degrees(device, &vec![1; n_rows])?;
    let mut vertex = device.zeros::<T>(n_rows * settings.dim)?;
    let mut context = device.zeros::<T>(n_rows * settings.dim)?;
    let mut trainer = Trainer::new(device, settings)?;
    let count = n_edges as u64;
    let mut first = 0;
    let work = Work::bytes((settings.bytes_per_sample::<T>() * count as f64) as usize);
    let seconds = report.case(series, work, || {
        let samples = Samples {
            edges: &edges,
            negatives: &negatives,
            order: EdgeOrder::Listed { first: 0 },
            reversed: false,
            first,
            count,
        };
        first += count;
        let tables = Tables::Order2 {
            vertex: &mut vertex,
            context: &mut context,
        };
        trainer.step(&samples, 0.025, tables, None)
    })?;
    report.metric(series, "samples", count as f64 / seconds / 1e6, "M/s");
    Ok(())
}
