//! Training of every problem: ranks, resumed runs, weighted files.

use super::*;

fn small(problem: &Problem, steps: u64) -> TrainConfig {
    TrainConfig {
        problem: problem.name.to_string(),
        steps,
        batch_size: 8,
        embed_dim: 6,
        graphs: vec!["er:20:0.2".to_string(), "er:40:0.1".to_string()],
        graphs_per_generator: 3,
        checkpoint_steps: 20,
        target_sync_steps: 15,
        epsilon_decay_steps: 30,
        ..TrainConfig::default()
    }
}

fn bits(outcome: &TrainOutcome) -> Vec<u32> {
    let params = outcome.policy.params.flat().iter();
    params.map(|x| x.to_bits()).collect()
}

#[test]
fn ranks_train_the_same_bits_for_every_problem() {
    for problem in PROBLEMS {
        let config = small(problem, 40);
        let want = train(&config, &RunOptions::default(), &mut |_| ()).unwrap();
        assert!(want.reports.iter().any(|report| report.loss.is_some()));
        assert!(want.reports.iter().any(|report| report.ended_episode()));
        for n_ranks in 2..=6 {
            let options = RunOptions {
                n_ranks,
                ..RunOptions::default()
            };
            let got = train(&config, &options, &mut |_| ()).unwrap();
            assert_eq!(bits(&got), bits(&want), "{problem:?}, {n_ranks} ranks");
            assert_eq!(got.reports, want.reports);
        }
        let processes = tcp::run(3, |mut comm| {
            train_as_rank(&mut comm, &config, &RunOptions::default(), &mut |_| ())
        });
        for outcome in processes {
            assert_eq!(bits(&outcome.unwrap().unwrap()), bits(&want));
        }
    }
}

/// A resumed run knows its problem from the checkpoint; one that is told another is refused.
#[test]
fn resumed_runs_go_on_with_their_problem() {
    for problem in PROBLEMS {
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let in_folder = |folder: &std::path::Path, resume| RunOptions {
            folder: Some(folder.to_path_buf()),
            resume,
            ..RunOptions::default()
        };
        let run = |config: &TrainConfig, options: &RunOptions| train(config, options, &mut |_| ());
        let want = run(&small(problem, 60), &in_folder(whole.path(), false)).unwrap();
        run(&small(problem, 27), &in_folder(parts.path(), false)).unwrap();
        let on = in_folder(parts.path(), true);
        let to_60 = TrainConfig {
            steps: 60,
            ..TrainConfig::default()
        };
        let other: &'static Problem = match problem.name {
            "cut" => &MAXIMUM_CLIQUE,
            _ => &MAXIMUM_CUT,
        };
        let given = RunOptions {
            problem: Some(other),
            ..on.clone()
        };
        let refused = run(&to_60, &given).unwrap_err();
        assert_eq!(refused.class(), Class::Input);
        let names = [problem.name, other.name];
        assert!(
            names.iter().all(|name| refused.to_string().contains(name)),
            "{refused}"
        );
        let got = run(&to_60, &on).unwrap();
        assert_eq!(bits(&got), bits(&want), "{problem:?}");
        let read = |folder: &std::path::Path, name: &str| std::fs::read(folder.join(name)).unwrap();
        for name in ["metrics.jsonl", "policy.safetensors"] {
            assert_eq!(read(parts.path(), name), read(whole.path(), name), "{name}");
        }
        let policy = TrainedPolicy::read(&parts.path().join("policy.safetensors")).unwrap();
        // A cover is learnt as the complement of an independent set.
        let learnt = match problem.name == MINIMUM_VERTEX_COVER.name {
            true => &MAXIMUM_INDEPENDENT_SET,
            false => problem,
        };
        assert_eq!(policy.config.problem, learnt.name);
        assert_eq!(policy.params.flat(), want.policy.params.flat());
        policy.check_problem(learnt).unwrap();
    }
}

#[test]
fn weighted_files_train_cuts() {
    let folder = tempfile::tempdir().unwrap();
    let train_on = |last: &str| {
        let file = folder.path().join("g.mtx");
        let head =
            "%%MatrixMarket matrix coordinate real symmetric\n4 4 4\n2 1 2.5\n3 2 -1\n4 3 1\n";
        std::fs::write(&file, format!("{head}4 1 {last}\n")).unwrap();
        let config = TrainConfig {
            graphs: vec![file.display().to_string()],
            valid_steps: 0,
            ..small(&MAXIMUM_CUT, 30)
        };
        train(&config, &RunOptions::default(), &mut |_| ())
    };
    let (one, other) = (train_on("0.5").unwrap(), train_on("0.75").unwrap());
    assert!(one.reports.iter().any(|report| report.loss.is_some()));
    assert_ne!(bits(&one), bits(&other), "weights are read");
    let found = one.reports.iter().find_map(|report| report.objective);
    assert!(
        found.is_some_and(|weight| (0.5..=4.0).contains(&weight)),
        "{found:?}"
    );
    let costly = folder.path().join("n.mtx");
    let text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 -1\n";
    std::fs::write(&costly, text).unwrap();
    let config = TrainConfig {
        graphs: vec![costly.display().to_string()],
        ..small(&MAXIMUM_CUT, 30)
    };
    let error = train(&config, &RunOptions::default(), &mut |_| ()).unwrap_err();
    assert!(
        error.to_string().contains("maximum cut has no step"),
        "{error}"
    );
}

/// Another weight is another graph: a run does not go on with it.
#[test]
fn a_changed_weight_is_told_on_resuming() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("g.mtx"), folder.path().join("run"));
    let write = |weight: &str| {
        let head = "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 2.5\n";
        std::fs::write(&file, format!("{head}3 2 {weight}\n")).unwrap();
    };
    let run = |steps, resume| {
        let config = TrainConfig {
            graphs: vec![file.display().to_string()],
            ..small(&MAXIMUM_CUT, steps)
        };
        let options = RunOptions {
            folder: Some(out.clone()),
            resume,
            ..RunOptions::default()
        };
        train(&config, &options, &mut |_| ())
    };
    write("1");
    run(10, false).unwrap();
    write("1.5");
    let error = run(20, true).unwrap_err().to_string();
    assert!(
        error.contains("is not the graph that the run was started with"),
        "{error}"
    );
    write("1");
    run(20, true).unwrap();
}
