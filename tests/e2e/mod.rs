//! Whole lives of tasks, played by the real executable.

mod crash;
mod faults;
mod life;
mod regressions;
mod sandbox;
mod world;
