//! The choice of tables and epochs, in words.

use shardgraph_line::Selection;

use crate::report::ReportArgs;

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
