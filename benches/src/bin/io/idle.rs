//! Counts how often a server with open connections and no request wakes up.

use std::error::Error;
use std::time::Duration;

use clap::ValueEnum as _;
use evenkeel_benches::proc::{Switches, switches, switches_since};
use evenkeel_benches::table::Table;
use serde_json::{Map, Value, json};

use crate::child::{Process, Served};
use crate::{IdleOptions, Protocol, Server};

/// Time for the server to come to rest after the last request.
const SETTLE: Duration = Duration::from_millis(500);

/// Watches each server in turn and prints what its threads did.
pub(crate) fn run(options: &IdleOptions) -> Result<(), Box<dyn Error>> {
    let mut table = Table::new([
        "server",
        "wake-ups",
        "involuntary switches",
        "threads that ran",
    ]);
    let mut servers = Map::new();
    for server in Server::selected(&options.only, Server::value_variants()) {
        let ran = watch(server, options)?;
        let voluntary: u64 = ran.iter().map(|thread| thread.voluntary).sum();
        let involuntary: u64 = ran.iter().map(|thread| thread.involuntary).sum();
        let names: Vec<String> = ran
            .iter()
            .map(|thread| format!("{} ({})", thread.name, thread.voluntary))
            .collect();
        let shown = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        let counts = [voluntary, involuntary].map(|count| count.to_string());
        table.row(
            [server.name().to_owned()]
                .into_iter()
                .chain(counts)
                .chain([shown]),
        );
        let value = json!({"wakeups": voluntary, "involuntary": involuntary, "threads": names});
        servers.insert(server.name().to_owned(), value);
    }
    if options.json {
        let (seconds, connections) = (options.seconds, options.connections);
        let report = json!({
            "seconds": seconds, "connections": connections, "servers": Value::Object(servers),
        });
        println!("{report:#}");
    } else {
        println!("{} connections, {} s", options.connections, options.seconds);
        print!("{table}");
    }
    Ok(())
}

fn watch(server: Server, options: &IdleOptions) -> Result<Vec<Switches>, Box<dyn Error>> {
    let served = Served::start(server, Protocol::Http, options.threads)?;
    let connections = options.connections.to_string();
    let args = [
        "hold",
        "http",
        &served.address,
        "--connections",
        &connections,
    ];
    let mut holder = Process::start(&args.map(str::to_owned))?;
    let ready = holder.line()?;
    if ready != "ready" {
        return Err(format!("expected `ready`, got `{ready}`").into());
    }
    std::thread::sleep(SETTLE);
    let before = switches(served.id())?;
    std::thread::sleep(Duration::from_secs_f64(options.seconds));
    let after = switches(served.id())?;
    Ok(switches_since(&before, &after).into_values().collect())
}
