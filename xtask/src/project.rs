//! The project's folder and the text of its files, as the checks of `tidy` see them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
pub(crate) use shardgraph_records::paths::{root, target};

/// Kinds of file that the checks read.
const READ_EXTENSIONS: [&str; 5] = ["rs", "toml", "md", "cu", "cuh"];

/// The project's text files: path from the root, with `/`, to content.
#[derive(Default)]
pub(crate) struct Project {
    pub(crate) files: BTreeMap<String, String>,
}

impl Project {
    /// Reads every file that a check looks at.
    pub(crate) fn load() -> Result<Project> {
        let mut project = Project::default();
        project.load_folder(&root(), "")?;
        Ok(project)
    }

    fn load_folder(&mut self, root: &Path, folder: &str) -> Result<()> {
        let absolute = root.join(folder);
        let entries = fs::read_dir(&absolute).with_context(|| absolute.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            let kind = entry.file_type()?;
            // Hidden folders and build output; links would count a file twice.
            if kind.is_dir() && !name.starts_with('.') && name != "target" {
                self.load_folder(root, &path)?;
            } else if kind.is_file() && READ_EXTENSIONS.contains(&extension(&path)) {
                let text = fs::read(entry.path()).with_context(|| path.clone())?;
                self.files
                    .insert(path, String::from_utf8_lossy(&text).into_owned());
            }
        }
        Ok(())
    }

    pub(crate) fn text(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    pub(crate) fn with_extension<'p>(
        &'p self,
        wanted: &'static str,
    ) -> impl Iterator<Item = (&'p str, &'p str)> {
        let files = self
            .files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()));
        files.filter(move |(path, _)| extension(path) == wanted)
    }

    /// The manifests of the workspace's members: folder to table.
    pub(crate) fn members(&self) -> Result<BTreeMap<String, toml::Table>> {
        let mut members = BTreeMap::new();
        for (path, text) in self.with_extension("toml") {
            let Some(folder) = path.strip_suffix("/Cargo.toml") else {
                continue;
            };
            let table = toml::from_str::<toml::Table>(text).with_context(|| path.to_owned())?;
            // `fuzz` is a workspace of its own.
            if !table.contains_key("workspace") {
                members.insert(folder.to_owned(), table);
            }
        }
        Ok(members)
    }
}

fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_this_project_without_its_build_output() {
        let project = Project::load().unwrap();
        assert!(project.files.contains_key("xtask/src/main.rs"));
        assert!(project.members().unwrap().contains_key("xtask"));
        assert!(!project.files.keys().any(|path| path.starts_with("target/")));
    }
}
