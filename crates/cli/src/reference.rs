//! `docs/reference/commands.md`: all commands and flags, from the command line's own definition.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};

const HEAD: &str = "\
# Commands and flags

Generated from the command line's own definition; `SHARDGRAPH_BLESS=1 cargo test -p shardgraph-cli reference`
writes this page again. `shardgraph COMMAND --help` says the same, with examples.
";

/// The page.
fn page() -> String {
    let mut text = HEAD.to_owned();
    let command = crate::command_line();
    command
        .get_subcommands()
        .for_each(|command| section(&mut text, "shardgraph", command));
    text
}

/// A command, then those below it.
fn section(text: &mut String, parent: &str, command: &Command) {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string);
    write!(text, "\n## {name}\n\n{}.\n", about.unwrap_or_default()).unwrap();
    let args: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .collect();
    if !args.is_empty() {
        text.push_str("\n| flag | meaning | default |\n|---|---|---|\n");
    }
    args.iter().for_each(|arg| row(text, arg));
    let below = command
        .get_subcommands()
        .filter(|command| command.get_name() != "help");
    below.for_each(|command| section(text, &name, command));
}

fn row(text: &mut String, arg: &Arg) {
    let help = help(arg);
    let (meaning, said) = match help.rsplit_once(" [default: ") {
        Some((meaning, default)) => (meaning, default.trim_end_matches(']')),
        None => (&*help, ""),
    };
    let set: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    let default = match set.is_empty() {
        true => said.to_owned(),
        false => set.join(" "),
    };
    let values = arg.get_possible_values();
    let meaning = match arg.get_num_args().is_some_and(|n| n.takes_values()) && !values.is_empty() {
        false => meaning.to_owned(),
        true => {
            let names: Vec<&str> = values
                .iter()
                .map(clap::builder::PossibleValue::get_name)
                .collect();
            format!("{meaning} ({})", names.join(", "))
        }
    };
    let cell = |text: &str| text.replace('|', "\\|");
    let (name, meaning, default) = (cell(&name(arg)), cell(&meaning), cell(&default));
    writeln!(text, "| `{name}` | {meaning} | {default} |").unwrap();
}

/// `--flag VALUE`, or the value alone where it needs no flag.
fn name(arg: &Arg) -> String {
    let takes_values = arg.get_action().takes_values();
    let value = arg
        .get_value_names()
        .map(|names| names.join(" "))
        .unwrap_or_default();
    match arg.get_long() {
        Some(long) if takes_values => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None => value,
    }
}

fn help(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string);
    help.unwrap_or_default().replace('\n', " ")
}

/// Every flag of every command, with the command's name.
fn flags(command: &Command, into: &mut BTreeMap<String, Vec<(String, String)>>) {
    for arg in command.get_arguments() {
        if let Some(long) = arg.get_long() {
            let all = into.entry(long.to_owned()).or_default();
            all.push((command.get_name().to_owned(), help(arg)));
        }
    }
    command
        .get_subcommands()
        .for_each(|command| flags(command, into));
}

/// Flags with one meaning whose texts say more in some commands: which files or values a command
/// takes, or what it counts.
const PARTICULAR: [&str; 37] = [
    "classes",
    "compare",
    "config",
    "decoder",
    "device",
    "device-memory",
    "devices",
    "dim",
    "episodes",
    "epochs",
    "graphs",
    "input-format",
    "learning-rate",
    "local-search",
    "loss",
    "memory-limit",
    "method",
    "mode",
    "model",
    "negatives",
    "optimiser",
    "out",
    "output-format",
    "preset",
    "ranks",
    "repeats",
    "run",
    "seed",
    "shared-negatives",
    "steps",
    "svg",
    "threads",
    "time-limit",
    "timeout",
    "top",
    "valid",
    "weighted",
];

/// A help text without its default, which commands may choose.
fn meaning(help: &str) -> &str {
    help.split_once(" [default: ")
        .map_or(help, |(meaning, _)| meaning)
}

/// The meaning that all commands share, up to what is particular to one of them.
fn shared(meaning: &str) -> &str {
    let end = [": ", "; "]
        .iter()
        .filter_map(|mark| meaning.find(mark))
        .min();
    &meaning[..end.unwrap_or(meaning.len())]
}

#[test]
fn a_flag_has_one_text_in_all_commands_or_is_listed() {
    let mut all = BTreeMap::new();
    flags(&crate::command_line(), &mut all);
    let mut differ = Vec::new();
    for (flag, uses) in all {
        let (command, first) = &uses[0];
        for (other, text) in &uses {
            let (first, text) = (shared(meaning(first)), shared(meaning(text)));
            assert_eq!(first, text, "--{flag} of `{command}` and `{other}`");
        }
        if uses.iter().any(|(_, text)| meaning(text) != meaning(first)) {
            differ.push(flag);
        }
    }
    assert_eq!(differ, PARTICULAR, "give the flag one text, or list it");
}

#[test]
fn the_reference_is_that_of_the_command_line() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands.md");
    let page = page();
    if std::env::var_os("SHARDGRAPH_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "{} is old: see its head", path.display());
}
