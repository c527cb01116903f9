//! Gathers, scatters and segment sums: memory-bound work on rows.

use shardgraph_device::segments::{Gather, GatherLists, Segments};
use shardgraph_device::{Buffer, Error, Rows};

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
    let resident = device.resident_index(n_rows, &index)?;
    let work = Work::bytes(8 * n_rows * width + 4 * n_rows);
    report.case("gather rows k=64", work, || {
        device.gather_rows_by(&resident, width, &x, &mut out)
    })?;
    report.case("scatter rows k=64", work, || {
        device.scatter_rows_by(&resident, width, &x, &mut out)
    })?;
    let factors = device.upload(&Draws(7).floats(n_rows))?;
    let rows = Rows { n_rows, width };
    report.case("scale rows k=64", Work::bytes(8 * n_rows * width), || {
        device.scale_rows_by(rows, &factors, &mut out)
    })?;
    sums(report, &x, &index)?;
    cached_gather(report)
}

/// What the second-level cache gives: the gathers of a sparse product of ER(21000, 0.15) with 32 columns, in random order.
fn cached_gather(report: &Report) -> Result<(), Error> {
    let device = &report.device;
    let (n_rows, width, length) = (report.size(21_000, 50), 32, report.size(3150, 7));
    let mut draws = Draws(21);
    let lists = GatherLists {
        offsets: (0..=n_rows).map(|s| (s * length) as u64).collect(),
        index: (0..n_rows * length)
            .map(|_| (draws.next() % n_rows as u64) as u32)
            .collect(),
        weights: None,
    };
    let gather = Gather::upload(device, &lists, n_rows)?;
    let x = device.upload(&Draws(22).floats(n_rows * width))?;
    let mut out = device.zeros(n_rows * width)?;
    let work = Work::bytes(n_rows * length * (4 + 4 * width) + 4 * n_rows * width);
    report.case("cached gather 21000 rows k=32", work, || {
        device.gather_sum(&gather, width, &x, &mut out)
    })?;
    Ok(())
}

/// Sums over runs of rows and over gathered rows, many short ones and few long ones.
fn sums(report: &Report, x: &Buffer, index: &[u32]) -> Result<(), Error> {
    let device = &report.device;
    let (n_rows, width) = (index.len(), x.len() / index.len());
    for (name, length) in [("short", 8), ("long", 4096)] {
        let n_segments = n_rows.div_ceil(length);
        let offsets: Vec<u64> = (0..=n_segments)
            .map(|s| n_rows.min(s * length) as u64)
            .collect();
        let segments = Segments::upload(device, &offsets)?;
        let mut sums = device.zeros(n_segments * width)?;
        let work = Work::bytes(4 * width * (n_rows + n_segments) + 8 * n_segments);
        report.case(&format!("segment sum k=64 {name}"), work, || {
            device.segment_sum(&segments, width, x, &mut sums)
        })?;
        let lists = GatherLists {
            offsets,
            index: index.to_vec(),
            weights: None,
        };
        let gather = Gather::upload(device, &lists, n_rows)?;
        let work = Work::bytes(4 * width * (n_rows + n_segments) + 8 * n_segments + 4 * n_rows);
        report.case(&format!("gather sum k=64 {name}"), work, || {
            device.gather_sum(&gather, width, x, &mut sums)
        })?;
    }
    Ok(())
}
