//! Small text files that are read whole.

use std::path::Path;

use shardgraph_storage::read_bounded;

use crate::exit::BadInput;

/// The text of a file of at most so many bytes.
pub(crate) fn text(path: &Path, max_bytes: u64) -> Result<String, BadInput> {
    let wrong = |why: String| BadInput(format!("{}: {why}", path.display()));
    let bytes = read_bounded(path, max_bytes).map_err(|error| wrong(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| wrong("it is no UTF-8 text".to_owned()))
}
