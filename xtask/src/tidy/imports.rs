//! Circles of imports inside a crate: files that a reader can only understand together.

use std::collections::{BTreeMap, BTreeSet};

use super::code::{find_word, without_literals};
use crate::project::Project;

/// A circle of this many files is fine.
pub(crate) const MAX_FILES: usize = 3;

/// A crate's modules: path of names to file.
type Modules<'p> = BTreeMap<Vec<String>, &'p str>;

/// The largest circle of each crate, as files.
pub(crate) fn largest_circles(project: &Project) -> BTreeMap<String, Vec<String>> {
    let mut circles = BTreeMap::new();
    for (krate, modules) in crates(project) {
        let edges = edges(project, &modules);
        let largest = modules
            .keys()
            .map(|from| circle(from, &edges))
            .max_by_key(Vec::len);
        let files = |circle: Vec<&Vec<String>>| {
            circle
                .iter()
                .map(|path| modules[*path].to_owned())
                .collect::<Vec<String>>()
        };
        circles.insert(krate, largest.map(files).unwrap_or_default());
    }
    circles
}

/// Modules of every crate, without those of tests.
fn crates(project: &Project) -> BTreeMap<String, Modules<'_>> {
    let mut crates: BTreeMap<String, Modules<'_>> = BTreeMap::new();
    for (path, _) in project.with_extension("rs") {
        let inner = path
            .strip_prefix("crates/")
            .and_then(|p| p.split_once("/src/"));
        let Some((krate, file)) = inner else {
            continue;
        };
        let names: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
        let is_of_tests = names.iter().any(|name| ["tests", "naive"].contains(name));
        if is_of_tests {
            continue;
        }
        let is_root = |name: &&str| !["lib", "main", "mod"].contains(name);
        let names = names.into_iter().filter(is_root).map(str::to_owned);
        let modules = crates.entry(krate.to_owned()).or_default();
        modules.insert(names.collect(), path);
    }
    crates
}

/// Modules that each module imports from.
fn edges(project: &Project, modules: &Modules<'_>) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let mut edges: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
    for (own, path) in modules {
        let code = without_literals(project.text(path));
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        for at in find_word(code, "use") {
            let tree = code[at + "use".len()..]
                .split(';')
                .next()
                .unwrap_or_default();
            for import in expanded(tree) {
                if let Some(target) = target(own, &import, modules)
                    && target != *own
                {
                    edges.entry(own.clone()).or_default().insert(target);
                }
            }
        }
    }
    edges
}

/// The paths of a tree of imports.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        return vec![
            tree.split(" as ")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned(),
        ];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut start, mut paths) = (0, 0, Vec::new());
    let ends = inner.char_indices().chain([(inner.len(), ',')]);
    for (at, c) in ends {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inner[start..at].trim();
                start = (at + 1).min(inner.len());
                if !part.is_empty() {
                    paths.extend(expanded(part).iter().map(|path| format!("{head}{path}")));
                }
            }
            _ => {}
        }
    }
    paths
}

/// The module that an import is taken from; none for the crate's root, which passes names on.
fn target(own: &[String], import: &str, modules: &Modules<'_>) -> Option<Vec<String>> {
    let mut names: Vec<&str> = import.split("::").map(str::trim).collect();
    let mut base: Vec<String> = match names.first()? {
        &"crate" => Vec::new(),
        &("self" | "super") => own.to_vec(),
        name => {
            // A module of this one, or another crate.
            let child: Vec<String> = own.iter().cloned().chain([(*name).to_owned()]).collect();
            return modules.contains_key(&child).then_some(child);
        }
    };
    names.retain(|name| {
        if *name == "super" {
            base.pop();
        }
        !["crate", "self", "super"].contains(name)
    });
    for name in names {
        let longer: Vec<String> = base.iter().cloned().chain([name.to_owned()]).collect();
        if !modules.contains_key(&longer) {
            break;
        }
        base = longer;
    }
    (!base.is_empty() && modules.contains_key(&base)).then_some(base)
}

/// Modules that can be reached from one and reach it too.
fn circle<'m>(
    from: &'m Vec<String>,
    edges: &'m BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
) -> Vec<&'m Vec<String>> {
    let forth = reached(from, edges);
    let mut circle: Vec<&Vec<String>> = forth.into_iter().collect();
    circle.retain(|other| reached(other, edges).contains(from));
    circle
}

fn reached<'m>(
    from: &'m Vec<String>,
    edges: &'m BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
) -> BTreeSet<&'m Vec<String>> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in edges.get(module).into_iter().flatten() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn trees_are_expanded() {
        assert_eq!(
            expanded(" crate::{a::B as C, d::{self, E}}"),
            ["crate::a::B", "crate::d::self", "crate::d::E"]
        );
        assert_eq!(expanded("super::x::*"), ["super::x::*"]);
    }

    #[test]
    fn a_circle_is_found_with_its_files() {
        let project = planted(&[
            ("crates/a/src/lib.rs", "use x::X; use y::Y;"),
            ("crates/a/src/x.rs", "use crate::y::Y;"),
            ("crates/a/src/y.rs", "use super::z::{self, Z};"),
            (
                "crates/a/src/z/mod.rs",
                "use crate::x;\n#[cfg(test)]\nuse crate::w::W;",
            ),
            ("crates/a/src/w.rs", "use crate::x::X; use std::y::Z;"),
        ]);
        let circles = largest_circles(&project);
        assert_eq!(
            circles["a"],
            [
                "crates/a/src/x.rs",
                "crates/a/src/y.rs",
                "crates/a/src/z/mod.rs"
            ]
        );
    }
}
