mod common;
use common::*;
use evenkeel_core::{GroupId, Order};
#[test]
fn probe() {
    for groups in [vec![(10_000, 12), (100, 12)], vec![(700, 3), (100, 1), (350, 2), (20, 9), (100, 4)]] {
        let mut m = Machine::new(7, 42);
        let ids: Vec<GroupId> = groups.iter().map(|&(w, _)| m.group(GroupId::ROOT, w, Order::Fifo)).collect();
        for (&id, &(_, t)) in ids.iter().zip(&groups) { m.spawn_many(t, id, Behaviour::Polls(50*US, 5*MS)); }
        m.run_until(100*MS);
        for s in 1..6u64 {
            let before: Vec<u64> = ids.iter().map(|&g| m.used_by(g)).collect();
            m.run_until(100*MS + s*SEC);
            for (i,&g) in ids.iter().enumerate() {
                print!("{:.4} lag {:8} rate {:.4} | ", (m.used_by(g)-before[i]) as f64/1e9, m.domain.lag(g).unwrap()/1000, m.domain.rate(g).unwrap());
            }
            println!();
            for rq in &m.rqs { print!(" [{}", rq.lag_total(m.now)/1000); for &g in &ids { if let Some(l)=rq.group_lag(g, m.now) {print!(" {}:{}", g.index(), l/1000);} } print!("]"); }
            println!();
        }
    }
}
