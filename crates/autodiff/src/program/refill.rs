//! Another recording's data in place of a program's own.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Program, usage};
use crate::operation::signature;
use crate::{Error, Op, Payload, Recorder, Shape};

impl Program {
    /// Takes over everything that another recording of the same program hands over with its operations: values of
    /// inputs, row numbers, layouts, masks, scales, shards.
    ///
    /// The recording may end where the forward part does: the gradient refers to the same things.
    ///
    /// # Errors
    /// [`Error::Usage`] where an operation, operand, number or shape differs from the first recording, or where two
    /// operations that shared one thing no longer do; the program stays as it was. The device's error, after which it has
    /// to be refilled before it runs.
    pub fn refill(&mut self, recorder: &Recorder<'_>) -> Result<(), Error> {
        let new = recorder.nodes();
        if let Some(at) = self.first_difference(new) {
            let name = |nodes: &[(Op, Shape)]| {
                nodes.get(at).map_or("nothing".to_string(), |(op, shape)| {
                    format!("{} {shape}", op.name())
                })
            };
            return usage(format!(
                "program: refill found {} as operation {at}, where the plan has {}: record a plan for each shape of batch",
                name(new),
                name(&self.plan.nodes)
            ));
        }
        let mut changed = BTreeMap::new();
        let payload = |op: &Op| op.operation().and_then(|operation| operation.payload());
        for (i, (op, _)) in new.iter().enumerate() {
            let old = payload(&self.plan.nodes[i].0);
            let (Some(old), Some(payload)) = (old, payload(op)) else {
                continue;
            };
            let address = payload.address();
            let known = changed.entry(old.address()).or_insert(payload);
            if known.address() != address {
                return usage(format!(
                    "program: refill found other row numbers, another layout or graph at operation {i} ({}) than at an earlier one that shared it",
                    op.name()
                ));
            }
        }
        for (i, (op, _)) in new.iter().enumerate() {
            if let (Op::Input(held), Op::Input(given)) = (&mut self.plan.nodes[i].0, op) {
                held.values = Arc::clone(&given.values);
            }
        }
        self.is_set.fill(true);
        self.graph = None; // it was recorded with the others
        self.set_payloads(&changed)?;
        self.indices = self.resident_indices()?;
        Ok(())
    }

    /// Puts what has changed, by the address of what was there, into all operations.
    fn set_payloads(&mut self, changed: &BTreeMap<usize, Payload>) -> Result<(), Error> {
        for (op, _) in &mut self.plan.nodes {
            let Op::Apply { operation, .. } = op else {
                continue;
            };
            let new = operation
                .payload()
                .and_then(|old| changed.get(&old.address()));
            let Some(new) = new else { continue };
            let Some(new) = operation.with_payload(new) else {
                let name = operation.name();
                return usage(format!(
                    "program: {name} gives a payload and takes no other: implement Operation::with_payload"
                ));
            };
            *operation = new;
        }
        Ok(())
    }

    /// The first operation of another recording that is not the plan's.
    fn first_difference(&self, new: &[(Op, Shape)]) -> Option<usize> {
        let same = |(a, b): (&(Op, Shape), &(Op, Shape))| {
            a.1 == b.1 && signature(&a.0, |var| var.0) == signature(&b.0, |var| var.0)
        };
        let old = self.plan.nodes.iter();
        let n_same = old.zip(new).take_while(|pair| same(*pair)).count();
        (n_same < new.len()).then_some(n_same)
    }
}
