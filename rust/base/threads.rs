//! Thread pools, of a size set by `MANYHANDS_NUM_THREADS` or [`set_num_threads`].
//!
//! Each call has a pool to itself while it runs. In a shared one, a thread that waits for its part of a short call
//! would take up a long call, and return to the short one only when the long one ends.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use crate::{Error, Result};

/// The pools that are idle.
struct Idle {
    /// A forked child inherits the pools' memory but not their threads, so pools serve only the process that made them.
    process: u32,
    n_threads: usize,
    pools: Vec<ThreadPool>,
}

static IDLE: Mutex<Option<Idle>> = Mutex::new(None);

/// Pools that are kept for later calls; where more calls ran at the same time, theirs are given up.
const MOST_IDLE: usize = 4;

/// More threads than any machine has cores: asking for a million must fail at once, not try.
const MOST_THREADS: usize = 1024;

/// What a thread needs at the least: its stack.
const THREAD_BYTES: usize = 1 << 21;

fn check(n_threads: usize) -> Result<()> {
    if (1..=MOST_THREADS).contains(&n_threads) {
        return Ok(());
    }
    Err(Error::invalid(format!("the number of threads must lie between 1 and {MOST_THREADS}, not {n_threads}")))
}

fn build(n_threads: usize) -> Result<ThreadPool> {
    check(n_threads)?;
    start(n_threads).map_err(|e| Error::invalid(format!("could not start {n_threads} threads: {e}")))
}

fn start(n_threads: usize) -> std::result::Result<ThreadPool, ThreadPoolBuildError> {
    ThreadPoolBuilder::new().num_threads(n_threads).thread_name(|i| format!("manyhands-{i}")).build()
}

/// As many threads as can be had: where memory is short, half as many, and so on. Answers are the same.
fn build_some(mut n_threads: usize) -> Result<ThreadPool> {
    check(n_threads)?;
    loop {
        match start(n_threads) {
            Ok(pool) => return Ok(pool),
            Err(_) if n_threads > 1 => n_threads /= 2,
            Err(_) => return Err(Error::OutOfMemory(THREAD_BYTES)),
        }
    }
}

fn threads_from_environment() -> Result<usize> {
    match std::env::var("MANYHANDS_NUM_THREADS") {
        Ok(text) => match text.trim().parse::<usize>() {
            Ok(n) if n > 0 => Ok(n),
            _ => {
                Err(Error::invalid(format!("MANYHANDS_NUM_THREADS must be a whole number of at least 1, not '{text}'")))
            }
        },
        Err(_) => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// Runs `change` on what is idle in this process.
fn with_idle<T>(change: impl FnOnce(&mut Idle) -> T) -> Result<T> {
    let mut slot = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some(idle) = slot.as_mut().filter(|idle| idle.process == process) {
        return Ok(change(idle));
    }
    let mut idle = Idle { process, n_threads: threads_from_environment()?, pools: vec![] };
    let result = change(&mut idle);
    // Dropping a parent's pools in a forked child would wait for threads that do not exist here.
    std::mem::forget(slot.replace(idle));
    Ok(result)
}

/// A pool for one call; it is idle again when dropped.
pub struct Lease(Option<ThreadPool>);

impl Deref for Lease {
    type Target = ThreadPool;

    fn deref(&self) -> &ThreadPool {
        // Taken only in `drop`.
        self.0.as_ref().expect("a lease holds its pool")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(pool) = self.0.take() else { return };
        let _ = with_idle(|idle| {
            if idle.n_threads == pool.current_num_threads() && idle.pools.len() < MOST_IDLE {
                idle.pools.push(pool);
            }
        });
    }
}

/// An idle pool.
pub fn lease() -> Result<Lease> {
    let (pool, n_threads) = with_idle(|idle| (idle.pools.pop(), idle.n_threads))?;
    Ok(Lease(Some(pool.map_or_else(|| build_some(n_threads), Ok)?)))
}

/// The number of threads of a call.
pub fn num_threads() -> Result<usize> {
    with_idle(|idle| idle.n_threads)
}

/// Sets the number of threads of every later call; answers never depend on it.
pub fn set_num_threads(n_threads: usize) -> Result<()> {
    // Made here, so that a number that cannot be had is rejected here.
    let pool = build(n_threads)?;
    with_idle(|idle| {
        idle.n_threads = n_threads;
        idle.pools = vec![pool];
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_at_the_same_time_have_pools_of_their_own() {
        let (one, other) = (lease().unwrap(), lease().unwrap());
        let busy = std::sync::mpsc::channel::<()>();
        one.spawn_broadcast({
            let ends = Mutex::new(busy.1);
            move |_| {
                // All threads of the first pool are taken until the end.
                let _ = ends.lock().unwrap_or_else(PoisonError::into_inner).recv();
            }
        });
        assert_eq!(other.install(|| (0..100).sum::<i32>()), 4950);
        drop(busy.0);
    }
}
