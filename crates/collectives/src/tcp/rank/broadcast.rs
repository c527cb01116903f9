//! The two algorithms of a broadcast.

use super::Rank;
use crate::element::Element;
use crate::operations::{Context, Done};

impl Rank {
    pub(super) fn broadcast_direct<T: Element>(
        &mut self,
        buf: &mut [T],
        root: usize,
        header: &[u8],
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
        self.step::<T>(header, &vec![0..sent; ins.len()], &ins, context)?;
        if !is_root {
            T::decode(&self.inbox, buf);
        }
        Ok(())
    }

    /// Each rank receives a part from the root and sends it to the others.
    pub(super) fn scatter_all_gather<T: Element>(
        &mut self,
        buf: &mut [T],
        root: usize,
        header: &[u8],
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
        self.step::<T>(header, outs, &ins, context)?;
        if own != root {
            T::decode(&self.inbox, &mut buf[parts[own].clone()]);
        }
        self.share_parts(buf, &parts, context)
    }
}
