//! Roads that are run as their users run them.

mod basics;
