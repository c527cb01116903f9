//! What a measurement is given: its context and its request.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::figure::{Figure, Series};
use crate::options::Options;
use crate::report::Failure;
use crate::{launch, paths};

/// What a series runs with.
pub(crate) struct Context<'a> {
    pub(crate) figure: &'a Figure,
    pub(crate) options: &'a Options,
    /// The `shardgraph` binary.
    pub(crate) program: PathBuf,
    /// A folder for files that the series of a figure share.
    pub(crate) scratch: PathBuf,
}

impl<'a> Context<'a> {
    pub(crate) fn new(figure: &'a Figure, options: &'a Options) -> Result<Context<'a>> {
        Ok(Context {
            figure,
            options,
            program: launch::program()?,
            scratch: paths::fresh_scratch(&figure.path())?,
        })
    }
}

/// A series' request: what the figure has in common, its own keys, and in a test what that changes.
pub(crate) fn request(context: &Context<'_>, series: &Series) -> Result<Value> {
    let mut request = context.figure.common.clone();
    request.extend(series.request.clone());
    if context.options.test {
        request.extend(series.test.clone());
    }
    let mut request = serde_json::to_value(request).context("a request is JSON")?;
    let data = paths::data().display().to_string();
    replace(&mut request, "{data}", &data);
    Ok(request)
}

/// Fills a placeholder in wherever it stands in a request.
fn replace(value: &mut Value, placeholder: &str, by: &str) {
    match value {
        Value::String(text) => *text = text.replace(placeholder, by),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| replace(item, placeholder, by)),
        Value::Object(keys) => keys
            .values_mut()
            .for_each(|item| replace(item, placeholder, by)),
        _ => {}
    }
}

/// Reads a request into the measurement's own type.
pub(crate) fn parsed<T: DeserializeOwned>(request: Value) -> Result<T, Failure> {
    serde_json::from_value(request).map_err(|error| format!("the request: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_everywhere() {
        let mut request = serde_json::json!({"graphs": ["{data}/a"], "b": {"c": "{data}"}});
        replace(&mut request, "{data}", "d");
        assert_eq!(
            request,
            serde_json::json!({"graphs": ["d/a"], "b": {"c": "d"}})
        );
    }
}
