use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use voxmill_telemetry::event::Outcome;

use super::super::state::{BestValidation, BudgetLevel, BufferLevel, DeviceLoad, StepTimes};
use super::*;

/// A run in its third epoch.
fn halfway() -> DashboardState {
    let mut state = DashboardState {
        run_name: "2026-11-16-demo".to_owned(),
        model_size: "tiny".to_owned(),
        device: "CPU (flex), 2 threads".to_owned(),
        mode: "single-device buffered".to_owned(),
        step: 1_234,
        goal: Goal::Steps(2_000),
        epoch: Some(3),
        elapsed: Duration::from_secs(370),
        time_left: Some(Duration::from_secs(229)),
        best_validation: Some(BestValidation {
            loss: 0.4321,
            step: 1_200,
        }),
        learning_rate: Some(1.2e-3),
        gradient_norm: Some(0.873),
        step_times: Some(StepTimes {
            now: Duration::from_micros(301_200),
            median: Duration::from_millis(298),
            p95: Duration::from_millis(344),
        }),
        stall_share: Some(0.004),
        frames_per_second: Some(9_321.0),
        buffers: [
            ("clips", 12, 128),
            ("features", 128, 128),
            ("batches", 41, 50),
            ("slots", 3, 3),
        ]
        .map(|(name, items, capacity)| BufferLevel {
            name: name.to_owned(),
            items,
            capacity,
        })
        .to_vec(),
        budget: Some(BudgetLevel {
            used_bytes: 300 << 20,
            limit_bytes: 4 << 30,
        }),
        devices: vec![DeviceLoad {
            name: "CPU (flex)".to_owned(),
            busy_share: Some(0.97),
            memory_bytes: None,
        }],
        host_cpu_share: Some(0.99),
        resident_bytes: Some(812 << 20),
        last_checkpoint: Some("step 1,200".to_owned()),
        ..DashboardState::default()
    };
    for step in 1..=1_234_u64 {
        let fall = 1.0 / (1.0 + step as f64 / 60.0);
        state.total_loss.push(step, 0.5 + 4.0 * fall);
        state.mel_loss.push(step, 0.3 + 1.5 * fall);
        state.mean_loss.push(step, 0.15 + 2.0 * fall);
        state.duration_loss.push(step, 0.05 + 0.5 * fall);
        if step % 200 == 0 {
            state.validation_loss.push(step, 0.6 + 4.0 * fall);
        }
    }
    state.note("cache: 128 clips reused, 0 rebuilt");
    state.warn("clip demo-0042 has no audio; it is left out");
    state.note("sample written: samples/step-1200-0.wav");
    state
}

fn screen(state: &DashboardState, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| render(state, frame)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn halfway_on_the_smallest_usual_terminal() {
    insta::assert_snapshot!(screen(&halfway(), 80, 24));
}

#[test]
fn halfway_on_a_larger_terminal() {
    insta::assert_snapshot!(screen(&halfway(), 120, 40));
}

#[test]
fn before_the_first_step_nothing_is_known() {
    let mut state = DashboardState {
        run_name: "first".to_owned(),
        ..DashboardState::default()
    };
    state.stopping = true;
    insta::assert_snapshot!(screen(&state, 80, 24));
}

/// A digit changes the curve that it names, from what is drawn now.
#[test]
fn a_key_turns_a_curve_on_where_it_is_not_drawn_and_off_where_it_is() {
    let mut state = halfway();
    let names = |state: &DashboardState, height| -> Vec<&str> {
        drawn(state, height)
            .iter()
            .map(|drawn| drawn.name)
            .collect()
    };
    assert_eq!(names(&state, 10), ["total", VALIDATION]);
    state.look(super::super::Look::Curve(2));
    assert_eq!(names(&state, 10), ["total", VALIDATION, "mel"]);
    state.look(super::super::Look::Curve(0));
    assert_eq!(names(&state, 10), [VALIDATION, "mel"]);
    state.look(super::super::Look::AllCurves);
    assert_eq!(names(&state, 10).len(), 5);
    let seen = screen(&state, 80, 24);
    for (name, mark, _) in LOOKS {
        assert!(seen.contains(&format!("{mark} {name} ")), "{name}:\n{seen}");
    }
}

#[test]
fn a_long_first_step_is_seen_to_go_on() {
    let state = DashboardState {
        doing: Some(super::super::doing(1, Some((3, 64)))),
        elapsed: Duration::from_secs(75),
        goal: Goal::Steps(100),
        ..DashboardState::default()
    };
    let seen = screen(&state, 80, 24);
    let doing = "step 1 is being computed, batch 3 of 64";
    assert!(seen.contains(&format!("{doing}, for 1:15")), "{seen}");
    assert!(seen.contains(&format!("{doing}  1:15")), "{seen}");
}

#[test]
fn a_run_of_another_process_is_left_not_stopped() {
    let mut state = halfway();
    for (watching, says) in [
        (Watching::Running, "q: leave"),
        (
            Watching::Ended(Outcome::Finished),
            "the run finished at step 1,234",
        ),
        (Watching::Killed, "killed"),
    ] {
        state.watching = Some(watching);
        let seen = screen(&state, 80, 24);
        assert!(
            seen.contains("voxmill watch") && seen.contains(says),
            "{seen}"
        );
        assert!(!seen.contains("save and stop"), "{seen}");
    }
    state.look(super::super::Look::Help);
    assert!(screen(&state, 80, 24).contains("leave; the run goes on"));
}

#[test]
fn a_terminal_obeys_nothing_of_it() {
    let hostile = "a\u{1b}]52;c;QQ==\u{7}\u{9b}2J\u{202e}\u{2066}\nb";
    let mut state = halfway();
    state.run_name = hostile.to_owned();
    state.device = hostile.to_owned();
    state.last_checkpoint = Some(hostile.to_owned());
    state.buffers[0].name = hostile.to_owned();
    state.warn(hostile);
    for (width, height) in [(80, 24), (120, 40)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| render(&state, frame)).unwrap();
        for cell in terminal.backend().buffer().content() {
            let symbol = cell.symbol();
            assert!(
                !symbol.contains(|c| c == '\n' || is_obeyed(c)),
                "{symbol:?}"
            );
        }
    }
}

#[test]
fn no_size_makes_it_fail() {
    for state in [halfway(), DashboardState::default()] {
        for width in [1, 2, 5, 20, 59, 60, 61, 300] {
            for height in [1, 2, 3, 5, 17, 18, 19, 100] {
                screen(&state, width, height);
            }
        }
    }
}

#[test]
fn odd_numbers_do_not_make_it_fail() {
    let mut state = halfway();
    state.stall_share = Some(f64::NAN);
    state.frames_per_second = Some(f64::INFINITY);
    state.goal = Goal::Steps(0);
    state.buffers[0].capacity = 0;
    state.total_loss.push(1_235, 1e30);
    state.total_loss.push(1_236, -1.0);
    state.note("ایستگاه 😀 wide letters".repeat(20));
    screen(&state, 80, 24);
}
