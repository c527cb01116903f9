//! The paper's own formulas: parallel efficiency (section 5.1) and memory (section 5.2).

use anyhow::{Result, bail};

use super::Runner;
use crate::definition::{number, string};
use crate::toml::Table;

/// What the formula of a series gives at a number of ranks, if it has one.
pub(super) fn of_series(runner: &Runner<'_>, series: &Table, ranks: f64) -> Result<Option<f64>> {
    if series.get("formula").is_none() {
        return Ok(None);
    }
    let size = |key: &str| runner.size(series, key);
    Ok(Some(match string(series, "formula")?.as_str() {
        "efficiency" => efficiency(
            size("nodes")?,
            (number(series, "density")?, number(series, "layers")?),
            (number(series, "beta")?, ranks),
        ),
        "memory" => memory(
            (size("nodes")?, number(series, "density")?),
            (number(series, "batch")?, number(series, "replay")?),
            ranks,
        ),
        other => bail!("{other:?} is no formula of the paper"),
    }))
}

/// E_embed(P) after equation 4; `beta` is what a number sent takes, in additions.
fn efficiency(nodes: f64, (density, layers): (f64, f64), (beta, ranks): (f64, f64)) -> f64 {
    1.0 / (1.0 + beta * ranks / (nodes * (1.0 + density / layers)))
}

/// Bytes on one of the ranks: the adjacency matrices of a batch, its solutions and candidates, and the replay memory.
fn memory((nodes, density): (f64, f64), (batch, replay): (f64, f64), ranks: f64) -> f64 {
    let matrices = 20.0 * nodes * nodes * density * batch / ranks;
    let states = 2.0 * 4.0 * nodes * batch / ranks;
    matrices + states + 8.0 * replay * (nodes / ranks + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_examples() {
        // 20 bytes for each of the 66.15 M entries of ER(21000, 0.15): 1.32 GB a graph.
        let one = memory((21_000.0, 0.15), (1.0, 0.0), 1.0);
        assert!((one - 1.3232e9).abs() < 1e6, "{one}");
        assert!((memory((21_000.0, 0.15), (1.0, 0.0), 6.0) * 6.0 - one).abs() < 1.0);
        // 50 000 tuples of N / P + 1 numbers of 8 bytes.
        let replay = memory((100.0, 0.0), (0.0, 50_000.0), 2.0);
        assert!((replay - 8.0 * 50_000.0 * 51.0).abs() < 1.0);
        // "Close to 1.0 when P is much less than N".
        let six = efficiency(21_000.0, (0.15, 2.0), (1.0, 6.0));
        assert!((0.9995..1.0).contains(&six), "{six}");
        assert!((efficiency(6.0, (0.0, 2.0), (1.0, 6.0)) - 0.5).abs() < 1e-12);
    }
}
