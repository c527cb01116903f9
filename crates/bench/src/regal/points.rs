//! A series of a figure as requests of [`mod@experiment`]: one for each x and each method.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{TEST_EVALUATIONS, TEST_GRAPHS, TEST_STEPS, experiment, limit};
use crate::measure::{Context, parsed};
use crate::report::{Failure, Report};

/// What x varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Over {
    Evaluations,
    /// Rounds of messages of a policy that is trained at each point.
    NRounds,
}

/// A series as a definition has it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Series {
    series: String,
    #[serde(default)]
    x: f64,
    #[serde(default)]
    xs: Vec<f64>,
    #[serde(default)]
    over: Option<Over>,
    #[serde(default)]
    methods: Vec<String>,
    /// The paper's numbers, one for each x.
    #[serde(default)]
    paper: Vec<f64>,
    /// Why the graphs are not at hand.
    #[serde(default)]
    absent: Option<String>,
    #[serde(default)]
    set: Option<String>,
    /// Most graphs of the set.
    #[serde(default)]
    graphs: Option<u32>,
    /// Name by which later series have the policy.
    #[serde(default)]
    keep: Option<String>,
    #[serde(default)]
    policy_of: Option<String>,
    #[serde(default)]
    train: Option<Value>,
    #[serde(default)]
    train_sets: Vec<String>,
    #[serde(default)]
    train_graphs: Option<u32>,
    /// What the measurement itself reads.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Measures all points of a series.
pub(super) fn run(context: &Context<'_>, series: &Series, out: &mut Report) -> Result<(), Failure> {
    if let Some(why) = &series.absent {
        let note = format!("not run: data absent: {why}");
        out.row(json!({"series": series.series, "paper": series.paper.first(), "note": note}));
        return Ok(());
    }
    let xs = match series.xs.is_empty() {
        true => vec![series.x],
        false => series.xs.clone(),
    };
    let methods = match series.methods.is_empty() {
        true => vec!["regal".to_owned()],
        false => series.methods.clone(),
    };
    let n_xs = context.options.sized(xs.len(), 2);
    let mut request = series.request(context)?;
    for (x_idx, &x) in xs.iter().enumerate().take(n_xs) {
        series.vary(&mut request, x, context.options.test);
        for method in &methods {
            request["series"] = match methods.len() {
                1 => json!(series.series),
                _ => json!(format!("{}, {method}", series.series)),
            };
            (request["method"], request["x"]) = (json!(method), json!(x));
            let is_first = *method == methods[0];
            request["paper"] = json!(series.paper.get(x_idx).filter(|_| is_first));
            experiment::run(&parsed(request.clone())?, out)?;
            series.share_policy(&mut request);
        }
    }
    Ok(())
}

impl Series {
    fn request(&self, context: &Context<'_>) -> Result<Value, Failure> {
        let options = context.options;
        let mut request = Value::Object(self.rest.clone());
        request["threads"] = json!(options.threads.unwrap_or(1));
        let genetic = request["genetic"].clone();
        let source = |set: &str, most: Option<u32>| {
            let mut source = json!({"set": set, "max_graphs": most, "genetic": genetic, "kept": context.scratch});
            limit(options, &mut source);
            source
        };
        if let Some(set) = &self.set {
            request["source"] = source(set, self.graphs);
        }
        let kept = |name: &String| context.scratch.join(format!("{name}.safetensors"));
        if let Some(name) = &self.keep {
            request["keep"] = json!(kept(name));
        }
        if let Some(name) = &self.policy_of {
            request["policy"] = json!(kept(name));
        }
        if let Some(mut train) = self.train.clone() {
            let sets = self.train_sets.iter();
            train["sources"] = sets.map(|set| source(set, self.train_graphs)).collect();
            if options.test {
                train["n_synthetic"] = json!(TEST_GRAPHS);
                train["settings"]["steps"] = json!(TEST_STEPS);
                train["settings"]["imitation_steps"] = json!(0);
                train["settings"]["reward_evaluations"] = json!(60);
            }
            request["train"] = train;
        }
        if options.test {
            shrink(&mut request);
        }
        Ok(request)
    }

    fn vary(&self, request: &mut Value, x: f64, is_test: bool) {
        match self.over {
            Some(Over::Evaluations) if !is_test => request["evaluations"] = json!(x as u64),
            Some(Over::NRounds) => {
                let encoder = json!({"graph-network": {"n_rounds": x as u64}});
                request["train"]["settings"]["policy"]["encoder"] = encoder;
            }
            _ => {}
        }
    }

    /// Further points of a series take the policy that its first one has trained.
    fn share_policy(&self, request: &mut Value) {
        let is_new_each_time = self.over == Some(Over::NRounds);
        let Some(keys) = request.as_object_mut().filter(|_| !is_new_each_time) else {
            return;
        };
        if let Some(path) = keys.remove("keep") {
            keys.remove("train");
            keys.insert("policy".to_owned(), path);
        }
    }
}

/// Makes a request as small as a test.
fn shrink(request: &mut Value) {
    let small = [
        ("evaluations", TEST_EVALUATIONS),
        ("reference_evaluations", TEST_EVALUATIONS),
        ("n_train", u64::from(TEST_GRAPHS)),
        ("n_test", u64::from(TEST_GRAPHS)),
        ("steps", TEST_STEPS),
    ];
    for (key, small) in small {
        if request.get(key).is_some_and(Value::is_number) {
            request[key] = json!(small);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_shrinks_what_is_there() {
        let mut request = json!({"evaluations": 5000, "kind": "brkga"});
        shrink(&mut request);
        assert_eq!(request, json!({"evaluations": 450, "kind": "brkga"}));
    }

    #[test]
    fn rounds_reach_the_policy_and_kept_policies_are_shared() {
        let series = |text: &str| -> Series { serde_json::from_str(text).unwrap() };
        let rounds = series(r#"{"series": "a", "over": "n_rounds", "bar": 0.2}"#);
        let mut request = json!({"keep": "p", "train": {"settings": {}}});
        rounds.vary(&mut request, 4.0, true);
        let policy = &request["train"]["settings"]["policy"];
        assert_eq!(policy["encoder"]["graph-network"]["n_rounds"], 4);
        rounds.share_policy(&mut request);
        assert_eq!(request["keep"], "p");
        assert_eq!(rounds.rest["bar"], 0.2);
        series(r#"{"series": "a"}"#).share_policy(&mut request);
        assert_eq!(
            (&request["policy"], request.get("train")),
            (&json!("p"), None)
        );
    }
}
