//! Observations as agents take them: rows of finite numbers, one a row for each environment.

use crate::error::{Error, ErrorKind};

/// How many rows of `width` numbers there are.
///
/// # Errors
/// When that is no whole number, or one of them is not finite.
pub(crate) fn check(
    component: &'static str,
    width: usize,
    observations: &[f32],
) -> Result<usize, Error> {
    let mismatch = |what: String, expected: String, given: String| {
        Error::from(ErrorKind::Mismatch {
            component,
            method: "act",
            what,
            expected,
            given,
        })
    };
    if !observations.len().is_multiple_of(width) {
        let expected = format!("rows of {width}");
        let given = format!("{} numbers", observations.len());
        return Err(mismatch("the observations".to_owned(), expected, given));
    }
    if let Some(at) = observations.iter().position(|x| !x.is_finite()) {
        let (column, row) = (at % width, at / width);
        let what = format!("element {column} of the observation of environment {row}");
        let given = observations[at].to_string();
        return Err(mismatch(what, "a finite number".to_owned(), given));
    }
    Ok(observations.len() / width)
}
