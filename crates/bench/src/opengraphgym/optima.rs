//! The table of known optima, `benches/data/mvc-optima.csv`.

use anyhow::{Context as _, Result, ensure};

/// The optimum of one generated graph.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Optimum {
    pub(crate) n_nodes: usize,
    pub(crate) n_edges: usize,
    pub(crate) size: usize,
}

/// The row of a generator and a seed.
pub(crate) fn optimum_of(csv: &str, spec: &str, seed: i64) -> Result<Optimum> {
    let mut lines = csv.lines().filter(|line| !line.starts_with('#'));
    let head = lines.next().unwrap_or_default();
    ensure!(
        head == "graph,seed,n,m,optimum,solver",
        "unexpected columns in the table of optima: {head}"
    );
    let seed = seed.to_string();
    let mut rows = lines.map(|line| line.split(',').collect::<Vec<&str>>());
    let row = rows.find(|row| row.len() == 6 && row[0] == spec && row[1] == seed);
    let row = row.with_context(|| format!("the table of optima lacks {spec}, seed {seed}"))?;
    let count = |text: &str| {
        let count = text.parse::<usize>();
        count.with_context(|| format!("{text:?} is not a count"))
    };
    Ok(Optimum {
        n_nodes: count(row[2])?,
        n_edges: count(row[3])?,
        size: count(row[4])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_by_graph_and_seed() {
        let csv = "# made by\ngraph,seed,n,m,optimum,solver\ner:9:0.5,1000,9,14,6,x\n";
        let optimum = optimum_of(csv, "er:9:0.5", 1000).unwrap();
        assert_eq!((optimum.n_nodes, optimum.n_edges, optimum.size), (9, 14, 6));
        assert!(optimum_of(csv, "er:9:0.5", 1001).is_err());
        assert!(optimum_of("graph,seed\n", "er:9:0.5", 1000).is_err());
    }
}
