//! Owns the terminal while the dashboard is shown, and gives it back however the run ends.
//!
//! In raw mode the terminal sends no SIGINT: Ctrl-C is a key like others. So the keys call what the caller gave
//! for stopping. Everything goes to standard error; standard output stays the program's result.

use std::io::{self, Stderr};
use std::mem::ManuallyDrop;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use voxmill_trainer::panics;

use voxmill_report::dashboard::{DashboardState, Look, render};

use crate::hang_up::has_hung_up;

/// Often enough to look alive, rarely enough to cost nothing next to training.
const BETWEEN_DRAWINGS: Duration = Duration::from_millis(250);
/// Also where nothing was reported: the clock goes on.
const TICK: Duration = Duration::from_secs(1);
/// A key is noticed after this long.
const BETWEEN_KEYS: Duration = Duration::from_millis(25);
/// For the last drawing. A terminal that takes nothing any more must not keep a run from ending.
const TO_CLOSE: Duration = Duration::from_secs(10);
/// Messages that a page key moves by.
const PAGE: usize = 8;

static TERMINAL_TAKEN: AtomicBool = AtomicBool::new(false);

/// Gives the terminal back; does nothing if it is not taken. To be called before the process is ended by hand.
pub(crate) fn restore_terminal() {
    if TERMINAL_TAKEN.swap(false, Ordering::SeqCst) {
        // There is nobody to report to if this fails: the terminal is gone.
        let _ = disable_raw_mode();
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
    }
}

#[derive(Debug)]
pub(crate) struct Dashboard {
    shared: Arc<Shared>,
    drawer: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<DashboardState>,
    /// Panics of workers, until they are drawn. Apart from the state, which the panicking thread may hold.
    panics: Mutex<Vec<String>>,
    changed: AtomicBool,
    finished: AtomicBool,
}

impl Shared {
    /// A panic while the state was changed leaves odd numbers at worst.
    fn lock(&self) -> MutexGuard<'_, DashboardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut DashboardState)) {
        change(&mut self.lock());
        self.changed.store(true, Ordering::Release);
    }

    fn panics(&self) -> MutexGuard<'_, Vec<String>> {
        self.panics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be drawn now: a copy, so that a slow terminal does not hold up training.
    fn snapshot(&self, tick: &dyn Fn(&mut DashboardState)) -> DashboardState {
        let panics = std::mem::take(&mut *self.panics());
        let mut state = self.lock();
        for panic in panics {
            state.warn(panic);
        }
        tick(&mut state);
        state.clone()
    }
}

impl Dashboard {
    /// Takes the terminal and begins to draw.
    ///
    /// `stop` is called at the first `q` or Ctrl-C. `stop_now` is called at the next Ctrl-C, with the terminal
    /// already given back, so it may end the process. `tick` brings up to date what no report does: it is called
    /// before each drawing.
    pub(crate) fn start(
        stop: impl Fn() + Send + 'static,
        stop_now: impl Fn() + Send + 'static,
        tick: impl Fn(&mut DashboardState) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let terminal = take_terminal()?;
        watch_panics(Arc::downgrade(&shared), thread::current().id());
        let for_drawer = Arc::clone(&shared);
        let drawer = thread::Builder::new()
            .name("dashboard".to_owned())
            .spawn(move || {
                let drawn = draw_until_finished(terminal, &for_drawer, &stop, &stop_now, &tick);
                restore_terminal();
                // Nobody is there to see it any more; the run may go on.
                drawn.or_else(|error| if has_hung_up() { Ok(()) } else { Err(error) })
            });
        match drawer {
            Ok(drawer) => Ok(Dashboard {
                shared,
                drawer: Some(drawer),
            }),
            Err(error) => {
                restore_terminal();
                Err(error)
            }
        }
    }

    /// Changes what is shown. Takes as long as `change` does; drawing happens elsewhere.
    pub(crate) fn update(&self, change: impl FnOnce(&mut DashboardState)) {
        self.shared.update(change);
    }

    /// Whether nothing is drawn any more: a key or an error ended it.
    pub(crate) fn has_ended(&self) -> bool {
        self.drawer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Gives the terminal back. An error says why nothing was drawn any more.
    /// `warnings` gets what was warned of meanwhile, which is on no other screen.
    pub(crate) fn finish(mut self, warnings: &mut Vec<String>) -> io::Result<()> {
        let closed = self.close();
        let state = self.shared.snapshot(&|_| {});
        let warned = state.messages.into_iter().filter(|shown| shown.is_warning);
        warnings.extend(warned.map(|shown| shown.text));
        closed
    }

    fn close(&mut self) -> io::Result<()> {
        self.shared.finished.store(true, Ordering::Release);
        let drawn = self.drawer.take().map_or(Ok(()), ended);
        restore_terminal();
        drawn
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// What became of the drawing, for which it is too late after a while.
fn ended(drawer: JoinHandle<io::Result<()>>) -> io::Result<()> {
    let begin = Instant::now();
    while !drawer.is_finished() {
        if begin.elapsed() > TO_CLOSE {
            let why = "the terminal takes no output";
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        thread::sleep(Duration::from_millis(5));
    }
    let panicked = |_| Err(io::Error::other("the dashboard's thread panicked"));
    drawer.join().unwrap_or_else(panicked)
}

fn take_terminal() -> io::Result<Terminal<CrosstermBackend<Stderr>>> {
    enable_raw_mode()?;
    TERMINAL_TAKEN.store(true, Ordering::SeqCst);
    let taken = execute!(io::stderr(), EnterAlternateScreen)
        .and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
    if taken.is_err() {
        restore_terminal();
    }
    taken
}

fn draw_until_finished(
    terminal: Terminal<CrosstermBackend<Stderr>>,
    shared: &Shared,
    stop: &dyn Fn(),
    stop_now: &dyn Fn(),
    tick: &dyn Fn(&mut DashboardState),
) -> io::Result<()> {
    // Dropped, it shows the cursor, which we do ourselves, and panics where the terminal was closed.
    let mut terminal = ManuallyDrop::new(terminal);
    let mut shown = shared.snapshot(tick);
    shared.changed.store(true, Ordering::Release);
    let mut last_drawn: Option<Instant> = None;
    while !shared.finished.load(Ordering::Acquire) {
        let is_due = last_drawn.is_none_or(|drawn| drawn.elapsed() >= BETWEEN_DRAWINGS);
        let ticks = last_drawn.is_none_or(|drawn| drawn.elapsed() >= TICK);
        if is_due && (shared.changed.swap(false, Ordering::AcqRel) || ticks) {
            let (view, stopping) = {
                let state = shared.lock();
                (state.view, state.stopping)
            };
            if !view.paused {
                shown = shared.snapshot(tick);
            }
            (shown.view, shown.stopping) = (view, stopping);
            terminal.draw(|frame| render(&shown, frame))?;
            last_drawn = Some(Instant::now());
        }
        let event = match wait_for_input()? {
            Input::Event(event) => event,
            Input::Nothing => continue,
            Input::HungUp => return Ok(()),
        };
        if matches!(event, Event::Resize(..)) {
            shared.changed.store(true, Ordering::Release);
            last_drawn = None;
        }
        match handle(&event, shared, stop) {
            KeyAction::Nothing => {}
            KeyAction::Stop | KeyAction::Look(_) => last_drawn = None,
            KeyAction::StopNow => {
                restore_terminal();
                stop_now();
                return Ok(());
            }
        }
    }
    Ok(())
}

enum Input {
    Event(Event),
    Nothing,
    HungUp,
}

/// The library reads on and on from a terminal that was closed, and never returns. So it is asked only while there is
/// one, and never waits.
fn wait_for_input() -> io::Result<Input> {
    let begin = Instant::now();
    while begin.elapsed() < BETWEEN_DRAWINGS {
        if has_hung_up() {
            return Ok(Input::HungUp);
        }
        if event::poll(Duration::ZERO)? {
            return event::read().map(Input::Event);
        }
        thread::sleep(BETWEEN_KEYS);
    }
    Ok(Input::Nothing)
}

/// Asks to stop if a key says so, and shows it.
fn handle(event: &Event, shared: &Shared, stop: &dyn Fn()) -> KeyAction {
    let is_stopping = shared.lock().stopping;
    let action = action(event, is_stopping);
    match action {
        KeyAction::Stop => {
            shared.update(|state| state.stopping = true);
            stop();
        }
        KeyAction::Look(look) => shared.update(|state| state.look(look)),
        KeyAction::Nothing | KeyAction::StopNow => {}
    }
    action
}

#[derive(Debug, PartialEq, Eq)]
enum KeyAction {
    Nothing,
    Look(Look),
    Stop,
    StopNow,
}

/// What a key asks for. Only Ctrl-C stops at once: `q` twice may be an impatient finger.
fn action(event: &Event, is_stopping: bool) -> KeyAction {
    let Event::Key(KeyEvent {
        code,
        modifiers,
        kind: KeyEventKind::Press,
        ..
    }) = event
    else {
        return KeyAction::Nothing;
    };
    let is_ctrl_c =
        matches!(code, KeyCode::Char('c' | 'C')) && modifiers.contains(KeyModifiers::CONTROL);
    let is_q = matches!(code, KeyCode::Char('q' | 'Q')) && modifiers.is_empty();
    match (is_ctrl_c, is_q, is_stopping) {
        (true, _, true) => KeyAction::StopNow,
        (true, _, false) | (_, true, false) => KeyAction::Stop,
        _ if modifiers.contains(KeyModifiers::CONTROL) => KeyAction::Nothing,
        _ => look(*code).map_or(KeyAction::Nothing, KeyAction::Look),
    }
}

fn look(code: KeyCode) -> Option<Look> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => Look::Up(1),
        KeyCode::Down | KeyCode::Char('j') => Look::Down(1),
        KeyCode::PageUp => Look::Up(PAGE),
        KeyCode::PageDown => Look::Down(PAGE),
        KeyCode::Home => Look::Oldest,
        KeyCode::End => Look::Newest,
        KeyCode::Char('0') => Look::AllCurves,
        KeyCode::Char(digit @ '1'..='5') => Look::Curve(digit as usize - '1' as usize),
        KeyCode::Char('p' | ' ') => Look::Pause,
        KeyCode::Char('?' | 'h') => Look::Help,
        KeyCode::Esc => Look::Reset,
        _ => return None,
    })
}

/// A panic of the run or of the drawing gives the terminal back before its message is printed. A panic elsewhere,
/// in a worker, is contained by who started it: here it becomes a message, or it would be written across the screen.
fn watch_panics(shared: Weak<Shared>, runner: ThreadId) {
    panics::listen(move |panic| {
        let thread = thread::current();
        let is_ours = thread.id() == runner || thread.name() == Some("dashboard");
        let shown = shared
            .upgrade()
            .filter(|_| TERMINAL_TAKEN.load(Ordering::SeqCst));
        match shown {
            Some(shared) if !is_ours => {
                shared.panics().push(describe(panic));
                shared.changed.store(true, Ordering::Release);
                false
            }
            Some(shared) => {
                shared.finished.store(true, Ordering::Release);
                restore_terminal();
                true
            }
            None => true,
        }
    });
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("unnamed");
    format!("thread {name}: {panic}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: char, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(KeyCode::Char(code), modifiers))
    }

    /// The first Ctrl-C asks and the second insists; `q` never insists; other keys and sizes do nothing.
    #[test]
    fn keys_ask_to_stop() {
        let (ctrl, none) = (KeyModifiers::CONTROL, KeyModifiers::NONE);
        for (event, is_stopping, expected) in [
            (key('c', ctrl), false, KeyAction::Stop),
            (key('c', ctrl), true, KeyAction::StopNow),
            (key('q', none), false, KeyAction::Stop),
            (key('q', none), true, KeyAction::Nothing),
            (key('c', none), false, KeyAction::Nothing),
            (key('x', ctrl), true, KeyAction::Nothing),
            (key('2', none), true, KeyAction::Look(Look::Curve(1))),
            (key('?', none), false, KeyAction::Look(Look::Help)),
            (Event::Resize(80, 24), true, KeyAction::Nothing),
        ] {
            assert_eq!(action(&event, is_stopping), expected, "{event:?}");
        }
    }

    #[test]
    fn a_request_to_stop_is_passed_on_once_and_shown() {
        let shared = Shared::default();
        let asked = std::cell::Cell::new(0);
        let stop = || asked.set(asked.get() + 1);
        let ctrl_c = key('c', KeyModifiers::CONTROL);
        assert_eq!(handle(&ctrl_c, &shared, &stop), KeyAction::Stop);
        assert!(shared.lock().stopping && shared.changed.load(Ordering::Acquire));
        assert_eq!(handle(&ctrl_c, &shared, &stop), KeyAction::StopNow);
        assert_eq!(asked.get(), 1);
    }

    #[test]
    fn a_panic_of_a_worker_becomes_a_message() {
        let shared = Shared::default();
        let held = shared.lock();
        shared.panics().push("thread featurize-1: no".to_owned());
        drop(held);
        let messages = shared.snapshot(&|_| {}).messages;
        assert_eq!(messages.len(), 1);
        assert!(messages[0].is_warning);
        assert_eq!(shared.snapshot(&|_| {}).messages.len(), 1, "shown once");
    }

    #[test]
    fn giving_back_a_terminal_that_was_not_taken_does_nothing() {
        restore_terminal();
        assert!(!TERMINAL_TAKEN.load(Ordering::SeqCst));
    }
}
