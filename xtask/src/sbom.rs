//! `cargo xtask sbom`: the crates of the program as CycloneDX JSON, with what to look at in each.
//!
//! Of every crate that the `shardgraph` binary is linked from or built with: version, licence,
//! source, checksum, and two notes, whether a script runs at build time and how many lines of its
//! source say `unsafe`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use lexopt::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::process::{cargo, stdout_of};
use crate::project;

/// The package whose crates are listed.
const PROGRAM: &str = "shardgraph-cli";

/// Positions among a component's properties.
const BUILD_SCRIPT: usize = 0;
const UNSAFE_LINES: usize = 1;

/// The part of `cargo metadata` that is used.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// `dev`, `build`, or none for a normal one.
    kind: Option<String>,
}

/// A crate of the list.
#[derive(Serialize)]
struct Component {
    r#type: &'static str,
    name: String,
    version: String,
    purl: String,
    licenses: Value,
    properties: Value,
}

/// Runs the command.
pub(crate) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    let mut out = project::target().join("sbom.json");
    while let Some(arg) = args.next()? {
        match arg {
            Long("out") => out = args.value()?.into(),
            other => return Err(other.unexpected().into()),
        }
    }
    let components = components()?;
    fs::write(&out, document(&components)?).with_context(|| out.display().to_string())?;
    let has = |idx: usize, of: &Component| of.properties[idx]["value"] != json!("0");
    let count = |idx: usize| components.iter().filter(|of| has(idx, of)).count();
    println!(
        "sbom: {} ({} crates, {} with a build script, {} with unsafe code)",
        out.display(),
        components.len(),
        count(BUILD_SCRIPT),
        count(UNSAFE_LINES)
    );
    Ok(ExitCode::SUCCESS)
}

/// The list as text, for the bundle.
pub(crate) fn text() -> Result<String> {
    document(&components()?)
}

fn components() -> Result<Vec<Component>> {
    let platform = "--filter-platform=x86_64-unknown-linux-gnu";
    let mut metadata = cargo(&["metadata", "--format-version=1", "--locked", platform]);
    let metadata: Metadata = serde_json::from_str(&stdout_of(&mut metadata)?)?;
    let used = used(&metadata)?;
    let mut packages: Vec<&Package> = metadata.packages.iter().collect();
    packages.retain(|package| used.contains(package.id.as_str()));
    packages.sort_by_key(|package| (&package.name, &package.version));
    packages.into_iter().map(component).collect()
}

/// Ids of the program's package and of all that it is linked from or built with.
fn used(metadata: &Metadata) -> Result<BTreeSet<&str>> {
    let nodes = metadata.resolve.nodes.iter();
    let nodes: BTreeMap<&str, &Node> = nodes.map(|node| (node.id.as_str(), node)).collect();
    let mut packages = metadata.packages.iter();
    let program = packages.find(|package| package.name == PROGRAM);
    let mut left = vec![program.context(PROGRAM)?.id.as_str()];
    let mut used = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !used.insert(id) {
            continue;
        }
        for dependency in &nodes.get(id).context("a package without a node")?.deps {
            let is_for_tests = |kind: &DependencyKind| kind.kind.as_deref() == Some("dev");
            if !dependency.dep_kinds.iter().all(is_for_tests) {
                left.push(&dependency.pkg);
            }
        }
    }
    ensure!(used.len() > 1, "{PROGRAM} depends on nothing");
    Ok(used)
}

fn component(package: &Package) -> Result<Component> {
    let folder = package.manifest_path.parent().context("a manifest")?;
    let runs_at_build = |target: &Target| target.kind.iter().any(|kind| kind == "custom-build");
    let n_scripts = package
        .targets
        .iter()
        .filter(|of| runs_at_build(of))
        .count();
    let n_unsafe = unsafe_lines(&folder.join("src"))?;
    let property =
        |name: &str, value: String| json!({ "name": format!("shardgraph:{name}"), "value": value });
    Ok(Component {
        r#type: "library",
        name: package.name.clone(),
        version: package.version.clone(),
        purl: format!("pkg:cargo/{}@{}", package.name, package.version),
        licenses: json!([{ "expression": package.license.as_deref().unwrap_or("none") }]),
        properties: json!([
            property("build-scripts", n_scripts.to_string()),
            property("unsafe-lines", n_unsafe.to_string()),
            property(
                "source",
                package
                    .source
                    .clone()
                    .unwrap_or_else(|| "this repository".to_owned())
            ),
        ]),
    })
}

/// Lines of Rust sources with the word `unsafe`, comments left out.
fn unsafe_lines(folder: &Path) -> Result<usize> {
    let mut n_lines = 0;
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(0);
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            n_lines += unsafe_lines(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            n_lines += text.lines().filter(|line| says_unsafe(line)).count();
        }
    }
    Ok(n_lines)
}

fn says_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    code.split(|c| !is_part_of_word(c))
        .any(|word| word == "unsafe")
}

fn document(components: &[Component]) -> Result<String> {
    let text = serde_json::to_string_pretty(&json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "shardgraph" } },
        "components": components,
    }))?;
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_is_a_word_of_the_code() {
        for (line, says) in [
            ("unsafe { f() }", true),
            ("pub(crate) unsafe fn f()", true),
            ("#![forbid(unsafe_code)]", false),
            ("// unsafe", false),
            ("is_unsafe()", false),
        ] {
            assert_eq!(says_unsafe(line), says, "{line}");
        }
    }

    /// What only tests need is not in the program.
    #[test]
    fn the_list_has_what_the_program_is_linked_from() {
        let components = components().unwrap();
        let has = |name: &str| components.iter().any(|component| component.name == name);
        assert!(has("shardgraph-cli") && has("clap") && has("zstd-sys"));
        assert!(!has("proptest") && !has("criterion") && !has("shardgraph-bench"));
        let zstd = components
            .iter()
            .find(|component| component.name == "zstd-sys");
        assert_eq!(zstd.unwrap().properties[BUILD_SCRIPT]["value"], "1");
        assert!(
            components
                .iter()
                .all(|component| component.licenses[0]["expression"] != "none")
        );
    }
}
