mod complaint;
mod config;
fn main() {}
