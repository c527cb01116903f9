//! Files that are read: where an argument stands for one, what to say where there is none, small ones as a whole.

use std::path::Path;

use shardgraph_storage::read_bounded;

use crate::exit::BadInput;

/// The text of a file of at most so many bytes.
pub(crate) fn text(path: &Path, max_bytes: u64) -> Result<String, BadInput> {
    let wrong = |why: String| BadInput(format!("{}: {why}", path.display()));
    let bytes = read_bounded(path, max_bytes).map_err(|error| wrong(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| wrong("it is no UTF-8 text".to_owned()))
}

/// The file that an argument names: `-` is standard input.
pub(crate) fn named(argument: &Path) -> &Path {
    match argument.as_os_str() == "-" {
        true => Path::new("/dev/stdin"),
        false => argument,
    }
}

/// Refuses a file that is not there, by the nearest name in its folder.
pub(crate) fn check_exists(path: &Path) -> Result<(), BadInput> {
    if named(path).exists() {
        return Ok(());
    }
    Err(BadInput(format!(
        "{}: there is no such file{}",
        path.display(),
        meant(path)
    )))
}

/// What may have been meant by the name of a file that is not there.
pub(crate) fn meant(path: &Path) -> String {
    let near = nearest_file(path);
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// The file in the same folder whose name is nearest.
pub(crate) fn nearest_file(path: &Path) -> Option<String> {
    let folder = path.parent()?;
    let searched = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let names = std::fs::read_dir(searched).ok()?.flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let near = nearest(&path.file_name()?.to_string_lossy(), names)?;
    Some(folder.join(near).display().to_string())
}

/// The name that is most like this one, if any is much like it; the first of several.
pub(crate) fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    const MUCH: f64 = 0.85;
    let scored = names.map(|other| (strsim::jaro_winkler(name, &other), other));
    let near = scored.filter(|(score, _)| *score >= MUCH);
    let best = near.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)));
    best.map(|(_, name)| name)
}
