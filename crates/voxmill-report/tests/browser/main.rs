//! The page in a real browser: `cargo xtask test --page` installs one and runs these tests.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

mod driver;
mod made_up;

use std::path::PathBuf;

use driver::Browser;
use made_up::{EVIL, STEPS, run};
use voxmill_report::page::{MOST_BYTES, page};

/// An arrow key, in the driver's protocol.
const RIGHT: &str = "\u{e014}";

struct Opened {
    browser: Browser,
    _folder: tempfile::TempDir,
}

fn opened() -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("report.html");
    let html = page(&[run()], None);
    assert!(html.len() < MOST_BYTES);
    std::fs::write(&path, html).unwrap();
    let browser = Browser::open();
    browser.resize(1_200, 900);
    browser.go(&format!("file://{}", path.display()));
    Opened {
        browser,
        _folder: folder,
    }
}

impl Opened {
    fn number(&self, script: &str) -> f64 {
        let value = self.browser.run(script);
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{script}: {value}"))
    }

    fn text(&self, script: &str) -> String {
        let value = self.browser.run(script);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{script}: {value}"))
            .to_owned()
    }

    /// The part of the time line that is in view: its beginning and its width, of 1,000.
    fn view(&self) -> (f64, f64) {
        let view =
            self.text("return document.querySelector('.chart .plot').getAttribute('viewBox')");
        let numbers: Vec<f64> = view.split(' ').map(|n| n.parse().unwrap()).collect();
        (numbers[0], numbers[2])
    }
}

#[test]
#[ignore = "needs a browser: cargo xtask test --page"]
fn the_page_opens_without_errors_and_asks_for_nothing() {
    let page = opened();
    let errors = page.browser.log("browser");
    assert!(errors.is_empty(), "{errors:?}");
    let requests = page.browser.requests();
    assert!(!requests.is_empty(), "the page itself is one");
    let leaving = requests.iter().filter(|url| !url.starts_with("data:"));
    let leaving: Vec<_> = leaving.collect();
    assert!(
        leaving
            .iter()
            .all(|url| url.starts_with("file:") && url.ends_with("/report.html")),
        "{leaving:?}"
    );
    // Its own script ran, although none is allowed but by its hash.
    assert!(page.number("return document.querySelectorAll('.zoom button').length") > 20.0);
    assert_eq!(
        page.text("return document.querySelector('#killed').className"),
        "warn"
    );
}

#[test]
#[ignore = "needs a browser: cargo xtask test --page"]
fn every_chart_has_data_that_is_seen() {
    let page = opened();
    let empty = page.text(
        "return [...document.querySelectorAll('figure.chart')].filter(chart => {
            const drawn = [...chart.querySelectorAll('.overview path, .detail path')];
            return !drawn.some(path => { const box = path.getBoundingClientRect(); return box.width > 5; });
         }).map(chart => chart.querySelector('h3').textContent).join(', ')",
    );
    assert_eq!(empty, "");
    assert!(page.number("return document.querySelectorAll('figure.chart').length") >= 11.0);
    let without_axis = page.number(
        "return [...document.querySelectorAll('figure.chart')]
            .filter(chart => !chart.querySelector('.xaxis span') || !chart.querySelector('.yaxis span')
                || !chart.querySelector('.xname').textContent).length",
    );
    assert_eq!(without_axis, 0.0);
}

#[test]
#[ignore = "needs a browser: cargo xtask test --page"]
fn charts_are_zoomed_by_mouse_and_by_keyboard_down_to_single_steps() {
    let page = opened();
    assert_eq!(page.view(), (0.0, 1_000.0));
    // From a quarter to a half of the time line.
    let edge = |what: &str| {
        let script = format!(
            "const plot = document.querySelector('.chart .plot'); plot.scrollIntoView({{block: 'center'}});
             const box = plot.getBoundingClientRect(); return {what}"
        );
        page.number(&script) as i64
    };
    let (left, wide, middle) = (
        edge("box.left"),
        edge("box.width"),
        edge("box.top + box.height / 2"),
    );
    page.browser
        .drag((left + wide / 4, middle), (left + wide / 2, middle));
    let (from, width) = page.view();
    assert!(
        (from - 250.0).abs() < 10.0 && (width - 250.0).abs() < 10.0,
        "{from} {width}"
    );
    // All charts over time move together; the axis shows what is in view.
    let views = "return new Set([...document.querySelectorAll('[data-group=time-1] .plot')]
        .map(plot => plot.getAttribute('viewBox'))).size";
    assert_eq!(page.number(views), 1.0);
    let shown =
        |page: &Opened| page.number("return document.querySelectorAll('.detail path').length");
    page.browser
        .run("document.querySelector('.chart .plot').focus()");
    page.browser.press("0");
    assert_eq!((page.view(), shown(&page)), ((0.0, 1_000.0), 0.0));
    page.browser.press("++++++++");
    let (before, width) = page.view();
    assert!(width < 5.0, "{width}");
    // A bar for each part of each step in view.
    let steps = page.number(
        "return document.querySelector('.detail .c1').getAttribute('d').split('M').length - 1",
    );
    let expected = STEPS as f64 * width / 1_000.0;
    assert!((steps - expected).abs() <= 3.0, "{steps} steps, {expected}");
    page.browser.press(RIGHT);
    assert!(page.view().0 > before);
    page.browser.press("-");
    assert!(page.view().1 > 1.9 * width);
    let errors = page.browser.log("browser");
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
#[ignore = "needs a browser: cargo xtask test --page"]
fn what_the_data_says_is_shown_and_never_done() {
    let page = opened();
    let quoted = page.text("return document.querySelector('.sample blockquote').textContent");
    assert_eq!(
        quoted,
        EVIL.replace('\u{1b}', "\\u{1b}").replace('\u{7}', "\\u{7}")
    );
    assert_eq!(page.text("return document.title"), "Report of made up");
    assert_eq!(
        page.number("return document.querySelectorAll('main script:not(.steps)').length"),
        0.0
    );
    assert_eq!(page.number("return Number(window.owned || 0)"), 0.0);
    // Nor would a script run that got into the page.
    page.browser.run(
        "const script = document.createElement('script'); script.textContent = 'window.owned = 1';
         document.body.append(script)",
    );
    assert_eq!(page.number("return Number(window.owned || 0)"), 0.0);
}

#[test]
#[ignore = "needs a browser: cargo xtask test --page"]
fn it_fits_a_phone_and_a_wide_screen() {
    let page = opened();
    for width in [390, 1_600] {
        page.browser.resize(width, 900);
        let wider = page.number(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        assert!(wider <= 0.0, "{width}: {wider} too wide");
    }
}
