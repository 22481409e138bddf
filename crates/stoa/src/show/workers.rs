//! Workers: processors, queues and load.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{ListWorkersRequest, WorkerState};

use super::{count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let workers = client.show_workers(ListWorkersRequest {}).await?.into_inner().workers;
    if as_json {
        let list: Vec<Value> = workers.iter().map(json).collect();
        writeln!(out, "{}", json!({ "workers": list }))?;
    } else {
        write(&to_table(&workers), out)?;
    }
    Ok(())
}

fn to_table(workers: &[WorkerState]) -> Table {
    let mut table = table(&[
        ">worker",
        ">cpu",
        ">node",
        "polling",
        ">busy",
        ">packets",
        ">vector",
        ">loops",
        ">sleeps",
        ">cross-node",
        "queues",
    ]);
    for worker in workers {
        let cpu = if worker.cpu < 0 { "any".to_owned() } else { worker.cpu.to_string() };
        table.add_row(vec![
            Cell::new(worker.index),
            Cell::new(cpu),
            Cell::new(worker.numa_node.map_or_else(|| "-".to_owned(), |node| node.to_string())),
            Cell::new(&worker.polling),
            Cell::new(format!("{:.1} %", worker.busy * 100.0)),
            count(worker.packets),
            Cell::new(format!("{:.1}", worker.vector)),
            count(worker.loops),
            count(worker.sleeps),
            count(worker.cross_node),
            Cell::new(worker.queues.join(" ")),
        ]);
    }
    table
}

fn json(worker: &WorkerState) -> Value {
    json!({
        "index": worker.index,
        "cpu": worker.cpu,
        "numa_node": worker.numa_node,
        "polling": worker.polling,
        "loops": worker.loops,
        "sleeps": worker.sleeps,
        "busy": worker.busy,
        "queues": worker.queues,
        "packets": worker.packets,
        "vector": worker.vector,
        "handed_out": worker.handed_out,
        "handed_in": worker.handed_in,
        "cross_node": worker.cross_node,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_not_pinned_has_any_cpu() {
        let worker = WorkerState {
            cpu: -1,
            busy: 0.25,
            queues: vec!["host-a:0".into(), "host-b:0".into()],
            ..WorkerState::default()
        };
        assert_eq!(json(&worker)["cpu"], -1);
        assert_eq!(json(&worker)["numa_node"], Value::Null);
        let text = to_table(&[worker]).to_string();
        assert!(text.contains("any") && text.contains("25.0 %"), "{text}");
        assert!(text.contains("host-a:0 host-b:0"), "{text}");
    }

    #[test]
    fn the_numa_node_of_a_worker_is_shown_with_what_crosses_nodes() {
        let worker = WorkerState {
            cpu: 40,
            numa_node: Some(1),
            cross_node: 12_345,
            ..WorkerState::default()
        };
        assert_eq!(json(&worker)["numa_node"], 1);
        assert_eq!(json(&worker)["cross_node"], 12_345);
        let text = to_table(&[worker]).to_string();
        assert!(text.contains("40      1") && text.contains("12,345"), "{text}");
    }
}
