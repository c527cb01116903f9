//! Seeded random graphs for the benches, as column lists and as bits.

/// A symmetric graph as column lists.
pub(crate) struct Lists {
    pub(crate) n_nodes: usize,
    pub(crate) row_ptr: Vec<u64>,
    pub(crate) columns: Vec<u32>,
}

/// A small generator (splitmix64): the benches need repeatable graphs, not good ones.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// `n` numbers below `bound`.
    pub(crate) fn below(&mut self, bound: usize, n: usize) -> Vec<u32> {
        (0..n)
            .map(|_| (self.next() % bound as u64) as u32)
            .collect()
    }

    pub(crate) fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit() as f32 - 0.5).collect()
    }
}

/// Each pair with probability `p`, by jumps of geometric length over the pairs.
pub(crate) fn erdos_renyi(n_nodes: usize, p: f64, seed: u64) -> Lists {
    let mut draws = Draws(seed);
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let jump = |draws: &mut Draws| 1 + (draws.unit().ln() / (1.0 - p).ln()) as u64;
    for u in 0..n_nodes as u64 {
        let mut v = u + jump(&mut draws);
        while v < n_nodes as u64 {
            edges.push((u as u32, v as u32));
            v += jump(&mut draws);
        }
    }
    lists(n_nodes, &edges)
}

fn lists(n_nodes: usize, edges: &[(u32, u32)]) -> Lists {
    let mut row_ptr = vec![0u64; n_nodes + 1];
    for &(u, v) in edges {
        row_ptr[u as usize + 1] += 1;
        row_ptr[v as usize + 1] += 1;
    }
    for i in 0..n_nodes {
        row_ptr[i + 1] += row_ptr[i];
    }
    let mut next = row_ptr.clone();
    let mut columns = vec![0u32; 2 * edges.len()];
    // Edges come sorted by (u, v): the smaller neighbours of every node first, in order, then the larger ones.
    let mut place = |node: u32, neighbor: u32| {
        columns[next[node as usize] as usize] = neighbor;
        next[node as usize] += 1;
    };
    edges.iter().for_each(|&(u, v)| place(v, u));
    edges.iter().for_each(|&(u, v)| place(u, v));
    Lists {
        n_nodes,
        row_ptr,
        columns,
    }
}

impl Lists {
    pub(crate) fn n_entries(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn words_per_row(&self) -> usize {
        self.n_nodes.div_ceil(64)
    }

    /// The same graph as one bit for each pair.
    pub(crate) fn words(&self) -> Vec<u64> {
        let words_per_row = self.words_per_row();
        let mut words = vec![0u64; self.n_nodes * words_per_row];
        for (row, bounds) in self.row_ptr.windows(2).enumerate() {
            for &column in &self.columns[bounds[0] as usize..bounds[1] as usize] {
                words[row * words_per_row + column as usize / 64] |= 1 << (column % 64);
            }
        }
        words
    }
}
