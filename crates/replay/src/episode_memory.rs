//! The memory itself: a ring of the last transitions over a queue of the episodes they belong to.

use std::collections::VecDeque;

use crate::error::Error;

/// Names an episode of one memory, for ever: numbers are not used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EpisodeId(pub(crate) u64);

/// The state of an episode after its last recorded step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It reached its end: nothing follows the last reward.
    Terminated,
    /// A limit stopped it: the state after the last step has a value.
    Truncated,
    /// It is still running, or was left for another: the state after the last step has a value.
    Cut,
}

/// One step of one episode, as [`EpisodeMemory::sample`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The episode.
    pub episode: EpisodeId,
    /// The graph that the episode is on, as the caller numbers them.
    pub graph_id: u64,
    /// The number of picks before: the state is `picks[..step]`, the action `picks[step]`.
    pub step: u32,
    /// The number of transitions that the memory recorded before this one. It tells which use of
    /// its slot is meant: once the slot holds a newer transition, this one is stale, and questions
    /// about it answer `None`.
    pub generation: u64,
}

/// The last `capacity` transitions, with the picks of every episode that still has one.
///
/// One episode is open at a time, and its transitions lie one after the other. An episode whose
/// transitions were all overwritten is dropped; one that lost its first transitions keeps its
/// picks, because the states of the others start there.
///
/// # Complexity
/// Memory ([`EpisodeMemory::bytes`]): 8 B per transition, 4 B per pick, and 56 B per episode; there
/// are at most `capacity` picks and those that the oldest episode lost the transitions of.
/// Recording takes O(1) amortised, looking up a transition O(log episodes).
///
/// # Determinism
/// The result of `sample` depends on the recorded steps and on the caller's random numbers alone; a
/// memory that went through bytes gives the same.
#[derive(Clone, Debug, PartialEq)]
pub struct EpisodeMemory {
    pub(crate) capacity: u64,
    /// The transition of generation g is in slot `g % capacity`.
    pub(crate) slots: Vec<Slot>,
    pub(crate) n_recorded: u64,
    /// By ascending id. Only the last can be without picks.
    pub(crate) episodes: VecDeque<Episode>,
    pub(crate) next_episode: u64,
    /// True if the last episode takes more steps.
    pub(crate) is_open: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) reward: f32,
    /// NaN stands for no target; a target itself is finite.
    pub(crate) target: f32,
}

/// Bit for bit, so that slots without a target are equal.
impl PartialEq for Slot {
    fn eq(&self, other: &Slot) -> bool {
        self.bits() == other.bits()
    }
}

impl Slot {
    fn bits(&self) -> [u32; 2] {
        [self.reward.to_bits(), self.target.to_bits()]
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Episode {
    pub(crate) id: u64,
    pub(crate) graph_id: u64,
    /// The generation of step 0.
    pub(crate) first: u64,
    pub(crate) picks: Vec<u32>,
    pub(crate) ending: Ending,
}

impl Episode {
    pub(crate) fn end(&self) -> u64 {
        self.first + self.picks.len() as u64
    }
}

impl EpisodeMemory {
    /// An empty memory of `capacity` transitions.
    ///
    /// # Panics
    /// When `capacity` is 0.
    pub fn new(capacity: usize) -> EpisodeMemory {
        assert!(capacity > 0, "a replay memory needs room for a transition");
        EpisodeMemory {
            capacity: capacity as u64,
            slots: Vec::new(),
            n_recorded: 0,
            episodes: VecDeque::new(),
            next_episode: 0,
            is_open: false,
        }
    }

    /// Opens an episode on the graph that the caller calls `graph_id`; one that is still open is
    /// left as [`Ending::Cut`].
    pub fn begin_episode(&mut self, graph_id: u64) -> EpisodeId {
        if self
            .episodes
            .back()
            .is_some_and(|last| last.picks.is_empty())
        {
            self.episodes.pop_back();
        }
        let id = self.next_episode;
        self.next_episode += 1;
        self.episodes.push_back(Episode {
            id,
            graph_id,
            first: self.n_recorded,
            picks: Vec::new(),
            ending: Ending::Cut,
        });
        self.is_open = true;
        self.drop_overwritten();
        EpisodeId(id)
    }

    /// Adds a step to the open episode: what was picked, what it earned, and a target if one is
    /// already known.
    ///
    /// # Errors
    /// When no episode is open, or `reward` or `target` is not finite.
    pub fn record(
        &mut self,
        pick: u32,
        reward: f32,
        target: Option<f32>,
    ) -> Result<Transition, Error> {
        check_finite("reward", reward)?;
        target.map_or(Ok(()), |target| check_finite("target", target))?;
        let episode = self.open_episode()?;
        let step = episode.picks.len() as u32;
        episode.picks.push(pick);
        let (episode, graph_id) = (EpisodeId(episode.id), episode.graph_id);
        let generation = self.n_recorded;
        self.put(Slot {
            reward,
            target: target.unwrap_or(f32::NAN),
        });
        self.drop_overwritten();
        Ok(Transition {
            episode,
            graph_id,
            step,
            generation,
        })
    }

    /// Closes the open episode.
    ///
    /// # Errors
    /// When no episode is open.
    pub fn end_episode(&mut self, ending: Ending) -> Result<(), Error> {
        let episode = self.open_episode()?;
        episode.ending = ending;
        episode.picks.shrink_to_fit();
        self.is_open = false;
        Ok(())
    }

    fn open_episode(&mut self) -> Result<&mut Episode, Error> {
        let last = self.episodes.back_mut().filter(|_| self.is_open);
        last.ok_or(Error::NoOpenEpisode)
    }

    fn put(&mut self, slot: Slot) {
        let idx = self.slot_of(self.n_recorded);
        self.n_recorded += 1;
        if idx < self.slots.len() {
            self.slots[idx] = slot;
            return;
        }
        if self.slots.len() == self.slots.capacity() {
            let room = self.capacity as usize - self.slots.len();
            self.slots
                .reserve_exact(room.min(self.slots.len().max(1024)));
        }
        self.slots.push(slot);
    }

    fn drop_overwritten(&mut self) {
        let oldest = self.oldest();
        while self.episodes.len() > 1 && self.episodes[0].end() <= oldest {
            self.episodes.pop_front();
        }
    }

    fn slot_of(&self, generation: u64) -> usize {
        (generation % self.capacity) as usize
    }

    /// The generation of the oldest transition that is left.
    pub(crate) fn oldest(&self) -> u64 {
        self.n_recorded.saturating_sub(self.capacity)
    }

    /// The number of transitions in the memory.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if nothing was recorded yet.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The number of transitions that the memory can hold.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// The number of transitions ever recorded.
    pub fn n_recorded(&self) -> u64 {
        self.n_recorded
    }

    /// The number of episodes that are kept.
    pub fn n_episodes(&self) -> usize {
        self.episodes.len()
    }

    /// The bytes that the memory takes now.
    pub fn bytes(&self) -> u64 {
        let n_picks: usize = self
            .episodes
            .iter()
            .map(|episode| episode.picks.capacity())
            .sum();
        let lists = size_of::<Slot>() * self.slots.capacity() + size_of::<u32>() * n_picks;
        (lists + size_of::<Episode>() * self.episodes.capacity()) as u64
    }

    /// Draws `n_transitions` transitions, each one uniformly among all that the memory holds, with
    /// replacement; none from an empty memory.
    ///
    /// `below(n)` gives a uniform random number from `0..n`, without modulo bias.
    ///
    /// # Panics
    /// When `below(n)` gives n or more.
    pub fn sample(
        &self,
        n_transitions: usize,
        below: &mut dyn FnMut(u64) -> u64,
    ) -> Vec<Transition> {
        let mut out = Vec::new();
        self.sample_into(n_transitions, below, &mut out);
        out
    }

    /// [`EpisodeMemory::sample`] into a list whose memory is used again.
    ///
    /// # Panics
    /// When `below(n)` gives n or more.
    pub fn sample_into(
        &self,
        n_transitions: usize,
        below: &mut dyn FnMut(u64) -> u64,
        out: &mut Vec<Transition>,
    ) {
        out.clear();
        if self.is_empty() {
            return;
        }
        let n = self.len() as u64;
        out.extend((0..n_transitions).map(|_| {
            let drawn = below(n);
            assert!(drawn < n, "below({n}) gave {drawn}");
            self.transition(self.oldest() + drawn)
        }));
    }

    /// Every transition, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Transition> + '_ {
        (self.oldest()..self.n_recorded).map(|generation| self.transition(generation))
    }

    fn transition(&self, generation: u64) -> Transition {
        let idx = self
            .episodes
            .partition_point(|episode| episode.first <= generation)
            - 1;
        let episode = &self.episodes[idx];
        Transition {
            episode: EpisodeId(episode.id),
            graph_id: episode.graph_id,
            step: (generation - episode.first) as u32,
            generation,
        }
    }

    /// The episode of `transition`, unless the transition is stale.
    pub(crate) fn episode_of(&self, transition: &Transition) -> Option<&Episode> {
        let held = self.oldest()..self.n_recorded;
        if !held.contains(&transition.generation)
            || self.transition(transition.generation) != *transition
        {
            return None;
        }
        self.episode(transition.episode)
    }

    fn episode(&self, id: EpisodeId) -> Option<&Episode> {
        let idx = self
            .episodes
            .binary_search_by_key(&id.0, |episode| episode.id);
        Some(&self.episodes[idx.ok()?])
    }

    pub(crate) fn slot(&self, generation: u64) -> &Slot {
        &self.slots[self.slot_of(generation)]
    }

    /// All picks of an episode so far; `None` when it was dropped.
    pub fn picks(&self, episode: EpisodeId) -> Option<&[u32]> {
        self.episode(episode).map(|episode| &episode.picks[..])
    }

    /// The state of an episode; `None` when it was dropped.
    pub fn ending(&self, episode: EpisodeId) -> Option<Ending> {
        self.episode(episode).map(|episode| episode.ending)
    }

    /// The picks before `transition`, which are its state; `None` when it is stale.
    pub fn prefix(&self, transition: &Transition) -> Option<&[u32]> {
        let episode = self.episode_of(transition)?;
        Some(&episode.picks[..transition.step as usize])
    }

    /// The pick of `transition`; `None` when it is stale.
    pub fn pick(&self, transition: &Transition) -> Option<u32> {
        let episode = self.episode_of(transition)?;
        Some(episode.picks[transition.step as usize])
    }

    /// The reward of `transition`; `None` when it is stale.
    pub fn reward(&self, transition: &Transition) -> Option<f32> {
        self.episode_of(transition)?;
        Some(self.slot(transition.generation).reward)
    }

    /// The target stored with `transition`; `None` when it has none or is stale.
    pub fn target(&self, transition: &Transition) -> Option<f32> {
        self.episode_of(transition)?;
        let target = self.slot(transition.generation).target;
        (!target.is_nan()).then_some(target)
    }
}

fn check_finite(what: &'static str, value: f32) -> Result<(), Error> {
    if value.is_finite() {
        return Ok(());
    }
    Err(Error::NotFinite { what, value })
}
