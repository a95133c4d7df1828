//! `voxmill report`: one or several runs as a page that can be sent, or one chart as a picture.

use std::path::{Path, PathBuf};

use voxmill_analysis::compare::{Candidate, compare};
use voxmill_report::page::{Picture, Reported, page, picture};

use super::compare::found;
use super::{print_output, status};
use crate::exit::Exit;
use crate::session::report_page::{self, REPORT};
use voxmill_settings::args::{Chart, ReportArgs};
use voxmill_settings::error::UserError;
use voxmill_settings::recorded::{check_steps, log_of, names, of_log};
use voxmill_settings::run_folder::{EVENTS, Staged, settings_of};

pub(crate) fn run(args: ReportArgs) -> anyhow::Result<Exit> {
    if let (Some(_), true) = (args.svg, args.runs.len() > 1) {
        let what = "--svg draws a chart of one run, and there are several";
        return Err(UserError::new(what, "give one run").into());
    }
    let paths = found(&args.runs)?;
    let named = paths.iter().zip(names(&paths));
    let mut runs = named
        .map(|(path, name)| read(path, name))
        .collect::<anyhow::Result<Vec<(Reported, Option<PathBuf>)>>>()?;
    let (text, default) = match args.svg {
        Some(chart) => (drawn(&runs[0].0, chart)?, None),
        None => {
            let mut with: Vec<_> = runs
                .iter_mut()
                .map(|(run, dir)| (run, dir.clone()))
                .collect();
            report_page::add_samples(&mut with);
            let folder = runs[0].1.clone().filter(|_| runs.len() == 1);
            let path = folder.unwrap_or_default().join(REPORT);
            (page_of(runs), Some(path))
        }
    };
    let Some(path) = args.output.or(default) else {
        print_output(text.trim_end())?;
        return Ok(Exit::Done);
    };
    let written = Staged::write(&path, &text).and_then(Staged::put);
    written.map_err(|error| {
        let what = format!("cannot write `{}`", path.display());
        let hint = "give another file with --output";
        UserError::new(what, hint).because(error)
    })?;
    status!("report    {}", path.display());
    Ok(Exit::Done)
}

/// A run and the folder that its samples are in.
fn read(path: &Path, name: String) -> anyhow::Result<(Reported, Option<PathBuf>)> {
    let log = log_of(path)?;
    let run = report_page::read(&log, name).map_err(|error| of_log(path, error))?;
    check_steps(&run.run, &log, run.in_progress)?;
    let folder = log.parent().filter(|_| log.ends_with(EVENTS));
    Ok((run, folder.map(Path::to_owned)))
}

fn page_of(runs: Vec<(Reported, Option<PathBuf>)>) -> String {
    let candidates: Vec<Candidate> = runs
        .iter()
        .map(|(run, folder)| Candidate {
            name: run.name.clone(),
            run: run.run.clone(),
            in_progress: run.in_progress,
            settings: folder.as_deref().and_then(settings_of),
        })
        .collect();
    let comparison = (candidates.len() > 1).then(|| compare(&candidates, None));
    let runs: Vec<Reported> = runs.into_iter().map(|(run, _)| run).collect();
    page(&runs, comparison.as_ref())
}

fn drawn(run: &Reported, chart: Chart) -> anyhow::Result<String> {
    let which = match chart {
        Chart::StepTime => Picture::StepTime,
        Chart::Timeline => Picture::Timeline,
        Chart::Buffers => Picture::Buffers,
    };
    picture(run, which).ok_or_else(|| {
        let what = format!("the log of `{}` has nothing to draw there", run.name);
        let hint = "draw another chart: --svg step-time, timeline or buffers";
        UserError::new(what, hint).into()
    })
}
