//! Connections that wait for their next request, by server. The one that was used last is taken first: the likeliest to be still open.

/// The idle connections of a core.
pub(super) struct IdlePool {
    /// By server.
    stacks: Box<[Vec<u32>]>,
    /// Servers without an idle connection.
    bare: usize,
}

impl IdlePool {
    /// A pool for `servers` servers with room for `connections` at each.
    pub(super) fn new(servers: usize, connections: usize) -> Self {
        Self {
            stacks: (0..servers).map(|_| Vec::with_capacity(connections)).collect(),
            bare: servers,
        }
    }

    /// Whether there is a connection to whichever server comes next.
    pub(super) fn serves_all(&self) -> bool {
        self.bare == 0
    }

    /// Idle connections to all servers.
    pub(super) fn len(&self) -> usize {
        self.stacks.iter().map(Vec::len).sum()
    }

    /// Keeps a connection.
    pub(super) fn push(&mut self, server: u16, index: u32) {
        let stack = &mut self.stacks[usize::from(server)];
        self.bare -= usize::from(stack.is_empty());
        stack.push(index);
    }

    /// Takes a connection to a server.
    pub(super) fn pop(&mut self, server: u16) -> Option<u32> {
        let stack = &mut self.stacks[usize::from(server)];
        let index = stack.pop()?;
        self.bare += usize::from(stack.is_empty());
        Some(index)
    }

    /// Takes a connection from the server that has the most.
    pub(super) fn pop_any(&mut self) -> Option<u32> {
        let (server, _) = self.stacks.iter().enumerate().max_by_key(|(_, stack)| stack.len())?;
        self.pop(server as u16)
    }

    /// Lets go of a connection.
    pub(super) fn forget(&mut self, server: u16, index: u32) {
        let stack = &mut self.stacks[usize::from(server)];
        let before = stack.len();
        stack.retain(|&idle| idle != index);
        self.bare += usize::from(before > 0 && stack.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_gives_the_connection_that_was_used_last() {
        let mut pool = IdlePool::new(1, 4);
        assert!(!pool.serves_all());
        pool.push(0, 7);
        pool.push(0, 9);
        assert!(pool.serves_all());
        assert_eq!((pool.pop(0), pool.pop(0), pool.pop(0)), (Some(9), Some(7), None));
        assert!(!pool.serves_all());
    }

    #[test]
    fn servers_do_not_share_connections_and_all_are_served_only_if_each_is() {
        let mut pool = IdlePool::new(2, 4);
        pool.push(0, 1);
        assert!(!pool.serves_all() && pool.pop(1).is_none());
        pool.push(1, 2);
        pool.push(1, 3);
        assert!(pool.serves_all());
        pool.forget(0, 5);
        assert!(pool.serves_all(), "a connection that is not here changes nothing");
        pool.forget(0, 1);
        assert!(!pool.serves_all());
        pool.forget(0, 1);
        assert_eq!(pool.pop_any(), Some(3));
        assert_eq!((pool.pop_any(), pool.pop_any()), (Some(2), None));
        pool.push(0, 1);
        pool.push(1, 2);
        assert!(pool.serves_all(), "the count of bare servers is right after all that");
    }
}
