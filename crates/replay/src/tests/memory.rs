//! What is kept and what is dropped: any use of the memory against one that keeps everything, and
//! the stated bytes.

use proptest::prelude::*;

use super::record_episode;
use crate::episode_memory::Episode;
use crate::naive::NaiveMemory;
use crate::{Ending, EpisodeMemory, Error};

#[derive(Clone, Debug)]
enum Op {
    Begin(u64),
    Record(u32, i8, Option<i8>),
    End(Ending),
    ThroughBytes,
}

fn op() -> impl Strategy<Value = Op> {
    let ending = prop::sample::select(vec![Ending::Terminated, Ending::Truncated, Ending::Cut]);
    prop_oneof![
        1 => (0..3u64).prop_map(Op::Begin),
        8 => any::<(u32, i8, Option<i8>)>().prop_map(|(pick, reward, target)| Op::Record(pick, reward, target)),
        1 => ending.prop_map(Op::End),
        1 => Just(Op::ThroughBytes),
    ]
}

/// Both memories, and whether an episode is open.
struct Pair {
    memory: EpisodeMemory,
    naive: NaiveMemory,
    is_open: bool,
}

impl Pair {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Begin(graph_id) => {
                let id = self.memory.begin_episode(graph_id);
                self.naive.begin_episode(id, graph_id);
                self.is_open = true;
            }
            Op::Record(pick, reward, target) => {
                self.record(pick, f32::from(reward), target.map(f32::from))
            }
            Op::End(ending) => self.end(ending),
            Op::ThroughBytes => {
                let again = EpisodeMemory::from_bytes(&self.memory.to_bytes()).unwrap();
                assert_eq!(again, self.memory);
                self.memory = again;
            }
        }
    }

    fn record(&mut self, pick: u32, reward: f32, target: Option<f32>) {
        let recorded = self.memory.record(pick, reward, target);
        if !self.is_open {
            assert_eq!(recorded.unwrap_err(), Error::NoOpenEpisode);
            return;
        }
        assert_eq!(recorded.unwrap(), self.naive.record(pick, reward, target));
    }

    fn end(&mut self, ending: Ending) {
        assert_eq!(self.memory.end_episode(ending).is_ok(), self.is_open);
        if self.is_open {
            self.naive.episodes.last_mut().unwrap().ending = ending;
        }
        self.is_open = false;
    }

    fn check(&self) {
        let live = self.naive.live(self.memory.capacity());
        let transitions: Vec<_> = self.memory.iter().collect();
        assert_eq!(
            transitions,
            live.iter().map(|step| step.transition).collect::<Vec<_>>()
        );
        assert_eq!(
            (self.memory.len(), self.memory.is_empty()),
            (live.len(), live.is_empty())
        );
        for step in live {
            let transition = &step.transition;
            let picks = self.naive.picks(transition.episode);
            let at = transition.step as usize;
            assert_eq!(self.memory.picks(transition.episode), Some(&picks[..]));
            assert_eq!(self.memory.prefix(transition), Some(&picks[..at]));
            assert_eq!(self.memory.pick(transition), Some(step.pick));
            assert_eq!(self.memory.reward(transition), Some(step.reward));
            assert_eq!(self.memory.target(transition), step.target);
            for n in [1, 2, 3, u32::MAX] {
                let expected = self.naive.n_step(transition, n, 0.5);
                assert_eq!(self.memory.n_step(transition, n, 0.5), Some(expected));
            }
        }
        let n_stale = self.naive.steps.len() - live.len();
        for stale in &self.naive.steps[..n_stale] {
            assert_eq!(self.memory.n_step(&stale.transition, 1, 0.5), None);
            assert_eq!(self.memory.prefix(&stale.transition), None);
            assert_eq!(self.memory.pick(&stale.transition), None);
            assert_eq!(self.memory.reward(&stale.transition), None);
            assert_eq!(self.memory.target(&stale.transition), None);
        }
        self.check_episodes(live.first().map(|step| step.transition.episode));
    }

    /// Kept are the episodes from the oldest live transition's on.
    fn check_episodes(&self, oldest: Option<crate::EpisodeId>) {
        for episode in &self.naive.episodes {
            let is_empty = self.naive.picks(episode.id).is_empty();
            let is_last = self.naive.episodes.last().unwrap().id == episode.id;
            let is_kept =
                is_last || (!is_empty && oldest.is_some_and(|oldest| oldest <= episode.id));
            let ending = is_kept.then_some(episode.ending);
            assert_eq!(
                self.memory.ending(episode.id),
                ending,
                "episode {:?}",
                episode.id
            );
            assert_eq!(self.memory.picks(episode.id).is_some(), is_kept);
        }
    }
}

proptest! {
    #[test]
    fn any_use_is_that_of_a_memory_that_keeps_everything(
        capacity in prop::sample::select(vec![1, 2, 7, 31, 32, 33, 1000]),
        ops in prop::collection::vec(op(), 0..120),
    ) {
        let (memory, naive) = (EpisodeMemory::new(capacity), NaiveMemory::default());
        let mut pair = Pair { memory, naive, is_open: false };
        for op in &ops {
            pair.apply(op);
        }
        pair.check();
    }
}

#[test]
fn a_transition_of_another_memory_is_stale() {
    let mut memory = EpisodeMemory::new(4);
    memory.begin_episode(1);
    let first = memory.record(0, 1.0, None).unwrap();
    for other in [
        crate::Transition { step: 1, ..first },
        crate::Transition {
            graph_id: 2,
            ..first
        },
        crate::Transition {
            generation: 1,
            ..first
        },
    ] {
        assert_eq!(memory.pick(&other), None);
        assert_eq!(memory.target(&other), None);
    }
    assert_eq!(memory.target(&first), None);
}

#[test]
fn a_closed_episode_takes_no_step() {
    let mut memory = EpisodeMemory::new(4);
    for ending in [Ending::Terminated, Ending::Truncated] {
        let episode = memory.begin_episode(0);
        memory.record(3, -1.0, None).unwrap();
        assert_eq!(memory.ending(episode), Some(Ending::Cut));
        memory.end_episode(ending).unwrap();
        assert_eq!(memory.ending(episode), Some(ending));
        assert_eq!(
            memory.record(2, -1.0, None).unwrap_err(),
            Error::NoOpenEpisode
        );
    }
}

#[test]
fn numbers_that_are_not_finite_change_nothing() {
    let mut memory = EpisodeMemory::new(4);
    memory.begin_episode(0);
    memory.record(0, 1.0, None).unwrap();
    let before = memory.clone();
    for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let reward = memory.record(1, value, None).unwrap_err();
        assert!(matches!(reward, Error::NotFinite { what: "reward", .. }));
        let target = memory.record(1, 1.0, Some(value)).unwrap_err();
        assert!(matches!(target, Error::NotFinite { what: "target", .. }));
    }
    assert_eq!(memory, before);
}

#[test]
#[should_panic(expected = "needs room for a transition")]
fn a_memory_without_room_is_refused() {
    EpisodeMemory::new(0);
}

/// 8 B a transition, 4 B a pick, 56 B an episode (in a queue that doubles), whatever the number of
/// nodes.
#[test]
fn a_transition_takes_the_stated_bytes() {
    assert_eq!(size_of::<Episode>(), 56);
    let capacity = 50_000;
    for (n_steps, most_bytes) in [(10, 12 + 2 * 6), (20, 12 + 2 * 3), (10_000, 13)] {
        let mut memory = EpisodeMemory::new(capacity);
        let mut largest = 0;
        while memory.n_recorded() < 4 * capacity as u64 {
            record_episode(&mut memory, 0, n_steps, Ending::Terminated);
            largest = largest.max(memory.bytes());
        }
        // The oldest episode's picks stay while one of its transitions does.
        let slack = 4 * u64::from(n_steps);
        assert!(
            largest <= most_bytes * capacity as u64 + slack,
            "{largest} bytes at {n_steps} steps"
        );
        assert!(memory.n_episodes() <= capacity / n_steps as usize + 1);
    }
}

#[test]
fn episodes_without_steps_take_no_room() {
    let mut memory = EpisodeMemory::new(4);
    for graph_id in 0..1000 {
        memory.begin_episode(graph_id);
        if graph_id % 2 == 0 {
            memory.end_episode(Ending::Truncated).unwrap();
        }
        if graph_id % 100 == 0 {
            memory.begin_episode(graph_id);
            memory.record(1, 0.0, None).unwrap();
        }
    }
    assert!(memory.n_episodes() <= 5, "{}", memory.n_episodes());
}

#[test]
fn an_episode_longer_than_the_memory_keeps_its_picks() {
    let mut memory = EpisodeMemory::new(3);
    let episode = memory.begin_episode(0);
    for pick in 0..10 {
        memory.record(pick, 1.0, None).unwrap();
    }
    assert_eq!(memory.len(), 3);
    let oldest = memory.iter().next().unwrap();
    assert_eq!((oldest.episode, oldest.step), (episode, 7));
    assert_eq!(memory.prefix(&oldest), Some(&[0, 1, 2, 3, 4, 5, 6][..]));
}
