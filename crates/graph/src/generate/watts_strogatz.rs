//! Watts-Strogatz small worlds: a ring lattice whose edges are moved to random ends, lap by lap.

use shardgraph_random::KeyedRng;

use crate::{EdgeSink, Error};

pub(super) fn stream(
    n: u32,
    k: u32,
    p: f64,
    seed: u64,
    sink: &mut dyn EdgeSink,
) -> Result<(), Error> {
    let mut rows = lattice(n, k);
    for lap in 1..=k / 2 {
        let mut random = KeyedRng::new(seed, "ws", u64::from(lap));
        for u in 0..n {
            if random.chance(p) {
                let v = ((u64::from(u) + u64::from(lap)) % u64::from(n)) as u32;
                rewire(&mut rows, u, v, &mut random);
            }
        }
    }
    for (u, row) in (0u32..).zip(&rows) {
        for &v in row.iter().filter(|&&v| v > u) {
            sink.edge(u, v, 1.0)?;
        }
    }
    Ok(())
}

/// Each node joined to the k / 2 nodes on either side; rows ascending.
fn lattice(n: u32, k: u32) -> Vec<Vec<u32>> {
    let reach = u64::from(k / 2);
    let row = |u: u32| {
        let back = u64::from(n) - reach;
        let mut row: Vec<u32> = (1..=reach)
            .flat_map(|j| [u64::from(u) + j, u64::from(u) + back + j - 1])
            .map(|v| (v % u64::from(n)) as u32)
            .collect();
        row.sort_unstable();
        row
    };
    (0..n).map(row).collect()
}

/// Moves the edge (u, v) to (u, w) for a uniform w that is no neighbour yet; a node joined to all keeps its edge.
fn rewire(rows: &mut [Vec<u32>], u: u32, v: u32, random: &mut KeyedRng) {
    let n = rows.len() as u32;
    if rows[u as usize].len() as u32 + 1 == n {
        return;
    }
    let w = loop {
        let w = random.below_u32(n);
        if w != u && rows[u as usize].binary_search(&w).is_err() {
            break w;
        }
    };
    remove(&mut rows[u as usize], v);
    remove(&mut rows[v as usize], u);
    insert(&mut rows[u as usize], w);
    insert(&mut rows[w as usize], u);
}

fn remove(row: &mut Vec<u32>, v: u32) {
    if let Ok(at) = row.binary_search(&v) {
        row.remove(at);
    }
}

fn insert(row: &mut Vec<u32>, v: u32) {
    if let Err(at) = row.binary_search(&v) {
        row.insert(at, v);
    }
}
