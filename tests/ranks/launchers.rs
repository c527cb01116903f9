//! Processes with the variables that `srun` and `torchrun` set. Nothing of SLURM or PyTorch takes part.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::process::Command;

use shardgraph_collectives::Launch;

use crate::program::{command, run};
use crate::ranks::processes::{finish_all, free_port, is_free};

const SOLVE: &str = "solve --method policy er:300:0.1 --seed 2 --timeout 60 --out {}";

type Vars = Vec<(&'static str, String)>;

/// As `srun -n SIZE` sets them on one node, for all tasks and for one of them.
fn slurm(job: u32, size: u32, rank: u32) -> Vars {
    let (size, rank) = (size.to_string(), rank.to_string());
    let mut vars: Vars = [
        "SLURM_NTASKS",
        "SLURM_NPROCS",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_TASKS_PER_NODE",
        "SLURM_STEP_TASKS_PER_NODE",
    ]
    .map(|name| (name, size.clone()))
    .into();
    vars.extend(["SLURM_PROCID", "SLURM_LOCALID"].map(|name| (name, rank.clone())));
    vars.extend(["SLURM_JOB_ID", "SLURM_JOBID"].map(|name| (name, job.to_string())));
    let rest = [
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEPID", "0"),
        ("SLURM_NODEID", "0"),
        ("SLURM_NNODES", "1"),
        ("SLURM_STEP_NUM_NODES", "1"),
        ("SLURM_JOB_NODELIST", "localhost"),
        ("SLURM_NODELIST", "localhost"),
        ("SLURM_STEP_NODELIST", "localhost"),
        ("SLURM_CPU_BIND", "quiet,mask_cpu:0x1"),
        ("SLURM_MPI_TYPE", "none"),
    ];
    vars.extend(rest.map(|(name, value)| (name, value.to_owned())));
    vars
}

/// As `torchrun --nproc-per-node SIZE` sets them.
fn torchrun(address: &str, port: u16, size: u32, rank: u32) -> Vars {
    let (size, rank) = (size.to_string(), rank.to_string());
    let mut vars: Vars = ["WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"]
        .map(|name| (name, size.clone()))
        .into();
    vars.extend(["RANK", "LOCAL_RANK", "ROLE_RANK"].map(|name| (name, rank.clone())));
    let rest = [
        ("GROUP_RANK", "0"),
        ("MASTER_ADDR", address),
        ("MASTER_PORT", &port.to_string()),
        ("TORCHELASTIC_RUN_ID", "none"),
        ("TORCHELASTIC_RESTART_COUNT", "0"),
        ("TORCHELASTIC_MAX_RESTARTS", "0"),
        ("TORCHELASTIC_USE_AGENT_STORE", "False"),
        ("OMP_NUM_THREADS", "1"),
    ];
    vars.extend(rest.map(|(name, value)| (name, value.to_owned())));
    vars
}

/// Solves once alone and once with so many processes: the same bytes, and only rank 0 prints.
fn check(size: u32, vars: impl Fn(u32) -> Vars) {
    let folder = tempfile::tempdir().unwrap();
    let (one, many) = (folder.path().join("one"), folder.path().join("many"));
    run(SOLVE, &[&one]).ok();
    let rank = |rank| {
        let mut started: Command = command(SOLVE, &[&many]);
        started.envs(vars(rank));
        started
    };
    let runs = finish_all((0..size).map(rank).collect());
    for (rank, run) in runs.into_iter().enumerate() {
        let run = run.ok();
        match rank {
            0 => assert_eq!(run.line("ranks"), size.to_string()),
            _ => assert_eq!(run.stdout, "", "rank {rank}"),
        }
    }
    assert_eq!(fs::read(&many).unwrap(), fs::read(&one).unwrap());
}

/// The tasks of a step meet on its first node, at a port made from the numbers of job and step.
#[test]
fn tasks_of_a_slurm_step_are_ranks() {
    let port = |job: &u32| {
        let launch = Launch::from_vars(slurm(*job, 2, 0)).unwrap().unwrap();
        launch.meeting_point.unwrap().1
    };
    for size in [2, 3] {
        // A job is taken whose port nobody has.
        let first = 700_000 + std::process::id() % 100_000 + 12_000 * size;
        let job = (first..).find(|job| is_free(&port(job))).unwrap();
        check(size, |rank| slurm(job, size, rank));
    }
}

/// A batch script has the job's variables and no step: one process, one rank.
#[test]
fn a_slurm_script_outside_of_a_step_is_alone() {
    let mut outside = command("solve --method policy karate", &[]);
    let vars = slurm(815, 4, 0).into_iter();
    outside.envs(vars.filter(|(name, _)| !name.contains("STEP") && *name != "SLURM_PROCID"));
    let answer = crate::program::finish(&mut outside).ok();
    assert_eq!(answer.line("ranks"), "1");
}

/// Else every process would do all of the work and write the same files.
#[test]
fn commands_without_ranks_refuse_to_be_started_twice() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.npy");
    for words in [
        "embed karate --dim 4 --epochs 1 --out {}",
        "embed import karate --out {}",
        "generate er:10:0.5 --output-format edges --out {}",
        "convert karate --output-format edges {}",
        "rgcn info ba-rel:60:2:2",
        "rgcn plan ba-rel:60:2:2",
        "info karate",
        "eval karate",
        "score karate",
        "place costgraph:1",
        "agent eval cartpole-dqn --model x",
    ] {
        let paths: &[&std::path::Path] = match words.contains("{}") {
            true => &[&out],
            false => &[],
        };
        let mut second = command(words, paths);
        second.envs(torchrun("127.0.0.1", 9, 2, 1));
        let message = crate::program::finish(&mut second).error(2);
        assert!(
            message.contains("started 2 processes"),
            "{words}: {message}"
        );
        assert!(!out.exists(), "{words}");
    }
}

#[test]
fn processes_of_torchrun_are_ranks() {
    for size in [2, 3] {
        let port = free_port();
        check(size, |rank| torchrun("127.0.0.1", port, size, rank));
    }
}

/// Where torchrun's agent holds `MASTER_PORT` itself, the ranks meet beside it.
#[test]
fn the_port_of_torchruns_own_store_is_left_to_it() {
    let next_is_free = |port: &u16| is_free(&(port + 1));
    let port = std::iter::repeat_with(free_port)
        .find(next_is_free)
        .unwrap();
    let _store = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    check(2, |rank| {
        let mut vars = torchrun("127.0.0.1", port, 2, rank);
        vars.push(("TORCHELASTIC_USE_AGENT_STORE", "True".to_owned()));
        vars
    });
}

#[test]
fn ranks_meet_at_an_ipv6_address_with_and_without_brackets() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("SKIPPED: ranks that meet over IPv6 (this machine has no ::1)");
        return;
    }
    for address in ["::1", "[::1]"] {
        let port = free_port();
        check(2, |rank| torchrun(address, port, 2, rank));
    }
    // Which form it is does not matter to the others.
    let port = free_port();
    check(3, |rank| {
        torchrun(["[::1]", "::1"][rank as usize % 2], port, 3, rank)
    });
}
