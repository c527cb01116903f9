//! Rows against the optimum: ratios, the share of a gap that is closed, and sums over graphs.

use serde::Serialize;
use shardgraph_solver::problem::{Objective, Sense};

use super::OfGraph;
use super::optima::Optimum;
use super::rows::{Kind, Row};

/// Whose distance from the optimum is the gap, where there is such a row: greedy with the tie-break, which two layers can learn.
const GAP_FROM: &str = "max_degree_d2";

/// How far a sum of weights may be from a table's, in parts of it: weights are read as f32, and a table has decimals.
const WEIGHT_TOLERANCE: f64 = 1e-6;

/// One kind of row over all graphs.
#[derive(Serialize)]
pub(super) struct Total {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) sum: f64,
    /// Mean over the graphs, where the optimum of each is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mean_ratio: Option<f64>,
    /// Of the sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_closed: Option<f64>,
}

/// Writes ratios and gaps into the rows of one graph; an error, after all of them, where an answer is better than a proved optimum.
pub(super) fn judge(
    sense: Sense,
    optimum: Option<&Optimum>,
    rows: &mut [Row],
) -> Result<(), String> {
    let Some(optimum) = optimum else {
        return Ok(());
    };
    let (base, mut judged) = (base(rows), Ok(()));
    for row in rows {
        let found = row.objective.value();
        if optimum.proved && judged.is_ok() && is_better(sense, row.objective, optimum.value) {
            judged = Err(format!(
                "{} found {found}, which was checked, so the optimum is not {}",
                row.name, optimum.value
            ));
        }
        row.ratio = ratio(found, optimum.value);
        row.gap_closed = gap_closed(sense, base, found, optimum.value);
    }
    judged
}

/// An error where a row is better than a bound that was proved here.
pub(super) fn within(sense: Sense, bound: Option<f64>, rows: &[Row]) -> Result<(), String> {
    let Some(bound) = bound else {
        return Ok(());
    };
    match rows
        .iter()
        .find(|row| is_better(sense, row.objective, bound))
    {
        None => Ok(()),
        Some(row) => Err(format!(
            "{} found {}, which was checked, so {bound} is no bound",
            row.name,
            row.objective.value()
        )),
    }
}

/// Whether an answer is better than another value. Counts are exact; weights are equal within rounding.
pub(crate) fn is_better(sense: Sense, found: Objective, optimum: f64) -> bool {
    let slack = match found {
        Objective::Count(_) => 0.0,
        Objective::Weight(_) => WEIGHT_TOLERANCE * optimum.abs(),
    };
    behind(sense, found.value(), optimum) < -slack
}

/// How much worse a value is than another; below 0 where it is better.
fn behind(sense: Sense, value: f64, other: f64) -> f64 {
    match sense {
        Sense::Minimise => value - other,
        Sense::Maximise => other - value,
    }
}

fn base(rows: &[Row]) -> Option<f64> {
    let first = rows.iter().find(|row| row.kind == Kind::Baseline);
    let row = rows.iter().find(|row| row.name == GAP_FROM).or(first)?;
    Some(row.objective.value())
}

/// The share of the way from the base to the optimum; nothing where the base is optimal, or better than the best that was known.
fn gap_closed(sense: Sense, base: Option<f64>, found: f64, optimum: f64) -> Option<f64> {
    let base = base?;
    let gap = behind(sense, base, optimum);
    (gap > 0.0).then(|| behind(sense, base, found) / gap)
}

fn ratio(found: f64, optimum: f64) -> Option<f64> {
    match optimum == 0.0 {
        true => (found == 0.0).then_some(1.0),
        false => Some(found / optimum),
    }
}

/// Sums over the graphs, of rows that every graph has.
pub(super) fn totals(sense: Sense, graphs: &[OfGraph]) -> Vec<Total> {
    let Some(first) = graphs.first() else {
        return Vec::new();
    };
    let sum = |name: &str| -> Option<f64> {
        let values = graphs.iter().map(|of_graph| {
            let row = of_graph.rows.iter().find(|row| row.name == name)?;
            Some(row.objective.value())
        });
        values.sum()
    };
    let optima = graphs
        .iter()
        .map(|of_graph| Some(of_graph.optimum.as_ref()?.value));
    let optimum: Option<f64> = optima.sum();
    let base = base(&first.rows).and_then(|_| {
        let named = first.rows.iter().find(|row| row.name == GAP_FROM);
        let other = first.rows.iter().find(|row| row.kind == Kind::Baseline);
        sum(named.or(other)?.name)
    });
    let total = |row: &Row| -> Option<Total> {
        let sum = sum(row.name)?;
        let ratios = graphs.iter().map(|of_graph| {
            let row = of_graph.rows.iter().find(|other| other.name == row.name)?;
            row.ratio
        });
        let ratios: Option<f64> = ratios.sum();
        Some(Total {
            name: row.name,
            kind: row.kind,
            sum,
            mean_ratio: ratios.map(|sum| sum / graphs.len() as f64),
            gap_closed: optimum.and_then(|optimum| gap_closed(sense, base, sum, optimum)),
        })
    };
    first.rows.iter().filter_map(total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_solver::problem::Objective;

    fn row(name: &'static str, kind: Kind, size: u64) -> Row {
        Row::new(name, kind, Objective::Count(size), 0.0)
    }

    fn optimum(value: f64, proved: bool) -> Optimum {
        Optimum {
            value,
            proved,
            source: "table",
        }
    }

    fn rows() -> Vec<Row> {
        vec![
            row("policy", Kind::Policy, 12),
            row("max_degree", Kind::Baseline, 20),
            row("max_degree_d2", Kind::Baseline, 14),
        ]
    }

    #[test]
    fn the_gap_is_that_of_the_tie_break() {
        let mut rows = rows();
        judge(Sense::Minimise, Some(&optimum(10.0, true)), &mut rows).unwrap();
        assert_eq!(rows[0].ratio, Some(1.2));
        assert_eq!(rows[0].gap_closed, Some(0.5));
        assert_eq!(rows[2].gap_closed, Some(0.0));
        assert_eq!(rows[1].gap_closed, Some(-1.5));
    }

    #[test]
    fn nothing_is_better_than_a_proved_optimum() {
        let error = judge(Sense::Minimise, Some(&optimum(13.0, true)), &mut rows());
        assert!(error.unwrap_err().contains("policy found 12"));
        assert!(judge(Sense::Minimise, Some(&optimum(13.0, false)), &mut rows()).is_ok());
        assert!(judge(Sense::Maximise, Some(&optimum(13.0, true)), &mut rows()).is_err());
        assert!(judge(Sense::Maximise, Some(&optimum(20.0, true)), &mut rows()).is_ok());
        let error = within(Sense::Minimise, Some(13.0), &rows()).unwrap_err();
        assert!(error.contains("policy found 12"), "{error}");
        assert!(within(Sense::Minimise, Some(12.0), &rows()).is_ok());
        assert!(within(Sense::Minimise, None, &rows()).is_ok());
    }

    #[test]
    fn totals_are_sums_and_mean_ratios() {
        let of_graph = |value: f64| {
            let mut rows = rows();
            judge(Sense::Minimise, Some(&optimum(value, true)), &mut rows).unwrap();
            OfGraph {
                graph: String::new(),
                nodes: 1,
                edges: 0,
                load_seconds: 0.0,
                bound: None,
                optimum: Some(optimum(value, true)),
                rows,
            }
        };
        let totals = totals(Sense::Minimise, &[of_graph(10.0), of_graph(12.0)]);
        assert_eq!((totals[0].sum, totals[0].mean_ratio), (24.0, Some(1.1)));
        // 28 - 24 of 28 - 22.
        assert_eq!(totals[0].gap_closed, Some(4.0 / 6.0));
    }

    #[test]
    fn an_optimum_of_nothing_has_a_ratio_where_it_is_met() {
        assert_eq!(ratio(0.0, 0.0), Some(1.0));
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(gap_closed(Sense::Minimise, Some(5.0), 5.0, 5.0), None);
    }

    #[test]
    fn weights_are_compared_within_rounding_and_rows_are_judged_to_the_end() {
        let row = |weight: f64| {
            Row::new(
                "largest_gain",
                Kind::Baseline,
                Objective::Weight(weight),
                0.0,
            )
        };
        let judged =
            |weight: f64, sense| judge(sense, Some(&optimum(0.1, true)), &mut [row(weight)]);
        assert!(judged(f64::from(0.1f32), Sense::Maximise).is_ok());
        assert!(judged(0.2 - f64::from(0.1f32), Sense::Minimise).is_ok());
        assert!(judged(0.1001, Sense::Maximise).is_err());
        assert!(judged(0.0999, Sense::Minimise).is_err());
        let mut rows = rows();
        judge(Sense::Minimise, Some(&optimum(13.0, true)), &mut rows).unwrap_err();
        assert!(rows.iter().all(|row| row.ratio.is_some()));
    }

    #[test]
    fn no_gap_is_closed_where_greedy_beats_the_best_known() {
        let gap = |sense, base, found, known| gap_closed(sense, Some(base), found, known);
        assert_eq!(gap(Sense::Minimise, 2190.0, 2180.0, 2199.0), None);
        assert_eq!(gap(Sense::Minimise, 2200.0, 2180.0, 2190.0), Some(2.0));
        assert_eq!(gap(Sense::Maximise, 12.0, 13.0, 11.0), None);
        assert_eq!(gap(Sense::Maximise, 10.0, 11.0, 12.0), Some(0.5));
    }
}
