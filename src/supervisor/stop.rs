//! The word that this process is to end, for everything that waits.

use tokio::sync::watch;

/// Says it.
#[derive(Debug)]
pub(super) struct Stopper(watch::Sender<bool>);

/// Hears it.
#[derive(Debug, Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

/// A pair of both.
pub(super) fn pair() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// From now on everything that waits ends.
    pub(super) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Whether it was said.
    pub(super) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when it is said; never when nobody is left to say it.
    pub(super) async fn requested(&mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
