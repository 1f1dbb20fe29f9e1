//! Whole lives of tasks, played by the real executable.

mod containers;
mod crash;
mod elevated;
mod faults;
mod first_process;
mod images;
mod life;
mod mended;
mod menus;
mod parents;
mod policy;
mod regressions;
mod resolving;
mod sandbox;
mod world;
