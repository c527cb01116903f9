//! `benches/data.toml`: the data that definitions need and the repository lacks.

use std::fs;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::paths;

/// The list of data.
pub const FILE: &str = "benches/data.toml";

/// A file or folder of the data folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Path below the data folder.
    pub name: String,
    /// Address or paper that it comes from.
    pub origin: String,
    /// Of the file; of a folder, that of the lines that `sha256sum *` prints in it. Absent: nobody
    /// here has the file.
    #[serde(default)]
    pub sha256: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    data: Vec<Data>,
}

/// Reads the list.
///
/// # Errors
/// When it is not there, or wrong.
pub fn list() -> Result<Vec<Data>> {
    let text = fs::read_to_string(paths::root().join(FILE)).context(FILE)?;
    let list: List = toml::from_str(&text).context(FILE)?;
    Ok(list.data)
}

/// Why a measurement that needs `names` cannot run: the first one that is absent.
pub fn absent(names: &[String]) -> Option<String> {
    let is_absent = |name: &&String| !paths::data().join(name).exists();
    let name = names.iter().find(is_absent)?;
    let known = list().unwrap_or_default();
    let known = known.iter().find(|data| data.name == *name);
    let origin = known.map_or("of unknown origin", |data| data.origin.as_str());
    Some(format!("not run: data absent ({name}; {origin})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_whole() {
        for data in list().unwrap() {
            assert!(!data.origin.is_empty(), "{}", data.name);
            let is_hex = data.sha256.chars().all(|c| c.is_ascii_hexdigit());
            assert!(
                [0, 64].contains(&data.sha256.len()) && is_hex,
                "{}",
                data.name
            );
        }
    }

    #[test]
    fn absent_data_is_named() {
        let why = absent(&["graphs/no-such-file".to_owned()]).unwrap();
        assert!(why.contains("graphs/no-such-file"), "{why}");
        assert!(absent(&[]).is_none());
    }
}
