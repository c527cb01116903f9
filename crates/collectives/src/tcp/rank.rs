//! One rank's side of every operation between processes, made of steps in which all ranks exchange
//! bytes.

mod all_reduce;
mod broadcast;

use super::links::{Links, Step};
use super::world::World;
use crate::algorithm::Algorithm;
use crate::backend::{Backend, Shared};
use crate::codec::{CALL_LEN, put_call};
use crate::element::Element;
use crate::error::{CommErrorKind, refused};
use crate::op::{Call, Op, OpKind, Reduction};
use crate::operations::{Context, Counts, Done, ExchangeCounts, Operations, dispatch};
use crate::parts::part;
use crate::rank_end::RankEnd;
use crate::timeout::Timeout;
use crate::watch::Look;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// An operation on long buffers moves pieces of about this size per rank, so that memory stays
/// small beside the buffers.
const PIECE_BYTES: usize = 4 << 20;
/// No piece of one pair of ranks is shorter, however many ranks there are.
const MIN_PIECE_BYTES: usize = 64 << 10;
/// Elements reduced at a time.
const TILE_LEN: usize = 4096;

pub(super) struct Rank {
    links: Links,
    /// Operations that this rank has completed.
    n_done: u64,
    /// The mismatch that ended this communicator.
    mismatch: Option<u64>,
    /// The thread whose panics are caught and told with their message by `tcp::run`.
    supervised: Option<ThreadId>,
    /// Replaces the choice by size, in tests.
    algorithm: Option<Algorithm>,
    out: Vec<u8>,
    inbox: Vec<u8>,
}

/// The elements of piece `piece_idx` of a range cut into pieces of `len`.
fn piece_of(range: &Range<usize>, piece_idx: usize, len: usize) -> Range<usize> {
    let start = range.start.saturating_add(piece_idx.saturating_mul(len));
    start.min(range.end)..start.saturating_add(len).min(range.end)
}

impl Backend for Rank {
    fn rank(&self) -> u32 {
        self.links.world.rank
    }

    fn size(&self) -> u32 {
        self.links.world.size()
    }

    fn run(&mut self, op: Op<'_>, call: &Call, timeout: Timeout) -> Done {
        let call = &Call {
            algorithm: self.algorithm_for(&op, call),
            ..*call
        };
        let result = dispatch(self, op, Context { call, timeout });
        match &result {
            Ok(()) => self.n_done = call.seq + 1,
            Err(CommErrorKind::Mismatch { seq, .. }) => self.mismatch = Some(*seq),
            Err(_) => {}
        }
        result
    }

    fn shares_memory(&self) -> bool {
        false
    }

    fn exchange(
        &mut self,
        _item: Shared,
        call: &Call,
        _timeout: Timeout,
    ) -> Result<Vec<Shared>, CommErrorKind> {
        Err(CommErrorKind::Argument {
            op: call.op,
            seq: call.seq,
            what: "its ranks do not share memory: send bytes instead".to_string(),
        })
    }

    fn use_algorithm(&mut self, algorithm: Option<Algorithm>) {
        self.algorithm = algorithm;
    }

    fn watch(&self) -> Option<Look> {
        Some(look(&self.links.world))
    }

    fn abort(&mut self, end: &RankEnd) {
        self.links.world.tell(&RankEnd {
            seq: self.mismatch,
            ..end.clone()
        });
    }
}

impl Rank {
    pub(super) fn new(
        world: Arc<World>,
        data: Vec<Option<TcpStream>>,
        supervised: Option<ThreadId>,
    ) -> Result<Rank, CommErrorKind> {
        let links = Links::new(world, data).map_err(refused)?;
        Ok(Rank {
            links,
            n_done: 0,
            mismatch: None,
            supervised,
            algorithm: None,
            out: Vec::new(),
            inbox: Vec::new(),
        })
    }

    fn own(&self) -> usize {
        self.links.world.rank as usize
    }

    fn n_ranks(&self) -> usize {
        self.links.world.size() as usize
    }

    /// The algorithm of an operation that has several, also inside an exact sum.
    fn algorithm_for(&self, op: &Op<'_>, call: &Call) -> Option<Algorithm> {
        let kind = match op {
            Op::AllReduce { .. } => OpKind::AllReduce,
            Op::Broadcast { .. } => OpKind::Broadcast,
            _ => return None,
        };
        let chosen = || Algorithm::choose(kind, call.n_bytes(), self.links.world.size());
        Some(self.algorithm.unwrap_or_else(chosen))
    }

    /// Elements of one pair of ranks in a piece.
    fn piece_len<T>(&self) -> usize {
        (PIECE_BYTES / self.n_ranks()).max(MIN_PIECE_BYTES) / size_of::<T>()
    }

    /// Works through a buffer in pieces as long as one round of the call's algorithm takes; with the first goes the header.
    fn in_pieces<T>(
        &mut self,
        buf: &mut [T],
        context: Context<'_>,
        mut work: impl FnMut(&mut Rank, &mut [T], &[u8]) -> Done,
    ) -> Done {
        let n_at_once = match context.call.algorithm {
            Some(Algorithm::ReduceScatterAllGather) => self.piece_len::<T>() * self.n_ranks(),
            _ => self.piece_len::<T>(),
        };
        let mut header = header(context.call, &[]);
        for piece_idx in 0..buf.len().div_ceil(n_at_once).max(1) {
            let range = piece_of(&(0..buf.len()), piece_idx, n_at_once);
            work(self, &mut buf[range], &header)?;
            header.clear();
        }
        Ok(())
    }

    /// One step with what `self.out` holds; `outs` and `ins` count elements. What comes lies in
    /// `self.inbox`.
    fn step<T>(
        &mut self,
        header: &[u8],
        outs: &[Range<usize>],
        ins: &[Range<usize>],
        context: Context<'_>,
    ) -> Done {
        let in_bytes =
            |range: &Range<usize>| size_of::<T>() * range.start..size_of::<T>() * range.end;
        let outs: Vec<Range<usize>> = outs.iter().map(in_bytes).collect();
        let ins: Vec<Range<usize>> = ins.iter().map(in_bytes).collect();
        let end = ins.iter().map(|range| range.end).max().unwrap_or(0);
        if self.inbox.len() < end {
            self.inbox.resize(end, 0);
        }
        self.links.run(&mut Step {
            context,
            header,
            out: &self.out,
            outs: &outs,
            inbox: &mut self.inbox,
            ins: &ins,
        })
    }

    /// A buffer of `len` elements, cut into a part for each rank.
    fn parts_of(&self, len: usize) -> Vec<Range<usize>> {
        let n_ranks = self.n_ranks();
        (0..n_ranks).map(|rank| part(len, rank, n_ranks)).collect()
    }

    /// Every rank sends its part of `buf` to all and gets theirs.
    fn share_parts<T: Element>(
        &mut self,
        buf: &mut [T],
        parts: &[Range<usize>],
        context: Context<'_>,
    ) -> Done {
        let own = self.own();
        self.out.clear();
        T::encode(&buf[parts[own].clone()], &mut self.out);
        let outs = vec![0..parts[own].len(); parts.len()];
        self.step::<T>(&[], &outs, parts, context)?;
        self.unpack(buf, parts, parts);
        Ok(())
    }

    /// Combines `own`, this rank's elements, with those of the others in the inbox, in rank order,
    /// and leaves the result in `own`.
    fn reduce_into<T: Element>(&self, own: &mut [T], ins: &[Range<usize>], reduction: Reduction) {
        let mut sum = vec![T::default(); TILE_LEN.min(own.len())];
        let mut part = sum.clone();
        for (tile_idx, tile) in own.chunks_mut(TILE_LEN).enumerate() {
            let (sum, part) = (&mut sum[..tile.len()], &mut part[..tile.len()]);
            for (rank, range) in ins.iter().enumerate() {
                if rank == self.own() {
                    part.copy_from_slice(tile);
                } else {
                    let start = range.start + tile_idx * TILE_LEN;
                    T::decode(&self.inbox[size_of::<T>() * start..], part);
                }
                match rank {
                    0 => sum.copy_from_slice(part),
                    _ => T::reduce(reduction, sum, part),
                }
            }
            tile.copy_from_slice(sum);
        }
    }

    /// Puts the current piece of every part into `self.out`, and says where each lies there.
    fn encode_pieces<T: Element>(
        &mut self,
        send: &[T],
        parts: &[Range<usize>],
        piece_idx: usize,
        piece_len: usize,
    ) -> Vec<Range<usize>> {
        self.out.clear();
        let mut start = 0;
        let mut put = |part: &Range<usize>| {
            let piece = piece_of(part, piece_idx, piece_len);
            let place = start..start + piece.len();
            start = place.end;
            T::encode(&send[piece], &mut self.out);
            place
        };
        parts.iter().map(&mut put).collect()
    }

    /// Copies what came from the other ranks from the inbox to its places.
    fn unpack<T: Element>(&self, recv: &mut [T], places: &[Range<usize>], ins: &[Range<usize>]) {
        for (rank, (place, range)) in places.iter().zip(ins).enumerate() {
            if rank != self.own() {
                T::decode(
                    &self.inbox[size_of::<T>() * range.start..],
                    &mut recv[place.clone()],
                );
            }
        }
    }
}

impl Operations for Rank {
    fn all_reduce<T: Element>(
        &mut self,
        buf: &mut [T],
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        let is_direct = context.call.algorithm == Some(Algorithm::Direct);
        self.in_pieces(buf, context, |rank, piece, header| match is_direct {
            true => rank.all_reduce_direct(piece, reduction, header, context),
            false => rank.reduce_scatter_all_gather(piece, reduction, header, context),
        })
    }

    fn reduce_scatter<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Counts<'_>,
        reduction: Reduction,
        context: Context<'_>,
    ) -> Done {
        let (n_ranks, own) = (self.n_ranks(), self.own());
        let parts = counts.ranges(n_ranks);
        let piece_len = self.piece_len::<T>();
        let mut header = header(context.call, &[]);
        for piece_idx in 0..n_pieces(&parts, piece_len) {
            let outs = self.encode_pieces(send, &parts, piece_idx, piece_len);
            let own_piece = piece_of(&parts[own], piece_idx, piece_len);
            let ins = Counts::Equal(own_piece.len()).ranges(n_ranks);
            self.step::<T>(&header, &outs, &ins, context)?;
            let start = own_piece.start - parts[own].start;
            let recv = &mut recv[start..start + own_piece.len()];
            recv.copy_from_slice(&send[own_piece]);
            self.reduce_into(recv, &ins, reduction);
            header.clear();
        }
        Ok(())
    }

    fn all_gather<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Counts<'_>,
        context: Context<'_>,
    ) -> Done {
        let (n_ranks, own) = (self.n_ranks(), self.own());
        let parts = counts.ranges(n_ranks);
        let piece_len = self.piece_len::<T>();
        let mut header = header(context.call, &[]);
        for piece_idx in 0..n_pieces(&parts, piece_len) {
            let own_piece = piece_of(&(0..send.len()), piece_idx, piece_len);
            self.out.clear();
            T::encode(&send[own_piece.clone()], &mut self.out);
            let outs = vec![0..own_piece.len(); n_ranks];
            let pieces: Vec<Range<usize>> = parts
                .iter()
                .map(|part| piece_of(part, piece_idx, piece_len))
                .collect();
            let ins = packed(&pieces);
            self.step::<T>(&header, &outs, &ins, context)?;
            self.unpack(recv, &pieces, &ins);
            recv[pieces[own].clone()].copy_from_slice(&send[own_piece]);
            header.clear();
        }
        Ok(())
    }

    fn broadcast<T: Element>(&mut self, buf: &mut [T], root: u32, context: Context<'_>) -> Done {
        let (root, is_direct) = (
            root as usize,
            context.call.algorithm == Some(Algorithm::Direct),
        );
        self.in_pieces(buf, context, |rank, piece, header| match is_direct {
            true => rank.broadcast_direct(piece, root, header, context),
            false => rank.scatter_all_gather(piece, root, header, context),
        })
    }

    fn all_to_all<T: Element>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: ExchangeCounts<'_>,
        context: Context<'_>,
    ) -> Done {
        let (n_ranks, own) = (self.n_ranks(), self.own());
        let mut header = header(context.call, &[counts.send, counts.recv]);
        let sent = Counts::Each(counts.send).ranges(n_ranks);
        let received = Counts::Each(counts.recv).ranges(n_ranks);
        let piece_len = self.piece_len::<T>();
        let n_pieces = n_pieces(&sent, piece_len).max(n_pieces(&received, piece_len));
        for piece_idx in 0..n_pieces {
            let outs = self.encode_pieces(send, &sent, piece_idx, piece_len);
            let pieces: Vec<Range<usize>> = received
                .iter()
                .map(|part| piece_of(part, piece_idx, piece_len))
                .collect();
            let ins = packed(&pieces);
            self.step::<T>(&header, &outs, &ins, context)?;
            self.unpack(recv, &pieces, &ins);
            header.clear();
        }
        recv[received[own].clone()].copy_from_slice(&send[sent[own].clone()]);
        Ok(())
    }

    fn barrier(&mut self, context: Context<'_>) -> Done {
        let nothing = vec![0..0; self.n_ranks()];
        self.step::<u8>(&header(context.call, &[]), &nothing, &nothing, context)
    }
}

/// The call with the counts of an all-to-all behind it.
fn header(call: &Call, counts: &[&[usize]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CALL_LEN);
    put_call(call, &mut bytes);
    for &count in counts.iter().copied().flatten() {
        bytes.extend((count as u64).to_le_bytes());
    }
    bytes
}

/// An operation without data has one piece too: in it the calls are compared.
fn n_pieces(parts: &[Range<usize>], piece_len: usize) -> usize {
    let pieces = parts.iter().map(|part| part.len().div_ceil(piece_len));
    pieces.max().unwrap_or(0).max(1)
}

/// Ranges of the same lengths, one after the other.
fn packed(ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let lens: Vec<usize> = ranges.iter().map(Range::len).collect();
    Counts::Each(&lens).ranges(lens.len())
}

impl Drop for Rank {
    fn drop(&mut self) {
        let world = &self.links.world;
        if !thread::panicking() {
            world.leave(self.n_done);
        } else if self.supervised != Some(thread::current().id()) {
            world.tell(&RankEnd::dropped(world.rank, true));
        }
    }
}

/// A look at a world that keeps no connection open.
fn look(world: &Arc<World>) -> Look {
    let world = Arc::downgrade(world);
    Arc::new(move || Some(world.upgrade()?.failure()?.failure()))
}
