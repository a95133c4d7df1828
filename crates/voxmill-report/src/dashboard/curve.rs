//! A curve over all steps of a run in bounded memory.

/// More points than the widest terminal has dots.
const MOST_POINTS: usize = 512;

/// Means of neighbouring values, so that the number of points is bounded.
#[derive(Debug, Clone)]
pub struct Curve {
    points: Vec<(f64, f64)>,
    /// Values that make up one point.
    stride: u32,
    pending: Mean,
    last: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    steps: f64,
    values: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, (step, value): (f64, f64)) {
        self.steps += step;
        self.values += value;
        self.count += 1;
    }

    fn point(self) -> (f64, f64) {
        let count = f64::from(self.count);
        (self.steps / count, self.values / count)
    }
}

impl Default for Curve {
    fn default() -> Self {
        Curve {
            points: Vec::new(),
            stride: 1,
            pending: Mean::default(),
            last: None,
        }
    }
}

impl Curve {
    /// A value that is not finite has no place on a curve and is left out.
    pub fn push(&mut self, step: u64, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.last = Some(value);
        self.pending.add((step as f64, value));
        if self.pending.count < self.stride {
            return;
        }
        self.points.push(std::mem::take(&mut self.pending).point());
        if self.points.len() == MOST_POINTS {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let halved = self.points.chunks_exact(2).map(|pair| {
            let mut mean = Mean::default();
            pair.iter().for_each(|point| mean.add(*point));
            mean.point()
        });
        self.points = halved.collect();
        self.stride = self.stride.saturating_mul(2);
    }

    pub fn last(&self) -> Option<f64> {
        self.last
    }

    /// Step and value, up to the newest value.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let mut points = self.points.clone();
        if self.pending.count > 0 {
            points.push(self.pending.point());
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_keeps_every_value() {
        let mut curve = Curve::default();
        curve.push(1, 3.0);
        curve.push(2, f64::NAN);
        curve.push(3, 2.0);
        assert_eq!(curve.points(), [(1.0, 3.0), (3.0, 2.0)]);
        assert_eq!(curve.last(), Some(2.0));
    }

    #[test]
    fn a_long_run_keeps_its_shape_in_bounded_memory() {
        let mut curve = Curve::default();
        for step in 0..1_000_000 {
            curve.push(step, step as f64);
        }
        let points = curve.points();
        assert!(points.len() <= MOST_POINTS && points.len() >= MOST_POINTS / 2);
        assert!(
            points.iter().all(|(step, value)| step == value),
            "means of a line lie on it"
        );
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(points[points.len() - 1].0 > 990_000.0);
    }
}
