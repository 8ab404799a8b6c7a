//! Assignment of vnodes to servers in blocks.
//!
//! Vnodes are ordered by the reversed bits of their numbers. A residue class modulo a power of two, which corresponds
//! to a node of the partition tree, is then a block: a contiguous, aligned run whose length is a power of two.
//! Keeping blocks together keeps subtrees on one server. In this module a server is an index into a list.

/// Value of a tree node whose vnodes belong to several servers.
const MIXED: u32 = u32::MAX;

/// Owner of each vnode, as a binary tree over the reversed order: node 1 is everything, nodes `2 i` and `2 i + 1` are
/// the halves of node `i`, and the last half of the array are single vnodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockLayout {
    /// By node: the server that has all its vnodes, or [`MIXED`].
    owner: Vec<u32>,
    servers: usize,
}

impl BlockLayout {
    /// Builds the layout from each vnode's server. The number of vnodes must be a power of two.
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

    /// Returns the layout of a new cluster: whole residue classes if the number of servers is a power of two;
    /// otherwise the layout of the power of two below or above, changed once, whichever has better locality.
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

    /// Iterates over the server of each vnode, by vnode.
    pub(super) fn by_vnode(&self) -> impl Iterator<Item = usize> + '_ {
        let count = self.vnodes();
        (0..count).map(move |vnode| self.owner[count + reversed(vnode, count)] as usize)
    }

    /// Reassigns vnodes among the servers that stay: balanced to one vnode, with the fewest moves that achieve it,
    /// largest blocks first, next to the receiver's other vnodes where possible.
    pub(super) fn change(&mut self, stays: &[bool]) {
        let mut deal = Reassignment::new(self, stays);
        let mut width = self.vnodes();
        while width > 0 {
            while let Some((node, to)) = deal.best(self, width) {
                let from = self.owner[node] as usize;
                self.assign(node, to);
                deal.surplus[from] -= width;
                deal.deficit[to] -= width;
                deal.note_receiver(node, to);
            }
            width /= 2;
        }
    }

    /// Returns the same blocks with servers renamed so that (nearly) as many vnodes as possible stay where they are in `other`.
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

    /// The probability that two vnodes of one of the `2^level` blocks have the same server.
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

    /// Sum of [`Self::locality`] over the levels on which servers separate, and one more: a vertex may end on any of them.
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

    /// Assigns all vnodes of a node to a server.
    fn assign(&mut self, node: usize, to: usize) {
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

/// Vnodes that remain to be reassigned.
struct Reassignment {
    /// By server: number of vnodes to give away.
    surplus: Vec<usize>,
    /// By server: number of vnodes to receive.
    deficit: Vec<usize>,
    /// By node: a receiving server that already has vnodes below the node.
    nearby_receiver: Vec<Option<usize>>,
}

impl Reassignment {
    fn new(layout: &BlockLayout, stays: &[bool]) -> Self {
        let mut have = vec![0_usize; stays.len()];
        layout.by_vnode().for_each(|server| have[server] += 1);
        // The servers with most vnodes keep the odd ones, which moves the fewest.
        let mut order: Vec<usize> = (0..stays.len()).filter(|s| stays[*s]).collect();
        order.sort_by_key(|server| (std::cmp::Reverse(have[*server]), *server));
        let (each, odd) = (layout.vnodes() / order.len(), layout.vnodes() % order.len());
        let mut target = vec![0; stays.len()];
        for (i, server) in order.into_iter().enumerate() {
            target[server] = each + usize::from(i < odd);
        }
        let pairs = || have.iter().zip(&target);
        let mut deal = Self {
            surplus: pairs().map(|(h, t)| h.saturating_sub(*t)).collect(),
            deficit: pairs().map(|(h, t)| t.saturating_sub(*h)).collect(),
            nearby_receiver: vec![None; layout.owner.len()],
        };
        for node in layout.vnodes()..layout.owner.len() {
            let server = layout.owner[node] as usize;
            if deal.deficit[server] > 0 {
                deal.note_receiver(node, server);
            }
        }
        deal
    }

    fn note_receiver(&mut self, node: usize, server: usize) {
        let mut node = node;
        while node > 0 && self.nearby_receiver[node].is_none() {
            self.nearby_receiver[node] = Some(server);
            node /= 2;
        }
    }

    /// Returns the best block of that width to move and its receiver; `None` if no server can give or needs that many vnodes.
    ///
    /// Preference: a block that completes a larger one of the receiver; then one near the receiver's other vnodes;
    /// then one that breaks no larger block of the giver; then the first.
    fn best(&self, layout: &BlockLayout, width: usize) -> Option<(usize, usize)> {
        let (neediest, _) = self
            .deficit
            .iter()
            .enumerate()
            .filter(|(_, need)| **need >= width)
            .max_by_key(|(server, need)| (**need, std::cmp::Reverse(*server)))?;
        let blocks = layout.vnodes() / width;
        let gives = |node: &usize| {
            let owner = layout.owner[*node];
            owner != MIXED && self.surplus[owner as usize] >= width
        };
        let choices = (blocks..2 * blocks).filter(gives).map(|node| {
            let sibling = layout.owner[node ^ 1];
            let completes = node > 1 && sibling != MIXED && self.needs(sibling as usize, width);
            let breaks = node > 1 && sibling == layout.owner[node];
            let (near, to) = self.nearest(node, width).unwrap_or((0, neediest));
            let to = if completes { sibling as usize } else { to };
            ((completes, near, !breaks, std::cmp::Reverse(node)), to)
        });
        choices
            .max_by_key(|(rank, _)| *rank)
            .map(|((_, _, _, std::cmp::Reverse(node)), to)| (node, to))
    }

    fn needs(&self, server: usize, width: usize) -> bool {
        self.deficit[server] >= width
    }

    /// Finds the smallest enclosing block in which a server that needs `width` vnodes has some. Returns the level of
    /// the block (larger is nearer) and the server.
    fn nearest(&self, node: usize, width: usize) -> Option<(u32, usize)> {
        let mut node = node;
        while node > 1 {
            if let Some(kin) = self.nearby_receiver[node ^ 1]
                && self.needs(kin, width)
            {
                return Some((node.ilog2(), kin));
            }
            node /= 2;
        }
        None
    }
}

/// Reverses the bits of a number below `count`, which must be a power of two.
fn reversed(number: usize, count: usize) -> usize {
    match count.ilog2() {
        0 => 0,
        bits => number.reverse_bits() >> (usize::BITS - bits),
    }
}
