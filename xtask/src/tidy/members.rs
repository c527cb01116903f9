//! Checks on the members' manifests: names, lints, the arrows between crates, shared versions.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use super::Finding;
use crate::project::Project;

/// Which crate may use which.
const ARROWS: &str = "xtask/arrows.toml";

/// The crates that each crate may use.
pub(crate) type Arrows = BTreeMap<String, Vec<String>>;

/// Crates below everything: every library crate may use them, and they only use each other, in this order.
const BASE: [&str; 3] = ["random", "error", "storage"];

const PREFIX: &str = "shardgraph-";

/// Folder `crates/x` holds package `shardgraph-x`.
pub(crate) fn names(members: &BTreeMap<String, Table>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, manifest) in members {
        let Some(noun) = folder.strip_prefix("crates/") else {
            continue;
        };
        let name = string_at(manifest, &["package", "name"]);
        if name != Some(&format!("{PREFIX}{noun}")) {
            findings.push(format!(
                "{folder}/Cargo.toml:1: the package's name is to be {PREFIX}{noun}"
            ));
        }
    }
    findings
}

/// Every member takes the workspace's lints.
pub(crate) fn lints(members: &BTreeMap<String, Table>) -> Vec<Finding> {
    let missing = members.iter().filter(|(_, manifest)| {
        value_at(manifest, &["lints", "workspace"]) != Some(&Value::Boolean(true))
    });
    missing
        .map(|(folder, _)| format!("{folder}/Cargo.toml:1: add `[lints]` `workspace = true`"))
        .collect()
}

/// The table of arrows.
pub(crate) fn allowed(project: &Project) -> Result<Arrows> {
    toml::from_str(project.text(ARROWS)).context(ARROWS)
}

/// Members use each other along the arrows only.
pub(crate) fn arrows(members: &BTreeMap<String, Table>, arrows: &Arrows) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, manifest) in members {
        let noun = folder.rsplit('/').next().unwrap_or_default();
        let Some(allowed) = arrows.get(noun) else {
            findings.push(format!(
                "{folder}/Cargo.toml:1: `{noun}` has no row in {ARROWS}"
            ));
            continue;
        };
        for (name, _) in tables(manifest, &["dependencies", "build-dependencies"]) {
            let Some(used) = name.strip_prefix(PREFIX) else {
                continue;
            };
            let mut below = BASE.iter().take_while(|base| **base != noun);
            let is_base = noun != "xtask" && below.any(|base| *base == used);
            if !is_base
                && !allowed
                    .iter()
                    .any(|name| [used, "*"].contains(&name.as_str()))
            {
                findings.push(format!(
                    "{folder}/Cargo.toml:1: {noun} -> {used} is not an arrow of the design"
                ));
            }
        }
    }
    findings
}

/// Versions are given once, in the root. A path alone has no version: a package leaves it out.
pub(crate) fn shared_versions(members: &BTreeMap<String, Table>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, manifest) in members {
        for (name, value) in tables(
            manifest,
            &["dependencies", "dev-dependencies", "build-dependencies"],
        ) {
            let get = |key| value.as_table().and_then(|table| table.get(key));
            let is_path_alone = get("path").is_some() && get("version").is_none();
            if get("workspace") != Some(&Value::Boolean(true)) && !is_path_alone {
                findings.push(format!(
                    "{folder}/Cargo.toml:1: `{name}`: take it with `workspace = true`"
                ));
            }
        }
    }
    findings
}

/// The entries of the named tables, at the top and under `[target.*]`.
fn tables<'m>(manifest: &'m Table, names: &[&str]) -> Vec<(&'m String, &'m Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let scopes = targets
        .into_iter()
        .flat_map(|targets| targets.values())
        .filter_map(Value::as_table);
    let mut entries = Vec::new();
    for scope in std::iter::once(manifest).chain(scopes) {
        for name in names {
            entries.extend(
                scope
                    .get(*name)
                    .and_then(Value::as_table)
                    .into_iter()
                    .flatten(),
            );
        }
    }
    entries
}

fn value_at<'m>(manifest: &'m Table, path: &[&str]) -> Option<&'m Value> {
    let (last, parents) = path.split_last()?;
    let mut table = manifest;
    for parent in parents {
        table = table.get(*parent)?.as_table()?;
    }
    table.get(*last)
}

fn string_at<'m>(manifest: &'m Table, path: &[&str]) -> Option<&'m str> {
    value_at(manifest, path).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(folder: &str, manifest: &str) -> BTreeMap<String, Table> {
        BTreeMap::from([(
            folder.to_owned(),
            toml::from_str::<toml::Table>(manifest).unwrap(),
        )])
    }

    #[test]
    fn a_wrong_name_is_found() {
        assert!(
            names(&member(
                "crates/graph",
                "[package]\nname = 'shardgraph-graph'"
            ))
            .is_empty()
        );
        assert_eq!(
            names(&member("crates/graph", "[package]\nname = 'graph'")).len(),
            1
        );
    }

    #[test]
    fn missing_lints_are_found() {
        assert!(lints(&member("crates/a", "[lints]\nworkspace = true")).is_empty());
        assert!(lints(&member("crates/a", "lints.workspace = true")).is_empty());
        assert_eq!(
            lints(&member("crates/a", "[lints.rust]\nmissing_docs = 'warn'")).len(),
            1
        );
    }

    #[test]
    fn arrows_that_the_design_lacks_are_found() {
        let table = allowed(&Project::load().unwrap()).unwrap();
        let arrows = |members| super::arrows(&members, &table);
        let uses = |used: &str| format!("[dependencies]\nshardgraph-{used}.workspace = true");
        for (from, to) in [
            ("shard", "graph"),
            ("solver", "device"),
            ("cli", "replay"),
            ("graph", "random"),
            ("storage", "error"),
        ] {
            assert!(
                arrows(member(&format!("crates/{from}"), &uses(to))).is_empty(),
                "{from} -> {to}"
            );
        }
        for (from, to) in [
            ("graph", "shard"),
            ("layers", "device"),
            ("xtask", "graph"),
            ("new", "graph"),
            ("error", "storage"),
            ("xtask", "random"),
        ] {
            assert_eq!(
                arrows(member(&format!("crates/{from}"), &uses(to))).len(),
                1,
                "{from} -> {to}"
            );
        }
        let hidden = "[target.'cfg(unix)'.dependencies]\nshardgraph-shard.workspace = true";
        assert_eq!(arrows(member("crates/graph", hidden)).len(), 1);
        let for_tests = "[dev-dependencies]\nshardgraph-shard.workspace = true";
        assert!(arrows(member("crates/graph", for_tests)).is_empty());
    }

    #[test]
    fn the_table_of_arrows_has_no_circle() {
        fn depth(name: &str, arrows: &Arrows, n_steps: u32) -> u32 {
            assert!(n_steps < 20, "{name} is on a circle");
            let used = arrows
                .get(name)
                .unwrap_or_else(|| panic!("{name} has no row"));
            let depths = used.iter().map(|to| 1 + depth(to, arrows, n_steps + 1));
            depths.max().unwrap_or(0)
        }
        let mut arrows = allowed(&Project::load().unwrap()).unwrap();
        arrows.retain(|_, used| !used.contains(&"*".to_owned()));
        for from in arrows.keys() {
            depth(from, &arrows, 0);
        }
    }

    #[test]
    fn a_version_in_a_member_is_found() {
        assert!(shared_versions(&member("a", "[dependencies]\nx.workspace = true")).is_empty());
        assert_eq!(
            shared_versions(&member("a", "[dependencies]\nx = '1'")).len(),
            1
        );
        assert_eq!(
            shared_versions(&member("a", "[dev-dependencies]\nx = { version = '1' }")).len(),
            1
        );
    }
}
