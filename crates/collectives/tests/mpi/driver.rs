//! Starts the scenarios under the launcher and judges what the ranks say.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

/// The first argument of a process that is a rank.
pub(crate) const RANK_MARK: &str = "--rank-of";

/// No job may take longer: a hang is a failure, not a stuck test.
const LIMIT: Duration = Duration::from_secs(240);

/// A launcher and the library that belongs to it.
struct Mpi {
    mpiexec: PathBuf,
    library: PathBuf,
}

/// What a job gave.
struct Job {
    lines: Vec<String>,
    is_success: bool,
    all: String,
}

type Test = fn(&Mpi);

const TESTS: [(&str, Test); 18] = [
    ("suite_of_1", |mpi| suite(mpi, 1)),
    ("suite_of_2", |mpi| suite(mpi, 2)),
    ("suite_of_3", |mpi| suite(mpi, 3)),
    ("suite_of_6", |mpi| suite(mpi, 6)),
    ("unsigned_maxima", unsigned_maxima),
    ("the_bits_of_threads", the_bits_of_threads),
    ("a_second_start_is_refused", a_second_start_is_refused),
    ("wrong_order", |mpi| {
        mismatch(mpi, "wrong_order", "broadcast")
    }),
    ("wrong_length", |mpi| {
        mismatch(mpi, "wrong_length", "99 f32")
    }),
    ("wrong_part", wrong_part),
    ("wrong_argument", wrong_argument),
    ("abort_reaches_all", |mpi| {
        others(mpi, "abort", "aborted", "by rank 1")
    }),
    ("a_rank_that_leaves", |mpi| {
        others(mpi, "leaves", "lost", "rank 1")
    }),
    ("a_rank_that_is_late", |mpi| {
        others(mpi, "late", "timeout", "ranks [1]")
    }),
    ("a_rank_that_is_stopped", |mpi| {
        others(mpi, "stopped", "timeout", "ranks [1]")
    }),
    ("a_rank_that_panics", |mpi| ends(mpi, "panics")),
    ("a_rank_that_exits", |mpi| ends(mpi, "exits")),
    ("a_rank_that_is_killed", |mpi| ends(mpi, "killed")),
];

/// Runs the tests whose name contains the filter, and reports as the test harness does.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).map(PathBuf::from)
    };
    let mpi = match (value("--mpiexec"), value("--library")) {
        (Some(mpiexec), Some(library)) => Some(Mpi { mpiexec, library }),
        _ => installed(),
    };
    let mut is_value = false;
    let filter = arguments.iter().find(|argument| {
        let is_filter = !is_value && !argument.starts_with('-');
        is_value = ["--mpiexec", "--library", "--test-threads"].contains(&argument.as_str());
        is_filter
    });
    let is_chosen = |name: &str| filter.is_none_or(|filter| name.contains(filter.as_str()));
    let chosen: Vec<_> = TESTS.iter().filter(|(name, _)| is_chosen(name)).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let Some(mpi) = mpi else {
        println!(
            "SKIPPED: {} tests with MPI processes: no MPI in target/mpi (`cargo xtask ci --only mpi` puts one there)",
            chosen.len()
        );
        println!("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        return ExitCode::SUCCESS;
    };
    report(&mpi, &chosen)
}

fn report(mpi: &Mpi, chosen: &[&(&str, Test)]) -> ExitCode {
    println!("\nrunning {} tests", chosen.len());
    let mut n_failed = 0;
    for (name, test) in chosen {
        let mpi = Mpi {
            mpiexec: mpi.mpiexec.clone(),
            library: mpi.library.clone(),
        };
        let has_passed = catch_unwind(move || test(&mpi)).is_ok();
        println!(
            "test {name} ... {}",
            if has_passed { "ok" } else { "FAILED" }
        );
        n_failed += u32::from(!has_passed);
    }
    let verdict = if n_failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {} passed; {n_failed} failed; 0 ignored; 0 measured; {} filtered out",
        chosen.len() as u32 - n_failed,
        TESTS.len() - chosen.len()
    );
    match n_failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// The MPI that xtask has put into the target folder.
fn installed() -> Option<Mpi> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mpi");
    let folders = std::fs::read_dir(root).ok()?;
    folders.flatten().find_map(|folder| {
        let mpiexec = folder.path().join("bin/mpiexec");
        let library = folder.path().join("lib/libmpi_abi.so.1");
        (mpiexec.exists() && library.exists()).then_some(Mpi { mpiexec, library })
    })
}

/// Runs `scenario` on `n_ranks` processes to its end.
fn run(mpi: &Mpi, n_ranks: u32, scenario: &str) -> Job {
    let this = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(&mpi.mpiexec);
    // Open MPI asks for leave to run as root and with more ranks than cores; other launchers do not
    // know these variables.
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"] {
        command.env(name, "1").env(format!("{name}_CONFIRM"), "1");
    }
    command
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
        .args(["-n", &n_ranks.to_string()])
        .arg(this)
        .args([RANK_MARK, scenario])
        .arg(&mpi.library)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the launcher starts");
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let is_success = wait(&mut child, scenario);
    let out = out.join().expect("no panic");
    let err = err.join().expect("no panic");
    let lines = out
        .lines()
        .filter(|line| line.starts_with("rank "))
        .map(str::to_owned);
    Job {
        lines: lines.collect(),
        is_success,
        all: format!("{out}{err}"),
    }
}

/// Reads to the end, so that no pipe fills up.
fn reader(stream: Option<impl std::io::Read + Send + 'static>) -> thread::JoinHandle<String> {
    let mut stream = stream.expect("a pipe");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, scenario: &str) -> bool {
    const STEP: Duration = Duration::from_millis(20);
    for _ in 0..LIMIT.as_millis() / STEP.as_millis() {
        if let Some(status) = child.try_wait().expect("a child to wait for") {
            return status.success();
        }
        thread::sleep(STEP);
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("{scenario} hangs");
}

impl Job {
    /// What `rank` said after its number.
    fn of(&self, rank: u32) -> &str {
        let start = format!("rank {rank}: ");
        let line = self.lines.iter().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("rank {rank} said nothing:\n{}", self.all))
    }

    fn expect(&self, rank: u32, word: &str, words: &str) {
        let said = self.of(rank);
        assert!(
            said.starts_with(&format!("{word}:")) && said.contains(words),
            "rank {rank} was to say `{word}` with `{words}`, it said: {said}"
        );
    }

    fn expect_all_ok(&self, n_ranks: u32) {
        assert!(self.is_success, "{}", self.all);
        for rank in 0..n_ranks {
            self.expect(rank, "ok", "");
        }
    }
}

fn suite(mpi: &Mpi, n_ranks: u32) {
    run(mpi, n_ranks, "suite").expect_all_ok(n_ranks);
}

fn unsigned_maxima(mpi: &Mpi) {
    for n_ranks in [2, 3, 6] {
        run(mpi, n_ranks, "unsigned").expect_all_ok(n_ranks);
    }
}

fn the_bits_of_threads(mpi: &Mpi) {
    for n_ranks in [2, 3, 6] {
        let job = run(mpi, n_ranks, "bits");
        job.expect_all_ok(n_ranks);
    }
}

fn a_second_start_is_refused(mpi: &Mpi) {
    let job = run(mpi, 2, "second_start");
    job.expect_all_ok(2);
    job.expect(1, "ok", "only once");
}

/// All ranks hear both sides.
fn mismatch(mpi: &Mpi, scenario: &str, words: &str) {
    let job = run(mpi, 3, scenario);
    for rank in 0..3 {
        job.expect(rank, "mismatch", words);
        job.expect(rank, "mismatch", "100 f32");
    }
    assert!(!job.is_success, "{}", job.all);
}

/// All ranks hear both ends of the part.
fn wrong_part(mpi: &Mpi) {
    let job = run(mpi, 3, "wrong_part");
    for rank in 0..3 {
        job.expect(rank, "mismatch", "of 2 u8, with rank 0");
        job.expect(rank, "mismatch", "of 1 u8, with rank 1");
    }
}

fn wrong_argument(mpi: &Mpi) {
    let job = run(mpi, 3, "wrong_argument");
    job.expect(1, "argument", "root is 99");
    for rank in [0, 2] {
        job.expect(rank, "aborted", "root is 99");
    }
}

/// Ranks 0 and 2 say this, whatever becomes of rank 1.
fn others(mpi: &Mpi, scenario: &str, word: &str, words: &str) {
    let job = run(mpi, 3, scenario);
    for rank in [0, 2] {
        job.expect(rank, word, words);
    }
    assert!(!job.is_success, "{}", job.all);
}

/// The job ends, and not well: the launcher may kill the others before they say anything.
fn ends(mpi: &Mpi, scenario: &str) {
    let job = run(mpi, 3, scenario);
    assert!(!job.is_success, "{}", job.all);
    for said in job.lines.iter().filter_map(|line| line.split_once(": ")) {
        assert!(!said.1.starts_with("ok"), "{}", job.all);
    }
}
