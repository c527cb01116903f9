//! Circles of imports inside a crate: files that a reader can only understand together.

use std::collections::{BTreeMap, BTreeSet};

use super::code::Code;

/// A circle of this many files is fine.
pub(crate) const MAX_FILES: usize = 3;

/// A crate's modules: path of names to file.
type Modules<'p> = BTreeMap<Vec<String>, &'p str>;

/// The modules that each module imports from.
type Edges = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// The largest circle of each crate, as files.
pub(crate) fn largest_circles(sources: &BTreeMap<&str, Code>) -> BTreeMap<String, Vec<String>> {
    let mut circles = BTreeMap::new();
    for (krate, modules) in crates(sources) {
        let edges = edges(sources, &modules);
        let all = modules.keys().map(|from| circle(from, &edges));
        let largest = all.max_by_key(Vec::len).unwrap_or_default();
        let files = largest.into_iter().map(|path| modules[path].to_owned());
        circles.insert(krate, files.collect());
    }
    circles
}

/// Modules of every crate, without those of tests.
fn crates<'s>(sources: &BTreeMap<&'s str, Code>) -> BTreeMap<String, Modules<'s>> {
    let mut crates: BTreeMap<String, Modules<'_>> = BTreeMap::new();
    for path in sources.keys() {
        let inner = path.strip_prefix("crates/");
        let Some((krate, file)) = inner.and_then(|path| path.split_once("/src/")) else {
            continue;
        };
        let mut names: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
        if names.iter().any(|name| ["tests", "naive"].contains(name)) {
            continue;
        }
        names.retain(|name| !["lib", "main", "mod"].contains(name));
        let module = names.into_iter().map(str::to_owned).collect();
        let modules = crates.entry(krate.to_owned()).or_default();
        modules.insert(module, path);
    }
    crates
}

/// Modules that each module imports from.
fn edges(sources: &BTreeMap<&str, Code>, modules: &Modules<'_>) -> Edges {
    let mut edges = Edges::new();
    for (own, path) in modules {
        let imports = sources.get(path).into_iter().flat_map(|code| &code.imports);
        let targets = imports.filter_map(|import| target(own, import, modules));
        let others = targets.filter(|target| target != own);
        edges.insert(own.clone(), others.collect());
    }
    edges
}

/// The module that an import is taken from; none for the crate's root, which passes names on.
fn target(own: &[String], import: &[String], modules: &Modules<'_>) -> Option<Vec<String>> {
    let mut names: Vec<&str> = import.iter().map(String::as_str).collect();
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
fn circle<'m>(from: &'m Vec<String>, edges: &'m Edges) -> Vec<&'m Vec<String>> {
    let forth = reached(from, edges);
    let mut circle: Vec<&Vec<String>> = forth.into_iter().collect();
    circle.retain(|other| reached(other, edges).contains(from));
    circle
}

fn reached<'m>(from: &'m Vec<String>, edges: &'m Edges) -> BTreeSet<&'m Vec<String>> {
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
    use super::super::{code, planted};
    use super::*;

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
        let circles = largest_circles(&code::sources(&project).unwrap());
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
