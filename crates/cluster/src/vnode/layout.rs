//! Vnodes dealt out in blocks.
//!
//! Vnodes are laid in the order of their numbers' reversed bits. A residue class modulo a power of two, which is what a
//! node of the partition tree stands for, is then a block: a contiguous, aligned run whose length is a power of two. Who
//! keeps blocks whole keeps subtrees on one server. Servers are positions in a list here.

/// In a node of the tree: its vnodes are not all of one server.
const MIXED: u32 = u32::MAX;

/// Who has which vnode, as a binary tree over the reversed order: node 1 is everything, nodes `2 i` and `2 i + 1` are
/// the halves of node `i`, and the last half of the array are single vnodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// By node: the server that has all of it, or [`MIXED`].
    owner: Vec<u32>,
    servers: usize,
}

impl Layout {
    /// From each vnode's server. The number of vnodes is a power of two.
    pub(super) fn of(by_vnode: impl Iterator<Item = usize>, servers: usize) -> Self {
        let by_vnode: Vec<u32> = by_vnode.map(|server| server as u32).collect();
        let count = by_vnode.len();
        let mut owner = vec![MIXED; 2 * count];
        for (vnode, server) in by_vnode.into_iter().enumerate() {
            owner[count + reversed(vnode, count)] = server;
        }
        let mut layout = Self { owner, servers };
        (1..count).rev().for_each(|node| layout.join_children(node));
        layout
    }

    /// As a new cluster begins: whole classes where the servers are a power of two; else those of the power of two below or
    /// above, changed once, whichever is better.
    pub(super) fn first(vnodes: u32, servers: usize) -> Self {
        let grown = Self::from_classes(vnodes, servers, 1 << servers.ilog2());
        let above = servers.next_power_of_two();
        if servers == above || above > vnodes as usize {
            return grown;
        }
        let shrunk = Self::from_classes(vnodes, servers, above);
        if shrunk.locality_sum() > grown.locality_sum() {
            shrunk
        } else {
            grown
        }
    }

    fn from_classes(vnodes: u32, servers: usize, classes: usize) -> Self {
        let all = classes.max(servers);
        let mut layout = Self::of((0..vnodes as usize).map(|v| v % classes), all);
        let stays: Vec<bool> = (0..all).map(|server| server < servers).collect();
        layout.change(&stays);
        layout.servers = servers;
        layout
    }

    /// Each vnode's server, by vnode.
    pub(super) fn by_vnode(&self) -> impl Iterator<Item = usize> + '_ {
        let count = self.vnodes();
        (0..count).map(move |vnode| self.owner[count + reversed(vnode, count)] as usize)
    }

    /// Deals out anew among those that stay: balanced to one vnode, with the fewest moves that give it, in the largest
    /// blocks first, next to what the receiver has where that can be.
    pub(super) fn change(&mut self, stays: &[bool]) {
        let mut deal = Deal::new(self, stays);
        let mut width = self.vnodes();
        while width > 0 {
            while let Some((node, to)) = deal.best(self, width) {
                let from = self.owner[node] as usize;
                self.give(node, to);
                deal.spare[from] -= width;
                deal.need[to] -= width;
                deal.note_kin(node, to);
            }
            width /= 2;
        }
    }

    /// The same blocks, with servers named so that as many vnodes as possible (nearly) are where they are in `other`.
    pub(super) fn named_like(&self, other: &Self) -> Self {
        let mut overlaps = vec![0_u32; self.servers * self.servers];
        for (mine, theirs) in self.by_vnode().zip(other.by_vnode()) {
            overlaps[mine * self.servers + theirs] += 1;
        }
        let mut pairs: Vec<usize> = (0..overlaps.len()).collect();
        pairs.sort_by_key(|pair| (std::cmp::Reverse(overlaps[*pair]), *pair));
        let mut name = vec![None; self.servers];
        let mut taken = vec![false; self.servers];
        for pair in pairs {
            let (mine, theirs) = (pair / self.servers, pair % self.servers);
            if name[mine].is_none() && !taken[theirs] {
                name[mine] = Some(theirs);
                taken[theirs] = true;
            }
        }
        let renamed = self.by_vnode().map(|mine| name[mine].unwrap_or(mine));
        Self::of(renamed, self.servers)
    }

    /// The probability that two vnodes of one block, of `2^level` in all, have one server.
    pub(super) fn locality(&self, level: u32) -> f64 {
        let count = self.vnodes();
        let width = (count >> level).max(1);
        let leaves = &self.owner[count..];
        let mut same = 0_u64;
        let mut shares = vec![0_u64; self.servers];
        for block in leaves.chunks(width) {
            block.iter().for_each(|s| shares[*s as usize] += 1);
            for server in block {
                // Each server's share once, squared.
                let share = std::mem::take(&mut shares[*server as usize]);
                same += share * share;
            }
        }
        same as f64 / (count * width) as f64
    }

    /// [`Self::locality`] summed over the levels on which servers part, and one more: a vertex ends on any of them.
    pub(super) fn locality_sum(&self) -> f64 {
        let last = self.servers.next_power_of_two().ilog2() + 1;
        (1..=last).map(|level| self.locality(level)).sum()
    }

    fn vnodes(&self) -> usize {
        self.owner.len() / 2
    }

    fn join_children(&mut self, node: usize) {
        let (left, right) = (self.owner[2 * node], self.owner[2 * node + 1]);
        self.owner[node] = if left == right { left } else { MIXED };
    }

    /// All of a node to a server.
    fn give(&mut self, node: usize, to: usize) {
        let (mut from, mut until) = (node, node + 1);
        while from < self.owner.len() {
            self.owner[from..until].fill(to as u32);
            (from, until) = (2 * from, 2 * until);
        }
        let mut above = node / 2;
        while above > 0 {
            self.join_children(above);
            above /= 2;
        }
    }
}

/// What is left to deal out.
struct Deal {
    /// By server: vnodes that it is to give away.
    spare: Vec<usize>,
    /// By server: vnodes that it is to get.
    need: Vec<usize>,
    /// By node: a server that gets vnodes and has some there.
    kin: Vec<Option<usize>>,
}

impl Deal {
    fn new(layout: &Layout, stays: &[bool]) -> Self {
        let mut have = vec![0_usize; stays.len()];
        layout.by_vnode().for_each(|server| have[server] += 1);
        // Who has most keeps the odd ones: that moves least.
        let mut order: Vec<usize> = (0..stays.len()).filter(|s| stays[*s]).collect();
        order.sort_by_key(|server| (std::cmp::Reverse(have[*server]), *server));
        let (each, odd) = (layout.vnodes() / order.len(), layout.vnodes() % order.len());
        let mut target = vec![0; stays.len()];
        for (i, server) in order.into_iter().enumerate() {
            target[server] = each + usize::from(i < odd);
        }
        let pairs = || have.iter().zip(&target);
        let mut deal = Self {
            spare: pairs().map(|(h, t)| h.saturating_sub(*t)).collect(),
            need: pairs().map(|(h, t)| t.saturating_sub(*h)).collect(),
            kin: vec![None; layout.owner.len()],
        };
        for node in layout.vnodes()..layout.owner.len() {
            let server = layout.owner[node] as usize;
            if deal.need[server] > 0 {
                deal.note_kin(node, server);
            }
        }
        deal
    }

    fn note_kin(&mut self, node: usize, server: usize) {
        let mut node = node;
        while node > 0 && self.kin[node].is_none() {
            self.kin[node] = Some(server);
            node /= 2;
        }
    }

    /// The best block of that width to give, and to whom; none if nobody has one to spare, or nobody needs so much.
    ///
    /// Best is what completes a larger block of the receiver; then what is near something it has; then what breaks no
    /// larger block of the giver; then the first.
    fn best(&self, layout: &Layout, width: usize) -> Option<(usize, usize)> {
        let (neediest, _) = self
            .need
            .iter()
            .enumerate()
            .filter(|(_, need)| **need >= width)
            .max_by_key(|(server, need)| (**need, std::cmp::Reverse(*server)))?;
        let blocks = layout.vnodes() / width;
        let gives = |node: &usize| {
            let owner = layout.owner[*node];
            owner != MIXED && self.spare[owner as usize] >= width
        };
        let choices = (blocks..2 * blocks).filter(gives).map(|node| {
            let sibling = layout.owner[node ^ 1];
            let completes = node > 1 && sibling != MIXED && self.wants(sibling as usize, width);
            let breaks = node > 1 && sibling == layout.owner[node];
            let (near, to) = self.nearest(node, width).unwrap_or((0, neediest));
            let to = if completes { sibling as usize } else { to };
            ((completes, near, !breaks, std::cmp::Reverse(node)), to)
        });
        choices
            .max_by_key(|(rank, _)| *rank)
            .map(|((_, _, _, std::cmp::Reverse(node)), to)| (node, to))
    }

    fn wants(&self, server: usize, width: usize) -> bool {
        self.need[server] >= width
    }

    /// The smallest block around a node in which a server that wants so much has something: the block's node, which is the
    /// larger the nearer, and the server.
    fn nearest(&self, node: usize, width: usize) -> Option<(u32, usize)> {
        let mut node = node;
        while node > 1 {
            if let Some(kin) = self.kin[node ^ 1]
                && self.wants(kin, width)
            {
                return Some((node.ilog2(), kin));
            }
            node /= 2;
        }
        None
    }
}

/// A number below `count`, a power of two, with its bits in the opposite order.
fn reversed(number: usize, count: usize) -> usize {
    match count.ilog2() {
        0 => 0,
        bits => number.reverse_bits() >> (usize::BITS - bits),
    }
}
