//! What is said of a wrong command line: the name that a flag has today, the number that a value should have been.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A name that is not taken, and the flag of that meaning.
const RENAMED: &[(&str, &str)] = &[
    ("--policy", "--model"),
    ("--weights-file", "--model"),
    ("--checkpoint-seconds", "--checkpoint-interval"),
    ("--count", "--top"),
    ("--curve", "--svg"),
    ("--decoder-only", "--encoder none, which is the default"),
    (
        "--deadline",
        "--timeout (the wait for a rank) or --time-limit (the length of a search)",
    ),
    ("--budget-per-device", "--device-memory"),
    ("--json", "--format json"),
    (
        "--memory",
        "--memory-limit (of this process) or --device-memory (of each device)",
    ),
    ("--polish", "--local-search"),
    ("--polish-seed", "--local-search-seed"),
    ("--polish-steps", "--local-search-steps"),
    ("--rate", "--learning-rate"),
    ("--runs", "--repeats"),
    ("--seeds", "--repeats"),
    ("--select", "--nodes-per-step"),
    ("--share", "--shared-negatives"),
    ("--work", "--run"),
];

/// Prints a usage error, with the flag or the number that was meant where that is known, and ends the process.
pub(crate) fn exit(error: clap::Error) -> ! {
    let meant = match error.kind() {
        ErrorKind::UnknownArgument => new_name(&error),
        ErrorKind::ValueValidation => number(&error),
        _ => None,
    };
    let Some(meant) = meant else { error.exit() };
    eprint_line(&format!("error: {meant}"));
    std::process::exit(2);
}

/// The name that a flag has today.
fn new_name(error: &clap::Error) -> Option<String> {
    let given = context(error, ContextKind::InvalidArg)?;
    let name = given.split('=').next()?;
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == name) {
        return Some(format!("there is no flag '{name}': its name is {new}"));
    }
    // The parser's own advice is to pass the flag as a file's name.
    let is_flag = name.starts_with("--") && error.get(ContextKind::SuggestedArg).is_none();
    is_flag.then(|| format!("there is no flag '{name}': --help lists those of the command"))
}

/// What a number should have been, where it could not be read as one.
fn number(error: &clap::Error) -> Option<String> {
    let flag = context(error, ContextKind::InvalidArg)?;
    let value = context(error, ContextKind::InvalidValue)?;
    let source = error.source()?;
    let of_whole = source.downcast_ref::<ParseIntError>();
    let expected = match of_whole.map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow) => format!("at most {}", u64::MAX),
        Some(_) => "a whole number of 0 or more".to_owned(),
        None if source.is::<ParseFloatError>() => "a number".to_owned(),
        None => return None,
    };
    Some(format!(
        "invalid value '{value}' for '{flag}': expected {expected}"
    ))
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// The words with `--flag -1s` as `--flag=-1s`: no flag begins with a digit, so that the check of the value says what is wrong with it.
pub(crate) fn with_negative_values(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    for word in arguments {
        let is_negative = word.to_str().is_some_and(|word| {
            let number = word.strip_prefix('-').unwrap_or_default();
            number
                .trim_start_matches('.')
                .starts_with(|c: char| c.is_ascii_digit())
        });
        let is_flag = |last: &OsString| {
            let last = last.to_str().and_then(|last| last.strip_prefix("--"));
            last.is_some_and(|name| !name.is_empty() && !name.contains('='))
        };
        match words.last_mut().filter(|last| is_negative && is_flag(last)) {
            Some(flag) => {
                flag.push("=");
                flag.push(word);
            }
            None => words.push(word),
        }
    }
    words
}

fn eprint_line(text: &str) {
    use std::io::Write as _;
    // A closed standard error cannot be reported anywhere.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_number_belongs_to_the_flag_before_it() {
        let joined = |words: &str| {
            let words = with_negative_values(words.split(' ').map(OsString::from));
            words.join(&OsString::from(" ")).into_string().unwrap()
        };
        assert_eq!(joined("eval g --exact -1s -q"), "eval g --exact=-1s -q");
        assert_eq!(joined("train --rate -.5"), "train --rate=-.5");
        for kept in [
            "solve g -9x",
            "solve --seed=1 -2",
            "solve -- -2",
            "solve --out -",
        ] {
            assert_eq!(joined(kept), kept);
        }
    }

    #[test]
    fn an_unknown_flag_is_answered_with_its_name_or_the_help() {
        let parse = |word: &str| {
            let command = clap::Command::new("x").arg(clap::Arg::new("out").long("out"));
            new_name(&command.try_get_matches_from(["x", word]).unwrap_err())
        };
        let renamed = parse("--json").unwrap();
        assert!(renamed.ends_with("its name is --format json"), "{renamed}");
        let unknown = parse("--samples=3").unwrap();
        assert!(unknown.starts_with("there is no flag '--samples': --help lists"));
        // The parser names the flag that is meant.
        assert_eq!((parse("--outt"), parse("word")), (None, None));
    }

    #[test]
    fn a_value_that_is_no_number_is_told_what_is() {
        let parse = |kind: clap::builder::ValueParser, value: &str| {
            let flag = clap::Arg::new("n").long("steps").value_parser(kind);
            let words = with_negative_values(["x", "--steps", value].map(OsString::from));
            number(
                &clap::Command::new("x")
                    .arg(flag)
                    .try_get_matches_from(words)
                    .unwrap_err(),
            )
        };
        let whole = || clap::value_parser!(u64).into();
        for (value, expected) in [
            ("-5", "a whole number of 0 or more"),
            ("1e3", "a whole number of 0 or more"),
            ("99999999999999999999", "at most 18446744073709551615"),
        ] {
            let message = parse(whole(), value).unwrap();
            assert!(
                message.contains(value) && message.ends_with(expected),
                "{message}"
            );
        }
        let message = parse(clap::value_parser!(f32).into(), "x").unwrap();
        assert!(message.ends_with("expected a number"), "{message}");
        assert_eq!(
            parse(clap::value_parser!(u16).range(1..9).into(), "12"),
            None
        );
    }
}
