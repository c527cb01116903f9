//! One rank's side of every operation between processes, made of steps in which all ranks exchange bytes.

mod all_reduce;
mod broadcast;

use super::control::{Cause, End, World};
use super::links::{Links, Step};
use super::mesh::Plan;
use super::wire::Wire;
use super::{Supervisor, group_id};
use crate::algorithm::{Algorithm, TCP};
use crate::backend::{Backend, Shared};
use crate::bytes::{CALL_LEN, put_call};
use crate::deadline::Deadline;
use crate::error::CommErrorKind;
use crate::op::{Call, Op, OpKind, Reduction, typed};
use crate::parts::part;
use crate::solo::Solo;
use crate::watch::Look;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

/// An operation on long buffers moves pieces of about this size per rank, so that memory stays small beside the buffers.
const PIECE_BYTES: usize = 4 << 20;
/// No piece of one pair of ranks is shorter, however many ranks there are.
const MIN_PIECE_BYTES: usize = 64 << 10;
/// Elements reduced at a time.
const TILE_LEN: usize = 4096;

type Done = Result<(), CommErrorKind>;

pub(super) struct Rank {
    links: Links,
    /// Operations that this rank has completed.
    n_done: u64,
    /// The mismatch that ended this communicator.
    mismatch: Option<u64>,
    deadline: Deadline,
    supervisor: Option<Arc<Supervisor>>,
    /// In place of what the table says.
    algorithm: Option<Algorithm>,
    out: Vec<u8>,
    inbox: Vec<u8>,
}

/// What all steps of one operation need.
#[derive(Clone, Copy)]
struct Context<'a> {
    call: &'a Call,
    deadline: Deadline,
}

/// The length of each rank's part.
#[derive(Clone, Copy)]
enum Counts<'a> {
    Equal(usize),
    Each(&'a [usize]),
}

impl Counts<'_> {
    fn of(self, rank: usize) -> usize {
        match self {
            Counts::Equal(count) => count,
            Counts::Each(counts) => counts[rank],
        }
    }

    /// Where each part lies when the parts are put one after the other.
    fn ranges(self, n_ranks: usize) -> Vec<Range<usize>> {
        let mut start = 0;
        let range = |rank| {
            let range = start..start + self.of(rank);
            start = range.end;
            range
        };
        (0..n_ranks).map(range).collect()
    }
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

    fn run(&mut self, op: Op<'_>, call: &Call, deadline: Deadline) -> Done {
        self.deadline = deadline;
        let call = &Call {
            algorithm: self.algorithm_for(&op, call),
            ..*call
        };
        let result = self.dispatch(op, Context { call, deadline });
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
        _deadline: Deadline,
    ) -> Result<Vec<Shared>, CommErrorKind> {
        Err(CommErrorKind::Argument {
            op: call.op,
            seq: call.seq,
            what: "its ranks do not share memory: send bytes instead".to_string(),
        })
    }

    fn subgroup(&mut self, group: &[u32], call: &Call) -> Result<Box<dyn Backend>, CommErrorKind> {
        if group.len() == 1 {
            return Ok(Box::new(Solo));
        }
        let world = &self.links.world;
        let position = group.iter().position(|&member| member == world.rank);
        let mut whereabouts = world.whereabouts.clone();
        let address = |&member: &u32| world.whereabouts.addresses[member as usize];
        whereabouts.addresses = group.iter().map(address).collect();
        let plan = Plan {
            world: group_id(world.id, call.seq, group[0]),
            rank: position.unwrap_or_default() as u32,
            whereabouts: &whereabouts,
            call,
            deadline: self.deadline,
        };
        let mut no_controls: Vec<Option<TcpStream>> = Vec::new();
        no_controls.resize_with(group.len(), || None);
        let interrupted = || world.end_of(call).map(|end| end.error(call));
        let mesh = plan.connect(no_controls, &interrupted);
        let mesh = mesh.map_err(|error| error.among(group))?;
        let parent = Some((Arc::clone(world), group.to_vec()));
        let (rank, id) = (plan.rank, plan.world);
        let group = World::new(rank, id, mesh.controls, parent, whereabouts);
        let mut rank = Rank::new(group, mesh.data, self.supervisor.clone())?;
        rank.algorithm = self.algorithm;
        Ok(Box::new(rank))
    }

    fn use_algorithm(&mut self, algorithm: Option<Algorithm>) {
        self.algorithm = algorithm;
    }

    fn watch(&self) -> Option<Look> {
        Some(super::watch(&self.links.world))
    }

    fn abort(&mut self, by: Option<u32>, why: &str) {
        self.links.world.tell(&End {
            cause: Cause::Aborted,
            rank: by,
            seq: self.mismatch,
            why: why.to_string(),
        });
    }
}

impl Rank {
    pub(super) fn new(
        world: Arc<World>,
        data: Vec<Option<TcpStream>>,
        supervisor: Option<Arc<Supervisor>>,
    ) -> Result<Rank, CommErrorKind> {
        let links = Links::new(world, data).map_err(super::refused)?;
        Ok(Rank {
            links,
            n_done: 0,
            mismatch: None,
            deadline: Deadline::default(),
            supervisor,
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

    /// How to do an operation that can be done in several ways, whatever it is a part of.
    fn algorithm_for(&self, op: &Op<'_>, call: &Call) -> Option<Algorithm> {
        let kind = match op {
            Op::AllReduce { .. } => OpKind::AllReduce,
            Op::Broadcast { .. } => OpKind::Broadcast,
            _ => return None,
        };
        let chosen = || TCP.choose(kind, call.n_bytes(), self.links.world.size());
        Some(self.algorithm.unwrap_or_else(chosen))
    }

    /// Elements of one pair of ranks in a piece.
    fn piece_len<T>(&self) -> usize {
        (PIECE_BYTES / self.n_ranks()).max(MIN_PIECE_BYTES) / size_of::<T>()
    }

    fn dispatch(&mut self, op: Op<'_>, context: Context<'_>) -> Done {
        match op {
            Op::AllReduce { buf, reduction } => {
                typed!(buf, |b| self.all_reduce(b, reduction, context))
            }
            Op::ReduceScatter {
                send,
                recv,
                reduction,
            } => {
                let counts = Counts::Equal(recv.len());
                typed!(send, recv, |s, r| self
                    .reduce_parts(s, r, counts, reduction, context))
            }
            Op::ReduceScatterV {
                send,
                recv,
                counts,
                reduction,
            } => {
                let counts = Counts::Each(counts);
                typed!(send, recv, |s, r| self
                    .reduce_parts(s, r, counts, reduction, context))
            }
            op => self.dispatch_move(op, context),
        }
    }

    /// The operations that reduce nothing.
    fn dispatch_move(&mut self, op: Op<'_>, context: Context<'_>) -> Done {
        match op {
            Op::AllGather { send, recv } => {
                let counts = Counts::Equal(send.len());
                typed!(send, recv, |s, r| self.gather(s, r, counts, context))
            }
            Op::AllGatherV { send, recv, counts } => {
                let counts = Counts::Each(counts);
                typed!(send, recv, |s, r| self.gather(s, r, counts, context))
            }
            Op::Broadcast { buf, root } => {
                typed!(buf, |b| self.broadcast(b, root as usize, context))
            }
            Op::AllToAllV {
                send,
                send_counts,
                recv,
                recv_counts,
            } => {
                let counts = (send_counts, recv_counts);
                typed!(send, recv, |s, r| self.all_to_all(s, r, counts, context))
            }
            Op::Barrier => {
                let nothing = vec![0..0; self.n_ranks()];
                self.step::<u8>(&greeting(context.call, &[]), &nothing, &nothing, context)
            }
            Op::AllReduce { .. } | Op::ReduceScatter { .. } | Op::ReduceScatterV { .. } => {
                unreachable!("`dispatch` runs these itself")
            }
        }
    }

    /// One step with what `self.out` holds; `outs` and `ins` count elements. What comes lies in `self.inbox`.
    fn step<T>(
        &mut self,
        greeting: &[u8],
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
            call: context.call,
            deadline: context.deadline,
            greeting,
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
    fn share_parts<T: Wire>(
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

    /// Combines `own`, this rank's elements, with those of the others in the inbox, in rank order, and leaves the result in `own`.
    fn reduce_into<T: Wire>(&self, own: &mut [T], ins: &[Range<usize>], reduction: Reduction) {
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

    fn reduce_parts<T: Wire>(
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
        let mut greeting = greeting(context.call, &[]);
        for piece_idx in 0..n_pieces(&parts, piece_len) {
            let outs = self.encode_pieces(send, &parts, piece_idx, piece_len);
            let own_piece = piece_of(&parts[own], piece_idx, piece_len);
            let ins = Counts::Equal(own_piece.len()).ranges(n_ranks);
            self.step::<T>(&greeting, &outs, &ins, context)?;
            let start = own_piece.start - parts[own].start;
            let recv = &mut recv[start..start + own_piece.len()];
            recv.copy_from_slice(&send[own_piece]);
            self.reduce_into(recv, &ins, reduction);
            greeting.clear();
        }
        Ok(())
    }

    /// Puts the current piece of every part into `self.out`, and says where each lies there.
    fn encode_pieces<T: Wire>(
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

    fn gather<T: Wire>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        counts: Counts<'_>,
        context: Context<'_>,
    ) -> Done {
        let (n_ranks, own) = (self.n_ranks(), self.own());
        let parts = counts.ranges(n_ranks);
        let piece_len = self.piece_len::<T>();
        let mut greeting = greeting(context.call, &[]);
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
            self.step::<T>(&greeting, &outs, &ins, context)?;
            self.unpack(recv, &pieces, &ins);
            recv[pieces[own].clone()].copy_from_slice(&send[own_piece]);
            greeting.clear();
        }
        Ok(())
    }

    /// Copies what came from the other ranks from the inbox to its places.
    fn unpack<T: Wire>(&self, recv: &mut [T], places: &[Range<usize>], ins: &[Range<usize>]) {
        for (rank, (place, range)) in places.iter().zip(ins).enumerate() {
            if rank != self.own() {
                T::decode(
                    &self.inbox[size_of::<T>() * range.start..],
                    &mut recv[place.clone()],
                );
            }
        }
    }

    fn all_to_all<T: Wire>(
        &mut self,
        send: &[T],
        recv: &mut [T],
        (send_counts, recv_counts): (&[usize], &[usize]),
        context: Context<'_>,
    ) -> Done {
        let (n_ranks, own) = (self.n_ranks(), self.own());
        let mut greeting = greeting(context.call, &[send_counts, recv_counts]);
        let sent = Counts::Each(send_counts).ranges(n_ranks);
        let received = Counts::Each(recv_counts).ranges(n_ranks);
        let piece_len = self.piece_len::<T>();
        let n_pieces = n_pieces(&sent, piece_len).max(n_pieces(&received, piece_len));
        for piece_idx in 0..n_pieces {
            let outs = self.encode_pieces(send, &sent, piece_idx, piece_len);
            let pieces: Vec<Range<usize>> = received
                .iter()
                .map(|part| piece_of(part, piece_idx, piece_len))
                .collect();
            let ins = packed(&pieces);
            self.step::<T>(&greeting, &outs, &ins, context)?;
            self.unpack(recv, &pieces, &ins);
            greeting.clear();
        }
        recv[received[own].clone()].copy_from_slice(&send[sent[own].clone()]);
        Ok(())
    }
}

/// The call with the counts of an all-to-all behind it.
fn greeting(call: &Call, counts: &[&[usize]]) -> Vec<u8> {
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
        } else if !self.is_supervised() {
            world.tell(&End {
                cause: Cause::Panicked,
                rank: Some(world.rank),
                seq: None,
                why: "its thread panicked".to_string(),
            });
        }
    }
}

impl Rank {
    /// Whether this panic's message will be told to the peers, for which the control connections must stay.
    fn is_supervised(&self) -> bool {
        let supervisor = self.supervisor.as_ref();
        supervisor.is_some_and(|supervisor| supervisor.takes(&self.links.world))
    }
}
