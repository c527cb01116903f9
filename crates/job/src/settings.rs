//! Settings files: TOML into a struct, with file, line and key of what is wrong.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use shardgraph_storage::{MAX_SETTINGS_BYTES, read_bounded, utf8_text};

use crate::Error;

/// Reads a settings file.
///
/// # Errors
/// [`Error::Io`], also for more than [`MAX_SETTINGS_BYTES`]; [`Error::Settings`] with file, line and key for what is no TOML, no UTF-8 or no value of `T`.
pub fn read_settings<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let file = path.display().to_string();
    let bytes = read_bounded(path, MAX_SETTINGS_BYTES).map_err(Error::io(path))?;
    let text = utf8_text(bytes).map_err(|line| Error::Settings {
        file: file.clone(),
        line,
        key: String::new(),
        reason: "expected UTF-8 text".to_owned(),
    })?;
    settings_from_text(&file, &text)
}

/// Settings of a text; `file` stands in messages.
///
/// ```
/// use shardgraph_job::settings_from_text;
///
/// #[derive(Debug, serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Model { layers: u32 }
/// #[derive(Debug, serde::Deserialize)]
/// struct Settings { model: Model }
///
/// let error = settings_from_text::<Settings>("run.toml", "[model]\nlayers = -2\n").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "run.toml:2: `model.layers`: invalid value: integer `-2`, expected u32"
/// );
/// ```
///
/// # Errors
/// [`Error::Settings`].
pub fn settings_from_text<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Error> {
    let wrong = |span: Option<Range<usize>>, key: String, reason: &str| Error::Settings {
        file: file.to_owned(),
        line: line_of(text, span),
        key,
        reason: reason.to_owned(),
    };
    let parsed =
        toml::Deserializer::parse(text).map_err(|e| wrong(e.span(), String::new(), e.message()))?;
    serde_path_to_error::deserialize(parsed).map_err(|e| {
        let key = e.path().to_string();
        wrong(e.inner().span(), key, e.inner().message())
    })
}

/// Line of a span, counted from 1.
fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let start = span.map_or(0, |span| span.start.min(text.len()));
    1 + text.as_bytes()[..start]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}
