//! (to come)

use crate::exit::Done;

/// (to come)
#[derive(Debug, clap::Args)]
pub struct Args {}

/// (to come)
pub fn main(_args: &Args) -> Done {
    Ok(())
}
