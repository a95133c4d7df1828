//! Where the minutes of the check go, said by the check itself.

use std::time::{Duration, Instant};

use xtask::tell;

/// The parts that have run so far.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    name: String,
    wall: Duration,
    /// Of all cores together; nothing where the system does not say.
    cpu: Option<Duration>,
}

impl Clock {
    pub(crate) fn time<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        let (begin, cpu) = (Instant::now(), children_cpu());
        let done = work();
        self.parts.push(Part {
            name: name.to_owned(),
            wall: begin.elapsed(),
            cpu: children_cpu()
                .zip(cpu)
                .map(|(after, before)| after.saturating_sub(before)),
        });
        done
    }

    /// Wall and CPU time: on a machine that others use too, only the second says what the check takes.
    pub(crate) fn report(&self) {
        tell("minutes   wall    CPU");
        let total = Part {
            name: "together".to_owned(),
            wall: self.parts.iter().map(|part| part.wall).sum(),
            cpu: self.parts.iter().map(|part| part.cpu).sum(),
        };
        for part in self.parts.iter().chain([&total]) {
            let cpu = match part.cpu {
                Some(cpu) => format!("{:6.2}", minutes(cpu)),
                None => "     ?".to_owned(),
            };
            tell(&format!(
                "        {:6.2} {cpu}  {}",
                minutes(part.wall),
                part.name
            ));
        }
    }
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

/// User and system time of all processes that this one started and that have ended.
fn children_cpu() -> Option<Duration> {
    // Linux counts them in hundredths of a second, whatever the kernel's own clock does.
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The fields are counted behind the program's name, which may hold anything but the last bracket.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(
        (user + system) * 1000 / TICKS_PER_SECOND,
    ))
}
