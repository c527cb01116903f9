//! Nodes to validate on: when training ends, whose parameters the model has, and resumed runs.

use super::*;

/// Settings under which validation ends training after a few epochs.
fn settings(mode: Mode) -> Config {
    Config {
        hidden: vec![8],
        bases: 3,
        dropout: 0.2,
        rate: 0.05,
        epochs: 60,
        patience: 4,
        mode,
        ..Config::default()
    }
}

#[test]
fn the_model_is_that_of_the_best_epoch_on_any_number_of_ranks() {
    let (graph, labels) = sorted_graph(3, 600);
    for mode in [Mode::Full, Mode::Pruned] {
        let config = settings(mode);
        let one = run(&graph, &labels, &config, 1);
        let n_epochs = one.reports.len() as u32;
        assert!(
            n_epochs == one.best_epoch + 4 && n_epochs < 60,
            "{n_epochs}"
        );
        let scores = |report: &EpochReport| report.valid.unwrap();
        let best = scores(&one.reports[one.best_epoch as usize - 1]);
        let is_better = |report: &EpochReport| scores(report).is_better_than(&best);
        assert!(!one.reports.iter().any(is_better));
        let valid = one.evaluation.valid.unwrap();
        assert_eq!(valid.accuracy.to_bits(), best.accuracy.to_bits());
        for n_ranks in [2, 3] {
            let several = run(&graph, &labels, &config, n_ranks);
            assert_eq!(losses(&several), losses(&one), "{n_ranks}");
            assert_eq!(several.params_hash, one.params_hash);
            assert_eq!(several.evaluation, one.evaluation);
            assert_eq!(several.times.len(), n_ranks as usize);
        }
        if mode == Mode::Full {
            let fixed = Config {
                epochs: one.best_epoch,
                patience: 0,
                ..config
            };
            let fixed = run(&graph, &labels, &fixed, 1);
            assert_eq!(fixed.params_hash, one.params_hash);
            assert_eq!(fixed.evaluation, one.evaluation);
        }
    }
}

/// The checkpoint lies behind the best epoch, and before it.
#[test]
fn a_resumed_run_keeps_the_best_epoch() {
    let (graph, labels) = sorted_graph(3, 600);
    let config = settings(Mode::Pruned);
    let whole = run(&graph, &labels, &config, 1);
    for epochs in [whole.best_epoch + 2, whole.best_epoch - 1] {
        let folder = tempfile::tempdir().unwrap();
        let options = |resume, n_ranks| RunOptions {
            folder: Some(folder.path().into()),
            resume,
            n_ranks,
            ..RunOptions::default()
        };
        let shorter = Config {
            epochs,
            ..config.clone()
        };
        train(&graph, &labels, &shorter, &options(false, 2), &mut |_| {}).unwrap();
        for n_ranks in [3, 1] {
            // The second time nothing is left to do.
            let options = options(true, n_ranks);
            let resumed = train(&graph, &labels, &config, &options, &mut |_| {}).unwrap();
            assert_eq!(resumed.params_hash, whole.params_hash);
            assert_eq!(resumed.best_epoch, whole.best_epoch);
            assert_eq!(resumed.evaluation, whole.evaluation);
            assert_eq!(resumed.reports.is_empty(), n_ranks == 1);
        }
        let saved = evaluate(&graph, folder.path(), &labels, Timeout::default()).unwrap();
        assert_eq!(saved, whole.evaluation);
        let of_run = run_config(folder.path()).unwrap();
        assert_eq!(of_run.epochs, whole.best_epoch);
    }
}

#[test]
fn validation_needs_nodes() {
    let (graph, labels) = sorted_graph(3, 600);
    let none = Labels::new(2, labels.train().to_vec(), vec![], vec![]).unwrap();
    let config = settings(Mode::Full);
    let refused = train(&graph, &none, &config, &RunOptions::default(), &mut |_| {});
    let message = refused.unwrap_err().to_string();
    assert!(message.starts_with("patience = 4: expected 0"), "{message}");
    let held = none.hold_back(0.2, 7).unwrap();
    assert_eq!((held.train().len(), held.valid().len()), (48, 12));
    assert_eq!(held, none.hold_back(0.2, 7).unwrap());
    assert_ne!(held, none.hold_back(0.2, 8).unwrap());
    let all = |labels: &Labels| {
        let mut all = [labels.train(), labels.valid()].concat();
        all.sort_unstable();
        all
    };
    assert_eq!(all(&held), all(&none));
    for share in [0.0, 1.0, f64::NAN, 1e-3] {
        assert!(none.hold_back(share, 7).is_err(), "{share}");
    }
    assert!(held.hold_back(0.2, 7).is_err());
}
