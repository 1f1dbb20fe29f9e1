//! The routes over a real port, and whole daemons over real repositories.

mod routes;
mod whole;
