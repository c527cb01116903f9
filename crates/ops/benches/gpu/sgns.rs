//! LINE's edge update: samples a second, and bytes against the copy rate.

use shardgraph_device::{Buffer, Error};
use shardgraph_line::kernels::sgns::{
    AliasTable, EdgeList, EdgeOrder, Element, Mode, Samples, Settings, Tables, Trainer, narrow,
};

use crate::graphs::Draws;
use crate::report::{Report, Work};

pub(crate) fn run(report: &Report) -> Result<(), Error> {
    let shared = "negatives shared by 16";
    for (name, group) in [("own negatives", 1), (shared, 16)] {
        case(
            report,
            &format!("sgns d=128 f32 {name}"),
            group,
            false,
            |x| x,
        )?;
        case(
            report,
            &format!("sgns d=128 f16 {name}"),
            group,
            false,
            narrow,
        )?;
    }
    let series = format!("sgns d=128 f16 {shared}, tensor cores");
    case(report, &series, 16, true, narrow)
}

/// Uniform random edges over tables far larger than the second-level cache.
fn case<T: Element>(
    report: &Report,
    series: &str,
    group: u32,
    on_tensor_cores: bool,
    element: fn(f32) -> T,
) -> Result<(), Error> {
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
    let edges = EdgeList::upload(device, &draws.below(n_rows, 2 * n_edges))?;
    let negatives = AliasTable::from_degrees(device, &vec![1; n_rows])?;
    // As large as LINE's rows become: zeros would stay zeros, and small numbers round cheaply.
    let mut table = || -> Result<Buffer<T>, Error> {
        let values = (0..n_rows * settings.dim).map(|_| element(draws.unit() as f32 - 0.5));
        device.upload(&values.collect::<Vec<T>>())
    };
    let (mut vertex, mut context) = (table()?, table()?);
    let mut trainer = Trainer::new(device, settings)?;
    if on_tensor_cores {
        trainer.use_tensor_cores();
    }
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
