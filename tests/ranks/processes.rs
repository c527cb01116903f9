//! One problem on several processes that meet over TCP, started as torchrun starts them.

#![cfg(unix)]

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::program::{Run, command, finish, run, wait, within_deadline};

/// The ranks of one job.
pub(crate) struct World {
    size: u32,
    port: u16,
}

/// A port that is free, below those that the system gives away by itself. The next one is not given to another test either.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own_part = std::process::id() * 61;
    let port = || 20_000 + (own_part + NEXT.fetch_add(2, Ordering::Relaxed)) % 12_000;
    let ports = std::iter::repeat_with(|| u16::try_from(port()).unwrap());
    ports.take(6_000).find(is_free).unwrap()
}

pub(crate) fn is_free(port: &u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()
}

impl World {
    pub(crate) fn new(size: u32) -> World {
        World {
            size,
            port: free_port(),
        }
    }

    /// The command of one rank.
    pub(crate) fn rank(&self, rank: u32, words: &str, paths: &[&Path]) -> Command {
        let mut command = command(words, paths);
        command
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", self.size.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", self.port.to_string());
        command
    }
}

/// Runs commands side by side to their ends.
pub(crate) fn finish_all(commands: Vec<Command>) -> Vec<Run> {
    let start = |mut command: Command| thread::spawn(move || finish(&mut command));
    let threads: Vec<_> = commands.into_iter().map(start).collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

/// All ranks with the same words.
pub(crate) fn run_all(size: u32, words: &str, paths: &[&Path]) -> Vec<Run> {
    let world = World::new(size);
    let ranks = 0..size;
    finish_all(ranks.map(|rank| world.rank(rank, words, paths)).collect())
}

/// On lists and on bits, the closed form and the model: the file of one process, and one answer.
#[test]
fn covers_have_the_same_bytes_as_with_one_rank() {
    let folder = tempfile::tempdir().unwrap();
    let (one, many) = (folder.path().join("one"), folder.path().join("many"));
    for graph in [
        "karate",
        "ba:300:3 --nodes-per-step adaptive",
        "er:257:0.2",
        "er:66:0.05 --path general",
    ] {
        run(
            &format!("solve --method policy {graph} --ranks 1 --out {{}}"),
            &[&one],
        )
        .ok();
        for size in [2, 3] {
            let words = format!("solve --method policy {graph} --out {{}}");
            let runs = run_all(size, &words, &[&many]);
            for (rank, run) in runs.into_iter().enumerate() {
                let run = run.ok();
                assert_eq!(run.stdout.is_empty(), rank != 0, "{run:?}");
                if rank == 0 {
                    assert_eq!(run.line("ranks"), size.to_string());
                }
            }
            assert!(
                fs::read(&many).unwrap() == fs::read(&one).unwrap(),
                "{graph}"
            );
            fs::remove_file(&many).unwrap();
        }
    }
}

/// `--ranks` means threads, also inside a launcher; a world of one is no world.
#[test]
fn explicit_ranks_are_threads_and_one_process_is_alone() {
    let world = World::new(3);
    let run = finish(&mut world.rank(1, "solve --method policy karate --ranks 2", &[])).ok();
    assert_eq!(run.line("ranks"), "2");
    let run = finish(&mut world.rank(1, "solve --method policy karate --comm threads", &[])).ok();
    assert_eq!(run.line("ranks"), "1");
    let run = run_all(1, "solve --method policy karate", &[])
        .remove(0)
        .ok();
    assert_eq!(run.line("ranks"), "1");
}

#[test]
fn half_set_variables_are_named() {
    for missing in ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"] {
        let mut command = World::new(2).rank(1, "solve --method policy karate", &[]);
        let message = finish(command.env_remove(missing)).error(2);
        assert!(
            message.contains(missing) && message.contains("torchrun"),
            "{message}"
        );
    }
    let mut command = World::new(2).rank(2, "solve --method policy karate", &[]);
    assert!(finish(&mut command).error(2).contains("RANK=2"));
    let message = run("solve --method policy karate --comm tcp", &[]).error(2);
    assert!(message.contains("WORLD_SIZE"), "{message}");
    run("solve --method policy karate --comm tcp --ranks 2", &[]).error(2);
}

#[test]
fn a_rank_that_never_comes_is_named_after_the_deadline() {
    let world = World::new(3);
    let words = "solve --method policy karate --timeout 1";
    let commands = [0, 2].map(|rank| world.rank(rank, words, &[]));
    for run in finish_all(commands.into()) {
        let message = run.error(4);
        assert!(message.contains("[1]"), "{message}");
    }
    let message = finish(&mut World::new(2).rank(1, words, &[])).error(4);
    assert!(message.contains("rank 0"), "{message}");
}

#[test]
fn two_ranks_with_one_number_are_told_so() {
    let world = World::new(3);
    let commands = [0, 1, 1].map(|rank| world.rank(rank, "solve --method policy karate", &[]));
    for run in finish_all(commands.into()) {
        let message = run.error(2);
        assert!(message.contains("rank 1"), "{message}");
    }
}

/// Every rank refuses, and names who differs from rank 0 in what.
#[test]
fn different_inputs_are_refused_on_all_ranks() {
    for (odd, what) in [
        ("solve --method policy er:200:0.1 --seed 2", "graph"),
        (
            "solve --method policy er:200:0.1 --nodes-per-step 8",
            "options",
        ),
        (
            "solve --method policy er:200:0.1 --model mvc-three-layers",
            "policy",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let cover = folder.path().join("cover");
        let world = World::new(3);
        let words = |rank: u32| match rank {
            1 => format!("{odd} --out {{}}"),
            _ => "solve --method policy er:200:0.1 --out {}".to_owned(),
        };
        let commands = (0..3).map(|rank| world.rank(rank, &words(rank), &[&cover]));
        for run in finish_all(commands.collect()) {
            let message = run.error(2);
            assert!(message.contains("rank 1"), "{message}");
            assert!(message.contains(what), "{message}");
        }
        assert!(!cover.exists());
    }
}

/// One rank cannot read its graph: it says why, rank 0 says who, and all have its exit code.
#[test]
fn an_error_of_one_rank_ends_all_with_its_code() {
    let world = World::new(3);
    let graph = |rank| if rank == 2 { "missing.mtx" } else { "karate" };
    let commands =
        (0..3).map(|rank| world.rank(rank, &format!("solve --method policy {}", graph(rank)), &[]));
    let runs = finish_all(commands.collect());
    let codes: Vec<_> = runs.iter().map(|run| run.code).collect();
    assert_eq!(codes, [Some(2); 3], "{runs:?}");
    assert!(runs[0].stderr.contains("rank 2"), "{runs:?}");
    assert_eq!(runs[1].stderr, "");
    assert!(runs[2].stderr.contains("missing.mtx"), "{runs:?}");
}

/// The cover cannot be written: only rank 0 sees it, all end with its code.
#[test]
fn an_answer_that_cannot_be_written_ends_all() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no-folder").join("cover");
    let runs = run_all(2, "solve --method policy karate --out {}", &[&nowhere]);
    let codes: Vec<_> = runs.iter().map(|run| run.code).collect();
    assert_eq!(codes, [Some(2); 2], "{runs:?}");
}

/// A job long enough to be killed in the middle.
struct LongJob {
    _folder: tempfile::TempDir,
    cover: PathBuf,
    ranks: Vec<Child>,
}

impl LongJob {
    fn start(size: u32) -> LongJob {
        let folder = tempfile::tempdir().unwrap();
        let cover = folder.path().join("cover");
        let world = World::new(size);
        let words =
            "solve --method policy ba:20000:8 --path free-first-layer --timeout 60 --out {}";
        let start = |rank| {
            let mut command = world.rank(rank, words, &[&cover]);
            let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        LongJob {
            ranks: (0..size).map(start).collect(),
            _folder: folder,
            cover,
        }
    }
}

/// What a rank says that has lost another one, and ends by itself.
pub(crate) fn lost_rank_message(rank: &mut Child) -> String {
    let ended = within_deadline(|| rank.try_wait().unwrap());
    let mut message = String::new();
    let stderr = rank.stderr.as_mut().unwrap();
    std::io::Read::read_to_string(stderr, &mut message).unwrap();
    assert_eq!(ended.and_then(|status| status.code()), Some(4), "{message}");
    message
}

/// Stops a process as SIGSTOP does: it stays, with its connections, and does nothing.
pub(crate) fn stop(process: &Child) {
    let id = process.id().to_string();
    let stopped = Command::new("kill").args(["-STOP", &id]).status();
    assert!(stopped.unwrap().success());
}

/// SIGKILL of any rank: the others end by themselves, long before their deadline, and name it.
#[test]
fn a_killed_rank_is_named_by_all_others() {
    for victim in 0..3 {
        let mut job = LongJob::start(3);
        // While they gather, while they load, while they solve.
        thread::sleep(Duration::from_millis(1500 + 400 * victim));
        let victim = victim as usize;
        assert_eq!(job.ranks[victim].try_wait().unwrap(), None, "too short");
        job.ranks[victim].kill().unwrap();
        let survivors = (0..3).filter(|&rank| rank != victim);
        for rank in survivors {
            let stderr = lost_rank_message(&mut job.ranks[rank]);
            assert!(
                stderr.contains(&format!("rank {victim} was lost")),
                "rank {rank}: {stderr}"
            );
        }
        wait(&mut job.ranks[victim]);
        assert!(!job.cover.exists());
    }
}

/// `mpiexec` and the standard library beside it, where `cargo xtask ci --only mpi` has put them.
pub(crate) fn mpi() -> Option<(PathBuf, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mpi");
    let folders = fs::read_dir(root).into_iter().flatten().flatten();
    let mut found = folders.map(|folder| {
        let folder = folder.path();
        let library = folder.join("lib/libmpi_abi.so.1");
        (folder.join("bin/mpiexec"), library)
    });
    let found = found.find(|(mpiexec, library)| mpiexec.exists() && library.exists());
    if found.is_none() {
        println!(
            "SKIPPED: runs under mpiexec (no MPI in target/mpi: `cargo xtask ci --only mpi` puts one there)"
        );
    }
    found
}

/// So many processes of the same command.
pub(crate) fn under_mpiexec(mpiexec: &Path, n_ranks: &str, same: &Command) -> Command {
    let mut started = Command::new(mpiexec);
    started.args(["-n", n_ranks]).arg(same.get_program());
    started.args(same.get_args()).stdin(Stdio::null());
    started
}

#[test]
fn covers_under_mpiexec_have_the_same_bytes() {
    let Some((mpiexec, library)) = mpi() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (one, many) = (folder.path().join("one"), folder.path().join("many"));
    run(
        "solve --method policy er:300:0.1 --seed 2 --out {}",
        &[&one],
    )
    .ok();
    for n_ranks in ["2", "3"] {
        let words = "solve --method policy er:300:0.1 --seed 2 --mpi-library {} --out {}";
        let same = command(words, &[&library, &many]);
        let answer = finish(&mut under_mpiexec(&mpiexec, n_ranks, &same)).ok();
        assert_eq!(answer.line("ranks"), n_ranks); // printed once
        assert_eq!(fs::read(&many).unwrap(), fs::read(&one).unwrap());
    }
}

#[test]
fn an_mpi_that_is_absent_is_a_missing_library() {
    let mut command = command(
        "solve --method policy karate --mpi-library /no/such/libmpi_abi.so.1",
        &[],
    );
    command.env("PMI_RANK", "0").env("PMI_SIZE", "2");
    let message = finish(&mut command).error(3);
    assert!(message.contains("/no/such/libmpi_abi.so.1"), "{message}");
    run("solve --method policy karate --comm mpi", &[]).error(2);
    run("solve --method policy karate --comm mpi --ranks 2", &[]).error(2);
    let message = run(
        "solve --method policy karate --ranks 2 --mpi-library libmpi_abi.so.1",
        &[],
    )
    .error(2);
    assert!(message.contains("--comm mpi"), "{message}");
}

/// A command that knows threads only does not do the same work once in every process.
#[test]
fn scoring_in_several_processes_is_refused() {
    let world = World::new(2);
    let message = finish(&mut world.rank(0, "score karate", &[])).error(2);
    assert!(message.contains("--ranks"), "{message}");
    finish(&mut world.rank(0, "score karate --ranks 2", &[])).ok();
}

/// A rank that is stopped keeps its connections: the others wait for the deadline, no longer, and name it.
#[test]
fn a_stopped_rank_is_named_after_the_deadline() {
    let world = World::new(3);
    let words = "solve --method policy ba:20000:8 --path free-first-layer --timeout 8";
    let start = |rank| {
        let mut command = world.rank(rank, words, &[]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut ranks: Vec<Child> = (0..3).map(start).collect();
    thread::sleep(Duration::from_millis(3000));
    stop(&ranks[1]);
    let mut messages = Vec::new();
    for rank in [0, 2] {
        messages.push(lost_rank_message(&mut ranks[rank]));
    }
    ranks[1].kill().unwrap();
    wait(&mut ranks[1]);
    let names = |text: &String| text.contains("timed out after 8s: ranks [1]");
    assert!(messages.iter().all(names), "{messages:?}");
}
