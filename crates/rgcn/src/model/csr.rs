//! The edges of each node: a counting sort of edge numbers by one of their columns.

/// Edge numbers, grouped by a key.
pub(crate) struct Csr {
    starts: Vec<u32>,
    members: Vec<u32>,
}

impl Csr {
    /// Groups the positions of `keys`, all below `n_groups`, by their key; within a group they
    /// ascend.
    ///
    /// There are fewer than 2^32 keys: [`super::layout::check_size`] has seen to that.
    pub(crate) fn group(n_groups: usize, keys: &[u32]) -> Csr {
        let mut starts = vec![0u32; n_groups + 1];
        for &key in keys {
            starts[key as usize + 1] += 1;
        }
        for group in 0..n_groups {
            starts[group + 1] += starts[group];
        }
        let mut members = vec![0u32; keys.len()];
        for (position, &key) in (0u32..).zip(keys) {
            let place = &mut starts[key as usize];
            members[*place as usize] = position;
            *place += 1;
        }
        // Each start has moved to its group's end, which is where the next one began.
        starts.rotate_right(1);
        starts[0] = 0;
        Csr { starts, members }
    }

    pub(crate) fn n_groups(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        4 * (self.starts.len() + self.members.len()) as u64
    }

    /// The positions of a group.
    pub(crate) fn members(&self, group: usize) -> &[u32] {
        &self.members[self.starts[group] as usize..self.starts[group + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_their_positions_in_order() {
        let csr = Csr::group(4, &[2, 0, 2, 3, 2]);
        let groups: Vec<&[u32]> = (0..csr.n_groups()).map(|g| csr.members(g)).collect();
        assert_eq!(groups, [&[1][..], &[], &[0, 2, 4], &[3]]);
        assert_eq!(Csr::group(0, &[]).n_groups(), 0);
    }
}
