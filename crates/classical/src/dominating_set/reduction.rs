//! [`Reduction`]: exact rules that choose sets of a cover, or take out sets and elements.

use std::collections::VecDeque;

use crate::budget::Stopwatch;
use crate::dominating_set::rows::{Rows, SetCover};

/// Looks that one subset rule may take for one row; beyond it the rule lets the row be.
const MAX_LOOKS: usize = 5_000;
/// Looks between two looks at the clock.
const LOOKS_PER_TICK: usize = 1 << 16;

/// What the rules leave of a set cover, and the sets that they chose.
///
/// # Source
/// Beasley (1987), "An algorithm for set covering problem": an element of one set, a subset of a set, a superset of an element. For
/// closed neighbourhoods see Alber, Fellows and Niedermeier (2004), "Polynomial-time data reduction for dominating set".
pub(crate) struct Reduction {
    pub(crate) kernel: SetCover,
    /// Set of the whole for each set of the kernel, and so for elements.
    pub(crate) sets: Vec<u32>,
    pub(crate) elements: Vec<u32>,
    /// Sets of every lifted answer.
    pub(crate) chosen: Vec<u32>,
    /// Whether each element still has a set.
    pub(crate) is_feasible: bool,
}

/// Sets that are settled before the rules begin.
#[derive(Clone, Copy, Default)]
pub(crate) struct Decisions<'a> {
    pub(crate) included: &'a [u32],
    pub(crate) excluded: &'a [u32],
}

impl Reduction {
    /// # Complexity
    /// O(entries log d) where rows are short; the subset rules look at most `MAX_LOOKS` times for each row and change.
    pub(crate) fn new(
        whole: &SetCover,
        decisions: Decisions<'_>,
        stopwatch: &Stopwatch<'_>,
    ) -> Reduction {
        let mut rules = RuleState::new(whole);
        for &s in decisions.included {
            rules.choose(s);
        }
        for &s in decisions.excluded {
            rules.drop_set(s);
        }
        rules.run(stopwatch);
        rules.finish()
    }

    /// The sets of the whole: these of the kernel, and those that the rules chose.
    pub(crate) fn lift(&self, sets: &[u32]) -> Vec<u32> {
        let lifted = sets.iter().map(|&s| self.sets[s as usize]);
        self.chosen.iter().copied().chain(lifted).collect()
    }
}

struct RuleState<'a> {
    whole: &'a SetCover,
    is_set: Vec<bool>,
    /// Elements of each set that are left.
    set_sizes: Vec<u32>,
    is_element: Vec<bool>,
    /// Sets of each element that are left.
    element_degrees: Vec<u32>,
    chosen: Vec<u32>,
    is_feasible: bool,
    /// Entries that the subset rules read.
    n_looks: usize,
    /// Sets that lost an element, and elements that lost a set, since their last rule.
    set_queue: Queue,
    element_queue: Queue,
}

impl<'a> RuleState<'a> {
    fn new(whole: &'a SetCover) -> RuleState<'a> {
        let (n, m) = (whole.n_sets(), whole.n_elements());
        let set_sizes: Vec<u32> = (0..n).map(|s| whole.sets.row(s).len() as u32).collect();
        let element_degrees: Vec<u32> =
            (0..m).map(|e| whole.elements.row(e).len() as u32).collect();
        RuleState {
            whole,
            is_set: vec![true; n],
            is_element: vec![true; m],
            chosen: Vec::new(),
            is_feasible: true,
            n_looks: 0,
            set_queue: Queue::by_size(&set_sizes),
            element_queue: Queue::by_size(&element_degrees),
            set_sizes,
            element_degrees,
        }
    }

    /// Rounds over the elements and sets that wait, until none does.
    fn run(&mut self, stopwatch: &Stopwatch<'_>) {
        let mut looked_at = 0;
        while !self.element_queue.is_empty() || !self.set_queue.is_empty() {
            for _ in 0..self.element_queue.len() {
                let Some(e) = self.element_queue.pop() else {
                    break;
                };
                if self.is_element[e as usize] {
                    self.reduce_element(e);
                }
                if self.is_late(&mut looked_at, stopwatch) {
                    return;
                }
            }
            for _ in 0..self.set_queue.len() {
                let Some(s) = self.set_queue.pop() else { break };
                if self.is_set[s as usize] {
                    self.reduce_set(s);
                }
                if self.is_late(&mut looked_at, stopwatch) {
                    return;
                }
            }
        }
    }

    fn is_late(&self, looked_at: &mut usize, stopwatch: &Stopwatch<'_>) -> bool {
        let is_tick = *looked_at == 0 || self.n_looks.saturating_sub(*looked_at) >= LOOKS_PER_TICK;
        if is_tick {
            *looked_at = self.n_looks.max(1);
        }
        is_tick && stopwatch.is_late()
    }

    /// The sets of an element that are left.
    fn sets_of(&self, e: u32) -> impl Iterator<Item = u32> + '_ {
        let row = self.whole.elements.row(e as usize).iter().copied();
        row.filter(|&s| self.is_set[s as usize])
    }

    /// The elements of a set that are left.
    fn elements_of(&self, s: u32) -> impl Iterator<Item = u32> + '_ {
        let row = self.whole.sets.row(s as usize).iter().copied();
        row.filter(|&e| self.is_element[e as usize])
    }

    fn holds(&self, s: u32, e: u32) -> bool {
        let (set, element) = (
            self.whole.sets.row(s as usize),
            self.whole.elements.row(e as usize),
        );
        match set.len() <= element.len() {
            true => set.binary_search(&e).is_ok(),
            false => element.binary_search(&s).is_ok(),
        }
    }

    /// One set left: it is chosen. Another element that all sets of `e` hold goes, as covering `e` covers it.
    fn reduce_element(&mut self, e: u32) {
        match self.element_degrees[e as usize] {
            0 => {
                self.is_feasible = false;
                return;
            }
            1 => {
                let only = self.sets_of(e).next();
                return only.into_iter().for_each(|s| self.choose(s));
            }
            _ => {}
        }
        let sets: Vec<u32> = self.sets_of(e).collect();
        let n_entries = |s: &u32| self.whole.sets.row(*s as usize).len();
        let Some(pivot) = sets.iter().copied().min_by_key(n_entries) else {
            return;
        };
        let mut looks = n_entries(&pivot);
        let supersets: Vec<u32> = self
            .elements_of(pivot)
            .filter(|&f| f != e && self.element_degrees[f as usize] as usize >= sets.len())
            .filter(|&f| {
                if looks >= MAX_LOOKS {
                    return false;
                }
                let is_in = |&s: &u32| {
                    looks += 1;
                    self.holds(s, f)
                };
                sets.iter().all(is_in)
            })
            .collect();
        self.n_looks += looks;
        for f in supersets {
            self.drop_element(f);
        }
    }

    /// No element is left, or another set holds all of them: the set goes.
    fn reduce_set(&mut self, s: u32) {
        let elements: Vec<u32> = self.elements_of(s).collect();
        let n_entries = |e: &u32| self.whole.elements.row(*e as usize).len();
        let Some(pivot) = elements.iter().copied().min_by_key(n_entries) else {
            return self.drop_set(s);
        };
        let mut looks = n_entries(&pivot);
        let superset = self
            .sets_of(pivot)
            .filter(|&t| t != s && self.set_sizes[t as usize] as usize >= elements.len())
            .find(|&t| {
                if looks >= MAX_LOOKS {
                    return false;
                }
                let is_in = |&e: &u32| {
                    looks += 1;
                    self.holds(t, e)
                };
                elements.iter().all(is_in)
            });
        let is_subset = superset.is_some();
        self.n_looks += looks;
        if is_subset {
            self.drop_set(s);
        }
    }

    fn choose(&mut self, s: u32) {
        self.chosen.push(s);
        let elements: Vec<u32> = self.elements_of(s).collect();
        self.is_set[s as usize] = false;
        for e in elements {
            self.drop_element(e);
        }
    }

    fn drop_element(&mut self, e: u32) {
        self.is_element[e as usize] = false;
        for &s in self.whole.elements.row(e as usize) {
            self.set_sizes[s as usize] -= 1;
            if self.is_set[s as usize] {
                self.set_queue.push(s);
            }
        }
    }

    fn drop_set(&mut self, s: u32) {
        self.is_set[s as usize] = false;
        for &e in self.whole.sets.row(s as usize) {
            self.element_degrees[e as usize] -= 1;
            if self.is_element[e as usize] {
                self.element_queue.push(e);
            }
        }
    }

    fn finish(self) -> Reduction {
        let has_element = |s: &u32| self.is_set[*s as usize] && self.set_sizes[*s as usize] > 0;
        let sets: Vec<u32> = (0..self.is_set.len() as u32).filter(has_element).collect();
        let is_left = |e: &u32| self.is_element[*e as usize];
        let elements: Vec<u32> = (0..self.is_element.len() as u32).filter(is_left).collect();
        let mut ids = vec![u32::MAX; self.is_element.len()];
        for (id, &e) in (0u32..).zip(&elements) {
            ids[e as usize] = id;
        }
        let mut rows = Rows::new();
        for &s in &sets {
            rows.push(self.elements_of(s).map(|e| ids[e as usize]));
        }
        Reduction {
            kernel: SetCover::new(rows, elements.len()),
            sets,
            elements,
            chosen: self.chosen,
            is_feasible: self.is_feasible,
        }
    }
}

/// Ids that wait for a rule, each once; the first comes off first.
struct Queue {
    ids: VecDeque<u32>,
    is_waiting: Vec<bool>,
}

impl Queue {
    /// All ids, those of least size first.
    fn by_size(sizes: &[u32]) -> Queue {
        let mut ids: Vec<u32> = (0..sizes.len() as u32).collect();
        ids.sort_by_key(|&id| sizes[id as usize]);
        Queue {
            ids: ids.into(),
            is_waiting: vec![true; sizes.len()],
        }
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn push(&mut self, id: u32) {
        if !std::mem::replace(&mut self.is_waiting[id as usize], true) {
            self.ids.push_back(id);
        }
    }

    fn pop(&mut self) -> Option<u32> {
        let id = self.ids.pop_front()?;
        self.is_waiting[id as usize] = false;
        Some(id)
    }
}
