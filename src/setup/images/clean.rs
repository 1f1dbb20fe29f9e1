//! Images that nobody needs any more.

use super::{Images, Listed};
use crate::base::{Millis, Result};
use crate::runner::image;

impl Images {
    /// Every image that lazy made in this engine, with what may become of it.
    ///
    /// # Errors
    /// [`crate::base::Kind::Unavailable`] when the engine does not answer.
    pub async fn list(&self) -> Result<Vec<Listed>> {
        image::list(self.engine()?, std::slice::from_ref(&self.recipe)).await
    }

    /// Removes an image with its names.
    ///
    /// # Errors
    /// The engine's reason not to.
    pub async fn remove(&self, image: &Listed) -> Result<()> {
        image::remove(self.engine()?, image).await
    }

    /// Now, by the clock that ages are told by.
    pub fn now(&self) -> Millis {
        self.process.now()
    }
}
