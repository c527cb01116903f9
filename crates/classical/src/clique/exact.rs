//! [`BranchAndBound`]: maximum clique of a small graph by bit-parallel colouring bounds.

use crate::budget::Stopwatch;
use crate::clique::bits::{BitRows, clear_bit, count, first, full_set, has_bit, set_bit};

/// Words of bits between two looks at the clock.
const WORDS_PER_TICK: u64 = 1 << 18;
/// Words that are read in the time of what each node costs besides.
const FIXED_WORDS: usize = 8;

/// How much work exact search may do, over several graphs, in words of bits that are read.
pub(crate) struct WorkLimit<'a> {
    pub(crate) words_left: u64,
    pub(crate) stopwatch: Stopwatch<'a>,
    pub(crate) is_over: bool,
}

impl WorkLimit<'_> {
    pub(crate) fn spend(&mut self, words: usize) {
        let left = self.words_left.saturating_sub(words as u64);
        let is_tick = self.words_left / WORDS_PER_TICK != left / WORDS_PER_TICK;
        self.words_left = left;
        self.is_over |= left == 0 || is_tick && self.stopwatch.is_late();
    }
}

/// Branch and bound: a node joins the clique; the colours of its remaining candidates bound what can follow.
///
/// # Source
/// San Segundo, Rodríguez-Losada and Jiménez (2011), "An exact bit-parallel algorithm for the maximum clique problem" (BBMC), with
/// the recolouring of Tomita, Sutani, Higashi, Takahashi and Wakatsuki (2010), MCS.
pub(crate) struct BranchAndBound<'a, 'b> {
    rows: &'a BitRows,
    /// Cliques of more nodes than this are looked for.
    best: usize,
    found: Vec<usize>,
    clique: Vec<usize>,
    levels: Vec<Level>,
    classes: Vec<Vec<u64>>,
    work: &'a mut WorkLimit<'b>,
}

/// Buffers of one depth.
#[derive(Default)]
struct Level {
    candidates: Vec<u64>,
    /// Candidates whose colour does not rule them out, by ascending colour.
    branches: Vec<(u32, u32)>,
}

impl<'a, 'b> BranchAndBound<'a, 'b> {
    /// A largest clique of more than `best` nodes; `None` if there is none or the work limit came first.
    ///
    /// Nodes are coloured by ascending index: those of large degree should come first.
    pub(crate) fn run(
        rows: &'a BitRows,
        best: usize,
        work: &'a mut WorkLimit<'b>,
    ) -> Option<Vec<usize>> {
        let mut search = BranchAndBound {
            rows,
            best,
            found: Vec::new(),
            clique: Vec::new(),
            levels: vec![Level {
                candidates: full_set(rows.n_nodes()),
                branches: Vec::new(),
            }],
            classes: Vec::new(),
            work,
        };
        search.expand(0);
        (!search.found.is_empty()).then_some(search.found)
    }

    fn expand(&mut self, depth: usize) {
        if self.levels.len() < depth + 2 {
            self.levels.push(Level::default());
        }
        self.colour(depth);
        while let Some((v, colour)) = self.levels[depth].branches.pop() {
            if self.work.is_over || self.clique.len() + colour as usize <= self.best {
                return;
            }
            let v = v as usize;
            self.clique.push(v);
            let [level, next, ..] = &mut self.levels[depth..] else {
                return;
            };
            let row = self.rows.row(v);
            next.candidates.clear();
            let both = level.candidates.iter().zip(row).map(|(a, b)| a & b);
            next.candidates.extend(both);
            clear_bit(&mut level.candidates, v);
            if count(&next.candidates) == 0 {
                if self.clique.len() > self.best {
                    self.best = self.clique.len();
                    self.found.clone_from(&self.clique);
                }
            } else {
                self.expand(depth + 1);
            }
            self.clique.pop();
        }
    }

    /// Colours the candidates greedily; those above the colours that cannot lead to a larger clique become branches.
    fn colour(&mut self, depth: usize) {
        let allowed = self.best.saturating_sub(self.clique.len());
        let mut level = std::mem::take(&mut self.levels[depth]);
        level.branches.clear();
        let mut uncoloured = level.candidates.clone();
        let mut n_colours = 0;
        let words = self.rows.n_words() + FIXED_WORDS;
        self.work.spend((count(&uncoloured) + 1) * words);
        while first(&uncoloured).is_some() {
            if self.classes.len() == n_colours {
                self.classes.push(vec![0; self.rows.n_words()]);
            }
            let mut open = uncoloured.clone();
            let mut class = std::mem::take(&mut self.classes[n_colours]);
            class.fill(0);
            while let Some(v) = first(&open) {
                set_bit(&mut class, v);
                clear_bit(&mut open, v);
                clear_bit(&mut uncoloured, v);
                for (word, row) in open.iter_mut().zip(self.rows.row(v)) {
                    *word &= !row;
                }
                // A candidate above the allowed colours goes back below them if a recolouring makes room.
                if n_colours >= allowed && self.recolour(v, allowed, n_colours) {
                    clear_bit(&mut class, v);
                } else if n_colours >= allowed {
                    level.branches.push((v as u32, n_colours as u32 + 1));
                }
            }
            let is_empty = first(&class).is_none();
            self.classes[n_colours] = class;
            n_colours += usize::from(!is_empty);
        }
        self.levels[depth] = level;
    }

    /// Moves `v` into a class with one neighbour of it, whose own node goes into another class without neighbours.
    fn recolour(&mut self, v: usize, allowed: usize, n_colours: usize) -> bool {
        if allowed < 2 || n_colours < allowed {
            return false;
        }
        self.work.spend(allowed * self.rows.n_words());
        let row = self.rows.row(v);
        for i in 0..allowed - 1 {
            let Some(u) = single_common(&self.classes[i], row) else {
                continue;
            };
            let row_u = self.rows.row(u);
            let is_free = |class: &Vec<u64>| class.iter().zip(row_u).all(|(a, b)| a & b == 0);
            let Some(j) = (i + 1..allowed).find(|&j| is_free(&self.classes[j])) else {
                continue;
            };
            clear_bit(&mut self.classes[i], u);
            set_bit(&mut self.classes[i], v);
            set_bit(&mut self.classes[j], u);
            debug_assert!(has_bit(&self.classes[j], u));
            return true;
        }
        false
    }
}

/// The only element of both sets, `None` where there are none or more.
fn single_common(a: &[u64], b: &[u64]) -> Option<usize> {
    let mut single = None;
    for (at, (x, y)) in a.iter().zip(b).enumerate() {
        let both = x & y;
        if both == 0 {
            continue;
        }
        if single.is_some() || both & (both - 1) != 0 {
            return None;
        }
        single = Some(at * 64 + both.trailing_zeros() as usize);
    }
    single
}
