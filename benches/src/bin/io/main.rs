//! Compares servers on evenkeel and on Tokio: HTTP, TCP and UDP over the loopback, and idleness.
#![forbid(unsafe_code)]

mod child;
mod compare;
mod idle;
mod load;
mod server;

use std::error::Error;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Compare servers on evenkeel and on Tokio over the loopback.
///
/// The server, and the load generator (Tokio, one thread, the same for both), are child processes.
/// The servers take turns, in rotated order, within one run. `CPU/request` is the server's own user
/// and system time divided by the requests that it answered; latencies are as the load generator
/// saw them.
#[derive(Parser)]
#[command(name = "io")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// HTTP/1.1: hyper answers hello over keep-alive connections, 64 by default.
    Http(Options),
    /// TCP: an echo of 64 bytes, 100 connections by default.
    Tcp(Options),
    /// UDP: an echo of 64 bytes, 1 KiB and 16 KiB, one socket in the server.
    Udp(Options),
    /// Everything above, one after the other.
    All(Options),
    /// An HTTP server with open connections and no request: how often does it wake up?
    Idle(IdleOptions),
    /// Serve on a free port until standard input ends.
    #[command(hide = true)]
    Serve(server::Options),
    /// Ask a server and print the result as JSON.
    #[command(hide = true)]
    Load(load::Options),
    /// Open connections, ask once on each and keep them until standard input ends.
    #[command(hide = true)]
    Hold(load::Options),
}

/// Settings of a comparison.
#[derive(Args, Clone)]
struct Options {
    /// Repetitions.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    reps: u32,
    /// Worker threads of the server.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Seconds of load in each repetition.
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    seconds: f64,
    /// Connections (for UDP: sockets of the load generator).
    #[arg(long, value_name = "COUNT")]
    connections: Option<usize>,
    /// Run only this server; may be given several times.
    #[arg(long, value_name = "SERVER")]
    only: Vec<Server>,
    /// Print one JSON object with every sample.
    #[arg(long)]
    json: bool,
}

/// Settings of the idle measurement.
#[derive(Args, Clone)]
struct IdleOptions {
    /// Worker threads of the server.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Seconds to watch.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    seconds: f64,
    /// Open connections.
    #[arg(long, default_value_t = 64, value_name = "COUNT")]
    connections: usize,
    /// Watch only this server; may be given several times.
    #[arg(long, value_name = "SERVER")]
    only: Vec<Server>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What the server runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Server {
    /// Evenkeel with its default, shared I/O.
    Evenkeel,
    /// The same at the level `Park`, after polls were preempted there.
    EvenkeelPark,
    /// Tokio's multi-threaded runtime.
    Tokio,
}

impl Server {
    /// Those that are compared unless the user asks for others, ours first.
    const COMPARED: &[Server] = &[Server::Evenkeel, Server::Tokio];

    /// Returns the name used in tables, in JSON and on the command line.
    fn name(self) -> &'static str {
        match self {
            Server::Evenkeel => "evenkeel",
            Server::EvenkeelPark => "evenkeel-park",
            Server::Tokio => "tokio",
        }
    }

    /// Returns the servers to run: `only`, or else `default`; ours first.
    fn selected(only: &[Server], default: &[Server]) -> Vec<Server> {
        let wanted = if only.is_empty() { default } else { only };
        let all = Server::value_variants().iter().copied();
        all.filter(|server| wanted.contains(server)).collect()
    }
}

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Http,
    Tcp,
    Udp,
}

impl Protocol {
    /// Returns the name on the command line.
    fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    match Cli::parse().command {
        Command::Http(options) => compare::run(&[compare::HTTP], &options),
        Command::Tcp(options) => compare::run(&[compare::TCP], &options),
        Command::Udp(options) => compare::run(&compare::UDP, &options),
        Command::All(options) => {
            let mut cases = vec![compare::HTTP, compare::TCP];
            cases.extend(compare::UDP);
            compare::run(&cases, &options)
        }
        Command::Idle(options) => idle::run(&options),
        Command::Serve(options) => server::run(&options),
        Command::Load(options) => load::run(&options),
        Command::Hold(options) => load::hold(&options),
    }
}
