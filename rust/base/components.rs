//! Connected components, found by joining pairs one after the other.

use crate::Result;
use crate::base::memory::{collected, zeros};

/// A forest over `0..n` in which every tree is a component and every root its lowest member.
#[derive(Debug)]
pub(crate) struct Components {
    parent: Vec<u32>,
}

impl Components {
    /// As many components as members.
    pub fn new(n: usize) -> Result<Self> {
        Ok(Self { parent: collected((0..n).map(|member| member as u32))? })
    }

    /// Makes one component of those of `a` and `b`; returns whether they were two.
    pub fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b) as usize] = a.min(b);
        a != b
    }

    /// The lowest member of the component.
    pub fn root(&mut self, mut member: u32) -> u32 {
        while self.parent[member as usize] != member {
            // Path halving keeps the trees shallow without recursion.
            self.parent[member as usize] = self.parent[self.parent[member as usize] as usize];
            member = self.parent[member as usize];
        }
        member
    }

    /// The number of each member's component, in the order of their lowest members, and how many there are.
    pub fn numbered(mut self) -> Result<(Vec<u32>, usize)> {
        let mut numbers = zeros(self.parent.len())?;
        let mut n = 0;
        for member in 0..self.parent.len() as u32 {
            let root = self.root(member);
            // A root comes before the rest of its component, so it has its number already.
            numbers[member as usize] = if root == member { n } else { numbers[root as usize] };
            n += u32::from(root == member);
        }
        Ok((numbers, n as usize))
    }
}
