//! The variables of each launcher, whole, half and wrong.

use shardgraph_collectives::{CommErrorKind, Launch, Launcher};

type Vars<'a> = &'a [(&'a str, &'a str)];

const OPEN_MPI: Vars<'_> = &[
    ("OMPI_COMM_WORLD_RANK", "3"),
    ("OMPI_COMM_WORLD_SIZE", "6"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ("PMIX_NAMESPACE", "1234"),
];
const MPICH: Vars<'_> = &[
    ("PMI_RANK", "0"),
    ("PMI_SIZE", "4"),
    ("MPI_LOCALRANKID", "0"),
    ("MPI_LOCALNRANKS", "4"),
];
const SLURM: Vars<'_> = &[
    ("SLURM_JOB_ID", "815"),
    ("SLURM_STEP_ID", "2"),
    ("SLURM_PROCID", "4"),
    ("SLURM_NTASKS", "12"),
    ("SLURM_STEP_NUM_TASKS", "6"),
    ("SLURM_LOCALID", "0"),
    ("SLURM_NODEID", "2"),
    ("SLURM_STEP_TASKS_PER_NODE", "3(x2),1"),
    ("SLURM_STEP_NODELIST", "node[07-09]"),
];
const TORCHRUN: Vars<'_> = &[
    ("RANK", "1"),
    ("WORLD_SIZE", "2"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "2"),
    ("MASTER_ADDR", "10.0.0.7"),
    ("MASTER_PORT", "29500"),
];

fn read(vars: &[Vars<'_>]) -> Launch {
    let launch = Launch::from_vars(vars.concat());
    launch.expect("whole").expect("a launcher is there")
}

fn error(vars: &[(&str, &str)]) -> String {
    let error = Launch::from_vars(vars.to_vec()).expect_err("not whole");
    assert!(
        matches!(error.kind(), CommErrorKind::Launch { .. }),
        "{error}"
    );
    error.to_string()
}

#[test]
fn each_launcher_is_understood() {
    for (vars, launcher, numbers, local_rank) in [
        (OPEN_MPI, Launcher::OpenMpi, (3, 6), Some(1)),
        (MPICH, Launcher::Mpich, (0, 4), Some(0)),
        (SLURM, Launcher::Slurm, (4, 6), Some(0)),
        (TORCHRUN, Launcher::Torchrun, (1, 2), Some(1)),
    ] {
        let launch = read(&[vars]);
        assert_eq!(launch.launcher, launcher);
        assert_eq!((launch.rank, launch.size), numbers, "{launcher}");
        assert_eq!(launch.local_rank, local_rank, "{launcher}");
    }
}

#[test]
fn the_first_launcher_counts() {
    let order = [OPEN_MPI, MPICH, SLURM, TORCHRUN];
    let launchers = [
        Launcher::OpenMpi,
        Launcher::Mpich,
        Launcher::Slurm,
        Launcher::Torchrun,
    ];
    for first in 0..4 {
        assert_eq!(read(&order[first..]).launcher, launchers[first]);
    }
}

/// `sbatch` sets the job's variables too, but starts one process.
#[test]
fn slurm_counts_only_inside_a_step() {
    let outside: Vec<_> = SLURM
        .iter()
        .filter(|(name, _)| !name.contains("STEP"))
        .copied()
        .collect();
    assert_eq!(Launch::from_vars(outside), Ok(None));
    assert_eq!(Launch::from_vars::<&str, &str>([]), Ok(None));
}

/// `srun` with PMI sets MPICH's variables as well; an `mpiexec` inside a job has helpers that
/// `srun` has started, and its ranks inherit theirs.
#[test]
fn ranks_of_srun_are_told_from_those_of_an_mpiexec_under_it() {
    let both = |rank, size| read(&[SLURM, &[("PMI_RANK", rank), ("PMI_SIZE", size)]]).launcher;
    let of_slurm = read(&[SLURM]);
    let (rank, size) = (of_slurm.rank.to_string(), of_slurm.size.to_string());
    assert_eq!(both(&rank, &size), Launcher::Slurm);
    assert_eq!(
        read(&[SLURM, &[("PMI_RANK", &rank)]]).launcher,
        Launcher::Slurm
    );
    assert_eq!(both(&rank, "999"), Launcher::Mpich);
    assert_eq!(both("998", "999"), Launcher::Mpich);
    // One helper a node, one rank a helper: the numbers are the same.
    for (name, value) in [("MPI_LOCALRANKID", "0"), ("HYDI_CONTROL_FD", "7")] {
        let vars = [("PMI_RANK", &rank[..]), ("PMI_SIZE", &size), (name, value)];
        assert_eq!(read(&[SLURM, &vars]).launcher, Launcher::Mpich);
    }
}

#[test]
fn the_meeting_point_is_given_or_made() {
    let meeting_point = |vars: &[Vars<'_>]| read(vars).meeting_point;
    let given = Some(("10.0.0.7".to_string(), 29500));
    assert_eq!(meeting_point(&[TORCHRUN]), given);
    assert_eq!(meeting_point(&[OPEN_MPI, &TORCHRUN[4..]]), given);
    for host in ["::1", "[::1]"] {
        let there = meeting_point(&[TORCHRUN, &[("MASTER_ADDR", host)]]);
        assert_eq!(there, Some(("::1".to_string(), 29500)));
    }
    assert_eq!(meeting_point(&[MPICH]), None);
    let (host, port) = meeting_point(&[SLURM]).unwrap();
    assert_eq!(host, "node07");
    assert!((20_000..32_000).contains(&port));
    assert_eq!(
        meeting_point(&[SLURM, &[("SLURM_PROCID", "1")]]),
        Some((host, port)),
        "the same for all ranks"
    );
    let other_step = meeting_point(&[SLURM, &[("SLURM_STEP_ID", "3")]]);
    assert_ne!(other_step.unwrap().1, port);
    let with_store: Vars<'_> = &[("TORCHELASTIC_USE_AGENT_STORE", "True")];
    assert_eq!(meeting_point(&[TORCHRUN, with_store]).unwrap().1, 29501);
}

#[test]
fn what_is_half_set_is_named_with_its_launcher() {
    for (vars, rank, launcher) in [
        (OPEN_MPI, "OMPI_COMM_WORLD_RANK", "Open MPI"),
        (OPEN_MPI, "OMPI_COMM_WORLD_SIZE", "Open MPI"),
        (MPICH, "PMI_RANK", "MPICH"),
        (MPICH, "PMI_SIZE", "MPICH"),
        (SLURM, "SLURM_PROCID", "SLURM"),
        (TORCHRUN, "RANK", "torchrun"),
        (TORCHRUN, "WORLD_SIZE", "torchrun"),
        (TORCHRUN, "MASTER_ADDR", "torchrun"),
        (TORCHRUN, "MASTER_PORT", "torchrun"),
    ] {
        let half: Vec<_> = vars
            .iter()
            .filter(|(name, _)| *name != rank)
            .copied()
            .collect();
        let text = error(&half);
        assert!(text.contains(rank) && text.contains(launcher), "{text}");
    }
    let text = error(&[SLURM, &[("MASTER_ADDR", "node07")]].concat());
    assert!(text.contains("MASTER_PORT"), "{text}");
    let text = error(&[TORCHRUN, &[("MASTER_ADDR", "")]].concat());
    assert!(text.contains("MASTER_ADDR"), "{text}");
}

#[test]
fn what_is_no_number_is_named() {
    for (vars, name, value) in [
        (OPEN_MPI, "OMPI_COMM_WORLD_RANK", "first"),
        (MPICH, "PMI_SIZE", "-4"),
        (SLURM, "SLURM_PROCID", "1.5"),
        (SLURM, "SLURM_STEP_NODELIST", "node[x]"),
        (TORCHRUN, "WORLD_SIZE", ""),
        (TORCHRUN, "MASTER_PORT", "0"),
        (TORCHRUN, "MASTER_PORT", "65536"),
        (TORCHRUN, "RANK", "2"),
        (TORCHRUN, "LOCAL_RANK", "x"),
    ] {
        let text = error(&[vars, &[(name, value)]].concat());
        assert!(text.contains(name) && text.contains(value), "{text}");
    }
}
