//! The answer to a flag by a name that another program, or an older version of this one, has for it.

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

/// Prints a usage error, with the flag that was meant where the name is known, and ends the process.
pub(crate) fn exit(error: clap::Error) -> ! {
    let given = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => flag,
        _ => error.exit(),
    };
    let name = given.split('=').next().unwrap_or(given);
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == name) {
        eprint_line(&format!(
            "error: there is no flag '{name}': its name is {new}"
        ));
        std::process::exit(2);
    }
    error.exit()
}

fn eprint_line(text: &str) {
    use std::io::Write as _;
    // A closed standard error cannot be reported anywhere.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
