//! F1 of classes, and the one-vs-rest classifier that predicts them.

use serde::Serialize;

use crate::Logistic;

/// Micro and macro F1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct F1 {
    /// Over all decisions together.
    pub micro: f64,
    /// Mean over the classes that a node has or is predicted to have.
    #[serde(rename = "macro")]
    pub mean: f64,
}

/// Counts of right and wrong decisions for each class.
///
/// ```
/// use shardgraph_metrics::F1Counts;
///
/// let mut counts = F1Counts::new(2);
/// counts.add(&[0], &[0]);
/// counts.add(&[1], &[0]);
/// let f1 = counts.f1();
/// assert!((f1.micro - 0.5).abs() < 1e-12 && (f1.mean - 1.0 / 3.0).abs() < 1e-12);
/// ```
#[derive(Clone, Debug)]
pub struct F1Counts {
    classes: Vec<ClassCounts>,
}

/// Counts of one class.
#[derive(Clone, Copy, Debug, Default)]
struct ClassCounts {
    true_positives: u64,
    false_positives: u64,
    positives: u64,
}

impl ClassCounts {
    /// 2 tp / (2 tp + fp + fn).
    fn f1(self) -> f64 {
        match self.true_positives + self.false_positives + self.positives {
            0 => 0.0,
            n => 2.0 * self.true_positives as f64 / n as f64,
        }
    }
}

impl F1Counts {
    /// Zero counts of `n_classes` classes.
    #[must_use]
    pub fn new(n_classes: usize) -> F1Counts {
        F1Counts {
            classes: vec![ClassCounts::default(); n_classes],
        }
    }

    /// Counts one node: its classes and those predicted for it.
    ///
    /// # Panics
    /// For a class that is not below the number of classes.
    pub fn add(&mut self, own: &[u32], predicted: &[u32]) {
        for class in predicted {
            let counts = &mut self.classes[*class as usize];
            match own.contains(class) {
                true => counts.true_positives += 1,
                false => counts.false_positives += 1,
            }
        }
        for &class in own {
            self.classes[class as usize].positives += 1;
        }
    }

    /// Both means of what was counted.
    #[must_use]
    pub fn f1(&self) -> F1 {
        let mut total = ClassCounts::default();
        for class in &self.classes {
            total.true_positives += class.true_positives;
            total.false_positives += class.false_positives;
            total.positives += class.positives;
        }
        let is_seen = |class: &&ClassCounts| class.false_positives + class.positives > 0;
        let seen = self.classes.iter().filter(is_seen);
        let scores: Vec<f64> = seen.map(|class| class.f1()).collect();
        F1 {
            micro: total.f1(),
            mean: scores.iter().sum::<f64>() / scores.len().max(1) as f64,
        }
    }
}

/// One logistic regression for each class, fitted against all other classes.
///
/// ```
/// use shardgraph_metrics::OneVsRest;
///
/// let rows = [0.0, 1.0, 2.0, 3.0];
/// let classes: [&[u32]; 4] = [&[0], &[0], &[1], &[1]];
/// let fitted = OneVsRest::fit(&rows, &classes, 2, 1e-2);
/// assert_eq!(fitted.predict(&[2.5], 1), [1]);
/// ```
#[derive(Clone, Debug)]
pub struct OneVsRest {
    /// Absent classes have no regression.
    fitted: Vec<(u32, Logistic)>,
}

impl OneVsRest {
    /// Fits rows, each with its classes; a class without a row is never predicted.
    ///
    /// `l2` is the weight of the squares, as in [`Logistic::fit`].
    ///
    /// # Panics
    /// Unless the features are as many whole rows as there are lists of classes.
    #[must_use]
    pub fn fit(features: &[f32], classes: &[&[u32]], n_classes: u32, l2: f64) -> OneVsRest {
        let dim = features.len() / classes.len().max(1);
        let mut fitted = Vec::new();
        for class in 0..n_classes {
            let has: Vec<bool> = classes.iter().map(|own| own.contains(&class)).collect();
            if has.contains(&true) {
                fitted.push((class, Logistic::fit(features, &has, dim, l2)));
            }
        }
        OneVsRest { fitted }
    }

    /// The `k` classes of the largest log-odds; equal ones by number.
    #[must_use]
    pub fn predict(&self, row: &[f32], k: usize) -> Vec<u32> {
        let score = |(class, logistic): &(u32, Logistic)| (logistic.score(row), *class);
        let mut scores: Vec<(f64, u32)> = self.fitted.iter().map(score).collect();
        scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scores.into_iter().take(k).map(|(_, class)| class).collect()
    }
}
