//! Priorities by slot, the sums over them, and the smallest: a tree with several children to a
//! node, a cache line for the sums.
//!
//! A node is always computed from its children and never from what it was before, so it cannot
//! drift: after any number of updates the tree has the bits of one that is built from its leaves.

/// Leaves to a line: 16 f32 fill one of 64 bytes.
const N_LEAVES: usize = 16;
/// Children to a node: 8 f64 fill one line.
const FAN: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Leaves([f32; N_LEAVES]);

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Sums([f64; FAN]);

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(32))]
struct Smallest([f32; FAN]);

/// What the leaves below a node add up to, and the smallest positive one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Worth {
    sum: f64,
    smallest: f32,
}

/// One level: node i holds what its children i * FAN .. (i + 1) * FAN of the level below are worth.
#[derive(Clone, Debug, PartialEq)]
struct Level {
    sums: Vec<Sums>,
    smallest: Vec<Smallest>,
}

impl Level {
    fn set(&mut self, child: usize, worth: Worth) {
        self.sums[child / FAN].0[child % FAN] = worth.sum;
        self.smallest[child / FAN].0[child % FAN] = worth.smallest;
    }

    fn worth(&self, node: usize) -> Worth {
        let (sums, smallest) = (&self.sums[node].0, &self.smallest[node].0);
        Worth {
            sum: pairwise(sums),
            smallest: smallest.iter().fold(f32::INFINITY, least),
        }
    }
}

impl Leaves {
    fn worth(&self) -> Worth {
        let positive = |&leaf: &f32| if leaf > 0.0 { leaf } else { f32::INFINITY };
        let smallest = self.0.each_ref().map(positive);
        Worth {
            sum: pairwise(&self.0.map(f64::from)),
            smallest: smallest.iter().fold(f32::INFINITY, least),
        }
    }
}

fn least(a: f32, b: &f32) -> f32 {
    if *b < a { *b } else { a }
}

/// The sum of a power of two of numbers, halves onto halves: a fixed order, and one that needs no
/// long chain of additions.
fn pairwise<const N: usize>(numbers: &[f64; N]) -> f64 {
    let mut sums = *numbers;
    let mut n = N;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            sums[i] += sums[i + n];
        }
    }
    sums[0]
}

fn n_lines(n_slots: usize) -> usize {
    n_slots.div_ceil(N_LEAVES).max(1)
}

/// Nodes of each level above the leaves, the lowest first.
fn level_widths(n_slots: usize) -> impl Iterator<Item = usize> {
    let lowest = n_lines(n_slots).div_ceil(FAN);
    std::iter::successors(Some(lowest), |&n| (n > 1).then(|| n.div_ceil(FAN)))
}

fn filled<T: Clone>(value: T, len: usize) -> Option<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(len).ok()?;
    list.resize(len, value);
    Some(list)
}

/// A leaf for each slot; a leaf of 0 is never drawn.
#[derive(Clone, Debug)]
pub(crate) struct SumTree {
    leaves: Vec<Leaves>,
    /// The lowest first; the last has one node.
    levels: Vec<Level>,
    /// Of `draw`: the mass that is left to each item, and the node where it is.
    masses: Vec<f64>,
    nodes: Vec<u32>,
}

impl SumTree {
    /// `n_slots` leaves of 0; nothing where the system has no room for them.
    pub(crate) fn new(n_slots: usize) -> Option<SumTree> {
        let mut levels = Vec::new();
        for n_nodes in level_widths(n_slots) {
            levels.push(Level {
                sums: filled(Sums([0.0; FAN]), n_nodes)?,
                smallest: filled(Smallest([f32::INFINITY; FAN]), n_nodes)?,
            });
        }
        Some(SumTree {
            leaves: filled(Leaves([0.0; N_LEAVES]), n_lines(n_slots))?,
            levels,
            masses: Vec::new(),
            nodes: Vec::new(),
        })
    }

    /// The bytes of a tree of `n_slots` leaves.
    pub(crate) fn bytes(n_slots: usize) -> u64 {
        let n_nodes: u64 = level_widths(n_slots).map(|n| n as u64).sum();
        let node = (size_of::<Sums>() + size_of::<Smallest>()) as u64;
        n_lines(n_slots) as u64 * size_of::<Leaves>() as u64 + n_nodes * node
    }

    pub(crate) fn leaf(&self, slot: u32) -> f32 {
        self.leaves[slot as usize / N_LEAVES].0[slot as usize % N_LEAVES]
    }

    /// Changes a leaf and none of the sums: `refresh` or `refresh_range` must follow before they
    /// are used.
    pub(crate) fn set_leaf(&mut self, slot: u32, leaf: f32) {
        self.leaves[slot as usize / N_LEAVES].0[slot as usize % N_LEAVES] = leaf;
    }

    /// The sum of all leaves.
    pub(crate) fn total(&self) -> f64 {
        self.root().sum
    }

    /// The smallest leaf above 0; infinite without one.
    pub(crate) fn smallest(&self) -> f32 {
        self.root().smallest
    }

    fn root(&self) -> Worth {
        self.levels[self.levels.len() - 1].worth(0)
    }

    /// Computes every node above the leaves `slots`, level by level, so that the loads of one level
    /// do not wait for each other.
    pub(crate) fn refresh(&mut self, slots: &[u32]) {
        let mut children = std::mem::take(&mut self.nodes);
        children.clear();
        children.extend(slots.iter().map(|&slot| slot / N_LEAVES as u32));
        for &child in &children {
            let worth = self.leaves[child as usize].worth();
            self.levels[0].set(child as usize, worth);
        }
        for level in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(level);
            let (below, above) = (&below[level - 1], &mut above[0]);
            if below.sums.len() <= children.len() {
                let all = 0..below.sums.len();
                all.for_each(|child| above.set(child, below.worth(child)));
                continue;
            }
            for child in &mut children {
                *child /= FAN as u32;
                above.set(*child as usize, below.worth(*child as usize));
            }
        }
        self.nodes = children;
    }

    /// Computes every node above the leaves `from..to`.
    pub(crate) fn refresh_range(&mut self, from: usize, to: usize) {
        let (mut from, mut to) = (from / N_LEAVES, to.div_ceil(N_LEAVES));
        for child in from..to {
            self.levels[0].set(child, self.leaves[child].worth());
        }
        for level in 1..self.levels.len() {
            (from, to) = (from / FAN, to.div_ceil(FAN));
            let (below, above) = self.levels.split_at_mut(level);
            for child in from..to {
                above[0].set(child, below[level - 1].worth(child));
            }
        }
    }

    /// The slots at which `masses` between 0 and the total fall, each slot as likely as its leaf is
    /// large. The sum must not be 0.
    ///
    /// Rounding moves a border between two slots by some 1e-16 of the total, and never onto a leaf
    /// of 0.
    pub(crate) fn draw(&mut self, masses: impl Iterator<Item = f64>, slots: &mut Vec<u32>) {
        self.masses.clear();
        self.masses.extend(masses);
        slots.clear();
        slots.resize(self.masses.len(), 0);
        for level in self.levels.iter().rev() {
            for (mass, node) in self.masses.iter_mut().zip(slots.iter_mut()) {
                let (child, before) = find(&level.sums[*node as usize].0, *mass);
                *node = *node * FAN as u32 + child;
                *mass -= before;
            }
        }
        for (mass, node) in self.masses.iter().zip(slots) {
            let leaves = self.leaves[*node as usize].0.map(f64::from);
            *node = *node * N_LEAVES as u32 + find(&leaves, *mass).0;
        }
    }
}

/// The child at which `mass` falls, and where that child begins: a search by halves, which goes
/// right only onto a sum above 0.
#[inline]
fn find<const N: usize>(children: &[f64; N], mass: f64) -> (u32, f64) {
    const { assert!(N.is_power_of_two()) };
    let (mut child, mut before, mut half) = (0, 0.0, N);
    while half > 1 {
        half /= 2;
        // The mask changes nothing; it tells the compiler that every index is inside.
        let sum = |from: usize| {
            let ends = (0..half).map(|i| children[(from + i) & (N - 1)]);
            ends.fold(0.0, |sum, x| sum + x)
        };
        let (left, right) = (sum(child), sum(child + half));
        let goes_right = (mass - before >= left) & (right > 0.0);
        child += half * usize::from(goes_right);
        before += left * f64::from(u8::from(goes_right));
    }
    (child as u32, before)
}

/// Bit for bit, whatever the last draw left.
impl PartialEq for SumTree {
    fn eq(&self, other: &SumTree) -> bool {
        (&self.leaves, &self.levels) == (&other.leaves, &other.levels)
    }
}
