//! What programs that look at a server from outside share. Without it `capacity`, `leaks`,
//! `anatomy` and `top` would each read `/proc`, judge a series and print the names of strangers in
//! a way of its own.

pub mod processes;
pub mod text;
pub mod trend;
