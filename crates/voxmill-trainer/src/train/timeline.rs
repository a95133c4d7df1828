//! The model device's own time line.
//!
//! The host runs ahead of a GPU, so what the host waits for says little about what the GPU waits for: a batch that is
//! late for the host may be early for a device that still computes the one before. Here a device is idle from the time
//! it was through with a batch until the next one's work was given to it, and it stalls where the host had only that
//! batch to wait for in that time. A step of several batches waits several times.

use std::time::{Duration, Instant};

/// What the host knows of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostTimes {
    /// When the batch was asked for.
    pub(super) asked: Instant,
    /// When it was there, and the device could begin.
    pub(super) began: Instant,
}

/// A batch on the device's time line, or all of a step: idle for another reason, idle for want of a batch, at work, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceTimes {
    pub(super) overhead: Duration,
    pub(super) waited: Duration,
    pub(super) service: Duration,
}

impl std::ops::AddAssign for DeviceTimes {
    fn add_assign(&mut self, other: Self) {
        self.overhead += other.overhead;
        self.waited += other.waited;
        self.service += other.service;
    }
}

#[derive(Debug)]
pub(super) struct DeviceLine {
    /// When the device was through with the last batch.
    free: Instant,
}

impl DeviceLine {
    pub(super) fn new(now: Instant) -> Self {
        Self { free: now }
    }

    /// The next batch, through with at `done`.
    pub(super) fn batch(&mut self, host: HostTimes, done: Instant) -> DeviceTimes {
        let free = self.free;
        self.free = done.max(free);
        let begins = free.max(host.began);
        let waits_from = free.max(host.asked).min(begins);
        DeviceTimes {
            overhead: waits_from - free,
            waited: begins - waits_from,
            service: done.saturating_duration_since(begins),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
    use std::sync::{Arc, Mutex};
    use std::thread;

    use super::*;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    /// Where the host waits for every step, the two lines are one.
    #[test]
    fn on_a_cpu_the_line_is_the_hosts() {
        let begin = Instant::now();
        let mut line = DeviceLine::new(begin);
        let host = HostTimes {
            asked: begin + ms(1.0),
            began: begin + ms(4.0),
        };
        let times = line.batch(host, begin + ms(14.0));
        assert_eq!(
            [times.overhead, times.waited, times.service],
            [1.0, 3.0, 10.0].map(ms)
        );
    }

    #[test]
    fn a_batch_that_comes_while_the_device_computes_is_not_waited_for() {
        let begin = Instant::now();
        let mut line = DeviceLine::new(begin);
        let at = |asked, began| HostTimes {
            asked: begin + ms(asked),
            began: begin + ms(began),
        };
        line.batch(at(0.0, 0.0), begin + ms(50.0));
        // The host waits from 1 to 40: the device computes until 50.
        let times = line.batch(at(1.0, 40.0), begin + ms(100.0));
        assert_eq!([times.waited, times.service], [0.0, 50.0].map(ms));
        // From 41 to 120: the device is idle from 100 on.
        let times = line.batch(at(41.0, 120.0), begin + ms(170.0));
        assert_eq!([times.waited, times.service], [20.0, 50.0].map(ms));
        // It was idle from 170 on, but a batch was asked for only at 180: a checkpoint.
        let times = line.batch(at(180.0, 185.0), begin + ms(200.0));
        assert_eq!(
            [times.overhead, times.waited, times.service],
            [10.0, 5.0, 15.0].map(ms)
        );
    }

    /// Shares of a run in which the device was at work, and idle for want of a batch.
    type Shares = [f64; 2];

    /// A device that is a queue with a worker, as a GPU is.
    trait SimulatedDevice {
        fn now(&self) -> Instant;
        /// The next batch; comes at its own pace, two ahead at most.
        fn batch(&mut self);
        /// Asks for a step and does not wait for it.
        fn enqueue(&mut self);
        /// Waits for the oldest step that was not waited for yet; when the device was through with it.
        fn wait(&mut self) -> Instant;
        /// By the device's own account, from the end of its first step to that of its last.
        fn truth(&self) -> Shares;
    }

    /// The training loop's dealings with its device: `behind` steps are left on it when the next batch is asked for.
    fn measured(device: &mut impl SimulatedDevice, behind: usize, steps: usize) -> Shares {
        let mut hosts = VecDeque::new();
        let (mut line, mut sum) = (None, DeviceTimes::default());
        for step in 0..steps {
            let asked = device.now();
            device.batch();
            let began = device.now();
            device.enqueue();
            hosts.push_back(HostTimes { asked, began });
            let left = if step + 1 == steps { 0 } else { behind };
            while hosts.len() > left {
                let (host, done) = (hosts.pop_front().unwrap(), device.wait());
                match &mut line {
                    None => line = Some(DeviceLine::new(done)),
                    Some(line) => sum += line.batch(host, done),
                }
            }
        }
        let wall = sum.overhead + sum.waited + sum.service;
        [sum.service, sum.waited].map(|part| part.as_secs_f64() / wall.as_secs_f64())
    }

    const AHEAD: usize = 2;

    /// With a clock of its own.
    struct Simulated {
        step: Duration,
        feed: Duration,
        now: Instant,
        made: VecDeque<Instant>,
        taken: Vec<Instant>,
        busy: Vec<[Instant; 2]>,
        waited: usize,
    }

    impl Simulated {
        fn new(step: Duration, feed: Duration) -> Self {
            let now = Instant::now();
            Self {
                step,
                feed,
                now,
                made: (1..=AHEAD as u32).map(|n| now + feed * n).collect(),
                taken: Vec::new(),
                busy: Vec::new(),
                waited: 0,
            }
        }
    }

    impl SimulatedDevice for Simulated {
        fn now(&self) -> Instant {
            self.now
        }

        fn batch(&mut self) {
            self.now = self.now.max(self.made.pop_front().unwrap());
            // One place is free: the next batch is begun when the one before it is made.
            let begins = self
                .made
                .back()
                .map_or(self.now, |made| self.now.max(*made));
            self.made.push_back(begins + self.feed);
            self.taken.push(self.now);
        }

        fn enqueue(&mut self) {
            let free = self.busy.last().map_or(self.now, |[_, done]| *done);
            let begins = free.max(self.now);
            self.busy.push([begins, begins + self.step]);
        }

        fn wait(&mut self) -> Instant {
            let done = self.busy[self.waited][1];
            self.waited += 1;
            self.now = self.now.max(done);
            done
        }

        fn truth(&self) -> Shares {
            shares(&self.busy)
        }
    }

    /// A device that has nothing but batches to wait for.
    fn shares(busy: &[[Instant; 2]]) -> Shares {
        let wall = busy[busy.len() - 1][1] - busy[0][1];
        let worked: Duration = busy[1..].iter().map(|[from, to]| *to - *from).sum();
        let share = worked.as_secs_f64() / wall.as_secs_f64();
        [share, 1.0 - share]
    }

    const RATIOS: [f64; 8] = [0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0];

    /// Before step 400 the host waits for every step, later it leaves one on the device.
    #[test]
    fn busy_and_stall_are_the_devices_own() {
        for ratio in RATIOS {
            for behind in [0, 1] {
                let mut device = Simulated::new(ms(50.0), ms(50.0 * ratio));
                let found = measured(&mut device, behind, 400);
                for (found, truth) in found.into_iter().zip(device.truth()) {
                    assert!((found - truth).abs() < 1e-6, "{ratio} {behind}");
                }
                let expected = (1.0 / ratio).min(1.0);
                assert!((found[0] - expected).abs() < 0.005, "{ratio}: {found:?}");
            }
        }
    }

    /// A worker that sleeps.
    struct Sleeping {
        step: Duration,
        batches: Receiver<()>,
        queue: Sender<Duration>,
        done: Receiver<Instant>,
        busy: Arc<Mutex<Vec<[Instant; 2]>>>,
    }

    impl Sleeping {
        fn new(step: Duration, feed: Duration) -> Self {
            let (making, batches) = sync_channel(AHEAD - 1);
            thread::spawn(move || {
                while making.send(()).is_ok() {
                    thread::sleep(feed);
                }
            });
            let (queue, steps) = channel();
            let (through, worked) = channel();
            let (reader, done) = channel();
            let busy = Arc::<Mutex<Vec<_>>>::default();
            let noted = busy.clone();
            thread::spawn(move || {
                for takes in steps {
                    let begins = Instant::now();
                    thread::sleep(takes);
                    noted.lock().unwrap().push([begins, Instant::now()]);
                    let _ = through.send(());
                }
            });
            // What `train::reader` is to a GPU.
            thread::spawn(move || {
                worked
                    .into_iter()
                    .try_for_each(|()| reader.send(Instant::now()))
            });
            Self {
                step,
                batches,
                queue,
                done,
                busy,
            }
        }
    }

    impl SimulatedDevice for Sleeping {
        fn now(&self) -> Instant {
            Instant::now()
        }

        fn batch(&mut self) {
            self.batches.recv().unwrap();
        }

        fn enqueue(&mut self) {
            self.queue.send(self.step).unwrap();
        }

        fn wait(&mut self) -> Instant {
            self.done.recv().unwrap()
        }

        fn truth(&self) -> Shares {
            shares(&self.busy.lock().unwrap())
        }
    }

    #[test]
    #[ignore = "takes a minute of sleep, and a machine that wakes its threads in time"]
    fn busy_and_stall_of_a_device_that_sleeps() {
        let mut worst = 0f64;
        for ratio in RATIOS {
            for behind in [0, 1] {
                let mut device = Sleeping::new(ms(50.0), ms(50.0 * ratio));
                let found = measured(&mut device, behind, 60).map(|share| 100.0 * share);
                let truth = device.truth().map(|share| 100.0 * share);
                println!(
                    "feed {ratio:.1} × step, {behind} behind: busy {:.2} % (truth {:.2}), stall {:.2} % (truth {:.2})",
                    found[0], truth[0], found[1], truth[1]
                );
                for (found, truth) in found.into_iter().zip(truth) {
                    worst = worst.max((found - truth).abs());
                }
            }
        }
        println!("worst: {worst:.2} points");
        assert!(worst < 1.0);
    }
}
