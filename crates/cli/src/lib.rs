//! The `shardgraph` command: parse the command line, call one library function, print its checked answer.
//!
//! [`run`] is the whole command; the binary calls it, and so does the command of the Python package.
#![forbid(unsafe_code)]

mod agent;
mod agent_answer;
mod agent_eval;
mod agent_settings;
mod agent_sweep;
mod agent_topology;
mod agent_train;
mod config_file;
mod convert;
mod costgraph_spec;
mod device_choice;
mod duration;
mod embed;
mod eval;
mod exchange_report;
mod exit;
mod generate;
mod graph_argument;
mod info;
mod input_file;
mod interrupt;
mod output_file;
mod peak_memory;
mod place;
mod place_answer;
mod place_files;
mod place_graph;
mod place_machine;
mod place_options;
mod place_throughput;
mod place_train;
mod progress;
mod quantity;
#[cfg(test)]
mod reference;
mod report;
mod rgcn;
mod run_report;
mod score;
mod settings_file;
mod shell;
mod solve;
mod solve_stages;
mod sweep_folder;
mod text;
mod train;
mod usage_error;
mod version;
mod world;

use std::ffi::OsString;
use std::io::Write as _;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0  done, and the answer passed its check
  1  no answer, or it failed its check
  2  bad input or usage; no output file is left behind
  3  a wanted device or library is missing
  4  a rank was lost
  130  interrupted";

/// Solve, embed, classify and place graphs
#[derive(Debug, Parser)]
#[command(name = "shardgraph", version, after_help = EXIT_CODES)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Solve(Box<solve::SolveArgs>),
    Score(score::ScoreArgs),
    Train(Box<train::TrainArgs>),
    Eval(Box<eval::EvalArgs>),
    Agent(Box<agent::AgentArgs>),
    Place(Box<place::PlaceArgs>),
    Embed(Box<embed::EmbedArgs>),
    Rgcn(Box<rgcn::RgcnArgs>),
    Generate(generate::GenerateArgs),
    Report(run_report::RunReportArgs),
    Info(info::InfoArgs),
    Convert(convert::ConvertArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// The commands by what they are for, in the order of the top-level help.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Graph problems", &["solve", "eval", "train", "score"]),
    ("Node embeddings (LINE)", &["embed"]),
    ("Relational graphs (R-GCN)", &["rgcn"]),
    ("Computation graphs (REGAL)", &["place"]),
    ("Reinforcement learning", &["agent"]),
    (
        "Files and shell",
        &[
            "report",
            "info",
            "convert",
            "generate",
            "completions",
            "man",
        ],
    ),
];

/// Runs the command of these arguments, the program's name first; returns its exit code.
///
/// A wrong command line, and a request for help, end the process.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    interrupt::install();
    let arguments = usage_error::with_negative_values(arguments);
    let matches = command_line().try_get_matches_from(arguments);
    let matches = matches.unwrap_or_else(|error| usage_error::exit(error));
    report::set_command(command_name(&matches));
    let parsed = CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = dispatch(parsed.command);
    // Rust's start-up code does this at the end of a binary; Python does not.
    let _ = std::io::stdout().flush();
    match done {
        Ok(()) if interrupt::is_interrupted() => interrupt::INTERRUPTED,
        Ok(()) => 0,
        Err(error) => {
            if !exit::is_told_elsewhere(&error) {
                report::error(&error);
            }
            exit::code(&error)
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Solve(args) => solve::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Place(args) => place::run(&args),
        Command::Embed(args) => embed::run(&args),
        Command::Rgcn(args) => rgcn::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Report(args) => run_report::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Completions(args) => shell::completions(&args, command_line()),
        Command::Man(args) => shell::man(&args, command_line()),
    }
}

/// The subcommands that were named, such as `embed eval`.
fn command_name(matches: &clap::ArgMatches) -> String {
    match matches.subcommand() {
        Some((name, matches)) => format!("{name} {}", command_name(matches))
            .trim_end()
            .to_owned(),
        None => String::new(),
    }
}

/// The whole command line.
fn command_line() -> clap::Command {
    let command = with_wrapped_notes(CommandLine::command());
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n{}\n\nOptions:\n{{options}}{{after-help}}",
        grouped(&command)
    );
    command
        .long_version(version::long())
        .max_term_width(110)
        .help_template(template)
}

/// The list of commands under the headings of [`GROUPS`].
fn grouped(command: &clap::Command) -> String {
    let about = |name: &&str| {
        let found = command.find_subcommand(name);
        let about = found.and_then(clap::Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        format!("\n  {name:12} {about}")
    };
    let group = |(title, names): &(&str, &[&str])| {
        let lines: String = names.iter().map(about).collect();
        format!("\n{title}:{lines}")
    };
    GROUPS.iter().map(group).collect::<Vec<_>>().join("\n")
}

/// A command whose notes below the flags break where the terminal does, not where the source does.
fn with_wrapped_notes(command: clap::Command) -> clap::Command {
    let notes = command.get_after_help().map(ToString::to_string);
    let command = match notes {
        Some(notes) => command.after_help(joined_lines(&notes)),
        None => command,
    };
    command.mut_subcommands(with_wrapped_notes)
}

/// A text with each paragraph in one line; lists, which have indented lines, stay as they are.
fn joined_lines(text: &str) -> String {
    let paragraphs = text.split("\n\n");
    let joined =
        paragraphs.map(
            |paragraph| match paragraph.lines().any(|line| line.starts_with(' ')) {
                true => paragraph.to_owned(),
                false => paragraph.lines().collect::<Vec<_>>().join(" "),
            },
        );
    joined.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_break_where_the_terminal_does_and_examples_nowhere() {
        let text = "Examples:\n  one\n  two\n\nA note\nof two lines.\n\nAnother.";
        let joined = "Examples:\n  one\n  two\n\nA note of two lines.\n\nAnother.";
        assert_eq!(joined_lines(text), joined);
        check_notes(&command_line());
    }

    /// No paragraph of a command's notes has a break; every line of a list fits 100 columns.
    fn check_notes(command: &clap::Command) {
        let notes = command.get_after_help().map(ToString::to_string);
        for paragraph in notes.unwrap_or_default().split("\n\n") {
            let is_list = paragraph.contains("\n  ");
            assert!(is_list || !paragraph.contains('\n'), "{paragraph}");
            for line in paragraph.lines().filter(|_| is_list) {
                assert!(line.len() <= 100, "{} columns: {line}", line.len());
            }
        }
        command.get_subcommands().for_each(check_notes);
    }

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn every_command_stands_in_one_group_of_the_help() {
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        grouped.sort_unstable();
        let command = CommandLine::command();
        let mut names: Vec<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        names.sort_unstable();
        assert_eq!(grouped, names);
    }

    #[test]
    fn a_negative_number_is_a_value_not_a_flag() {
        let parse = |words: &str| {
            let words = words.split(' ').map(OsString::from);
            command_line().try_get_matches_from(usage_error::with_negative_values(words))
        };
        assert!(parse("shardgraph embed karate --out x.npy --learning-rate -1").is_ok());
        let refused = parse("shardgraph rgcn train x.nt --seed -1").unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("invalid value '-1' for '--seed"),
            "{refused}"
        );
        assert!(parse("shardgraph solve karate -9x").is_err());
    }

    #[test]
    fn every_subcommand_has_an_example_that_parses() {
        for command in CommandLine::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string);
            let has_example = help.is_some_and(|help| help.contains("\n  shardgraph "));
            assert!(has_example, "{}", command.get_name());
            check_examples(command);
        }
    }

    /// The examples of a command and of those below it parse.
    fn check_examples(command: &clap::Command) {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        for example in help
            .lines()
            .filter(|line| line.starts_with("  shardgraph "))
        {
            // What a shell does with the output, or runs behind it, is not the command's.
            let ends = [" > ", " && "].iter().filter_map(|end| example.find(end));
            let example = &example[..ends.min().unwrap_or(example.len())];
            let parsed = CommandLine::try_parse_from(example.split_whitespace());
            assert!(parsed.is_ok(), "{example}: {:?}", parsed.err());
        }
        command.get_subcommands().for_each(check_examples);
    }
}
