//! What this machine lacks: `ci` counts it as a skip, a command ends with it.

use anyhow::{Error, Result};

/// Something that is not here, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Absent(String);

/// The error that something is not here.
pub(crate) fn absent(why: impl Into<String>) -> Error {
    Error::new(Absent(why.into()))
}

/// What was made; of something that is absent nothing, after a line in `skips` about the check that was left out.
pub(crate) fn or_skip<T>(
    made: Result<T>,
    check: &str,
    skips: &mut Vec<String>,
) -> Result<Option<T>> {
    match made.map_err(Error::downcast::<Absent>) {
        Ok(made) => Ok(Some(made)),
        Err(Ok(Absent(why))) => {
            skips.push(format!("SKIPPED: {check}: {why}"));
            Ok(None)
        }
        Err(Err(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn only_what_is_absent_is_skipped() {
        let mut skips = Vec::new();
        assert_eq!(or_skip(Ok(1), "a", &mut skips).unwrap(), Some(1));
        let missing = Err::<u8, _>(absent("no g++"));
        assert_eq!(or_skip(missing, "b", &mut skips).unwrap(), None);
        assert!(or_skip(Err::<u8, _>(anyhow!("broken")), "c", &mut skips).is_err());
        assert_eq!(skips, ["SKIPPED: b: no g++"]);
    }
}
