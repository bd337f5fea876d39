//! The thread pool: one for the process, sized by `MANYHANDS_NUM_THREADS` or [`set_num_threads`].

use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, Result};

struct Pool {
    /// A forked child inherits the pool's memory but not its threads, so a pool serves only the process that made it.
    process: u32,
    threads: Arc<ThreadPool>,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);

/// More threads than any machine has cores: asking for a million must fail at once, not try.
const MOST_THREADS: usize = 1024;

fn build(n_threads: usize) -> Result<Arc<ThreadPool>> {
    if !(1..=MOST_THREADS).contains(&n_threads) {
        return Err(Error::invalid(format!(
            "the number of threads must lie between 1 and {MOST_THREADS}, not {n_threads}"
        )));
    }
    ThreadPoolBuilder::new()
        .num_threads(n_threads)
        .thread_name(|i| format!("manyhands-{i}"))
        .build()
        .map(Arc::new)
        .map_err(|e| Error::invalid(format!("could not start {n_threads} threads: {e}")))
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

/// The pool of this process, made on first use.
pub fn current() -> Result<Arc<ThreadPool>> {
    let mut slot = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some(pool) = slot.as_ref().filter(|pool| pool.process == process) {
        return Ok(Arc::clone(&pool.threads));
    }
    let threads = build(threads_from_environment()?)?;
    // Dropping a parent's pool in a forked child would wait for threads that do not exist here.
    std::mem::forget(slot.replace(Pool { process, threads: Arc::clone(&threads) }));
    Ok(threads)
}

/// Sets the number of threads of every later call; answers never depend on it.
pub fn set_num_threads(n_threads: usize) -> Result<()> {
    let threads = build(n_threads)?;
    let mut slot = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let old = slot.replace(Pool { process: std::process::id(), threads });
    if old.as_ref().is_some_and(|pool| pool.process != std::process::id()) {
        std::mem::forget(old);
    }
    Ok(())
}
