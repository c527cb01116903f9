//! Packaging every crate, and a crate outside the workspace that uses the packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::{Message, Metadata, MetadataCommand, Target};

use crate::process::{self, cargo};
use crate::project::{self, Project};

/// What examples of READMEs use beside their own crate and those below it, which come with it.
const EXAMPLE_CRATES: [&str; 2] = ["serde", "tempfile"];

/// A package that is published.
#[derive(Debug)]
struct Published {
    name: String,
    version: String,
    has_library: bool,
}

/// What cargo knows of the workspace, with `args`.
pub(crate) fn metadata(args: &[&str]) -> Result<Metadata> {
    let mut metadata = cargo("metadata --format-version=1 --locked");
    let text = process::stdout_of(metadata.args(args))?;
    MetadataCommand::parse(text).context("cargo metadata")
}

/// The names of all bench targets of the workspace.
pub(crate) fn bench_targets() -> Result<Vec<String>> {
    let packages = metadata(&["--no-deps"])?.packages.into_iter();
    let benches = packages.flat_map(|package| package.targets);
    let benches = benches.filter(Target::is_bench);
    Ok(benches.map(|target| target.name).collect())
}

/// A test program that cargo built.
#[derive(Debug, PartialEq)]
pub(crate) struct TestProgram {
    pub(crate) target: String,
    pub(crate) path: PathBuf,
    /// Of its package: where cargo would run it.
    pub(crate) folder: PathBuf,
}

/// Builds, and returns target name and path of every executable that this made.
pub(crate) fn executables(command: &mut Command) -> Result<Vec<(String, PathBuf)>> {
    let built = built(command)?.into_iter();
    let built: Vec<_> = built
        .map(|one| (one.program.target, one.program.path))
        .collect();
    ensure!(!built.is_empty(), "cargo built no executable");
    Ok(built)
}

/// Builds, and returns every test program; a program that only tests start is none.
pub(crate) fn test_programs(command: &mut Command) -> Result<Vec<TestProgram>> {
    let built = built(command)?.into_iter().filter(|one| one.is_test);
    let tests: Vec<_> = built.map(|one| one.program).collect();
    ensure!(!tests.is_empty(), "cargo built no test");
    Ok(tests)
}

/// An executable of cargo's messages.
#[derive(Debug, PartialEq)]
struct Built {
    program: TestProgram,
    is_test: bool,
}

fn built(command: &mut Command) -> Result<Vec<Built>> {
    println!("$ {}", process::shown(command));
    let messages =
        process::stdout_of(command.args(["--message-format", "json-render-diagnostics"]))?;
    built_of(&messages)
}

fn built_of(messages: &str) -> Result<Vec<Built>> {
    let mut all = Vec::new();
    for message in Message::parse_stream(messages.as_bytes()) {
        if let Message::CompilerArtifact(artifact) = message?
            && let Some(path) = artifact.executable
        {
            let folder = artifact.manifest_path.parent();
            let folder = folder.unwrap_or(&artifact.manifest_path);
            let program = TestProgram {
                target: artifact.target.name,
                path: path.into(),
                folder: folder.into(),
            };
            let is_test = artifact.profile.test;
            all.push(Built { program, is_test });
        }
    }
    Ok(all)
}

/// What the source of a unit test names that opens a device which launches kernels.
const OPENS_A_DEVICE: &str = "shardgraph_cuemu::";

/// Builds the unit tests of the packages whose unit tests open a device.
///
/// The whole workspace is built: for a part of it cargo would choose other features of the dependencies, and compile them and
/// everything above them once more.
pub(crate) fn unit_tests_on_devices() -> Result<Vec<TestProgram>> {
    let packages = with_tests_on_devices(&Project::load()?);
    let targets: Vec<String> = packages.iter().map(|name| name.replace('-', "_")).collect();
    let mut tests = cargo("test --workspace --no-run --locked --lib");
    let mut built = test_programs(&mut tests)?;
    built.retain(|program| targets.contains(&program.target));
    ensure!(
        built.len() == targets.len(),
        "not built: a test program of {targets:?}"
    );
    Ok(built)
}

/// The packages whose unit tests open a device.
fn with_tests_on_devices(project: &Project) -> Vec<String> {
    let mut packages: Vec<String> = Vec::new();
    for (path, source) in project.with_extension("rs") {
        let Some((noun, file)) = path
            .strip_prefix("crates/")
            .and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let package = format!("shardgraph-{noun}");
        if file.contains("tests") && source.contains(OPENS_A_DEVICE) && !packages.contains(&package)
        {
            packages.push(package);
        }
    }
    packages
}

/// Packages every published crate and checks that each compiles from its package, alone with its dependencies.
///
/// `cargo package` could verify the packages itself, but it keeps what it once unpacked of a member with this version, so
/// that every later run would verify old sources. Here they are unpacked anew, into a workspace of their own.
pub(crate) fn check_packages() -> Result<()> {
    let mut package = cargo("package --workspace --no-verify");
    package.args(["--locked", "--allow-dirty", "--quiet"]);
    let mut published = Vec::new();
    for member in metadata(&["--no-deps"])?.packages {
        // `publish = false` reads as an empty list of registries.
        match member.publish {
            Some(_) => _ = package.args(["--exclude", &member.name]),
            None => published.push(Published {
                name: member.name.to_string(),
                version: member.version.to_string(),
                has_library: member.targets.iter().any(Target::is_lib),
            }),
        }
    }
    show_and_check(&mut package)?;
    write_outside(&outside(), &published)?;
    for package in &published {
        // Alone, because features that another crate turns on would hide that one is missing.
        show_and_check(cargo_outside("check").args(["--package", &package.name]))?;
    }
    Ok(())
}

/// Runs a crate that depends on the packages and holds the examples of their READMEs, as a user would paste them.
pub(crate) fn run_consumer() -> Result<()> {
    ensure!(
        outside().join("Cargo.toml").exists(),
        "nothing is packaged: run `cargo xtask ci --only package` first"
    );
    show_and_check(&mut cargo_outside("run --package consumer"))
}

/// An example of a README.
#[derive(Debug, PartialEq)]
struct Example {
    /// The body of a function; the lines that a documentation test hides are there.
    body: String,
    is_run: bool,
}

/// The blocks of `rust`.
fn examples(readme: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut open: Option<Example> = None;
    for line in readme.lines() {
        if let Some(info) = line.strip_prefix("```") {
            examples.extend(open.take());
            if info.split(',').next() == Some("rust") {
                let is_run = !info.contains("no_run");
                let body = String::new();
                open = Some(Example { body, is_run });
            }
        } else if let Some(example) = &mut open {
            let hidden = line.strip_prefix("# ").or((line == "#").then_some(""));
            example.body += hidden.unwrap_or(line);
            example.body += "\n";
        }
    }
    examples
}

/// The consumer's program: a function for each example, in the form of a documentation test, and `main`, which calls them.
fn consumer_source(published: &[Published], folder: &Path) -> Result<String> {
    let mut functions = String::new();
    let mut calls = String::new();
    for Published { name, version, .. } in published.iter().filter(|p| p.has_library) {
        let readme = folder.join(format!("{name}-{version}/README.md"));
        let shown = || readme.display().to_string();
        let examples = examples(&fs::read_to_string(&readme).with_context(shown)?);
        ensure!(!examples.is_empty(), "{}: no example", readme.display());
        for (idx, Example { body, is_run }) in examples.iter().enumerate() {
            let function = format!("{}_{idx}", name.replace('-', "_"));
            let last = body.trim_end().lines().next_back().unwrap_or_default();
            let (result, unwrap) = match last.starts_with("Ok::<") {
                true => (" -> Result<(), impl std::fmt::Debug>", ".unwrap()"),
                false => ("", ""),
            };
            functions.push_str(&format!("fn {function}(){result} {{\n{body}}}\n\n"));
            if *is_run {
                calls.push_str(&format!("    println!(\"{name}: example {idx}\");\n"));
                calls.push_str(&format!("    {function}(){unwrap};\n"));
            }
        }
    }
    Ok(format!(
        "#![allow(dead_code, unused, reason = \"examples\")]\n\n{functions}fn main() {{\n{calls}}}\n"
    ))
}

/// The workspace of unpacked packages.
fn outside() -> PathBuf {
    project::target().join("outside")
}

fn cargo_outside(words: &str) -> Command {
    let mut command = cargo(words);
    command
        .args(["--offline", "--quiet"])
        .current_dir(outside());
    command.env("CARGO_TARGET_DIR", project::target());
    command
}

fn show_and_check(command: &mut Command) -> Result<()> {
    println!("$ {}", process::shown(command));
    process::check(command)
}

fn write_outside(folder: &Path, published: &[Published]) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder.join("consumer/src"))?;
    for Published { name, version, .. } in published {
        let archive = project::target()
            .join("package")
            .join(format!("{name}-{version}.crate"));
        let mut tar = process::command("tar");
        // -m: files as new as they are. With the archive's own times, the same for all archives, cargo would take old results for theirs.
        process::check(tar.arg("-xmzf").arg(&archive).arg("-C").arg(folder))?;
    }
    let root = fs::read_to_string(project::root().join("Cargo.toml"))?;
    let manifest = workspace_manifest(published) + &profiles_outside(&root, published);
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(
        folder.join("consumer/Cargo.toml"),
        consumer_manifest(published),
    )?;
    fs::write(
        folder.join("consumer/src/main.rs"),
        consumer_source(published, folder)?,
    )?;
    // The same versions as in the workspace, which are all on this machine already.
    fs::copy(
        project::root().join("Cargo.lock"),
        folder.join("Cargo.lock"),
    )?;
    Ok(())
}

/// A workspace where the packages stand in for the registry.
fn workspace_manifest(published: &[Published]) -> String {
    let mut members = String::new();
    let mut patches = String::new();
    for Published { name, version, .. } in published {
        members.push_str(&format!("\"{name}-{version}\", "));
        patches.push_str(&format!("{name} = {{ path = \"{name}-{version}\" }}\n"));
    }
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{members}\"consumer\"]\n\n[patch.crates-io]\n{patches}"
    )
}

/// The `[profile...]` sections of a manifest: with the same profiles, what the workspace's dependencies were compiled to
/// serves the packages too.
fn profiles_of(manifest: &str) -> String {
    let sections = manifest.split("\n[").skip(1);
    let profiles = sections.filter(|section| section.starts_with("profile."));
    profiles.map(|section| format!("\n[{section}\n")).collect()
}

/// The consumer runs once: compiling our crates without optimisation takes half the time. Other crates are as the workspace has them,
/// compiled and checked already.
fn profiles_outside(manifest: &str, published: &[Published]) -> String {
    let mut profiles = profiles_of(manifest);
    for Published { name, .. } in published {
        let section = format!("[profile.dev.package.{name}]");
        if !profiles.contains(&section) {
            profiles += &format!("\n{section}\nopt-level = 0\n");
        }
    }
    profiles
}

fn consumer_manifest(published: &[Published]) -> String {
    let libraries = published.iter().filter(|package| package.has_library);
    let lines =
        libraries.map(|Published { name, version, .. }| format!("{name} = \"{version}\"\n"));
    let others = EXAMPLE_CRATES.map(|name| format!("{name} = \"*\"\n"));
    format!(
        "[package]\nname = \"consumer\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
         [dependencies]\n{}{}",
        lines.collect::<String>(),
        others.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_read_from_messages() {
        let target = r#"{"kind": ["lib"], "crate_types": ["lib"], "name": "a_b", "src_path": "/w/a/src/lib.rs", "edition": "2024"}"#;
        let profile = r#"{"opt_level": "0", "debuginfo": 0, "debug_assertions": true, "overflow_checks": true, "test": true}"#;
        let message = |executable: &str| {
            format!(
                r#"{{"reason": "compiler-artifact", "package_id": "a", "manifest_path": "/w/a/Cargo.toml", "target": {target}, "profile": {profile}, "features": [], "filenames": [], "executable": {executable}, "fresh": true}}"#
            )
        };
        let messages = format!(
            "   Compiling a\n{}\n{}\n",
            message("\"/t/a_b-1\""),
            message("null")
        );
        let program = TestProgram {
            target: "a_b".to_owned(),
            path: PathBuf::from("/t/a_b-1"),
            folder: PathBuf::from("/w/a"),
        };
        let is_test = true;
        assert_eq!(built_of(&messages).unwrap(), [Built { program, is_test }]);
    }

    #[test]
    fn examples_are_the_blocks_of_rust() {
        let readme = "# A\n```rust\nlet x = f()?;\n# hidden(x);\n#\n# Ok::<(), E>(())\n```\n```text\nno\n```\n\
            ```rust,no_run\n#[derive(Debug)]\nstruct S;\n```\n";
        let expected = [
            ("let x = f()?;\nhidden(x);\n\nOk::<(), E>(())\n", true),
            ("#[derive(Debug)]\nstruct S;\n", false),
        ];
        let expected = expected.map(|(body, is_run)| Example {
            body: body.to_owned(),
            is_run,
        });
        assert_eq!(examples(readme), expected);
    }

    #[test]
    fn packages_are_found_by_their_tests() {
        let owned = |(path, text): (&str, &str)| (path.to_owned(), text.to_owned());
        let files = [
            (
                "crates/a/src/tests/mod.rs",
                "shardgraph_cuemu::devices(\"a\")",
            ),
            ("crates/a/src/tests/ops.rs", "shardgraph_cuemu::library()"),
            ("crates/b/src/lib.rs", "shardgraph_cuemu::devices(\"b\")"),
            ("crates/c/src/tests.rs", "Device::host()"),
            ("crates/d/src/x/tests.rs", "use shardgraph_cuemu::driver;"),
        ];
        let project = Project {
            files: files.map(owned).into(),
        };
        let found = with_tests_on_devices(&project);
        assert_eq!(found, ["shardgraph-a", "shardgraph-d"]);
    }

    #[test]
    fn every_crate_with_tests_on_devices_is_found() {
        let project = Project::load().unwrap();
        let found = with_tests_on_devices(&project);
        // The command line opens devices in its end-to-end tests alone.
        let expected: Vec<String> = project
            .with_extension("toml")
            .filter(|(path, _)| {
                !["crates/cli/", "crates/cuemu/"]
                    .iter()
                    .any(|it| path.starts_with(it))
            })
            .filter(|(_, manifest)| manifest.contains("\nshardgraph-cuemu.workspace"))
            .filter_map(|(path, _)| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .map(|noun| format!("shardgraph-{noun}"))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn profiles_are_copied_and_nothing_else() {
        let manifest =
            "[a]\nx = 1\n[profile.dev]\ny = 2\n\n[b]\nz = 3\n[profile.dev.package.\"*\"]\nw = 4";
        let copied = toml::from_str::<toml::Table>(&profiles_of(manifest)).unwrap();
        let expected = "[profile.dev]\ny = 2\n[profile.dev.package.\"*\"]\nw = 4";
        assert_eq!(copied, toml::from_str::<toml::Table>(expected).unwrap());
    }

    #[test]
    fn packages_alone_are_not_optimised() {
        let package = |name: &str| Published {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            has_library: true,
        };
        let manifest =
            "[a]\nx = 1\n[profile.dev]\nopt-level = 1\n[profile.dev.package.b]\nopt-level = 3";
        let profiles = profiles_outside(manifest, &[package("b"), package("c")]);
        let expected = "[profile.dev]\nopt-level = 1\n[profile.dev.package.b]\nopt-level = 3\n\
            [profile.dev.package.c]\nopt-level = 0";
        assert_eq!(
            toml::from_str::<toml::Table>(&profiles).unwrap(),
            toml::from_str::<toml::Table>(expected).unwrap()
        );
    }

    #[test]
    fn the_consumer_depends_on_packages_not_on_the_workspace() {
        let package = |name: &str, has_library| Published {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            has_library,
        };
        let published = [package("a", true), package("b", false)];
        let workspace: toml::Table = toml::from_str(&workspace_manifest(&published)).unwrap();
        let patch = workspace["patch"].as_table().unwrap();
        let patch = patch["crates-io"].as_table().unwrap()["b"]
            .as_table()
            .unwrap();
        assert_eq!(patch["path"].as_str(), Some("b-1.0.0"));
        let members = workspace["workspace"].as_table().unwrap()["members"]
            .as_array()
            .unwrap();
        assert_eq!(members.len(), 3);

        let consumer: toml::Table = toml::from_str(&consumer_manifest(&published)).unwrap();
        let dependencies = consumer["dependencies"].as_table().unwrap();
        assert_eq!(dependencies["a"].as_str(), Some("1.0.0"));
        assert!(!dependencies.contains_key("b"));
    }
}
