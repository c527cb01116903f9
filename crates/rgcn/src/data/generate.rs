//! Random relational graphs of the Barabasi-Albert model, each edge with a random attribute, as the
//! literature times R-GCN on.

use std::{fmt, str::FromStr};

use shardgraph_random::KeyedRng;

use crate::{Error, Labels, RelationalGraph};

/// The most edges that a graph is made with.
const MAX_EDGES: f64 = 2e8;

/// `ba-rel:NODES:EDGES_PER_NODE:RELATIONS`, attributes uniform, or with `:zipf` behind: attribute k
/// in proportion to 1 / (k + 1).
///
/// Each node joins earlier ones in proportion to their degree. The edges per node may be a
/// fraction: 2.5 gives 2 and 3 in turn.
///
/// ```
/// use shardgraph_rgcn::generate::RelationalSpec;
///
/// let spec: RelationalSpec = "ba-rel:1000:2.5:20:zipf".parse()?;
/// let graph = spec.graph(1)?;
/// assert_eq!((graph.n_nodes(), graph.n_relations()), (1000, 20));
/// assert!(graph.n_edges() > 2490 && graph.n_edges() <= 2500);
/// assert_eq!(graph, spec.graph(1)?);
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RelationalSpec {
    /// Nodes, 4 or more.
    pub n_nodes: u32,
    /// Edges that each node brings on average, 1 or more.
    pub edges_per_node: f64,
    /// Relations.
    pub n_relations: u32,
    /// True if relation k has a share in proportion to 1 / (k + 1); else all have the same.
    pub is_zipf: bool,
}

impl RelationalSpec {
    /// The begin of these graphs' names.
    pub const PREFIX: &'static str = "ba-rel:";

    /// The graph; its edges go from the later node to the earlier.
    ///
    /// # Errors
    /// [`Error::Config`] for values out of range.
    ///
    /// # Determinism
    /// Same specification and seed, same graph, on every machine.
    ///
    /// # Complexity
    /// Time O(edges log relations), memory 20 B an edge.
    pub fn graph(&self, seed: u64) -> Result<RelationalGraph, Error> {
        self.check()?;
        let mut stream = KeyedRng::new(seed, "relational Barabasi-Albert", 0);
        let shares = self.cumulated_shares();
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        // Every end of every edge: a uniform pick is one in proportion to degree.
        let mut ends: Vec<u32> = Vec::new();
        let mut joined: Vec<u32> = Vec::new();
        let mut last_joined = vec![0; self.n_nodes as usize];
        for node in 1..self.n_nodes {
            joined.clear();
            let n_new = self.edges_of(node).min(node) as usize;
            while joined.len() < n_new {
                let pick = match ends.is_empty() || n_new == node as usize {
                    // The first nodes join all before them.
                    true => joined.len() as u32,
                    false => ends[stream.below(ends.len() as u64) as usize],
                };
                if std::mem::replace(&mut last_joined[pick as usize], node) != node {
                    joined.push(pick);
                }
            }
            for &earlier in &joined {
                sources.push(node);
                targets.push(earlier);
                ends.extend([node, earlier]);
            }
        }
        let relations = sources.iter().map(|_| {
            let draw = stream.uniform_f64() * shares[shares.len() - 1];
            let relation = shares.partition_point(|&share| share <= draw);
            relation.min(shares.len() - 1) as u32
        });
        let relations = relations.collect();
        let n_relations = self.n_relations;
        RelationalGraph::new(self.n_nodes, n_relations, sources, relations, targets)
    }

    /// Labels to time training with: up to 1,000 random nodes to learn from and 200 to test on, of
    /// up to 10 classes dealt in turn.
    ///
    /// There is nothing to learn in them.
    ///
    /// # Errors
    /// [`Error::Config`] for values out of range.
    pub fn labels(&self, seed: u64) -> Result<Labels, Error> {
        self.check()?;
        let (n_train, n_test) = (1000.min(self.n_nodes / 2), 200.min(self.n_nodes / 4));
        let n_classes = 10.min(n_train);
        let mut stream = KeyedRng::new(seed, "relational Barabasi-Albert labels", 0);
        let n_labelled = (n_train + n_test) as usize;
        let mut nodes = stream.sample_without_replacement(u64::from(self.n_nodes), n_labelled);
        stream.shuffle(&mut nodes);
        let labels: Vec<(u32, u32)> = nodes
            .into_iter()
            .zip(0u32..)
            .map(|(node, idx)| (node as u32, idx % n_classes))
            .collect();
        let (train, test) = labels.split_at(n_train as usize);
        Labels::new(n_classes, train.to_vec(), test.to_vec(), Vec::new())
    }

    /// The edges that a node brings: whole numbers whose sum keeps to the average.
    fn edges_of(&self, node: u32) -> u32 {
        let before = (self.edges_per_node * f64::from(node)).floor();
        let after = (self.edges_per_node * (f64::from(node) + 1.0)).floor();
        (after - before) as u32
    }

    fn cumulated_shares(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let share = |k: u32| match self.is_zipf {
            true => 1.0 / (f64::from(k) + 1.0),
            false => 1.0,
        };
        let shares = (0..self.n_relations).map(|k| {
            sum += share(k);
            sum
        });
        shares.collect()
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |field: &str, value: &dyn fmt::Display, expected: &str| {
            Err(Error::new(
                Error::Config,
                format!("{self}: {field} = {value}: expected {expected}"),
            ))
        };
        let n_edges = self.edges_per_node * f64::from(self.n_nodes);
        if self.n_nodes < 4 {
            return wrong("nodes", &self.n_nodes, "4 or more");
        }
        if !(self.edges_per_node >= 1.0 && self.edges_per_node < f64::from(self.n_nodes)) {
            let expected = "a number from 1 to below the number of nodes";
            return wrong("edges per node", &self.edges_per_node, expected);
        }
        if n_edges > MAX_EDGES {
            return wrong("edges", &n_edges, "at most 200000000");
        }
        if self.n_relations == 0 || self.n_relations > 1 << 24 {
            return wrong("relations", &self.n_relations, "1 to 16777216");
        }
        Ok(())
    }
}

impl fmt::Display for RelationalSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RelationalSpec {
            n_nodes,
            edges_per_node,
            n_relations,
            is_zipf,
        } = self;
        let zipf = if *is_zipf { ":zipf" } else { "" };
        let prefix = RelationalSpec::PREFIX;
        write!(f, "{prefix}{n_nodes}:{edges_per_node}:{n_relations}{zipf}")
    }
}

impl FromStr for RelationalSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<RelationalSpec, Error> {
        let wrong = || {
            let expected = "ba-rel:NODES:EDGES_PER_NODE:RELATIONS, with :zipf behind or without";
            Error::config("graph", text, expected)
        };
        let rest = text
            .strip_prefix(RelationalSpec::PREFIX)
            .ok_or_else(wrong)?;
        let fields: Vec<&str> = rest.split(':').collect();
        let (numbers, is_zipf) = match fields[..] {
            [.., "zipf"] => (&fields[..fields.len() - 1], true),
            _ => (&fields[..], false),
        };
        let [n_nodes, edges_per_node, n_relations] = numbers else {
            return Err(wrong());
        };
        let spec = RelationalSpec {
            n_nodes: n_nodes.parse().map_err(|_| wrong())?,
            edges_per_node: edges_per_node.parse().map_err(|_| wrong())?,
            n_relations: n_relations.parse().map_err(|_| wrong())?,
            is_zipf,
        };
        spec.check()?;
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> RelationalSpec {
        text.parse().unwrap()
    }

    #[test]
    fn each_node_joins_different_earlier_ones() {
        for name in ["ba-rel:4:1:1", "ba-rel:50:3:7", "ba-rel:257:2.5:20:zipf"] {
            let graph = spec(name).graph(3).unwrap();
            let mut pairs: Vec<(u32, u32)> = graph.edges().map(|e| (e.source, e.target)).collect();
            assert!(pairs.iter().all(|(source, target)| target < source));
            let n_edges = pairs.len();
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len(), n_edges, "{name}");
            assert_eq!(spec(name).to_string(), name);
            assert_ne!(graph, spec(name).graph(4).unwrap());
        }
    }

    #[test]
    fn attributes_have_their_shares() {
        let counts = |name: &str| spec(name).graph(1).unwrap().edges_by_relation();
        let even = counts("ba-rel:20000:2.5:10");
        assert!(even.iter().all(|&n| (4600..5400).contains(&n)), "{even:?}");
        let zipf = counts("ba-rel:20000:2.5:10:zipf");
        let ratio = zipf[0] as f64 / zipf[4] as f64;
        assert!((4.4..5.6).contains(&ratio), "{zipf:?}");
    }

    #[test]
    fn early_nodes_have_most_edges() {
        let graph = spec("ba-rel:20000:2.5:3").graph(1).unwrap();
        let into = |from, to| {
            graph
                .edges()
                .filter(|e| (from..to).contains(&e.target))
                .count()
        };
        assert!(into(0, 2000) > 3 * into(10_000, 12_000));
    }

    #[test]
    fn labels_are_of_different_nodes_and_cover_all_classes() {
        let labels = spec("ba-rel:5000:2:3").labels(1).unwrap();
        assert_eq!((labels.train().len(), labels.test().len()), (1000, 200));
        assert_eq!(labels.n_classes(), 10);
        assert_eq!(spec("ba-rel:4:1:1").labels(1).unwrap().train().len(), 2);
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        for (text, reason) in [
            ("ba-rel:10:2", "ba-rel:NODES"),
            ("ba-rel:10:2:3:4", "ba-rel:NODES"),
            ("ba-rel:10:2:3:zip", "ba-rel:NODES"),
            ("ba-rel:3:2:3", "4 or more"),
            ("ba-rel:10:0.5:3", "from 1"),
            ("ba-rel:10:nan:3", "from 1"),
            ("ba-rel:10:10:3", "from 1"),
            ("ba-rel:10:2:0", "1 to 16777216"),
            ("ba-rel:4000000000:2:3", "at most 200000000"),
        ] {
            let error = text.parse::<RelationalSpec>().unwrap_err();
            assert!(matches!(error, Error::Config(_)));
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
    }
}
