//! [`Rows`] and [`SetCover`]: sets of elements in compressed rows, from both sides.

/// Rows of ids, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    offsets: Vec<usize>,
    columns: Vec<u32>,
}

impl Rows {
    pub(crate) fn new() -> Rows {
        Rows {
            offsets: vec![0],
            columns: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, row: impl Iterator<Item = u32>) {
        self.columns.extend(row);
        self.offsets.push(self.columns.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(crate) fn row(&self, i: usize) -> &[u32] {
        &self.columns[self.offsets[i]..self.offsets[i + 1]]
    }

    /// For each of `n_columns` ids the rows that hold it, ascending.
    pub(crate) fn transposed(&self, n_columns: usize) -> Rows {
        let mut offsets = vec![0; n_columns + 1];
        for &column in &self.columns {
            offsets[column as usize + 1] += 1;
        }
        for i in 0..n_columns {
            offsets[i + 1] += offsets[i];
        }
        let mut next = offsets.clone();
        let mut columns = vec![0; self.columns.len()];
        for i in 0..self.len() {
            for &column in self.row(i) {
                columns[next[column as usize]] = i as u32;
                next[column as usize] += 1;
            }
        }
        Rows { offsets, columns }
    }
}

/// Minimum set cover: as few sets as possible that hold every element.
#[derive(Clone, Debug)]
pub(crate) struct SetCover {
    /// The elements of each set.
    pub(crate) sets: Rows,
    /// The sets of each element.
    pub(crate) elements: Rows,
}

impl SetCover {
    pub(crate) fn new(sets: Rows, n_elements: usize) -> SetCover {
        let elements = sets.transposed(n_elements);
        SetCover { sets, elements }
    }

    /// The cover in which set `a` holds `b` where set `b` holds `a`.
    pub(crate) fn symmetric(sets: Rows) -> SetCover {
        let elements = sets.clone();
        SetCover { sets, elements }
    }

    pub(crate) fn n_sets(&self) -> usize {
        self.sets.len()
    }

    /// Elements of all sets together.
    pub(crate) fn n_entries(&self) -> usize {
        self.sets.columns.len()
    }

    pub(crate) fn n_elements(&self) -> usize {
        self.elements.len()
    }
}
