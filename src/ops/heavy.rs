//! Reads that go through every record, a few at a time.
//!
//! The runtime has a small number of threads for file work, which all operations share. A search of a large store keeps
//! one busy for as long as it takes: so many at once that no thread is left would keep every other command waiting. They
//! wait for each other instead, before they take a thread.

use tokio::sync::Semaphore;

use super::lookup;
use crate::base::{Error, Result};

/// Heavy reads at once. They are bound by the processor: more would not be done sooner.
const AT_ONCE: usize = 2;

/// The places for heavy reads.
#[derive(Debug)]
pub(super) struct Heavy(Semaphore);

impl Default for Heavy {
    fn default() -> Self {
        Heavy(Semaphore::new(AT_ONCE))
    }
}

impl Heavy {
    /// Runs a heavy read off the async threads when a place is free, in the order in which they were asked for.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let _place = self
            .0
            .acquire()
            .await
            .map_err(|source| Error::internal("the places for heavy reads are closed").caused_by(source))?;
        lookup::blocking(work).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Condvar, Mutex};
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_heavy_reads_leave_threads_for_the_others() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(16)
            .enable_all()
            .build()
            .expect("a runtime as the daemon's");
        runtime.block_on(async {
            let heavy = Arc::new(Heavy::default());
            let open = Arc::new((Mutex::new(false), Condvar::new()));
            let begun = Arc::new(AtomicUsize::new(0));
            let reads: Vec<_> = (0..50)
                .map(|_| {
                    let (heavy, open, begun) = (heavy.clone(), open.clone(), begun.clone());
                    tokio::spawn(async move {
                        heavy
                            .run(move || {
                                begun.fetch_add(1, Ordering::SeqCst);
                                let mut held = open.0.lock().expect("locks");
                                while !*held {
                                    held = open.1.wait(held).expect("waits");
                                }
                                Ok(())
                            })
                            .await
                    })
                })
                .collect();
            while begun.load(Ordering::SeqCst) < AT_ONCE {
                tokio::task::yield_now().await;
            }
            let light = tokio::time::timeout(Duration::from_secs(20), lookup::blocking(|| Ok(7))).await;
            let at_once = begun.load(Ordering::SeqCst);
            *open.0.lock().expect("locks") = true;
            open.1.notify_all();
            for read in reads {
                read.await.expect("joins").expect("reads");
            }
            assert_eq!(light.expect("a light read waits for no heavy one").expect("reads"), 7);
            assert_eq!(at_once, AT_ONCE);
        });
    }
}
