//! Every classic is what its name says, and its cover number is proved by trying.

use super::*;

/// True if `k` nodes can cover the edges from `edges[0]` on: one end of the first open edge has to be taken.
fn is_coverable(edges: &[(u32, u32)], taken: &mut Vec<u32>, k: u32) -> bool {
    let open = edges
        .iter()
        .find(|(u, v)| !taken.contains(u) && !taken.contains(v));
    let Some(&(u, v)) = open else { return true };
    if k == 0 {
        return false;
    }
    [u, v].into_iter().any(|node| {
        taken.push(node);
        let found = is_coverable(edges, taken, k - 1);
        taken.pop();
        found
    })
}

#[test]
fn cover_numbers_are_optimal() {
    for name in names() {
        let edges: Vec<_> = by_name(name).unwrap().edges().collect();
        let optimum = minimum_vertex_cover(name).unwrap();
        assert!(is_coverable(&edges, &mut Vec::new(), optimum), "{name}");
        assert!(
            !is_coverable(&edges, &mut Vec::new(), optimum - 1),
            "{name}"
        );
    }
}

#[test]
fn sizes_and_degrees() {
    let known: [(&str, u32, u64, Option<u32>); 9] = [
        ("karate", 34, 78, None),
        ("petersen", 10, 15, Some(3)),
        ("florentine", 15, 20, None),
        ("cube", 8, 12, Some(3)),
        ("octahedron", 6, 12, Some(4)),
        ("frucht", 12, 18, Some(3)),
        ("heawood", 14, 21, Some(3)),
        ("kite", 10, 18, None),
        ("k4", 4, 6, Some(3)),
    ];
    assert_eq!(known.map(|graph| graph.0), names());
    for (name, n_nodes, n_edges, degree) in known {
        let graph = by_name(name).unwrap();
        assert_eq!(
            (graph.n_nodes(), graph.n_edges()),
            (n_nodes, n_edges),
            "{name}"
        );
        if let Some(degree) = degree {
            assert!((0..n_nodes).all(|v| graph.degree(v) == degree), "{name}");
        }
    }
}

/// Length of a shortest cycle through each node by breadth-first search; the girth tells the cubic graphs apart.
fn girth(graph: &Graph) -> u32 {
    let n = graph.n_nodes() as usize;
    let mut girth = u32::MAX;
    for root in 0..graph.n_nodes() {
        let mut depth = vec![u32::MAX; n];
        let mut parent = vec![u32::MAX; n];
        let mut queue = std::collections::VecDeque::from([root]);
        depth[root as usize] = 0;
        while let Some(u) = queue.pop_front() {
            for &v in graph.neighbors(u) {
                if depth[v as usize] == u32::MAX {
                    depth[v as usize] = depth[u as usize] + 1;
                    parent[v as usize] = u;
                    queue.push_back(v);
                } else if parent[u as usize] != v {
                    girth = girth.min(depth[u as usize] + depth[v as usize] + 1);
                }
            }
        }
    }
    girth
}

#[test]
fn girths() {
    for (name, expected) in [
        ("petersen", 5),
        ("heawood", 6),
        ("cube", 4),
        ("frucht", 3),
        ("k4", 3),
    ] {
        assert_eq!(girth(&by_name(name).unwrap()), expected, "{name}");
    }
}

/// Degrees of the sociograms as published: Medici have 6 marriages, Mr. Hi and the officer 16 and 17 friends.
#[test]
fn known_degrees() {
    let florentine = by_name("florentine").unwrap();
    assert_eq!(florentine.degree(8), 6);
    let karate = by_name("karate").unwrap();
    assert_eq!((karate.degree(0), karate.degree(33)), (16, 17));
}
