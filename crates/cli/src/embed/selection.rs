//! The choice of tables and epochs, in words.

use std::fmt;

use shardgraph_line::{Baselines, Selection};

use crate::report::ReportArgs;

/// The trials, and what they chose.
pub(super) fn write_selection(f: &mut fmt::Formatter<'_>, selection: &Selection) -> fmt::Result {
    let shown = |components: &[shardgraph_line::Component]| {
        let parts: Vec<String> = components.iter().map(ToString::to_string).collect();
        parts.join(" + ")
    };
    let Some(auc) = selection.auc else {
        let chosen = shown(&selection.components);
        return writeln!(f, "too few edges to hold any back: {chosen}");
    };
    writeln!(
        f,
        "held-back edges {}: AUC against uniform, degree-matched pairs; row norm",
        selection.held_back_edges
    )?;
    for trial in &selection.trials {
        let name = shown(&trial.components);
        let (uniform, matched) = (trial.auc.uniform, trial.auc.degree_matched);
        writeln!(
            f,
            "  {name}: {uniform:.4}, {matched:.4}; {:.3}",
            trial.row_norm
        )?;
    }
    if selection.is_cut_short {
        writeln!(f, "the time limit left trials out")?;
    }
    let chosen = shown(&selection.components);
    writeln!(
        f,
        "chosen {chosen}: AUC {:.4}, {:.4}",
        auc.uniform, auc.degree_matched
    )?;
    for (name, auc) in selection.baselines.iter().flat_map(Baselines::each) {
        let (uniform, matched) = (auc.uniform, auc.degree_matched);
        writeln!(f, "  {name}, no training: {uniform:.4}, {matched:.4}")?;
    }
    Ok(())
}

/// Says which scores without training tell the held-back edges apart better than the rows do.
pub(super) fn warn_of_baselines(report: &ReportArgs, selection: &Selection) {
    let Some(auc) = selection.auc else {
        return;
    };
    let mut wins = Vec::new();
    for (name, other) in selection.better_baselines() {
        for (kind, other, own) in [
            ("uniform", other.uniform, auc.uniform),
            ("degree-matched", other.degree_matched, auc.degree_matched),
        ] {
            if other > own {
                wins.push(format!("{name} {other:.4} against {own:.4} ({kind} pairs)"));
            }
        }
    }
    if !wins.is_empty() {
        let wins = wins.join(", ");
        report.warning(&format!(
            "for links alone, a score without training tells held-back edges apart better: {wins}"
        ));
    }
}
