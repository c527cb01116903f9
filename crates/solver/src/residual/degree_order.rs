//! Own nodes sorted by residual degree, with constant-time updates when a degree falls by one.

/// Nodes (by local number) in ascending order of degree.
///
/// # Source
/// The bucket order of Batagelj and Zaversnik's core decomposition (2003).
#[derive(Debug, Clone)]
pub(crate) struct DegreeOrder {
    nodes: Vec<u32>,
    /// Where each node stands in `nodes`.
    places: Vec<u32>,
    /// `starts[d]` is the number of nodes with a degree below `d`.
    starts: Vec<u32>,
}

impl DegreeOrder {
    pub(crate) fn new(degrees: &[u32]) -> Self {
        let max = degrees.iter().copied().max().unwrap_or(0) as usize;
        let mut starts = vec![0u32; max + 2];
        for &degree in degrees {
            starts[degree as usize + 1] += 1;
        }
        for d in 1..starts.len() {
            starts[d] += starts[d - 1];
        }
        let mut nodes: Vec<u32> = (0..degrees.len() as u32).collect();
        nodes.sort_by_key(|&node| degrees[node as usize]);
        let mut places = vec![0; nodes.len()];
        for (place, &node) in nodes.iter().enumerate() {
            places[node as usize] = place as u32;
        }
        Self {
            nodes,
            places,
            starts,
        }
    }

    /// The degree of `node` falls from `degree`, which is above 0, by one.
    #[inline]
    pub(crate) fn fall(&mut self, node: u32, degree: u32) {
        let place = self.places[node as usize];
        let start = self.starts[degree as usize];
        let other = self.nodes[start as usize];
        self.nodes[start as usize] = node;
        self.nodes[place as usize] = other;
        self.places[node as usize] = start;
        self.places[other as usize] = place;
        self.starts[degree as usize] += 1;
    }

    /// The nodes of one degree.
    pub(crate) fn of_degree(&self, degree: u32) -> &[u32] {
        let at = |degree: u32| self.starts.get(degree as usize).copied();
        let end = self.nodes.len() as u32;
        let (first, end) = (at(degree).unwrap_or(end), at(degree + 1).unwrap_or(end));
        &self.nodes[first as usize..end as usize]
    }

    /// Nodes with a degree above 0, the largest degree first.
    pub(crate) fn falling(&self) -> impl Iterator<Item = u32> + '_ {
        let first = self.starts[1] as usize;
        self.nodes[first..].iter().rev().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_follows_falling_degrees(
            degrees in prop::collection::vec(0u32..9, 0..70),
            falls in prop::collection::vec(any::<prop::sample::Index>(), 0..300),
        ) {
            let mut degrees = degrees;
            let mut order = DegreeOrder::new(&degrees);
            for fall in falls {
                let left: Vec<usize> = (0..degrees.len()).filter(|&v| degrees[v] > 0).collect();
                if left.is_empty() {
                    break;
                }
                let node = *fall.get(&left);
                order.fall(node as u32, degrees[node]);
                degrees[node] -= 1;
            }
            let listed: Vec<u32> = order.falling().collect();
            let by_degree: Vec<u32> = listed.iter().map(|&v| degrees[v as usize]).collect();
            prop_assert!(by_degree.windows(2).all(|pair| pair[0] >= pair[1]));
            for degree in 1..10 {
                let of_degree = order.of_degree(degree);
                prop_assert!(of_degree.iter().all(|&v| degrees[v as usize] == degree));
                let n = degrees.iter().filter(|&&other| other == degree).count();
                prop_assert_eq!(of_degree.len(), n);
            }
            let mut listed = listed;
            listed.sort_unstable();
            let want: Vec<u32> =
                (0..degrees.len() as u32).filter(|&v| degrees[v as usize] > 0).collect();
            prop_assert_eq!(listed, want);
        }
    }
}
