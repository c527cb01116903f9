//! What `shardgraph solve` prints of one graph, by any method.

use std::borrow::Cow;
use std::path::Path;

use serde::{Serialize, Serializer};
use shardgraph_graph::Labels;
use shardgraph_solver::problem::{Objective, Problem, Sense};

use super::Method;
use crate::exchange_report::ExchangeReport;
use crate::graph_argument::Origin;
use crate::solve_stages::{ReductionReport, Stage};
use crate::text::{self, Layout, reading};

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
        // Endings of the noun and of its verb.
        let (s, verb) = match value {
            Objective::Count(1) => ("", "s"),
            _ => ("s", ""),
        };
        match self.problem.name {
            "mvc" if is_counted => format!("{value} node{s} cover{verb} {name}"),
            "mis" if is_counted => format!("{value} independent node{s} in {name}"),
            "clique" if is_counted => format!("a clique of {value} node{s} in {name}"),
            "dominating-set" if is_counted => format!("{value} node{s} dominate{verb} {name}"),
            "cut" if is_counted => format!("a cut of {value} edge{s} in {name}"),
            "mvc" => format!("a cover of weight {value} in {name}"),
            "mis" => format!("an independent set of weight {value} in {name}"),
            "cut" => format!("a cut of weight {value} in {name}"),
            _ => format!("{} {value} in {name}", self.problem.objective_name),
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

    /// What was found and how good it is come first. The methods' own answers are for who asked.
    fn layout(&self) -> Layout<'static> {
        let has_stages =
            |stages: &StagesReport| stages.stages.len() > 1 || stages.compare.is_some();
        let hides = [
            ("rows", !self.shows_rows),
            ("stages", !self.stages.as_ref().is_some_and(has_stages)),
        ];
        let hidden = hides.into_iter().filter(|(_, hides)| *hides);
        Layout {
            headline: Some(format!("{} ({})", self.headline(), self.verdict())),
            hidden: hidden.map(|(key, _)| key).collect(),
            below: reading(self.origin.import.as_ref()),
            ..Layout::first("found_by")
        }
    }
}

impl Answers<'_> {
    /// The texts of all, with an empty line between two.
    pub(super) fn text(&self) -> anyhow::Result<String> {
        let texts = self
            .answers
            .iter()
            .map(|answer| text::render(answer, &answer.layout()));
        Ok(texts.collect::<anyhow::Result<Vec<String>>>()?.join("\n"))
    }
}
