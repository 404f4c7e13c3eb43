//! Interleaved runs of the servers under load, and their table.

use std::error::Error;

use evenkeel_benches::stats::{Ratio, median, rotated};
use evenkeel_benches::table::{Table, time};
use serde_json::{Map, Value, json};

use crate::child::{Process, Served};
use crate::{Options, Protocol, Server};

/// One kind of load.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    name: &'static str,
    protocol: Protocol,
    connections: usize,
    size: usize,
}

const fn udp(name: &'static str, size: usize) -> Case {
    // Eight datagrams of the largest size fit into a socket's default buffer.
    Case {
        name,
        protocol: Protocol::Udp,
        connections: 8,
        size,
    }
}

/// HTTP hello over keep-alive.
pub(crate) const HTTP: Case = Case {
    name: "http",
    protocol: Protocol::Http,
    connections: 64,
    size: 0,
};

/// TCP echo.
pub(crate) const TCP: Case = Case {
    name: "tcp",
    protocol: Protocol::Tcp,
    connections: 100,
    size: 64,
};

/// UDP echo in three sizes.
pub(crate) const UDP: [Case; 3] = [
    udp("udp-64", 64),
    udp("udp-1k", 1024),
    udp("udp-16k", 16 * 1024),
];

/// Figures of one run.
#[derive(Clone, Copy, Default)]
struct Run {
    per_second: f64,
    cpu_ns: f64,
    p50_ns: f64,
    p99_ns: f64,
    lost: f64,
}

/// A figure of a run: name in JSON, title and how to take and write it.
struct Figure {
    name: &'static str,
    title: &'static str,
    of: fn(&Run) -> f64,
    text: fn(f64) -> String,
}

const FIGURES: &[Figure] = &[
    Figure {
        name: "requests_per_s",
        title: "requests/s",
        of: |run| run.per_second,
        text: |value| format!("{value:.0}"),
    },
    Figure {
        name: "cpu_ns",
        title: "CPU/request",
        of: |run| run.cpu_ns,
        text: time,
    },
    Figure {
        name: "p50_ns",
        title: "p50",
        of: |run| run.p50_ns,
        text: time,
    },
    Figure {
        name: "p99_ns",
        title: "p99",
        of: |run| run.p99_ns,
        text: time,
    },
    Figure {
        name: "lost",
        title: "lost",
        of: |run| run.lost,
        text: |value| format!("{value:.0}"),
    },
];

/// Runs of one case, a list for each server.
struct Samples {
    case: Case,
    by_server: Vec<(Server, Vec<Run>)>,
}

impl Samples {
    fn of(&self, server: Server, figure: &Figure) -> Vec<f64> {
        let runs = self
            .by_server
            .iter()
            .find(|(s, _)| *s == server)
            .map(|(_, runs)| runs);
        runs.map_or(&[][..], |runs| runs)
            .iter()
            .map(figure.of)
            .collect()
    }

    /// Returns ours divided by the other's, repetition by repetition.
    fn ratio(&self, peer: Server, figure: &Figure) -> Option<Ratio> {
        Ratio::paired(
            &self.of(Server::COMPARED[0], figure),
            &self.of(peer, figure),
        )
    }
}

/// Runs the cases and prints the comparison.
pub(crate) fn run(cases: &[Case], options: &Options) -> Result<(), Box<dyn Error>> {
    let servers = Server::selected(&options.only, Server::COMPARED);
    let samples: Vec<Samples> = cases
        .iter()
        .map(|case| measure(*case, &servers, options))
        .collect::<Result<_, _>>()?;
    if options.json {
        let cases: Map<String, Value> = samples.iter().map(to_json).collect();
        println!(
            "{:#}",
            json!({"threads": options.threads, "seconds": options.seconds,
            "reps": options.reps, "cases": cases})
        );
    } else {
        print!("{}", to_table(&samples));
        print!("\n{}", to_ratios(&samples));
    }
    Ok(())
}

fn measure(case: Case, servers: &[Server], options: &Options) -> Result<Samples, Box<dyn Error>> {
    let mut by_server: Vec<(Server, Vec<Run>)> = servers.iter().map(|s| (*s, vec![])).collect();
    for repetition in 0..options.reps as usize {
        eprintln!("{} {}/{}", case.name, repetition + 1, options.reps);
        for index in rotated(servers.len(), repetition) {
            let (server, runs) = &mut by_server[index];
            runs.push(run_once(case, *server, options)?);
        }
    }
    Ok(Samples { case, by_server })
}

fn run_once(case: Case, server: Server, options: &Options) -> Result<Run, Box<dyn Error>> {
    let mut served = Served::start(server, case.protocol, options.threads)?;
    let connections = options.connections.unwrap_or(case.connections);
    let address = served.address.clone();
    let load = |seconds: f64| -> Result<Value, Box<dyn Error>> {
        let words = ["load", case.protocol.name(), &address];
        let numbers = [
            ("--connections", connections.to_string()),
            ("--seconds", seconds.to_string()),
            ("--size", case.size.to_string()),
        ];
        let mut args: Vec<String> = words.map(str::to_owned).to_vec();
        args.extend(
            numbers
                .into_iter()
                .flat_map(|(flag, value)| [flag.to_owned(), value]),
        );
        Ok(serde_json::from_str(&Process::start(&args)?.line()?)?)
    };
    load(options.seconds / 10.0)?;
    let before = served.cpu_time_ns()?;
    let report = load(options.seconds)?;
    let used = served.cpu_time_ns()? - before;
    let number = |name: &str| {
        report[name]
            .as_f64()
            .ok_or(format!("no `{name}` in the report"))
    };
    let requests = number("requests")?;
    Ok(Run {
        per_second: requests / number("seconds")?,
        cpu_ns: used as f64 / requests,
        p50_ns: number("p50_ns")?,
        p99_ns: number("p99_ns")?,
        lost: number("lost")?,
    })
}

fn to_table(samples: &[Samples]) -> Table {
    let titles = ["medians", "server"]
        .into_iter()
        .chain(FIGURES.iter().map(|f| f.title));
    let mut table = Table::new(titles);
    for samples in samples {
        for (server, _) in &samples.by_server {
            let mut row = vec![samples.case.name.to_owned(), server.name().to_owned()];
            row.extend(
                FIGURES
                    .iter()
                    .map(|f| (f.text)(median(&samples.of(*server, f)))),
            );
            table.row(row);
        }
    }
    table
}

fn to_ratios(samples: &[Samples]) -> Table {
    let figures = || FIGURES.iter().filter(|figure| figure.name != "lost");
    let titles = [
        format!("{} / peer", Server::COMPARED[0].name()),
        "peer".to_owned(),
    ];
    let mut table = Table::new(
        titles
            .into_iter()
            .chain(figures().map(|figure| figure.title.to_owned())),
    );
    for samples in samples {
        for &(peer, _) in samples
            .by_server
            .iter()
            .filter(|(s, _)| *s != Server::COMPARED[0])
        {
            let ratios: Option<Vec<Ratio>> = figures().map(|f| samples.ratio(peer, f)).collect();
            let Some(ratios) = ratios else { continue };
            let mut row = vec![samples.case.name.to_owned(), peer.name().to_owned()];
            row.extend(ratios.iter().map(Ratio::to_string));
            table.row(row);
        }
    }
    table
}

fn to_json(samples: &Samples) -> (String, Value) {
    let servers: Map<String, Value> = samples
        .by_server
        .iter()
        .map(|&(server, _)| {
            let figures: Map<String, Value> = FIGURES
                .iter()
                .map(|figure| {
                    let values = samples.of(server, figure);
                    let ratio = samples.ratio(server, figure).map(|r| r.median);
                    let value = json!({"median": median(&values), "samples": values,
                        "ratio_evenkeel_to_this": ratio});
                    (figure.name.to_owned(), value)
                })
                .collect();
            (server.name().to_owned(), Value::Object(figures))
        })
        .collect();
    (samples.case.name.to_owned(), Value::Object(servers))
}
