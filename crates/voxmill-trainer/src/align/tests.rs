use super::*;
use proptest::prelude::*;

fn lengths(tokens: usize, frames: usize) -> Lengths {
    Lengths { tokens, frames }
}

/// The best sum over all monotonic paths, by trying every one.
fn brute_force(scores: &[f32], stride: usize, lengths: Lengths) -> f32 {
    fn from(s: &[f32], stride: usize, l: Lengths, frame: usize, token: usize) -> f32 {
        if frame == l.frames || token == l.tokens {
            // Only a path that ends after the last frame of the last token counts.
            return f32::NEG_INFINITY;
        }
        let here = s[frame * stride + token];
        if (frame + 1, token + 1) == (l.frames, l.tokens) {
            return here;
        }
        let stay = from(s, stride, l, frame + 1, token);
        let go = from(s, stride, l, frame + 1, token + 1);
        here + stay.max(go)
    }
    from(scores, stride, lengths, 0, 0)
}

fn sum_along(scores: &[f32], stride: usize, durations: &[u32]) -> f32 {
    let durations = Durations::new(durations.to_vec(), durations.len());
    let path = durations.tokens_of_frames(0).enumerate();
    path.map(|(frame, token)| scores[frame * stride + token])
        .sum()
}

proptest! {
    #[test]
    fn the_path_found_is_as_good_as_any(
        tokens in 1usize..5, more in 0usize..6, pad in 0usize..3,
        values in prop::collection::vec(-9.0f32..9.0, 200),
    ) {
        let lengths = Lengths { tokens, frames: tokens + more };
        let stride = tokens + pad;
        let scores = &values[..lengths.frames * stride];
        let mut work = scores.to_vec();
        let found = search(&mut work, lengths.frames, stride, &[lengths], 0.0);
        let durations = found.row(0);
        prop_assert!(durations[..tokens].iter().all(|&n| n > 0));
        prop_assert!(durations[tokens..].iter().all(|&n| n == 0));
        prop_assert_eq!(durations.iter().sum::<u32>() as usize, lengths.frames);
        let best = brute_force(scores, stride, lengths);
        prop_assert!((sum_along(scores, stride, durations) - best).abs() < 1e-3);
    }
}

#[test]
fn padding_does_not_change_a_path() {
    let tight = [1.0, 0.0, 0.0, 2.0, 0.0, 2.0, 0.5, 1.0];
    let mut padded = vec![99.0; 6 * 3];
    for frame in 0..4 {
        padded[frame * 3..][..2].copy_from_slice(&tight[frame * 2..][..2]);
    }
    let lengths = [lengths(2, 4)];
    let a = search(&mut tight.to_vec(), 4, 2, &lengths, 1.0);
    let b = search(&mut padded, 6, 3, &lengths, 1.0);
    assert_eq!(a.row(0), &b.row(0)[..2]);
}

#[test]
fn without_scores_the_prior_spreads_tokens_evenly() {
    let found = search(&mut [0.0; 250], 50, 5, &[lengths(5, 50)], 3.0);
    let mut row = found.row(0).iter();
    assert!(row.all(|n| (6..=15).contains(n)), "{found:?}");
}

/// The formula itself: the probabilities of one frame's tokens sum to one.
#[test]
fn the_prior_is_a_distribution() {
    let (tokens, frames) = (7, 20);
    let mut scores = vec![0.0; tokens * frames];
    Prior::new(tokens + frames + 2, 1.0).add_to(&mut scores, tokens, Lengths { tokens, frames });
    for frame in scores.chunks_exact(tokens) {
        let total: f32 = frame.iter().map(|log| log.exp()).sum();
        assert!((total - 1.0).abs() < 1e-4, "{total}");
    }
}

#[test]
fn fewer_frames_than_tokens_still_use_every_frame() {
    let lengths = [lengths(5, 3), lengths(0, 0)];
    let found = search(&mut [0.0; 2 * 4 * 5], 4, 5, &lengths, 0.0);
    assert_eq!(found.row(0).iter().sum::<u32>(), 3);
    assert_eq!(found.row(1), [0; 5]);
}

#[test]
fn a_frame_knows_its_token_and_its_place_in_it() {
    let durations = Durations::new(vec![2, 1, 0, 0, 3, 0], 3);
    assert_eq!(durations.token_of_frame(4), [0, 0, 1, 0, 1, 1, 1, 0]);
    let places = durations.places(4);
    assert_eq!(&places[..4], [0.25, 0.75, 0.5 * 2f32.ln(), 0.0]);
    assert_eq!(&places[4..8], [0.75, 0.25, 0.5 * 2f32.ln(), 0.1]);
    assert_eq!(&places[12..16], [0.0; 4]);
}
