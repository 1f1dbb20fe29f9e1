//! What the daemon does by itself: reconciling, and keeping its own files in order.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::base::Result;

/// How often everything is looked at.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
/// A tick that takes longer is reported and no longer waited for.
pub(super) const STUCK: Duration = Duration::from_secs(300);
/// Ticks that may hang at the same time before no more are started.
const HANGING: usize = 3;

/// One tick.
pub(super) type Tick = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// The loops; ended by [`Loops::end`].
pub(super) struct Loops {
    end: watch::Sender<bool>,
    running: Vec<JoinHandle<()>>,
}

impl Default for Loops {
    fn default() -> Self {
        Loops { end: watch::Sender::new(false), running: Vec::new() }
    }
}

impl Loops {
    /// Starts a loop; `body` gets the signal that ends it.
    pub fn start<F: Future<Output = ()> + Send + 'static>(&mut self, body: impl FnOnce(watch::Receiver<bool>) -> F) {
        self.running.push(tokio::spawn(body(self.end.subscribe())));
    }

    /// Starts something that runs until it is dropped.
    pub fn start_endless(&mut self, body: impl Future<Output = ()> + Send + 'static) {
        self.start(|mut end| async move {
            tokio::select! {
                () = body => {}
                _ = end.wait_for(|end| *end) => {}
            }
        });
    }

    /// Ends all loops: a step under way may end within `grace`, then it is dropped.
    pub async fn end(self, grace: Duration) {
        self.end.send_replace(true);
        let deadline = tokio::time::Instant::now() + grace;
        for mut running in self.running {
            if tokio::time::timeout_at(deadline, &mut running).await.is_err() {
                tracing::warn!("a background loop did not end in time and is cut");
                running.abort();
                running.await.ok();
            }
        }
    }
}

/// Runs `tick` now, then every `interval` and whenever `wanted` resolves. Ticks do not overlap, but for one that is
/// stuck: after `stuck` it is reported, and the next one runs beside it.
pub(super) async fn reconcile<W: Future<Output = ()> + Send>(
    tick: impl Fn() -> Tick,
    wanted: impl Fn() -> W,
    interval: Duration,
    stuck: Duration,
    mut end: watch::Receiver<bool>,
) {
    let mut hanging: Vec<JoinHandle<()>> = Vec::new();
    while !*end.borrow() {
        hanging.retain(|tick| !tick.is_finished());
        if hanging.len() < HANGING {
            let work = tick();
            let mut running = tokio::spawn(async move {
                if let Err(error) = work.await {
                    tracing::error!(%error, "reconciling failed");
                }
            });
            match tokio::time::timeout(stuck, &mut running).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "reconciling broke off"),
                Err(_) => {
                    tracing::error!(
                        "a reconcile tick has been at it for {} s; another begins beside it",
                        stuck.as_secs()
                    );
                    hanging.push(running);
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = wanted() => {}
            _ = end.wait_for(|end| *end) => {}
        }
    }
    hanging.iter().for_each(JoinHandle::abort);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::{Notify, Semaphore};

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_tick_at_once_and_one_for_each_wish() {
        let (ticks, wish) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
        let (ticked, wished) = (ticks.clone(), wish.clone());
        let mut loops = Loops::default();
        loops.start(|end| async move {
            let tick = move || -> Tick {
                let ticked = ticked.clone();
                Box::pin(async move {
                    ticked.add_permits(1);
                    Ok(())
                })
            };
            reconcile(
                tick,
                move || {
                    let wished = wished.clone();
                    async move { wished.notified().await }
                },
                LONG,
                LONG,
                end,
            )
            .await;
        });
        ticks.acquire().await.expect("the first").forget();
        wish.notify_one();
        ticks.acquire().await.expect("the wish").forget();
        loops.end(LONG).await;
        assert_eq!(ticks.available_permits(), 0);
    }

    #[tokio::test]
    async fn a_stuck_tick_does_not_stop_the_others_and_they_are_bounded() {
        let (begun, count) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
        let (begins, counts) = (begun.clone(), count.clone());
        let mut loops = Loops::default();
        loops.start(|end| async move {
            let tick = move || -> Tick {
                counts.fetch_add(1, Ordering::Relaxed);
                begins.add_permits(1);
                Box::pin(std::future::pending())
            };
            let never = || std::future::pending();
            reconcile(tick, never, Duration::from_millis(1), Duration::from_millis(1), end).await;
        });
        begun.acquire_many(u32::try_from(HANGING).expect("few")).await.expect("three hang").forget();
        // The third is given up after a millisecond; then nothing more may begin, however long one waits.
        let more = tokio::time::timeout(Duration::from_millis(100), begun.acquire()).await;
        assert!(more.is_err(), "no fourth");
        loops.end(LONG).await;
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_loop_that_does_not_end_is_cut() {
        let mut loops = Loops::default();
        let alive = Arc::new(());
        let held = alive.clone();
        loops.start(|_| async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        loops.end(Duration::from_millis(1)).await;
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[tokio::test]
    async fn a_panic_in_a_tick_is_not_the_end() {
        let (second, count) = (Arc::new(Notify::new()), AtomicU32::new(0));
        let seen = second.clone();
        let mut loops = Loops::default();
        loops.start(|end| async move {
            let tick = move || -> Tick {
                if count.fetch_add(1, Ordering::Relaxed) == 1 {
                    seen.notify_one();
                    return Box::pin(async { Ok(()) });
                }
                Box::pin(async { panic!("this one breaks") })
            };
            reconcile(tick, std::future::pending, Duration::from_millis(1), LONG, end).await;
        });
        second.notified().await;
        loops.end(LONG).await;
    }
}
