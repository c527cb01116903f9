//! `cargo xtask sbom`: the crates of the program as CycloneDX JSON, with what to look at in each.
//!
//! Of every crate that the `shardgraph` binary is linked from or built with: version, licence,
//! source, checksum, and two notes, whether a script runs at build time and how many lines of its
//! source say `unsafe`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::{DepKindInfo, DependencyKind, Metadata, Package, PackageId};
use serde_json::{Value, json};

use crate::package::metadata;
use crate::project;

/// The package whose crates are listed.
const PROGRAM: &str = "shardgraph-cli";

/// Positions among a component's properties.
const BUILD_SCRIPT: usize = 0;
const UNSAFE_LINES: usize = 1;

/// What the flags say.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file [default: sbom.json in the build folder]
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let beside = || project::target().join("sbom.json");
    let out = args.out.clone().unwrap_or_else(beside);
    let components = components()?;
    fs::write(&out, document(&components)?).with_context(|| out.display().to_string())?;
    let has = |idx: usize, of: &Value| of["properties"][idx]["value"] != json!("0");
    let count = |idx: usize| components.iter().filter(|of| has(idx, of)).count();
    println!(
        "sbom: {} ({} crates, {} with a build script, {} with unsafe code)",
        out.display(),
        components.len(),
        count(BUILD_SCRIPT),
        count(UNSAFE_LINES)
    );
    Ok(())
}

/// The list as text, for the bundle.
pub(crate) fn text() -> Result<String> {
    document(&components()?)
}

fn components() -> Result<Vec<Value>> {
    let metadata = metadata(&["--filter-platform=x86_64-unknown-linux-gnu"])?;
    let used = used(&metadata)?;
    let mut packages: Vec<&Package> = metadata.packages.iter().collect();
    packages.retain(|package| used.contains(&package.id));
    packages.sort_by_key(|package| (&package.name, &package.version));
    packages.into_iter().map(component).collect()
}

/// Ids of the program's package and of all that it is linked from or built with.
fn used(metadata: &Metadata) -> Result<BTreeSet<&PackageId>> {
    let resolve = metadata.resolve.as_ref().context("no graph of crates")?;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut packages = metadata.packages.iter();
    let program = packages.find(|package| package.name == PROGRAM);
    let mut left = vec![&program.context(PROGRAM)?.id];
    let mut used = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !used.insert(id) {
            continue;
        }
        for dependency in &nodes.get(id).context("a package without a node")?.deps {
            let is_for_tests = |kind: &DepKindInfo| kind.kind == DependencyKind::Development;
            if !dependency.dep_kinds.iter().all(is_for_tests) {
                left.push(&dependency.pkg);
            }
        }
    }
    ensure!(used.len() > 1, "{PROGRAM} depends on nothing");
    Ok(used)
}

fn component(package: &Package) -> Result<Value> {
    let folder = package.manifest_path.parent().context("a manifest")?;
    let scripts = package.targets.iter().filter(|of| of.is_custom_build());
    let n_scripts = scripts.count();
    let n_unsafe = unsafe_lines(folder.join("src").as_std_path())?;
    let property =
        |name: &str, value: String| json!({ "name": format!("shardgraph:{name}"), "value": value });
    let source = package.source.as_ref();
    Ok(json!({
        "type": "library",
        "name": package.name,
        "version": package.version,
        "purl": format!("pkg:cargo/{}@{}", package.name, package.version),
        "licenses": [{ "expression": package.license.as_deref().unwrap_or("none") }],
        "properties": [
            property("build-scripts", n_scripts.to_string()),
            property("unsafe-lines", n_unsafe.to_string()),
            property("source", source.map_or("this repository", |source| &source.repr).to_owned()),
        ],
    }))
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

fn document(components: &[Value]) -> Result<String> {
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
        let has = |name: &str| components.iter().any(|component| component["name"] == name);
        assert!(has("shardgraph-cli") && has("clap") && has("zstd-sys"));
        assert!(!has("proptest") && !has("criterion") && !has("shardgraph-bench"));
        let zstd = components
            .iter()
            .find(|component| component["name"] == "zstd-sys");
        assert_eq!(zstd.unwrap()["properties"][BUILD_SCRIPT]["value"], "1");
        assert!(
            components
                .iter()
                .all(|component| component["licenses"][0]["expression"] != "none")
        );
    }
}
