//! Figures of the paper on LINE by a hybrid system of processor and GPU.
//!
//! A file measures one kind of figure; requests are in `benches/line/`.

mod classes;
mod defaults;
mod graphs;
mod peers;
pub(crate) mod quality;
pub(crate) mod times;

use serde_json::{Value, json};

use crate::measure::{Context, parsed};
use crate::options::Options;
use crate::paths;
use crate::process;
use crate::report::{Failure, Report};

/// LINE in PyTorch, for `--peer-python`.
const SCRIPT: &str = "line_torch.py";

/// Embeddings of gensim and ensmallen, for `--peer-python`.
const EMBEDDINGS: &str = "node_embeddings.py";

const NO_PACKAGES: &str =
    "not run: DeepWalk of gensim, ensmallen (give --peer-python an interpreter that has them)";
const NO_PROGRAMS: &str =
    "not run: LINE (C++), GraphVite, DeepWalk, node2vec (give each as --peer NAME=COMMAND)";
const NO_PYTORCH: &str = "not run: PyTorch (give --peer-python an interpreter that has it)";

/// Figures 3, 4, 6 and 7: seconds, ours and peers'.
pub(crate) fn time(context: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    let (own, peers) = split(request);
    times::run(&parsed(own)?, out)?;
    peers.run(context.options, out)
}

/// Figure 5: link prediction by variant of training, ours and peers'.
pub(crate) fn quality(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    let (own, peers) = split(request);
    quality::run(&parsed(own)?, out)?;
    peers.run(context.options, out)
}

/// Link prediction by the default settings on many graphs, ours and peers'.
pub(crate) fn link_prediction(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    let (own, mut peers) = split(request);
    let own: defaults::Request = parsed(own)?;
    let first = out.lines.len();
    let seconds = defaults::run(&own, out)?;
    let first_of_peers = out.lines.len();
    let asked = own.of_peers(&seconds)?;
    for request in [&mut peers.packages, &mut peers.program] {
        let keys = request.iter_mut().filter_map(Value::as_object_mut);
        keys.for_each(|keys| keys.extend(asked.clone()));
    }
    peers.run(context.options, out)?;
    let (ours, theirs) = out.lines[first..].split_at(first_of_peers - first);
    if let Some(row) = defaults::comparison(ours, theirs) {
        out.row(row);
    }
    Ok(())
}

/// Node classification by the default settings, ours and DeepWalk's.
pub(crate) fn node_classes(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    let own: classes::Request = parsed(request)?;
    let known = classes::run(&own, out)?;
    let mut request = own.of_peers(&known);
    request["names"] = json!(["deepwalk"]);
    match context.options.interpreter() {
        None => {
            out.skip(NO_PACKAGES);
            Ok(())
        }
        Some(python) => each_package(python, &request, out, &mut |request, out| {
            classes::of_peer(request, &known, out)
        }),
    }
}

/// Requests of the peers that stand beside ours.
struct Peers {
    torch: Option<Value>,
    packages: Option<Value>,
    program: Option<Value>,
}

/// Parts our request from those of the peers, its keys `torch`, `packages` and `program`.
fn split(mut request: Value) -> (Value, Peers) {
    let mut take = |key: &str| request.as_object_mut().and_then(|keys| keys.remove(key));
    let peers = Peers {
        torch: take("torch"),
        packages: take("packages"),
        program: take("program"),
    };
    (request, peers)
}

impl Peers {
    fn run(self, options: &Options, out: &mut Report) -> Result<(), Failure> {
        if let Some(request) = self.torch {
            match options.interpreter() {
                None => out.skip(NO_PYTORCH),
                Some(python) => process::peer_rows(python, SCRIPT, &request, out)?,
            }
        }
        if let Some(request) = &self.packages {
            match options.interpreter() {
                None => out.skip(NO_PACKAGES),
                Some(python) => each_package(python, request, out, &mut peers::run)?,
            }
        }
        let Some(request) = self.program else {
            return Ok(());
        };
        if options.peers.is_empty() {
            out.skip(NO_PROGRAMS);
        }
        for (name, command) in &options.peers {
            let mut request = request.clone();
            (request["name"], request["command"]) = (json!(name), json!(command));
            peers::run(&parsed(request)?, out)?;
        }
        Ok(())
    }
}

/// Runs each of the Python packages that the key `names` lists; one that is absent is a skip.
fn each_package(
    python: &str,
    request: &Value,
    out: &mut Report,
    run: &mut dyn FnMut(&peers::Request, &mut Report) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut request = request.clone();
    let names = request
        .as_object_mut()
        .and_then(|keys| keys.remove("names"));
    let names: Vec<String> = serde_json::from_value(names.unwrap_or_default())?;
    let script = paths::peer(EMBEDDINGS).display().to_string();
    for name in names {
        let checked = process::command(python)
            .args([script.as_str(), "check", &name])
            .output()?;
        let version = String::from_utf8_lossy(&checked.stdout).trim().to_owned();
        if !checked.status.success() {
            out.skip(&format!("not run: {name}: {version}"));
            continue;
        }
        request["name"] = json!(format!("{name} ({version})"));
        let words = "{edges} {out} {dim} {threads} {seconds}";
        request["command"] = json!(format!("{python} {script} {name} {words}"));
        run(&parsed(request.clone())?, out)?;
    }
    Ok(())
}
