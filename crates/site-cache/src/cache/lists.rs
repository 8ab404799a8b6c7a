//! Slots in doubly linked lists that count the bytes of each list; all replacement policies use them.

use crate::path::PathId;

pub(super) const NONE: u32 = u32::MAX;
/// Maximum number of lists of a policy.
pub(super) const LISTS: usize = 3;

#[derive(Debug)]
pub(super) struct Slot<V> {
    pub(super) path: PathId,
    pub(super) bytes: u64,
    /// Neighbour towards the head, where slots are inserted.
    newer: u32,
    /// Neighbour towards the tail.
    older: u32,
    pub(super) list: u8,
    /// Uses since the policy last examined the slot, saturated per policy.
    pub(super) uses: u8,
    /// Cached value; `None` if the slot is free.
    pub(super) value: Option<V>,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
    bytes: u64,
}

#[derive(Debug)]
pub(super) struct Lists<V> {
    pub(super) slots: Vec<Slot<V>>,
    free: Vec<u32>,
    ends: [Ends; LISTS],
}

impl<V> Lists<V> {
    pub(super) fn new() -> Self {
        let empty = Ends {
            head: NONE,
            tail: NONE,
            bytes: 0,
        };
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            ends: [empty; LISTS],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn bytes(&self, list: u8) -> u64 {
        self.ends[list as usize].bytes
    }

    pub(super) fn tail(&self, list: u8) -> u32 {
        self.ends[list as usize].tail
    }

    /// Returns the neighbour towards the head.
    pub(super) fn newer(&self, at: u32) -> u32 {
        self.slots[at as usize].newer
    }

    /// Inserts a new slot at the head of a list.
    pub(super) fn add(&mut self, path: PathId, value: V, bytes: u64, list: u8) -> u32 {
        let slot = Slot {
            path,
            bytes,
            newer: NONE,
            older: NONE,
            list,
            uses: 0,
            value: Some(value),
        };
        let at = if let Some(at) = self.free.pop() {
            self.slots[at as usize] = slot;
            at
        } else {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        };
        self.link(at, list);
        at
    }

    /// Frees a slot and returns its path and value.
    pub(super) fn take(&mut self, at: u32) -> Option<(PathId, V)> {
        self.unlink(at);
        self.free.push(at);
        let slot = &mut self.slots[at as usize];
        Some((slot.path, slot.value.take()?))
    }

    /// Moves a slot to the head of a list.
    pub(super) fn raise(&mut self, at: u32, list: u8) {
        if self.ends[list as usize].head != at {
            self.unlink(at);
            self.link(at, list);
        }
    }

    pub(super) fn weigh(&mut self, at: u32, bytes: u64) {
        let slot = &mut self.slots[at as usize];
        let ends = &mut self.ends[slot.list as usize];
        ends.bytes = ends.bytes - slot.bytes + bytes;
        slot.bytes = bytes;
    }

    fn link(&mut self, at: u32, list: u8) {
        let ends = &mut self.ends[list as usize];
        let head = ends.head;
        let slot = &mut self.slots[at as usize];
        (slot.newer, slot.older, slot.list) = (NONE, head, list);
        ends.bytes += slot.bytes;
        ends.head = at;
        match head {
            NONE => ends.tail = at,
            _ => self.slots[head as usize].newer = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let slot = &self.slots[at as usize];
        let (newer, older, list, bytes) = (slot.newer, slot.older, slot.list as usize, slot.bytes);
        self.ends[list].bytes -= bytes;
        match newer {
            NONE => self.ends[list].head = older,
            _ => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.ends[list].tail = newer,
            _ => self.slots[older as usize].newer = newer,
        }
    }
}
