//! A few small classic graphs by name, each with the size of its smallest vertex cover.

use crate::Graph;

/// A classic: its name, nodes, smallest vertex cover, and edges.
type Classic = (&'static str, u32, u32, &'static [(u32, u32)]);

/// The graph called `name`, one of [`names`].
///
/// ```
/// use shardgraph_graph::builtin;
///
/// let karate = builtin::by_name("karate").unwrap();
/// assert_eq!((karate.n_nodes(), karate.n_edges()), (34, 78));
/// assert_eq!(builtin::minimum_vertex_cover("karate"), Some(14));
/// assert!(builtin::by_name("judo").is_none());
/// ```
#[must_use]
pub fn by_name(name: &str) -> Option<Graph> {
    let &(_, n_nodes, _, edges) = classic(name)?;
    Graph::from_edges(n_nodes, edges).ok()
}

/// The names that [`by_name`] knows.
#[must_use]
pub fn names() -> &'static [&'static str] {
    &NAMES
}

/// The size of the smallest vertex cover of the graph called `name`; the tests prove it by exhaustive search.
#[must_use]
pub fn minimum_vertex_cover(name: &str) -> Option<u32> {
    classic(name).map(|classic| classic.2)
}

fn classic(name: &str) -> Option<&'static Classic> {
    CLASSICS.iter().find(|classic| classic.0 == name)
}

const NAMES: [&str; CLASSICS.len()] = {
    let mut names = [""; CLASSICS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = CLASSICS[i].0;
        i += 1;
    }
    names
};

#[rustfmt::skip]
const CLASSICS: [Classic; 9] = [
    // Friendships in a karate club: Zachary, "An information flow model for conflict and fission in small groups", 1977.
    ("karate", 34, 14, &[
        (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (0, 7), (0, 8), (0, 10), (0, 11), (0, 12), (0, 13), (0, 17),
        (0, 19), (0, 21), (0, 31), (1, 2), (1, 3), (1, 7), (1, 13), (1, 17), (1, 19), (1, 21), (1, 30), (2, 3), (2, 7),
        (2, 8), (2, 9), (2, 13), (2, 27), (2, 28), (2, 32), (3, 7), (3, 12), (3, 13), (4, 6), (4, 10), (5, 6), (5, 10),
        (5, 16), (6, 16), (8, 30), (8, 32), (8, 33), (9, 33), (13, 33), (14, 32), (14, 33), (15, 32), (15, 33),
        (18, 32), (18, 33), (19, 33), (20, 32), (20, 33), (22, 32), (22, 33), (23, 25), (23, 27), (23, 29), (23, 32),
        (23, 33), (24, 25), (24, 27), (24, 31), (25, 31), (26, 29), (26, 33), (27, 33), (28, 31), (28, 33), (29, 32),
        (29, 33), (30, 32), (30, 33), (31, 32), (31, 33), (32, 33),
    ]),
    // Outer pentagon, spokes, inner pentagram.
    ("petersen", 10, 6, &[
        (0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 5), (1, 6), (2, 7), (3, 8), (4, 9), (5, 7), (7, 9), (9, 6), (6, 8),
        (8, 5),
    ]),
    // Marriages between families of Florence (Padgett), alphabetically: Acciaiuoli, Albizzi, Barbadori, Bischeri,
    // Castellani, Ginori, Guadagni, Lamberteschi, Medici, Pazzi, Peruzzi, Ridolfi, Salviati, Strozzi, Tornabuoni.
    ("florentine", 15, 8, &[
        (0, 8), (1, 5), (1, 6), (1, 8), (2, 4), (2, 8), (3, 6), (3, 10), (3, 13), (4, 10), (4, 13), (6, 7), (6, 14),
        (8, 11), (8, 12), (8, 14), (9, 12), (10, 13), (11, 13), (11, 14),
    ]),
    // Nodes are three-bit words, neighbours differ in one bit.
    ("cube", 8, 4, &[
        (0, 1), (0, 2), (0, 4), (1, 3), (1, 5), (2, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7), (6, 7),
    ]),
    // All pairs of six nodes but the three opposite ones.
    ("octahedron", 6, 4, &[
        (0, 1), (0, 2), (0, 4), (0, 5), (1, 2), (1, 3), (1, 5), (2, 3), (2, 4), (3, 4), (3, 5), (4, 5),
    ]),
    // The smallest cubic graphs without symmetry have 12 nodes; this is Frucht's of 1939, in LCF form
    // [-5, -2, -4, 2, 5, -2, 2, 5, -2, -5, 4, 2].
    ("frucht", 12, 7, &[
        (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9), (9, 10), (10, 11), (11, 0), (0, 7),
        (1, 11), (2, 10), (3, 5), (4, 9), (6, 8),
    ]),
    // The point-line graph of the Fano plane, bipartite, in LCF form [5, -5]^7.
    ("heawood", 14, 7, &[
        (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9), (9, 10), (10, 11), (11, 12), (12, 13),
        (13, 0), (0, 5), (2, 7), (4, 9), (6, 11), (8, 13), (10, 1), (12, 3),
    ]),
    // Krackhardt's social network where three measures of centrality disagree, 1990.
    ("kite", 10, 6, &[
        (0, 1), (0, 2), (0, 3), (0, 5), (1, 3), (1, 4), (1, 6), (2, 3), (2, 5), (3, 4), (3, 5), (3, 6), (4, 6), (5, 6),
        (5, 7), (6, 7), (7, 8), (8, 9),
    ]),
    // The complete graph of four nodes.
    ("k4", 4, 3, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
];

#[cfg(test)]
mod tests;
