//! Decisions of the home-cluster policy.

mod pages;
mod processors;
