//! The tests that need the whole program: guards that read the sources, and suites that run the executable.

mod e2e;
mod guards;
