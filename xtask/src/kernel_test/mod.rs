//! `cargo xtask kernel-test`: builds the kernel that has the time-slice extension, boots it under
//! emulation, and runs our programs in it.
//!
//! Steps, each up to date or taken: the source package is fetched, the source unpacked, the image
//! built; then always the programs built (by cargo, which knows what is up to date), packed, and
//! the guest booted. Everything lies in one cache folder ([`cache`]).

mod apt;
mod cache;
mod command;
mod failure;
mod host;
mod initramfs;
mod kernel;
mod programs;
mod qemu;
mod serial;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use apt::Package;
use cache::Cache;
use failure::Failure;
use serial::Report;

/// Options of `cargo xtask kernel-test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Keep source, kernel and programs in DIR, outside the repository
    /// [default: $XDG_CACHE_HOME/evenkeel/kernel or ~/.cache/evenkeel/kernel].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Unpack the source and build the kernel from the beginning. The package that was fetched is
    /// used again.
    #[arg(long, conflicts_with = "step")]
    rebuild: bool,
    /// Take only this step, even if it is up to date.
    #[arg(long, value_name = "STEP")]
    step: Option<Step>,
    /// Compile the kernel with N jobs at a time [default: the number of CPUs].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Copy what the guest wrote on its serial line to FILE.
    #[arg(long, value_name = "FILE")]
    keep_log: Option<PathBuf>,
    /// List the steps and whether each is up to date, and take none.
    #[arg(long)]
    list: bool,
}

/// A step; in the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Step {
    /// Fetch the package with the kernel's source.
    Package,
    /// Unpack it.
    Source,
    /// Configure and build the kernel.
    Image,
    /// Build the programs and pack them into the guest's file system.
    Programs,
    /// Boot the guest and judge what it reports.
    Boot,
}

const STEPS: [(Step, &str); 5] = [
    (Step::Package, "fetch the package with the kernel's source"),
    (Step::Source, "unpack the source"),
    (Step::Image, "configure and build the kernel"),
    (Step::Programs, "build the programs, pack the file system"),
    (Step::Boot, "boot the guest and judge what it reports"),
];

impl Step {
    /// Returns the step's name, which is also its stamp's.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Step::Package => "package",
            Step::Source => "source",
            Step::Image => "image",
            Step::Programs => "programs",
            Step::Boot => "boot",
        }
    }
}

/// Runs the command. Exit status: 0 when the tests passed, 1 when not, 2 when this machine cannot
/// run them.
pub(crate) fn run(options: &Options) -> ExitCode {
    match take_steps(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("kernel-test: {failure}");
            match failure {
                Failure::CannotRun(_) => ExitCode::from(2),
                Failure::Failed(_) => ExitCode::FAILURE,
            }
        }
    }
}

fn take_steps(options: &Options) -> Result<(), Failure> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !options.list {
        host::check()?;
    }
    let cache = open_cache(options, &repository)?;
    let run = Run {
        options,
        repository: &repository,
        cache: &cache,
    };
    if options.list {
        return run.list();
    }
    if options.rebuild {
        for step in [Step::Source, Step::Image] {
            cache.forget(step)?;
        }
        cache::remove(&cache.path("build"))?;
    }
    for (step, _) in STEPS {
        if options.step.is_none_or(|only| only == step) {
            run.step(step)?;
        }
    }
    Ok(())
}

fn open_cache(options: &Options, repository: &Path) -> Result<Cache, Failure> {
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    let root = options
        .cache
        .clone()
        .or_else(|| cache::default_root(path("XDG_CACHE_HOME"), path("HOME")));
    let root = root.ok_or_else(|| {
        let why = "no home folder to keep a cache in; name one with --cache";
        Failure::CannotRun(why.to_owned())
    })?;
    Cache::open(&root, repository)
}

/// One run of the command.
struct Run<'a> {
    options: &'a Options,
    repository: &'a Path,
    cache: &'a Cache,
}

impl Run<'_> {
    fn list(&self) -> Result<(), Failure> {
        for (step, what) in STEPS {
            let state = match step {
                Step::Programs | Step::Boot => "always taken",
                _ if self.is_current(step) => "up to date",
                _ => "to be taken",
            };
            println!("{:10} {what:45} {state}", step.name());
        }
        Ok(())
    }

    /// Returns whether a step has nothing to do.
    fn is_current(&self, step: Step) -> bool {
        let package = Package::in_cache(self.cache);
        match (step, package) {
            (Step::Package, package) => package.is_some(),
            (Step::Source, Some(package)) => {
                self.cache.is_current(step, &package.hash)
                    && self.cache.path("source/Makefile").is_file()
            }
            (Step::Image, Some(package)) => {
                self.cache.is_current(step, &kernel::image_key(&package))
                    && self.cache.path("bzImage").is_file()
            }
            _ => false,
        }
    }

    fn step(&self, step: Step) -> Result<(), Failure> {
        let is_forced = self.options.step.is_some();
        if !is_forced && self.is_current(step) {
            eprintln!("kernel-test: {}: up to date", step.name());
            return Ok(());
        }
        let begin = Instant::now();
        eprintln!("kernel-test: {} ...", step.name());
        match step {
            Step::Package => {
                let package = Package::download(self.cache)?;
                let name = package.path.file_name().unwrap_or_default();
                eprintln!("kernel-test: {} SHA-256 {}", name.display(), package.hash);
            }
            Step::Source => kernel::unpack(self.cache, &self.package()?)?,
            Step::Image => {
                let key = kernel::image_key(&self.package()?);
                kernel::build(self.cache, self.jobs(), &key)?;
            }
            Step::Programs => {
                programs::build(self.cache, self.repository)?;
                programs::pack(self.cache)?;
            }
            Step::Boot => self.boot()?,
        }
        let seconds = begin.elapsed().as_secs();
        eprintln!("kernel-test: {}: done in {seconds} s", step.name());
        Ok(())
    }

    fn package(&self) -> Result<Package, Failure> {
        Package::in_cache(self.cache).ok_or_else(|| {
            let why = "the kernel's source package is not in the cache; take the step `package`";
            Failure::Failed(why.to_owned())
        })
    }

    fn jobs(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.options.jobs.unwrap_or_else(cpus).max(1)
    }

    fn boot(&self) -> Result<(), Failure> {
        let log = self.cache.path("serial.log");
        let kernel = self.cache.path("bzImage");
        let output = qemu::boot(&kernel, &self.cache.path("initramfs"), &log);
        if let Some(copy) = &self.options.keep_log {
            std::fs::copy(&log, copy).map_err(|e| Failure::io("write", copy, &e))?;
        }
        let output = output.map_err(|failure| failure.with_log(&log))?;
        let report = Report::parse(&output);
        print_programs(&report);
        let verdict = verdict::judge(&report);
        for fact in &verdict.facts {
            println!("{fact}");
        }
        if verdict.faults.is_empty() {
            println!("kernel-test: passed");
            return Ok(());
        }
        for fault in &verdict.faults {
            println!("FAILED: {fault}");
        }
        Err(Failure::Failed("FAILED".to_owned()).with_log(&log))
    }
}

/// Prints the programs' output, without the lines for the machine.
fn print_programs(report: &Report) {
    for run in &report.runs {
        println!("==> {}", run.name);
        for line in run.lines.iter().filter(|line| !line.starts_with('{')) {
            println!("{line}");
        }
        let counters = report.growth(&run.name);
        let counters = counters.iter().map(|c| format!(" {} {}", c.name, c.value));
        println!(
            "the kernel's rseq counters grew by:{}\n",
            counters.collect::<String>()
        );
    }
}
