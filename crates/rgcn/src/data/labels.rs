//! The classes of some nodes: those to learn from, those to choose settings by, and those to test
//! on.

use std::collections::BTreeSet;

use shardgraph_random::KeyedRng;

use crate::{Error, RelationalGraph};

/// The classes of some nodes, in three sets that share no node.
///
/// ```
/// use shardgraph_rgcn::Labels;
///
/// let labels = Labels::new(2, vec![(0, 1), (4, 0)], vec![(2, 1)], vec![])?;
/// assert_eq!((labels.n_classes(), labels.train().len(), labels.test()), (2, 2, &[(2, 1)][..]));
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    n_classes: u32,
    train: Vec<(u32, u32)>,
    test: Vec<(u32, u32)>,
    valid: Vec<(u32, u32)>,
}

impl Labels {
    /// Labels as (node, class), for classes 0..`n_classes`.
    ///
    /// # Errors
    /// [`Error::Labels`] where there are fewer than two classes, a class is out of range or has no
    /// node to learn from, or a node is there twice.
    pub fn new(
        n_classes: u32,
        train: Vec<(u32, u32)>,
        test: Vec<(u32, u32)>,
        valid: Vec<(u32, u32)>,
    ) -> Result<Labels, Error> {
        let refuse = |message: String| Err(Error::new(Error::Labels, message));
        if n_classes < 2 {
            return refuse(format!("{n_classes} classes: expected 2 or more"));
        }
        let mut nodes = BTreeSet::new();
        for &(node, class) in train.iter().chain(&test).chain(&valid) {
            if class >= n_classes {
                return refuse(format!(
                    "node {node} has class {class}: expected one below {n_classes}"
                ));
            }
            if !nodes.insert(node) {
                return refuse(format!("node {node} has two labels: expected one"));
            }
        }
        let learnt: BTreeSet<u32> = train.iter().map(|&(_, class)| class).collect();
        if let Some(class) = (0..n_classes).find(|class| !learnt.contains(class)) {
            return refuse(format!(
                "class {class} has no training node: expected one or more"
            ));
        }
        Ok(Labels {
            n_classes,
            train,
            test,
            valid,
        })
    }

    /// The same labels with a share of each class's training nodes held back, drawn at random, to
    /// validate on; a class keeps one or more.
    ///
    /// # Errors
    /// [`Error::Labels`] for a share that is not between 0 and 1, where there are nodes to validate
    /// on already, and where nothing can be held back.
    ///
    /// ```
    /// use shardgraph_rgcn::Labels;
    ///
    /// let labels = Labels::new(2, (0..20).map(|node| (node, node % 2)).collect(), vec![], vec![])?;
    /// let held = labels.hold_back(0.2, 1)?;
    /// assert_eq!((held.train().len(), held.valid().len()), (16, 4));
    /// # Ok::<(), shardgraph_rgcn::Error>(())
    /// ```
    pub fn hold_back(&self, share: f64, seed: u64) -> Result<Labels, Error> {
        let refuse = |message: String| Err(Error::new(Error::Labels, message));
        if !(share > 0.0 && share < 1.0) {
            return refuse(format!("share {share}: expected one between 0 and 1"));
        }
        if !self.valid.is_empty() {
            let n = self.valid.len();
            return refuse(format!(
                "{n} nodes to validate on: expected none to hold back"
            ));
        }
        let (mut train, mut valid) = (Vec::new(), Vec::new());
        for class in 0..self.n_classes {
            let of_class = self.train.iter().filter(|&&(_, other)| other == class);
            let mut of_class: Vec<(u32, u32)> = of_class.copied().collect();
            of_class.sort_unstable();
            KeyedRng::new(seed, "rgcn hold back", class.into()).shuffle(&mut of_class);
            let n = (share * of_class.len() as f64).round() as usize;
            let kept = of_class.split_off(n.min(of_class.len() - 1));
            valid.extend(of_class);
            train.extend(kept);
        }
        if valid.is_empty() {
            let n = self.train.len();
            return refuse(format!(
                "share {share} of {n} training nodes holds none back, as each class keeps one or more: expected a larger share, or more labels"
            ));
        }
        Labels::new(self.n_classes, train, self.test.clone(), valid)
    }

    /// Refuses labels of nodes that the graph has not.
    ///
    /// # Errors
    /// [`Error::Labels`] with the first such node.
    pub fn check_nodes(&self, graph: &RelationalGraph) -> Result<(), Error> {
        let n_nodes = graph.n_nodes();
        let mut all = self.train.iter().chain(&self.test).chain(&self.valid);
        match all.find(|&&(node, _)| node >= n_nodes) {
            None => Ok(()),
            Some((node, _)) => {
                let message = format!("label of node {node}: expected a node below {n_nodes}");
                Err(Error::new(Error::Labels, message))
            }
        }
    }

    /// The number of classes.
    #[must_use]
    pub fn n_classes(&self) -> u32 {
        self.n_classes
    }

    /// (node, class) to learn from.
    #[must_use]
    pub fn train(&self) -> &[(u32, u32)] {
        &self.train
    }

    /// (node, class) that training never sees.
    #[must_use]
    pub fn test(&self) -> &[(u32, u32)] {
        &self.test
    }

    /// (node, class) to choose settings by; may be empty.
    #[must_use]
    pub fn valid(&self) -> &[(u32, u32)] {
        &self.valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_cannot_be_right_are_refused() {
        let refused = |n_classes, train: &[(u32, u32)], test: &[(u32, u32)]| {
            let made = Labels::new(n_classes, train.into(), test.into(), Vec::new());
            made.unwrap_err().to_string()
        };
        assert_eq!(refused(1, &[(0, 0)], &[]), "1 classes: expected 2 or more");
        assert!(refused(2, &[(0, 0), (1, 2)], &[]).starts_with("node 1 has class 2"));
        assert!(refused(2, &[(0, 0), (1, 1)], &[(1, 1)]).starts_with("node 1 has two labels"));
        assert!(refused(2, &[(0, 0)], &[(1, 1)]).starts_with("class 1 has no training node"));
    }

    #[test]
    fn a_node_that_the_graph_has_not_is_refused() {
        let labels = Labels::new(2, vec![(0, 0), (1, 1)], vec![(2, 0)], vec![]).unwrap();
        let graph = |n_nodes| RelationalGraph::new(n_nodes, 1, vec![], vec![], vec![]).unwrap();
        assert!(labels.check_nodes(&graph(3)).is_ok());
        assert!(labels.check_nodes(&graph(2)).is_err());
    }
}
