//! The ranks of one job as processes that meet over TCP, started as torchrun starts them, and what happens to them.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::{self, Children, Stopwatch};

/// Longer than anything here takes, also on a busy machine.
pub(crate) const LIMIT_S: f64 = 300.0;

/// Processes of one job; those that still run when this goes away are killed.
pub(crate) struct Ranks {
    processes: Children,
    /// Where each one's standard error goes.
    stderr: Vec<PathBuf>,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) rank: usize,
    /// Absent after a signal.
    pub(crate) exit_code: Option<i32>,
    pub(crate) stderr: String,
    /// From when it was waited for.
    pub(crate) seconds: f64,
}

impl Ranks {
    /// Starts a program without a launcher: one process, whose ranks are threads.
    pub(crate) fn alone(program: &Path, words: &[String], scratch: &Path) -> Result<Ranks> {
        Ranks::start(program, words, scratch, &[&[]])
    }

    /// Starts as many processes as there are to be ranks.
    pub(crate) fn over_tcp(
        program: &Path,
        words: &[String],
        scratch: &Path,
        n_ranks: usize,
    ) -> Result<Ranks> {
        let (port, size) = (free_port()?.to_string(), n_ranks.to_string());
        let numbers: Vec<String> = (0..n_ranks).map(|rank| rank.to_string()).collect();
        let variables: Vec<[(&str, &str); 4]> = numbers
            .iter()
            .map(|rank| {
                [
                    ("RANK", rank.as_str()),
                    ("WORLD_SIZE", &size),
                    ("MASTER_ADDR", "127.0.0.1"),
                    ("MASTER_PORT", &port),
                ]
            })
            .collect();
        let variables: Vec<&[(&str, &str)]> = variables.iter().map(|v| v.as_slice()).collect();
        Ranks::start(program, words, scratch, &variables)
    }

    /// Starts one of two ranks, in a folder of its own; `at` is its number and the port.
    pub(crate) fn one_of_two(
        program: &Path,
        words: &[String],
        scratch: &Path,
        at: (usize, u16),
    ) -> Result<Ranks> {
        fs::create_dir_all(scratch)?;
        let (rank, port) = (at.0.to_string(), at.1.to_string());
        let variables = [
            ("RANK", rank.as_str()),
            ("WORLD_SIZE", "2"),
            ("MASTER_ADDR", "127.0.0.1"),
            ("MASTER_PORT", &port),
        ];
        Ranks::start(program, words, scratch, &[&variables])
    }

    fn start(
        program: &Path,
        words: &[String],
        scratch: &Path,
        variables: &[&[(&str, &str)]],
    ) -> Result<Ranks> {
        let mut ranks = Ranks {
            processes: Children::default(),
            stderr: Vec::new(),
        };
        for (rank, variables) in variables.iter().enumerate() {
            let stderr = scratch.join(format!("rank-{rank}.stderr"));
            let mut command = process::command(program);
            command
                .args(words)
                .envs(variables.iter().copied())
                .stdout(File::create(scratch.join(format!("rank-{rank}.stdout")))?)
                .stderr(File::create(&stderr)?);
            let started = command.spawn();
            ranks
                .processes
                .push(started.with_context(|| process::shown(&command))?);
            ranks.stderr.push(stderr);
        }
        Ok(ranks)
    }

    /// Waits until a file holds a text; an error where the job is over before.
    pub(crate) fn wait_for(&mut self, file: &Path, text: &str) -> Result<()> {
        let watch = Stopwatch::start();
        while !fs::read_to_string(file).is_ok_and(|found| found.contains(text)) {
            for rank in 0..self.processes.len() {
                if self.processes[rank].try_wait()?.is_some() {
                    let ended = self.ended(rank, watch.seconds())?;
                    bail!("the job ended too early: {ended:?}");
                }
            }
            ensure!(
                watch.seconds() < LIMIT_S,
                "{} never said {text:?}",
                file.display()
            );
            nap();
        }
        Ok(())
    }

    /// Kills a process as `kill -9` does; true if it was still running.
    pub(crate) fn kill(&mut self, rank: usize) -> Result<bool> {
        let process = &mut self.processes[rank];
        if process.try_wait()?.is_some() {
            return Ok(false);
        }
        process.kill()?;
        Ok(process.wait()?.code().is_none())
    }

    /// Kills all processes; true if one was still running.
    pub(crate) fn kill_all(&mut self) -> Result<bool> {
        for process in self.processes.iter_mut() {
            process.kill()?;
        }
        let mut was_running = false;
        for process in self.processes.iter_mut() {
            was_running |= process.wait()?.code().is_none();
        }
        Ok(was_running)
    }

    /// Stops a process as `kill -STOP` does: it stays, with its connections, and does nothing.
    pub(crate) fn stop(&self, rank: usize) -> Result<()> {
        let id = self.processes[rank].id().to_string();
        process::check(process::command("kill").args(["-STOP", &id]))
    }

    /// Waits until all but `victim` have ended; an error where one does not.
    pub(crate) fn survivors(&mut self, victim: Option<usize>) -> Result<Vec<Ended>> {
        let others: Vec<usize> = (0..self.processes.len())
            .filter(|rank| Some(*rank) != victim)
            .collect();
        let watch = Stopwatch::start();
        let (mut running, mut ended) = (others, Vec::new());
        while !running.is_empty() {
            let mut still = Vec::new();
            for rank in running {
                match self.processes[rank].try_wait()? {
                    Some(_) => ended.push(self.ended(rank, watch.seconds())?),
                    None => still.push(rank),
                }
            }
            running = still;
            ensure!(
                watch.seconds() < LIMIT_S,
                "ranks {running:?} hang: they run {LIMIT_S} s after the fault"
            );
            nap();
        }
        ended.sort_by_key(|one| one.rank);
        Ok(ended)
    }

    fn ended(&mut self, rank: usize, seconds: f64) -> Result<Ended> {
        let status: Option<ExitStatus> = self.processes[rank].try_wait()?;
        Ok(Ended {
            rank,
            exit_code: status.and_then(|status| status.code()),
            stderr: fs::read_to_string(&self.stderr[rank])?,
            seconds,
        })
    }
}

fn nap() {
    std::thread::sleep(Duration::from_millis(1));
}

/// A port that nobody listens on, below those that the system gives away by itself.
pub(crate) fn free_port() -> Result<u16> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own_part = std::process::id().wrapping_mul(61);
    for _ in 0..12_000 {
        let step = own_part.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(20_000 + step % 12_000)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port from 20000 to 31999 is free")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    fn ranks_of_script(script: &str, n_ranks: usize, name: &str) -> (Ranks, PathBuf) {
        let name = format!("xtask-ranks-{name}-{}", std::process::id());
        let scratch = paths::target().join(name);
        fs::create_dir_all(&scratch).unwrap();
        let words = ["-c".to_owned(), script.to_owned()];
        let ranks = Ranks::over_tcp(Path::new("/bin/sh"), &words, &scratch, n_ranks).unwrap();
        (ranks, scratch)
    }

    #[test]
    fn ranks_have_numbers_and_end_apart() {
        let script = "echo \"rank $RANK of $WORLD_SIZE\" >&2; exit $RANK";
        let (mut ranks, scratch) = ranks_of_script(script, 3, "numbers");
        let ended = ranks.survivors(Some(0)).unwrap();
        let codes: Vec<_> = ended.iter().map(|e| (e.rank, e.exit_code)).collect();
        assert_eq!(codes, [(1, Some(1)), (2, Some(2))]);
        assert_eq!(ended[1].stderr, "rank 2 of 3\n");
        assert!(!ranks.kill(1).unwrap(), "it was over");
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn a_kill_is_seen_and_a_stopped_process_can_be_killed() {
        let (mut ranks, scratch) = ranks_of_script("echo on >&2; exec sleep 600", 2, "kills");
        ranks
            .wait_for(&scratch.join("rank-0.stderr"), "on")
            .unwrap();
        assert!(ranks.kill(0).unwrap());
        ranks.stop(1).unwrap();
        assert!(ranks.kill_all().unwrap());
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn a_job_that_is_over_is_not_waited_for() {
        let (mut ranks, scratch) = ranks_of_script("exit 7", 1, "over");
        let error = ranks.wait_for(&scratch.join("none"), "x").unwrap_err();
        assert!(error.to_string().contains("Some(7)"), "{error}");
        fs::remove_dir_all(scratch).unwrap();
    }
}
