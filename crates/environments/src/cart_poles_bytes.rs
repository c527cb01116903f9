//! Carts as bytes, for checkpoints: a versioned header, then for each cart its key, its motion and
//! where its episode stands; little-endian. Bytes are read into carts that were made like the ones
//! that wrote them.

use crate::cart_pole::{STEP_LIMIT, Start, has_fallen, observe};
use crate::cart_poles::CartPoles;
use crate::cart_shard::LANES;
use crate::error::Error;
use crate::vector::{Autoreset, VectorStep, check_length};

const MAGIC: [u8; 8] = *b"SGCPS\0\0\x01";
const HEADER_BYTES: usize = 12;
const CART_BYTES: usize = 52;

impl CartPoles {
    /// Everything that decides what comes next, as bytes; [`CartPoles::restore`] makes carts that
    /// go on alike. What the last step gave (rewards, ends, final observations) is not in it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(mode_number(self.autoreset).to_le_bytes());
        for (idx, start) in self.starts.iter().enumerate() {
            let block = &self.blocks[idx / LANES];
            let motion = block.motion(idx % LANES);
            out.extend(start.seed.to_le_bytes());
            out.extend(start.episode.to_le_bytes());
            out.extend(motion.iter().flat_map(|number| number.to_le_bytes()));
            out.extend(block.n_steps[idx % LANES].to_le_bytes());
            out.extend(u32::from(self.is_done[idx]).to_le_bytes());
        }
        out
    }

    /// Takes the state that [`CartPoles::to_bytes`] wrote.
    ///
    /// # Errors
    /// When the bytes are damaged, or of another number of carts or another autoreset mode; the
    /// carts stay as they were.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some((header, carts)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(malformed("they end early"));
        };
        let (magic, mode) = (&header[..8], &header[8..]);
        if magic != MAGIC {
            return Err(malformed("the first 8 are not this form and version"));
        }
        if mode != mode_number(self.autoreset).to_le_bytes() {
            return Err(malformed("they were written with another autoreset mode"));
        }
        let (carts, rest) = carts.as_chunks::<CART_BYTES>();
        if !rest.is_empty() {
            return Err(malformed("they end within a cart"));
        }
        check_length("CartPoles::restore", "carts", self.len(), carts.len())?;
        let carts: Result<Vec<Cart>, Error> = carts.iter().map(Cart::read).collect();
        for (idx, cart) in carts?.into_iter().enumerate() {
            self.place(idx, &cart);
        }
        let n = self.len();
        self.step = VectorStep::default();
        self.step.clear(n);
        self.has_final.fill(false);
        Ok(())
    }

    fn place(&mut self, idx: usize, cart: &Cart) {
        self.starts[idx] = Start::new(cart.seed, idx as u32, cart.episode);
        self.blocks[idx / LANES].set(idx % LANES, &cart.motion, cart.n_steps);
        self.observations[idx] = observe(&cart.motion);
        self.is_done[idx] = cart.is_done;
    }
}

struct Cart {
    seed: u64,
    episode: u32,
    motion: [f64; 4],
    n_steps: u32,
    is_done: bool,
}

impl Cart {
    fn read(bytes: &[u8; CART_BYTES]) -> Result<Cart, Error> {
        let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let motion = [12, 20, 28, 36].map(|at| f64::from_bits(u64_at(at)));
        let (n_steps, done) = (u32_at(44), u32_at(48));
        let is_over = has_fallen(&motion) || n_steps == STEP_LIMIT;
        if !motion.iter().all(|number| number.is_finite()) || n_steps > STEP_LIMIT {
            return Err(malformed("a cart is nowhere, or beyond the step limit"));
        }
        if done != u32::from(is_over) {
            return Err(malformed("a cart's end is not where its motion says"));
        }
        Ok(Cart {
            seed: u64_at(0),
            episode: u32_at(8),
            motion,
            n_steps,
            is_done: is_over,
        })
    }
}

fn mode_number(autoreset: Autoreset) -> u32 {
    match autoreset {
        Autoreset::NextStep => 0,
        Autoreset::SameStep => 1,
        Autoreset::Disabled => 2,
    }
}

fn malformed(reason: &'static str) -> Error {
    Error::Malformed { reason }
}
