//! Wake-to-run latency of a task beside hogs.
use std::time::{Duration, Instant};
use evenkeel::{Builder, Level};

fn spin(d: Duration) { let t=Instant::now(); while t.elapsed()<d { std::hint::spin_loop() } }

fn main() {
    let level = match std::env::args().nth(1).as_deref() { Some("park")=>Level::Park, Some("handoff")=>Level::Handoff, Some("lazy")=>Level::Lazy, _=>Level::Off };
    let poll = Duration::from_millis(std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(5));
    let secs: u64 = std::env::args().nth(3).and_then(|s| s.parse().ok()).unwrap_or(3);
    let rt = Builder::new().worker_threads(2).preempt(level).build().unwrap();
    let hogs = rt.handle().root().child("hogs").build().unwrap();
    let beat = rt.handle().root().child("beat").slice(Duration::from_micros(100)).build().unwrap();
    let polls = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    for _ in 0..4 { let polls=polls.clone(); hogs.spawn(async move { loop { spin(poll); polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed); evenkeel::yield_now().await } }); }
    let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel::<Instant>();
    let j = beat.spawn(async move { let mut v=vec![]; while let Some(t)=rx.recv().await { v.push(t.elapsed()); } v });
    let start=Instant::now();
    while start.elapsed()<Duration::from_secs(secs) { std::thread::sleep(Duration::from_millis(1)); tx.send(Instant::now()).unwrap(); }
    drop(tx);
    let mut v = rt.block_on(j).unwrap();
    v.sort();
    let q=|p:f64| v[((v.len()-1) as f64*p) as usize];
    println!("{level:?} n={} p50 {:?} p99 {:?} p99.9 {:?} max {:?}; hog polls {} = {:.3} of 2 CPUs", v.len(), q(0.5), q(0.99), q(0.999), q(1.0), polls.load(std::sync::atomic::Ordering::Relaxed), polls.load(std::sync::atomic::Ordering::Relaxed) as f64*poll.as_secs_f64()/start.elapsed().as_secs_f64()/2.0);
    println!("{:?}", rt);
}
