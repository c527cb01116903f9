//! The ways to do a broadcast.

use super::{Context, Done, Rank, greeting, piece_of};
use crate::algorithm::Algorithm;
use crate::cost::CHAIN_PIECE_BYTES;
use crate::tcp::wire::Wire;
use std::ops::Range;

impl Rank {
    pub(super) fn broadcast<T: Wire>(
        &mut self,
        buf: &mut [T],
        root: usize,
        context: Context<'_>,
    ) -> Done {
        let algorithm = context.call.algorithm;
        let n_at_once = match algorithm {
            Some(Algorithm::Chain) => return self.broadcast_chain(buf, root, context),
            Some(Algorithm::Parts) => self.piece_len::<T>() * self.n_ranks(),
            _ => self.piece_len::<T>(),
        };
        let mut greeting = greeting(context.call, &[]);
        for piece_idx in 0..buf.len().div_ceil(n_at_once).max(1) {
            let range = piece_of(&(0..buf.len()), piece_idx, n_at_once);
            let piece = &mut buf[range];
            match algorithm {
                Some(Algorithm::Parts) => {
                    self.broadcast_in_parts(piece, root, &greeting, context)?
                }
                Some(Algorithm::Tree) => self.down_the_tree(piece, root, &mut greeting, context)?,
                _ => self.broadcast_whole(piece, root, &greeting, context)?,
            }
            greeting.clear();
        }
        Ok(())
    }

    fn broadcast_whole<T: Wire>(
        &mut self,
        buf: &mut [T],
        root: usize,
        greeting: &[u8],
        context: Context<'_>,
    ) -> Done {
        let is_root = self.own() == root;
        self.out.clear();
        if is_root {
            T::encode(buf, &mut self.out);
        }
        let sent = if is_root { buf.len() } else { 0 };
        let mut ins = vec![0..0; self.n_ranks()];
        ins[root] = 0..buf.len() - sent;
        self.step::<T>(greeting, &vec![0..sent; ins.len()], &ins, context)?;
        if !is_root {
            T::decode(&self.inbox, buf);
        }
        Ok(())
    }

    /// Each rank gets a part from the root and sends it to the others.
    fn broadcast_in_parts<T: Wire>(
        &mut self,
        buf: &mut [T],
        root: usize,
        greeting: &[u8],
        context: Context<'_>,
    ) -> Done {
        let own = self.own();
        let parts = self.parts_of(buf.len());
        let nothing = vec![0..0; parts.len()];
        let mut ins = nothing.clone();
        self.out.clear();
        if own == root {
            T::encode(buf, &mut self.out);
        } else {
            ins[root] = 0..parts[own].len();
        }
        let outs = if own == root { &parts } else { &nothing };
        self.step::<T>(greeting, outs, &ins, context)?;
        if own != root {
            T::decode(&self.inbox, &mut buf[parts[own].clone()]);
        }
        self.share_parts(buf, &parts, context)
    }

    /// From the root to the rank half the world away, then from both to those a quarter away, and so on. `greeting` goes with the first step.
    pub(super) fn down_the_tree<T: Wire>(
        &mut self,
        buf: &mut [T],
        root: usize,
        greeting: &mut Vec<u8>,
        context: Context<'_>,
    ) -> Done {
        let n_ranks = self.n_ranks();
        let distance = (self.own() + n_ranks - root) % n_ranks;
        let rank_at = |distance: usize| (root + distance) % n_ranks;
        let mut reach = n_ranks.next_power_of_two() / 2;
        self.out.clear();
        if distance == 0 {
            T::encode(buf, &mut self.out);
        }
        while reach > 0 {
            let mut outs = vec![0..0; n_ranks];
            let mut ins = outs.clone();
            let gets = distance % (2 * reach) == reach;
            if gets {
                ins[rank_at(distance - reach)] = 0..buf.len();
            } else if distance.is_multiple_of(2 * reach) && distance + reach < n_ranks {
                outs[rank_at(distance + reach)] = 0..buf.len();
            }
            self.step::<T>(greeting, &outs, &ins, context)?;
            greeting.clear();
            if gets {
                T::decode(&self.inbox, buf);
                self.out.extend_from_slice(&self.inbox[..size_of_val(buf)]);
            }
            reach /= 2;
        }
        Ok(())
    }

    /// Piece k goes from each rank to the next in step k + (distance from the root).
    fn broadcast_chain<T: Wire>(
        &mut self,
        buf: &mut [T],
        root: usize,
        context: Context<'_>,
    ) -> Done {
        let n_ranks = self.n_ranks();
        let distance = (self.own() + n_ranks - root) % n_ranks;
        let piece_len = CHAIN_PIECE_BYTES / size_of::<T>();
        let n_pieces = buf.len().div_ceil(piece_len).max(1);
        let mut greeting = greeting(context.call, &[]);
        for step_idx in 0..n_pieces + n_ranks - 2 {
            let all = 0..buf.len();
            let piece = |delay: usize, is_there: bool| match step_idx.checked_sub(delay) {
                Some(piece_idx) if is_there => piece_of(&all, piece_idx, piece_len),
                _ => 0..0,
            };
            let out: Range<usize> = piece(distance, distance + 1 < n_ranks);
            let into = piece(distance.wrapping_sub(1), distance > 0);
            let mut outs = vec![0..0; n_ranks];
            let mut ins = outs.clone();
            outs[(self.own() + 1) % n_ranks] = 0..out.len();
            ins[(self.own() + n_ranks - 1) % n_ranks] = 0..into.len();
            self.out.clear();
            T::encode(&buf[out], &mut self.out);
            self.step::<T>(&greeting, &outs, &ins, context)?;
            greeting.clear();
            T::decode(&self.inbox, &mut buf[into]);
        }
        Ok(())
    }
}
