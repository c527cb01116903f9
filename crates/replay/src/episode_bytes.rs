//! A memory as bytes, for checkpoints: a versioned header, the episodes, then the transitions, the
//! oldest first; little-endian.

use std::collections::VecDeque;

use crate::codec::Reader;
use crate::episode_memory::{Ending, Episode, EpisodeMemory, Slot};
use crate::error::Error;

const MAGIC: [u8; 8] = *b"SGEPM\0\0\x01";

impl EpisodeMemory {
    /// The memory as bytes; [`EpisodeMemory::from_bytes`] makes an equal one, which samples and
    /// records alike.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let n_episodes = self.episodes.len() as u64;
        for number in [
            self.capacity,
            self.n_recorded,
            self.next_episode,
            n_episodes,
        ] {
            out.extend(number.to_le_bytes());
        }
        out.extend(u32::from(self.is_open).to_le_bytes());
        for episode in &self.episodes {
            put_episode(&mut out, episode);
        }
        for generation in self.oldest()..self.n_recorded {
            let slot = self.slot(generation);
            out.extend(slot.reward.to_le_bytes());
            out.extend(slot.target.to_le_bytes());
        }
        out
    }

    /// Reads what [`EpisodeMemory::to_bytes`] wrote.
    ///
    /// # Errors
    /// When the header, a length or any rule of the memory is broken. Memory is taken only for what
    /// the bytes hold.
    pub fn from_bytes(bytes: &[u8]) -> Result<EpisodeMemory, Error> {
        let mut reader = Reader { rest: bytes };
        if reader.array()? != MAGIC {
            return Err(Error::malformed(
                "the first 8 bytes are not this form and version",
            ));
        }
        let (capacity, n_recorded) = (reader.u64()?, reader.u64()?);
        let (next_episode, n_episodes) = (reader.u64()?, reader.u64()?);
        let is_open = match reader.u32()? {
            0 => false,
            1 => true,
            _ => return Err(Error::malformed("the open flag is neither 0 nor 1")),
        };
        if capacity == 0 || usize::try_from(capacity).is_err() {
            return Err(Error::malformed(
                "the capacity is 0 or more than this machine addresses",
            ));
        }
        let mut memory = EpisodeMemory {
            capacity,
            slots: Vec::new(),
            n_recorded,
            episodes: read_episodes(&mut reader, n_episodes)?,
            next_episode,
            is_open,
        };
        memory.check_episodes()?;
        memory.slots = read_slots(&mut reader, capacity, n_recorded)?;
        Ok(memory)
    }

    fn check_episodes(&self) -> Result<(), Error> {
        let Some(last) = self.episodes.back() else {
            return match (self.n_recorded, self.is_open) {
                (0, false) => Ok(()),
                _ => Err(Error::malformed(
                    "the episodes of its transitions are missing",
                )),
            };
        };
        let pairs = || self.episodes.iter().zip(self.episodes.iter().skip(1));
        if !pairs().all(|(a, b)| a.id < b.id) || last.id >= self.next_episode {
            return Err(Error::malformed("the episodes' numbers do not ascend"));
        }
        if !pairs().all(|(a, b)| a.end() == b.first && !a.picks.is_empty()) {
            return Err(Error::malformed(
                "an episode does not begin where the one before ends",
            ));
        }
        let first = &self.episodes[0];
        let is_live = first.end() > self.oldest() || self.n_recorded == 0;
        if first.first > self.oldest() || !is_live || last.end() != self.n_recorded {
            return Err(Error::malformed(
                "the episodes are not those of the last transitions",
            ));
        }
        if self.is_open && last.ending != Ending::Cut {
            return Err(Error::malformed("the open episode has an ending"));
        }
        Ok(())
    }
}

fn put_episode(out: &mut Vec<u8>, episode: &Episode) {
    for number in [episode.id, episode.graph_id, episode.first] {
        out.extend(number.to_le_bytes());
    }
    let ending: u32 = match episode.ending {
        Ending::Terminated => 0,
        Ending::Truncated => 1,
        Ending::Cut => 2,
    };
    out.extend(ending.to_le_bytes());
    out.extend((episode.picks.len() as u32).to_le_bytes());
    out.extend(episode.picks.iter().flat_map(|pick| pick.to_le_bytes()));
}

fn read_episodes(reader: &mut Reader<'_>, n_episodes: u64) -> Result<VecDeque<Episode>, Error> {
    let mut episodes = VecDeque::new();
    for _ in 0..n_episodes {
        let (id, graph_id, first) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let ending = match reader.u32()? {
            0 => Ending::Terminated,
            1 => Ending::Truncated,
            2 => Ending::Cut,
            _ => {
                return Err(Error::malformed(
                    "an episode's ending is none of 0, 1 and 2",
                ));
            }
        };
        let n_picks = reader.u32()?;
        let picks = reader.u32s(n_picks)?;
        if first.checked_add(u64::from(n_picks)).is_none() {
            return Err(Error::malformed(
                "an episode begins at a number without end",
            ));
        }
        episodes.push_back(Episode {
            id,
            graph_id,
            first,
            picks,
            ending,
        });
    }
    Ok(episodes)
}

/// The transitions that follow in `reader`, each in its slot.
fn read_slots(reader: &mut Reader<'_>, capacity: u64, n_recorded: u64) -> Result<Vec<Slot>, Error> {
    let n_slots = n_recorded.min(capacity);
    let (pairs, rest) = reader.rest.as_chunks::<8>();
    if !rest.is_empty() || pairs.len() as u64 != n_slots {
        return Err(Error::malformed(
            "the bytes end before or after the last transition",
        ));
    }
    let mut slots: Vec<Slot> = pairs
        .iter()
        .map(|&[a, b, c, d, e, f, g, h]| Slot {
            reward: f32::from_le_bytes([a, b, c, d]),
            target: f32::from_le_bytes([e, f, g, h]),
        })
        .collect();
    let is_sound = |slot: &Slot| {
        let has_target = slot.target.to_bits() != f32::NAN.to_bits();
        slot.reward.is_finite() && (!has_target || slot.target.is_finite())
    };
    if !slots.iter().all(is_sound) {
        return Err(Error::malformed("a reward or target is not finite"));
    }
    let oldest = n_recorded - n_slots;
    slots.rotate_right((oldest % capacity) as usize);
    Ok(slots)
}
