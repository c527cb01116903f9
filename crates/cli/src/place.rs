//! `shardgraph place`: a checked schedule of a computation graph on several devices.

use std::path::Path;

use clap::{Args, Subcommand};
use serde::Serialize;
use shardgraph_costgraph::{Graph, Objective, Problem, Usage};
use shardgraph_device::{Device, Timer};
use shardgraph_regal::{
    Comparison, Method, PlaceOptions, Plan, Policy, Watch, decoder_for, place_pipeline_watched,
    place_watched, place_with_policy, total_evaluations,
};

use crate::place_answer::{Answer, Circumstances, Subject, Table};
use crate::place_files::FileArgs;
use crate::place_graph::{CostGraphArgs, Loaded};
use crate::place_machine::{Machine, MachineArgs};
use crate::place_options::SearchArgs;
use crate::place_throughput::ThroughputAnswer;
use crate::place_train;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::text::{Layout, printable};
use crate::{interrupt, world};

const EXAMPLE: &str = "\
The plan that is printed has been checked by a second, independent evaluation. Times are
nanoseconds.

Examples:
  shardgraph place costgraph:1
  shardgraph place model.onnx --devices 4 --device-spec a100-40 --links nvlink4 --svg chart.svg
  shardgraph place graphs.jsonl.gz --index 3 --objective memory --format json
  shardgraph place graphs.jsonl.gz --all --decoder paper --method brkga --format json
  shardgraph place net.pbtxt --compare
  shardgraph place train --preset synthetic --run my-policy
  shardgraph place net.pbtxt --model my-policy/policy.safetensors
  shardgraph place costgraph:1 --model runtime";

/// Place a computation graph on devices and order its ops, for a short runtime or a small peak of memory
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLE,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct PlaceArgs {
    #[command(subcommand)]
    command: Option<PlaceCommand>,
    #[command(flatten)]
    graph: CostGraphArgs,
    /// Show other methods beside the answer: all of them, in a table
    #[arg(long)]
    compare: bool,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    report: ReportArgs,
}

#[derive(Debug, Subcommand)]
enum PlaceCommand {
    Train(Box<place_train::TrainArgs>),
}

/// A plan and the seconds of its check.
struct Placed {
    plan: Plan,
    verify_seconds: f64,
}

/// What became of an answer.
struct Told {
    /// Why its plan does not fit the memory, if so.
    unfit: Option<String>,
    /// Whether somebody reads on.
    is_read: bool,
}

/// Loads, places, writes the files and prints the answers.
pub(crate) fn run(args: &PlaceArgs) -> anyhow::Result<()> {
    let done = match &args.command {
        Some(PlaceCommand::Train(args)) => place_train::run(args),
        None => place_all(args),
    };
    done.map_err(|error| {
        // Messages have names of ops in them.
        let message = printable(&error.to_string());
        error.context(message)
    })
}

fn place_all(args: &PlaceArgs) -> anyhow::Result<()> {
    world::refuse_processes("place", Some("--threads"))?;
    interrupt::end_by_itself();
    args.search.check(args.compare)?;
    let inputs: Vec<&Path> = (args.graph.files())
        .chain(args.search.policy_file())
        .chain(args.machine.files())
        .collect();
    args.files.check(&inputs, args.graph.all, &args.report)?;
    if args.search.is_throughput() {
        args.files.check_pipeline()?;
    }
    let machine = args.machine.machine()?;
    let options = args.search.options(machine.model);
    let policy = args.search.policy(&args.report)?;
    let loaded = args.graph.load(args.search.seed, &machine, &args.report)?;
    let mut n_unfit = 0;
    let mut last_unfit = String::new();
    for (index, graph) in &loaded.graphs {
        let job = Job {
            args,
            graph,
            machine: &machine,
            options: &options,
            policy: policy.as_ref(),
        };
        let told = match args.compare {
            true => job.compare(*index, &loaded)?,
            false if args.search.is_throughput() => job.pipeline(*index, &loaded)?,
            false => job.place(*index, &loaded)?,
        };
        if let Some(why) = told.unfit {
            n_unfit += 1;
            last_unfit = why;
        }
        if !told.is_read {
            break;
        }
    }
    match (n_unfit, loaded.graphs.len()) {
        (0, _) => Ok(()),
        (_, 1) => Err(anyhow::anyhow!(last_unfit)),
        (n, of) => Err(anyhow::anyhow!(
            "{n} of {of} plans do not fit the memory; the last: {last_unfit}"
        )),
    }
}

/// One graph to be placed.
struct Job<'a> {
    args: &'a PlaceArgs,
    graph: &'a Graph,
    machine: &'a Machine,
    options: &'a PlaceOptions,
    policy: Option<&'a Policy>,
}

impl Job<'_> {
    /// Places and prints.
    fn place(&self, index: usize, loaded: &Loaded) -> anyhow::Result<Told> {
        let Placed {
            plan,
            verify_seconds,
        } = self.search(self.options, self.policy)?;
        let unfit = self.unfit(&plan);
        let written = match unfit {
            None => self.write(&plan, None),
            Some(_) => Ok(()),
        };
        let subject = self.subject(index, loaded);
        let circumstances = self.circumstances(verify_seconds, loaded);
        let usage = self.usage(&plan)?;
        let answer = Answer::new(subject, &plan, &usage, circumstances);
        let is_read = self.print(&answer, &answer.layout())?;
        // The answer may have taken hours: it is printed although a file could not be written.
        written?;
        Ok(Told { unfit, is_read })
    }

    /// Places micro-batches that follow one another, and prints.
    fn pipeline(&self, index: usize, loaded: &Loaded) -> anyhow::Result<Told> {
        let (graph, devices) = (self.graph, &self.machine.devices);
        let timer = Timer::start(&Device::host());
        let evaluations = total_evaluations(devices.len(), self.options.evaluations);
        let mut progress = Progress::new(&self.args.report, evaluations, "evaluations")
            .within(self.args.search.time_limit);
        let mut watch = Watch {
            clock: &mut || timer.elapsed_s(),
            deadline: self.args.search.time_limit,
            on_progress: &mut |done| {
                let period = done.best.1;
                progress.update(done.evaluations, || format!("period {period} ns"));
                !interrupt::is_interrupted()
            },
        };
        let plan = place_pipeline_watched(graph, devices, self.options, &mut watch);
        drop(progress);
        let plan = plan.map_err(|error| {
            let about = format!("{}: {error}", graph.name());
            anyhow::Error::new(error).context(about)
        })?;
        let verify_seconds = timer.elapsed_s() - plan.seconds;
        let problem = Problem::new(graph, devices, Objective::Runtime, self.options.model)?;
        let unfit = (plan.excess_bytes > 0).then(|| {
            let (graph, excess) = (graph.name(), plan.excess_bytes);
            format!(
                "{graph}: no pipeline within the memory was found: the best has {excess} bytes too many; more devices may help; no file is written"
            )
        });
        let written = match unfit {
            None => (self.args.files).write_pipeline(&problem, &plan, &self.args.report),
            Some(_) => Ok(()),
        };
        let subject = self.subject(index, loaded).of_pipeline();
        let circumstances = self.circumstances(verify_seconds, loaded);
        let answer = ThroughputAnswer::new(subject, &problem, &plan, circumstances);
        let is_read = self.print(&answer, &answer.layout())?;
        written?;
        Ok(Told { unfit, is_read })
    }

    /// Goes through all methods and prints a table.
    fn compare(&self, index: usize, loaded: &Loaded) -> anyhow::Result<Told> {
        let mut plans = Vec::new();
        let mut verify_seconds = 0.0;
        // A policy that does not serve the problem is to be known before the rest takes its time.
        let mut learned = Vec::new();
        for method in Method::LEARNED {
            let options = PlaceOptions {
                method,
                ..self.options.clone()
            };
            if self.policy.is_some() {
                learned.push(self.search(&options, self.policy)?);
            }
        }
        for (method, decoder) in Comparison::usual() {
            let options = PlaceOptions {
                decoder: decoder_for(method, decoder, self.options),
                method,
                ..self.options.clone()
            };
            let placed = self.search(&options, None)?;
            verify_seconds += placed.verify_seconds;
            plans.push(placed.plan);
        }
        for placed in learned {
            verify_seconds += placed.verify_seconds;
            plans.push(placed.plan);
        }
        let key = |plan: &Plan| (plan.outcome.excess_bytes, plan.value());
        let best = plans.iter().min_by_key(|plan| key(plan));
        let unfit = best.and_then(|best| self.unfit(best));
        let comparison = Comparison::of(self.graph.name(), self.options.objective, &plans);
        let written = match best {
            Some(best) if unfit.is_none() => self.write(best, Some(&comparison)),
            _ => Ok(()),
        };
        let subject = self.subject(index, loaded);
        let circumstances = self.circumstances(verify_seconds, loaded);
        let table = Table::new(subject, &comparison, circumstances);
        let is_read = self.print(&table, &table.layout(&comparison))?;
        written?;
        Ok(Told { unfit, is_read })
    }

    /// Searches with progress on standard error, until the end or the deadline.
    fn search(&self, options: &PlaceOptions, policy: Option<&Policy>) -> anyhow::Result<Placed> {
        let method = options.method;
        let timer = Timer::start(&Device::host());
        let wanted = match method {
            Method::Portfolio => total_evaluations(self.machine.devices.len(), options.evaluations),
            _ => options.evaluations,
        };
        let mut progress = Progress::new(&self.args.report, wanted, "evaluations")
            .within(self.args.search.time_limit);
        let mut watch = Watch {
            clock: &mut || timer.elapsed_s(),
            deadline: self.args.search.time_limit,
            on_progress: &mut |done| {
                progress.update(done.evaluations, || {
                    let best = best_text(options.objective, done.best.0, done.best.1);
                    format!("{method}, best {best}")
                });
                !interrupt::is_interrupted()
            },
        };
        let (graph, devices) = (self.graph, &self.machine.devices);
        let placed = match policy {
            Some(policy) => place_with_policy(graph, devices, options, policy, &mut watch),
            None => place_watched(graph, devices, options, &mut watch),
        };
        drop(progress);
        let plan = placed.map_err(|error| {
            let about = format!("{}: {error}", self.graph.name());
            anyhow::Error::new(error).context(about)
        })?;
        self.tell_deadline(method, wanted, &plan);
        if policy.is_some() && plan.proposal_seconds.is_none() {
            let why = match plan.value() == plan.lower_bound() {
                true => "no plan is better than the one that was found",
                false => {
                    "the other searches went on to find better plans, or too few evaluations were left"
                }
            };
            self.args
                .report
                .warning(&format!("the policy was not asked: {why}"));
        }
        let verify_seconds = timer.elapsed_s() - plan.seconds;
        Ok(Placed {
            plan,
            verify_seconds,
        })
    }

    /// Says where the deadline has cut a search short.
    fn tell_deadline(&self, method: Method, wanted: u64, plan: &Plan) {
        let deadline = self.args.search.time_limit;
        let is_late = deadline.is_some_and(|deadline| plan.seconds >= deadline);
        if is_late && method.searches() && plan.evaluations < wanted {
            self.args.report.note(&format!(
                "the deadline ended {method} after {} of {wanted} evaluations",
                plan.evaluations
            ));
        } else if is_late && method.heeds_deadline() && !method.searches() {
            let note = format!("{method} ran into the deadline, from where on it did not choose");
            self.args.report.note(&note);
        }
    }

    fn subject<'s>(&'s self, index: usize, loaded: &'s Loaded) -> Subject<'s> {
        Subject::new(index, self.graph, loaded, self.machine, self.options)
    }

    fn circumstances(&self, verify_seconds: f64, loaded: &Loaded) -> Circumstances {
        Circumstances {
            verify_seconds,
            load_seconds: loaded.load_seconds,
            seed: self.options.seed,
            threads: self.options.threads,
        }
    }

    /// By how much a plan does not fit, and whether any could.
    fn unfit(&self, plan: &Plan) -> Option<String> {
        if plan.fits() {
            return None;
        }
        let limits = self.machine.devices.devices().iter();
        let limit = limits.filter_map(|device| device.memory_bytes).max()?;
        let peak = plan.outcome.peak_bytes;
        let excess = plan.outcome.excess_bytes;
        let bound = plan.bounds.peak_bytes;
        let advice = match bound > limit {
            true => format!("no plan needs less than {bound}"),
            false => {
                "more evaluations, another --decoder or --method, or more devices may find one"
                    .to_owned()
            }
        };
        Some(format!(
            "{}: no plan within {limit} bytes a device was found: the best needs {peak} on the fullest one, {excess} too many; {advice}; no file is written",
            self.graph.name()
        ))
    }

    /// Where the time of a plan goes.
    fn usage(&self, plan: &Plan) -> anyhow::Result<Usage> {
        let (objective, model) = (self.options.objective, self.options.model);
        let problem = Problem::new(self.graph, &self.machine.devices, objective, model)?;
        let simulation = plan.schedule.simulate(&problem)?;
        Ok(Usage::new(&problem, &plan.schedule, &simulation))
    }

    /// Only plans that fit: who finds a file may use it.
    fn write(&self, plan: &Plan, comparison: Option<&Comparison>) -> anyhow::Result<()> {
        let (objective, model) = (self.options.objective, self.options.model);
        let problem = Problem::new(self.graph, &self.machine.devices, objective, model)?;
        let files = &self.args.files;
        files.write(&problem, plan, comparison, &self.args.report)
    }

    /// Prints an answer; false when nobody reads on.
    fn print(&self, answer: &impl Serialize, layout: &Layout<'_>) -> anyhow::Result<bool> {
        if self.args.graph.all {
            return self.args.report.one_of_many(answer, layout);
        }
        self.args.report.answer(answer, layout)?;
        Ok(true)
    }
}

/// A fitness, for people.
fn best_text(objective: Objective, first: u64, second: u64) -> String {
    match objective {
        Objective::Memory => format!("{first} bytes"),
        Objective::Runtime if first > 0 => format!("{first} bytes beyond the memory"),
        Objective::Runtime => format!("{second} ns"),
    }
}
