//! Tables of methods, their means, and settings that are tuned.

use shardgraph_costgraph::{DecoderKind, Graph, Objective};
use shardgraph_regal::{
    Comparison, ErrorKind, GeneticOptions, Grid, Method, PlaceOptions, Row, compare, place,
    summary, tune, tune_settings,
};

use crate::{graph, options, two, watched};

/// Tables of three graphs.
fn tables() -> Vec<Comparison> {
    let options = options(Method::Brkga, Objective::Runtime);
    let candidates = Comparison::usual();
    let table =
        |seed| watched(|watch| compare(&graph(40, seed), &two(None), &options, &candidates, watch));
    (0..3).map(|seed| table(seed).expect("a table")).collect()
}

#[test]
fn the_table_compares_with_the_paper_and_with_the_best() {
    for table in tables() {
        assert_eq!(table.rows.len(), Comparison::usual().len());
        let least = table.rows.iter().map(|row| row.runtime_ns).min().unwrap();
        for row in &table.rows {
            let gap = row.runtime_ns as f64 / least as f64 - 1.0;
            assert!((row.gap_to_best.unwrap() - gap).abs() < 1e-12);
            let improvement = 1.0 - row.runtime_ns as f64 / table.rows[0].runtime_ns as f64;
            assert!((row.improvement.unwrap() - improvement).abs() < 1e-12);
            assert!((row.seconds - 1.0).abs() < 1e-12);
        }
        assert_eq!(table.to_string().lines().count(), 1 + table.rows.len());
    }
}

#[test]
fn a_summary_has_the_means_of_the_graphs_fractions() {
    let tables = tables();
    let means = summary(&tables);
    assert_eq!(means.len(), tables[0].rows.len());
    assert_eq!((means[0].n_graphs, means[0].n_ties), (3, 3));
    for (i, mean) in means.iter().enumerate() {
        let rows: Vec<&Row> = tables.iter().map(|table| &table.rows[i]).collect();
        let gap = rows.iter().map(|row| row.gap.unwrap()).sum::<f64>() / 3.0;
        assert!((mean.gap.unwrap() - gap).abs() < 1e-12);
        let gains: Vec<f64> = rows.iter().map(|row| row.improvement.unwrap()).collect();
        let worst = gains.iter().copied().fold(f64::MAX, f64::min);
        assert!((mean.worst_improvement.unwrap() - worst).abs() < 1e-12);
        let n_wins = gains.iter().filter(|gain| **gain > 0.0).count() as u64;
        let n_losses = gains.iter().filter(|gain| **gain < 0.0).count() as u64;
        assert_eq!((mean.n_wins, mean.n_losses), (n_wins, n_losses));
        assert_eq!(mean.n_wins + mean.n_ties + mean.n_losses, 3);
    }
}

#[test]
fn settings_of_ones_own_are_tuned_as_those_of_a_grid() {
    let grid = Grid {
        population: vec![20, 50],
        elite_share: vec![0.2],
        mutant_share: vec![0.2],
        populations: vec![1],
        alpha: vec![1.0],
        beta: vec![1.0, 3.0],
    };
    let (graphs, options) = ([graph(40, 1)], options(Method::Brkga, Objective::Runtime));
    let of_grid = tune(&graphs, &two(None), &options, &grid).unwrap();
    let best: Vec<GeneticOptions> = of_grid.settings[..2].iter().map(|(s, _)| *s).collect();
    let again = tune_settings(&graphs, &two(None), &options, best).unwrap();
    assert_eq!(again.settings, of_grid.settings[..2]);
}

#[test]
fn tuning_ranks_every_setting_against_the_own_one() {
    let grid = Grid {
        population: vec![20, 50],
        elite_share: vec![0.2],
        mutant_share: vec![0.2],
        populations: vec![1],
        alpha: vec![1.0, 4.0],
        beta: vec![1.0],
    };
    let graphs = [graph(40, 1), graph(40, 2)];
    let options = PlaceOptions {
        decoder: Some(DecoderKind::Paper),
        ..options(Method::Brkga, Objective::Runtime)
    };
    let tuned = tune(&graphs, &two(None), &options, &grid).unwrap();
    assert_eq!(tuned.settings.len(), 4);
    assert!(tuned.settings.is_sorted_by_key(|(_, mean)| *mean));
    let own = tuned
        .settings
        .iter()
        .find(|(setting, _)| *setting == GeneticOptions::default());
    assert!((own.unwrap().1 - 1.0).abs() < 1e-12);
    // The best is what it says: searching with it gives that mean.
    let (best, mean) = tuned.settings[0];
    let value = |graph: &Graph, genetic| {
        place(
            graph,
            &two(None),
            &PlaceOptions {
                genetic,
                ..options.clone()
            },
        )
        .unwrap()
        .value()
    };
    let ratios = graphs
        .iter()
        .map(|g| value(g, best) as f64 / value(g, options.genetic) as f64);
    assert!((ratios.sum::<f64>() / 2.0 - mean).abs() < 1e-12);
}

#[test]
fn the_grid_has_every_combination_once() {
    let settings = Grid::default().settings(&GeneticOptions::default());
    assert_eq!(settings.len(), 648);
    for (i, setting) in settings.iter().enumerate() {
        assert!(!settings[..i].contains(setting));
        setting.config(5000, 1).check().unwrap();
    }
}

#[test]
fn wrong_options_are_named() {
    let graph = graph(5, 1);
    let message = |change: fn(&mut PlaceOptions)| {
        let mut options = options(Method::Brkga, Objective::Runtime);
        change(&mut options);
        place(&graph, &two(None), &options).unwrap_err().to_string()
    };
    assert_eq!(
        message(|o| o.evaluations = 0),
        "evaluations = 0: expected at least 1"
    );
    assert_eq!(
        message(|o| o.threads = 0),
        "threads = 0: expected at least 1"
    );
    assert_eq!(
        message(|o| o.genetic.rho = 0.2),
        "rho = 0.2: expected a number of [0.5, 1)"
    );
    assert_eq!(
        message(|o| o.genetic.population = 0),
        "population = 0: expected at least 2"
    );
    assert!(message(|o| o.genetic.alpha = -1.0).contains("Beta(-1, 1)"));
    let limited = tune(
        &[graph],
        &two(Some(5)),
        &PlaceOptions::default(),
        &Grid::default(),
    );
    assert!(matches!(limited.unwrap_err().kind(), ErrorKind::Options(_)));
}
