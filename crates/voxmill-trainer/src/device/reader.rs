//! Reads from a GPU on a thread of its own.
//!
//! The thread that gives the GPU its work must never wait for it: some backends block in the very call that begins to
//! read. Reads are done in the order in which they were asked for, and the time at which one has come is the time at
//! which the device was through with everything before it: the device's time line is made of these.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use burn::tensor::{Tensor, TensorData};

use super::find::without_panic;
use crate::align;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(crate) struct Reader {
    /// `None` once it is to end.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// What is being read; in the device's words where that failed.
#[derive(Debug)]
pub(crate) struct Coming<T>(Receiver<Result<T, String>>);

impl<T> Coming<T> {
    /// What need not be waited for.
    pub(crate) fn there(value: T) -> Self {
        let (sender, coming) = channel();
        let _ = sender.send(Ok(value));
        Coming(coming)
    }

    /// Waits for it; panics where the device could not make it.
    pub(crate) fn wait(self) -> T {
        let came = self.0.recv();
        came.unwrap_or_else(|_| Err("nothing was read".to_owned()))
            .unwrap_or_else(|why| panic!("{why}"))
    }
}

impl Reader {
    pub(crate) fn start() -> Self {
        let (jobs, queue) = channel::<Job>();
        let named = thread::Builder::new().name("reader".to_owned());
        let thread = named.spawn(move || queue.into_iter().for_each(|job| job()));
        Self {
            jobs: Some(jobs),
            thread: Some(thread.expect("a thread can be started")),
        }
    }

    /// Reads a tensor; what it is made into is made by the threads that search alignments, so that the next read is
    /// not held up.
    pub(crate) fn read<const D: usize, T: Send + 'static>(
        &self,
        tensor: Tensor<D>,
        make: impl FnOnce(TensorData, Instant) -> T + Send + 'static,
    ) -> Coming<T> {
        // Where kernels are fused, what a thread asked for lies in a queue of its own, and a read by another thread cuts
        // that queue wherever it stands by then: other kernels in every step. Cut here, there is nothing left to cut.
        // What fails is reported where it is read.
        let _ = tensor.device().flush();
        let (sender, coming) = channel();
        let job = Box::new(move || {
            let read = without_panic(|| tensor.try_into_data().map_err(|why| why.to_string()));
            let came = Instant::now();
            // Whoever asked may have gone: a run that failed.
            let send = move |made| drop(sender.send(made));
            match read.flatten() {
                Ok(data) => align::pool().spawn(move || send(without_panic(|| make(data, came)))),
                Err(why) => send(Err(why)),
            }
        });
        let jobs = self.jobs.as_ref().expect("it ends only when dropped");
        // The thread outlives its queue.
        let _ = jobs.send(job);
        Coming(coming)
    }
}

/// What has begun is waited for: a driver must not be torn down under a read.
impl Drop for Reader {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TryRecvError;
    use std::sync::{Arc, Barrier};

    use super::*;
    use crate::device::{cpu, test_devices};

    #[test]
    fn what_is_read_comes_in_order_on_every_device() {
        for device in &test_devices() {
            let reader = Reader::start();
            let coming: Vec<_> = (0..5)
                .map(|n| {
                    let number = Tensor::<1>::full([1], n, device) * 2.0;
                    reader.read(number, |data, came| (data.iter::<f32>().next(), came))
                })
                .collect();
            let came: Vec<_> = coming.into_iter().map(Coming::wait).collect();
            assert!(came.is_sorted_by_key(|(_, at)| *at));
            let numbers: Vec<_> = came.into_iter().filter_map(|(number, _)| number).collect();
            assert_eq!(numbers, [0.0, 2.0, 4.0, 6.0, 8.0]);
        }
    }

    /// A read that blocks for as long as it likes holds nobody up who has not asked for it.
    #[test]
    fn whoever_asks_does_not_wait() {
        let reader = Reader::start();
        let blocks = Arc::new(Barrier::new(2));
        let blocked = blocks.clone();
        let queue = reader.jobs.as_ref().unwrap();
        let wait = Box::new(move || {
            blocked.wait();
        });
        queue.send(wait).unwrap();
        let coming = reader.read(Tensor::<1>::ones([1], &cpu()), |data, _| {
            data.num_elements()
        });
        assert_eq!(coming.0.try_recv(), Err(TryRecvError::Empty));
        blocks.wait();
        assert_eq!(coming.wait(), 1);
    }

    #[test]
    #[should_panic(expected = "out of luck")]
    fn what_failed_says_why_where_it_is_waited_for() {
        let reader = Reader::start();
        let ones = Tensor::<1>::ones([1], &cpu());
        reader.read(ones, |_, _| panic!("out of luck")).wait()
    }
}
