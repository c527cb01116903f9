//! Parts of an arena at places that are known beforehand: made once, lent out again and again.

use std::ops::Range;
use std::sync::Arc;

use super::{Arena, Lease};
use crate::buffer::Store;
use crate::{Buffer, Error};

/// Parts of an arena at fixed places, which may overlap; those that do are never lent out at the same time.
///
/// ```
/// use shardgraph_device::Device;
/// let arena = Device::host().arena(8)?;
/// let mut places = arena.places(&[0..4, 3..5])?;
/// let low = places.take(0)?;
/// assert!(places.take(1).is_err()); // the element 3 is lent out
/// places.give_back(0, low)?;
/// assert_eq!(places.take(1)?.len(), 2);
/// # Ok::<(), shardgraph_device::Error>(())
/// ```
#[derive(Debug)]
pub struct Places {
    places: Vec<Place>,
    /// The whole arena: nobody else is lent any of it.
    _lease: Arc<Lease>,
}

#[derive(Debug)]
struct Place {
    range: Range<usize>,
    /// Where its part is, to know it again.
    address: usize,
    /// Other places with elements of this one.
    overlaps: Vec<u32>,
    /// Its part, unless that is lent out.
    part: Option<Arc<Buffer>>,
}

impl Arena {
    /// The parts at these places, for as long as the result and what it lent live; on a GPU each has to be aligned
    /// ([`Arena::ALIGNMENT`]).
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for a place outside of the arena or not aligned, and while any of the arena is lent out.
    /// # Complexity
    /// `O(n log n + k)` for `n` places of which `k` pairs overlap; memory for the pairs.
    pub fn places(&self, ranges: &[Range<usize>]) -> Result<Places, Error> {
        let lease = Arc::new(Lease::of(&self.space)?);
        let place = |(range, overlaps): (&Range<usize>, Vec<u32>)| {
            if range.start > range.end || range.end > self.len() {
                let (n, Range { start, end }) = (self.len(), range);
                let why = format!("the place {start}..{end} was asked for, it has {n} elements");
                return Err(Error::invalid("arena", why));
            }
            let part = match range.is_empty() {
                true => self.nothing()?,
                false => self.part(range.start, range.len(), Arc::clone(&lease))?,
            };
            Ok(Place {
                range: range.clone(),
                address: address(&part),
                overlaps,
                part: Some(Arc::new(part)),
            })
        };
        let places = ranges.iter().zip(overlaps(ranges)).map(place);
        Ok(Places {
            places: places.collect::<Result<_, Error>>()?,
            _lease: lease,
        })
    }
}

/// Of each range the others that have elements of it: a sweep over their first elements, with those that have not ended.
fn overlaps(ranges: &[Range<usize>]) -> Vec<Vec<u32>> {
    let mut order: Vec<usize> = (0..ranges.len())
        .filter(|&i| !ranges[i].is_empty())
        .collect();
    order.sort_by_key(|&i| ranges[i].start);
    let mut overlaps = vec![Vec::new(); ranges.len()];
    let mut open: Vec<usize> = Vec::new();
    for i in order {
        open.retain(|&other| ranges[other].end > ranges[i].start);
        for &other in &open {
            overlaps[other].push(i as u32);
            overlaps[i].push(other as u32);
        }
        open.push(i);
    }
    overlaps
}

impl Places {
    /// Lends the part at place `i`, with unspecified contents, until [`Places::give_back`].
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] where there is no such place, and while it or one that overlaps it is lent out.
    /// # Complexity
    /// A look at each place that overlaps it; nothing is allocated.
    pub fn take(&mut self, i: usize) -> Result<Arc<Buffer>, Error> {
        let place = self.place(i)?;
        let is_lent = |&other: &u32| self.places[other as usize].part.is_none();
        if let Some(&other) = place.overlaps.iter().find(|other| is_lent(other)) {
            let (range, other) = (&place.range, &self.places[other as usize].range);
            let why = format!("{range:?} was asked for while {other:?} is lent out");
            return Err(Error::invalid("arena", why));
        }
        match self.places[i].part.take() {
            Some(part) => Ok(part),
            None => {
                let why = format!("the place {:?} is lent out", self.places[i].range);
                Err(Error::invalid("arena", why))
            }
        }
    }

    /// Takes back the part of place `i`; one that is dropped instead stays lent out.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for another buffer than [`Places::take`] gave for this place, and for one that someone
    /// else still holds; what the device's work failed with. The part stays lent out then.
    pub fn give_back(&mut self, i: usize, mut part: Arc<Buffer>) -> Result<(), Error> {
        let place = self.place(i)?;
        let is_its_own = place.part.is_none()
            && part.len() == place.range.len()
            && (part.is_empty() || address(&part) == place.address);
        let refused = |why: &str| {
            let range = &place.range;
            Err(Error::invalid(
                "arena",
                format!("{why} the place {range:?}"),
            ))
        };
        if !is_its_own {
            return refused("another buffer was given back for");
        }
        if Arc::get_mut(&mut part).is_none() {
            return refused("someone still holds");
        }
        if let Store::Gpu(memory) = &part.store {
            memory.wait_for_readers()?;
        }
        self.places[i].part = Some(part);
        Ok(())
    }

    fn place(&self, i: usize) -> Result<&Place, Error> {
        let n = self.places.len();
        let why = || Error::invalid("arena", format!("place {i} was asked for, it has {n}"));
        self.places.get(i).ok_or_else(why)
    }
}

/// Where a buffer's elements are; no other buffer that is alive has the same place, unless one of them is empty.
fn address(buffer: &Buffer) -> usize {
    match &buffer.store {
        Store::Host(values) => values.as_ptr().addr(),
        Store::Part(part) => part.values().as_ptr().addr(),
        Store::Gpu(memory) => memory.address() as usize,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::devices;

    const N: usize = 10;

    fn ranges() -> impl Strategy<Value = Vec<Range<usize>>> {
        let block = Arena::ALIGNMENT;
        let range = (0..N, 0usize..5)
            .prop_map(move |(first, len)| first * block..N.min(first + len) * block);
        prop::collection::vec(range, 1..8)
    }

    proptest! {
        /// Every pair that shares an element, and no other.
        #[test]
        fn overlaps_are_those_of_all_pairs(
            ranges in prop::collection::vec((0usize..60, 0usize..20), 0..70),
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(start, len)| start..start + len).collect();
            let meets = |i: usize, j: usize| i != j && ranges[i].clone().any(|at| ranges[j].contains(&at));
            for (i, mut found) in overlaps(&ranges).into_iter().enumerate() {
                found.sort_unstable();
                let expected: Vec<u32> =
                    (0..ranges.len()).filter(|&j| meets(i, j)).map(|j| j as u32).collect();
                prop_assert_eq!(found, expected);
            }
        }

        /// Parts that are out at the same time never share an element, all others can be had, and values stay.
        #[test]
        fn places_that_overlap_are_never_out_together(
            ranges in ranges(),
            steps in prop::collection::vec((0usize..8, any::<bool>()), 1..40),
        ) {
            for device in devices() {
                let arena = device.arena(N * Arena::ALIGNMENT).unwrap();
                let mut places = arena.places(&ranges).unwrap();
                let mut out: Vec<(usize, f32, Arc<Buffer>)> = Vec::new();
                for (turn, &(i, gives_back)) in steps.iter().enumerate() {
                    if gives_back && !out.is_empty() {
                        let (i, _, part) = out.swap_remove(turn % out.len());
                        places.give_back(i, part).unwrap();
                    }
                    let meets = |other: &Range<usize>| {
                        (other.start..other.end).any(|at| ranges[i % ranges.len()].contains(&at))
                    };
                    let i = i % ranges.len();
                    let is_free = !out.iter().any(|&(other, ..)| other == i || meets(&ranges[other]));
                    let part = places.take(i);
                    prop_assert_eq!(part.is_ok(), is_free);
                    if let Ok(mut part) = part {
                        let values = vec![turn as f32; ranges[i].len()];
                        device.write(&values, Arc::get_mut(&mut part).unwrap()).unwrap();
                        out.push((i, turn as f32, part));
                    }
                    for (i, value, part) in &out {
                        prop_assert_eq!(device.download(part).unwrap(), vec![*value; ranges[*i].len()]);
                    }
                }
            }
        }
    }

    #[test]
    fn only_the_part_itself_comes_back() {
        for device in devices() {
            let block = Arena::ALIGNMENT;
            let arena = device.arena(4 * block).unwrap();
            let ranges = [0..block, block..2 * block, 0..block];
            let mut places = arena.places(&ranges).unwrap();
            assert!(arena.places(&ranges).is_err(), "the whole arena is lent");
            let first = places.take(0).unwrap();
            let other = Arc::new(device.zeros(block).unwrap());
            assert!(places.give_back(0, other).is_err(), "another buffer");
            let second = places.take(1).unwrap();
            assert!(places.give_back(0, second).is_err(), "another place's");
            assert!(places.give_back(2, Arc::clone(&first)).is_err(), "not out");
            let held = Arc::clone(&first);
            assert!(places.give_back(0, first).is_err(), "someone holds it");
            assert!(places.take(0).is_err() && places.take(2).is_err());
            places.give_back(0, held).unwrap();
            assert!(places.take(2).is_ok() && places.take(9).is_err());
            assert!(places.take(1).is_err(), "it was dropped");
            drop(places);
            assert!(arena.places(&ranges).is_ok());
        }
    }

    #[test]
    fn parts_keep_the_memory_and_may_change_threads() {
        for device in devices() {
            let arena = device.arena(128).unwrap();
            let mut places = arena.places(std::slice::from_ref(&(64..67))).unwrap();
            let mut part = places.take(0).unwrap();
            drop(places);
            assert!(arena.places(&[]).is_err(), "a part of it is there");
            drop(arena);
            let values = Arc::get_mut(&mut part).unwrap();
            device.write(&[1.0, 2.0, 3.0], values).unwrap();
            let values = std::thread::scope(|scope| {
                let read = scope.spawn(|| device.download(&part).unwrap());
                read.join().unwrap()
            });
            assert_eq!(values, [1.0, 2.0, 3.0]);
        }
    }

    #[test]
    fn places_outside_of_the_arena_are_refused() {
        let arena = crate::Device::host().arena(8).unwrap();
        for range in [0..9, 9..9, 7..10] {
            let error = arena.places(std::slice::from_ref(&range)).unwrap_err();
            let text = format!(
                "the place {}..{} was asked for, it has 8 elements",
                range.start, range.end
            );
            assert!(error.to_string().contains(&text), "{error}");
        }
    }
}
