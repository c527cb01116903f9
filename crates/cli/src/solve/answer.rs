//! What `shardgraph solve` prints of one graph, by any method.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::{Serialize, Serializer};
use shardgraph_graph::Labels;
use shardgraph_solver::problem::{Objective, Problem, Sense};

use super::Method;
use crate::exchange_report::ExchangeReport;
use crate::graph_argument::Origin;
use crate::report::Lines;
use crate::solve_stages::{ReductionReport, Stage};

/// An answer. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    pub(super) graph: &'a str,
    #[serde(serialize_with = "problem_name")]
    pub(super) problem: &'static Problem,
    pub(super) method: Method,
    pub(super) nodes: u32,
    pub(super) edges: u64,
    pub(super) objective: Objective,
    pub(super) sense: Sense,
    pub(super) verified: bool,
    /// Whether no answer is better.
    pub(super) optimal: bool,
    /// No answer is better than this.
    pub(super) bound: Option<Objective>,
    pub(super) bound_source: Option<&'static str>,
    /// The distance to the bound as a part of the objective.
    pub(super) gap: Option<f64>,
    pub(super) found_by: Cow<'static, str>,
    pub(super) rows: Vec<Row>,
    pub(super) seconds: f64,
    pub(super) load_seconds: f64,
    pub(super) seed: u64,
    pub(super) ranks: u32,
    pub(super) device: String,
    #[serde(flatten)]
    pub(super) policy: Option<PolicyReport<'a>>,
    #[serde(flatten)]
    pub(super) stages: Option<StagesReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) solution: Option<Vec<Label>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) out: Option<&'a Path>,
    #[serde(skip)]
    pub(super) origin: &'a Origin,
    #[serde(skip)]
    pub(super) shows_rows: bool,
}

/// All answers of a command: one shape for one graph and for several.
#[derive(Serialize)]
pub(super) struct Answers<'a> {
    pub(super) answers: Vec<Answer<'a>>,
}

/// An answer beside others.
#[derive(Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: Cow<'static, str>,
    pub(super) objective: Objective,
    pub(super) seconds: f64,
}

/// How the policy ran.
#[derive(Serialize)]
pub(super) struct PolicyReport<'a> {
    pub(super) policy: &'a str,
    pub(super) path: String,
    pub(super) steps: u64,
    pub(super) seconds_per_step: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exchange: Option<ExchangeReport>,
}

/// What stages of the policy's method did.
#[derive(Serialize)]
pub(super) struct StagesReport {
    pub(super) stages: Vec<Stage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reduction: Option<ReductionReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compare: Option<Vec<Stage>>,
}

/// A node's label: a number where it is one.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Label {
    Number(u64),
    Text(String),
}

/// The labels of some nodes, in the order of the nodes.
pub(super) fn labelled(nodes: &[u32], labels: &Labels) -> Vec<Label> {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    let label = |&node: &u32| {
        let text = labels.get(node);
        match text.parse::<u64>() {
            Ok(number) if number.to_string() == text => Label::Number(number),
            _ => Label::Text(text),
        }
    };
    sorted.iter().map(label).collect()
}

fn problem_name<S: Serializer>(
    problem: &&'static Problem,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(problem.name)
}

impl Answer<'_> {
    /// The one number, in a sentence without an end.
    fn headline(&self) -> String {
        let (value, name) = (self.objective, self.graph);
        let is_counted = matches!(value, Objective::Count(_));
        match self.problem.name {
            "mvc" if is_counted => format!("{value} nodes cover {name}"),
            "mis" if is_counted => format!("{value} independent nodes in {name}"),
            "clique" if is_counted => format!("a clique of {value} nodes in {name}"),
            "dominating-set" if is_counted => format!("{value} nodes dominate {name}"),
            "cut" if is_counted => format!("a cut of {value} edges in {name}"),
            "mvc" => format!("a cover of weight {value} in {name}"),
            "mis" => format!("an independent set of weight {value} in {name}"),
            "cut" => format!("a cut of weight {value} in {name}"),
            _ => format!("{} {value} in {name}", self.problem.objective_name),
        }
    }

    fn objective_name(&self) -> &'static str {
        match self.objective {
            Objective::Weight(_) if self.problem.objective_name.ends_with("size") => "weight",
            _ => self.problem.objective_name,
        }
    }

    /// How good it is known to be.
    fn verdict(&self) -> String {
        match self.gap {
            _ if self.optimal => "proved optimal".to_owned(),
            Some(gap) => format!("at most {:.2} % from the optimum", 100.0 * gap),
            None => "optimum unknown".to_owned(),
        }
    }

    fn lines(&self) -> Lines {
        let mut lines = Lines::default();
        let with = |name: &str, seconds: f64| format!("{name}, {}", human_seconds(seconds));
        let row = self.rows.iter().find(|row| row.name == self.found_by);
        match row {
            Some(row) => lines.push("found by", with(&row.name, row.seconds)),
            None => lines.push("found by", &*self.found_by),
        }
        if let Some(value) = self.bound {
            let source = self.bound_source.unwrap_or("search");
            let name = match self.sense {
                Sense::Minimise => "lower bound",
                Sense::Maximise => "upper bound",
            };
            lines.push(name, format!("{value} ({source})"));
        }
        lines.push(self.objective_name(), self.objective);
        lines.push("verified", if self.verified { "yes" } else { "no" });
        lines.push("problem", self.problem.title);
        lines.push("method", self.method);
        lines.push("nodes", self.nodes);
        lines.push("edges", self.edges);
        lines.push("time", human_seconds(self.seconds));
        lines.push("time to load", human_seconds(self.load_seconds));
        lines.push("ranks", self.ranks);
        lines.push("device", &self.device);
        if let Some(policy) = &self.policy {
            lines.push("policy", policy.policy);
            lines.push("path", &policy.path);
            lines.push("steps", policy.steps);
            lines.push("time per step", human_seconds(policy.seconds_per_step));
        }
        lines
    }
}

/// Seconds with the unit that people would take, to three digits.
pub(crate) fn human_seconds(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 || s <= 0.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "us"),
    };
    let digits = match value {
        v if v >= 100.0 || v <= 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.headline(), self.verdict())?;
        write!(f, "{}", self.lines())?;
        write!(f, "{}", self.origin)?;
        if let Some(exchange) = self
            .policy
            .as_ref()
            .and_then(|policy| policy.exchange.as_ref())
        {
            write!(f, "{exchange}")?;
        }
        if let Some(stages) = &self.stages {
            write!(f, "{stages}")?;
        }
        if self.shows_rows {
            let width = self.rows.iter().map(|row| row.name.len()).max();
            let width = width.unwrap_or(0).max(6);
            writeln!(
                f,
                "\n{:width$} {:>12} {:>10}",
                "method",
                self.objective_name(),
                "time"
            )?;
            for row in &self.rows {
                let (value, time) = (row.objective.to_string(), human_seconds(row.seconds));
                writeln!(f, "{:width$} {value:>12} {time:>10}", row.name)?;
            }
        }
        match self.out {
            Some(path) => writeln!(f, "answer file {}", path.display()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Answers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, answer) in self.answers.iter().enumerate() {
            let gap = if i > 0 { "\n" } else { "" };
            write!(f, "{gap}{answer}")?;
        }
        Ok(())
    }
}

/// Nothing where the policy did all.
impl fmt::Display for StagesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reduction) = &self.reduction {
            write!(f, "{reduction}")?;
        }
        if self.stages.len() > 1 || self.compare.is_some() {
            for stage in &self.stages {
                writeln!(f, "stage {stage}")?;
            }
        }
        for row in self.compare.iter().flatten() {
            writeln!(f, "without the policy, {row}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_three_digits_and_a_unit() {
        let cases = [
            (0.0, "0 s"),
            (4.2e-7, "0.42 us"),
            (1.234e-3, "1.23 ms"),
            (0.0456, "45.6 ms"),
            (0.789, "789 ms"),
            (12.34, "12.3 s"),
            (3600.0, "3600 s"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_seconds(seconds), text);
        }
    }
}
