//! Gathers, scatters and scales: memory-bound work on rows.

use shardgraph_device::Error;
use shardgraph_ops::{RowIndex, Rows, gather_rows, scale_rows, scatter_rows};

use crate::graphs::Draws;
use crate::report::{Report, Work};

pub(crate) fn run(report: &Report) -> Result<(), Error> {
    let device = &report.device;
    let (n_rows, width) = (report.size(1 << 20, 200), 64);
    let x = device.upload(&Draws(5).floats(n_rows * width))?;
    let mut out = device.zeros(n_rows * width)?;
    let mut draws = Draws(6);
    let index: Vec<u32> = (0..n_rows)
        .map(|_| (draws.next() % n_rows as u64) as u32)
        .collect();
    let resident = RowIndex::upload(device, n_rows, index)?;
    let work = Work::bytes(8 * n_rows * width + 4 * n_rows);
    report.case("gather rows k=64", work, || {
        gather_rows(device, &resident, width, &x, &mut out)
    })?;
    report.case("scatter rows k=64", work, || {
        scatter_rows(device, &resident, width, &x, &mut out)
    })?;
    let factors = device.upload(&Draws(7).floats(n_rows))?;
    let rows = Rows { n_rows, width };
    report.case("scale rows k=64", Work::bytes(8 * n_rows * width), || {
        scale_rows(device, rows, &factors, &mut out)
    })?;
    Ok(())
}
