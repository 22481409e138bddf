//! The audit's other half: kernel tables that doors take over, against what the table of learned routes holds of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::Learned;
use crate::doors::{DoorState, Kind};

/// How long a door has to compare: a million routes take it a second or two, and the table as much to hear them.
const PATIENCE: Duration = Duration::from_secs(15);

/// What an audit of one kernel table found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedKernel {
    /// The door that takes it over.
    pub door: String,
    /// The network namespace; "" is our own.
    pub netns: String,
    /// The table's number.
    pub table: u32,
    /// Prefixes of it that lead through mirrors.
    pub routes: u64,
    /// Routes that are held of it.
    pub held: u64,
    /// Prefixes that were not as they had been told, or not held. They were told again.
    pub different: u64,
    /// Whether both were compared, at one moment; they change all the time, or the door is not open, when not.
    pub is_compared: bool,
    /// Why they were not.
    pub why: String,
}

impl AuditedKernel {
    /// Whether what is held is what the kernel has.
    pub fn is_equal(&self) -> bool {
        self.is_compared && self.different == 0 && self.routes == self.held
    }
}

impl Learned {
    /// Has all doors of kernel tables compare now, all at the same time. What differs is told again, and counted by the door.
    pub async fn audit_kernels(&self) -> Vec<AuditedKernel> {
        let mut audits = JoinSet::new();
        let doors = self.line.configuration().map(|it| Arc::clone(&it.doors)).unwrap_or_default();
        for door in doors.iter() {
            let Kind::Linux { table, .. } = door.kind else { continue };
            let audit = AuditedKernel {
                door: door.source.name.clone(),
                netns: door.netns.clone(),
                table,
                ..AuditedKernel::default()
            };
            let state = self.line.doors().of(door.kind.name(), &audit.door);
            audits.spawn(audit_kernel(audit, state));
        }
        let mut audited = audits.join_all().await;
        audited.sort_by(|one, other| one.door.cmp(&other.door));
        audited
    }
}

async fn audit_kernel(mut audit: AuditedKernel, state: Option<Arc<DoorState>>) -> AuditedKernel {
    let Some(state) = state else {
        "the door is not open yet".clone_into(&mut audit.why);
        return audit;
    };
    for is_second in [false, true] {
        let Some(compared) = state.questions.ask(is_second, PATIENCE).await else {
            let why = state.figures().why;
            audit.is_compared = false;
            audit.why = if why.is_empty() { "the door did not answer".to_owned() } else { why };
            return audit;
        };
        audit.different += compared.different;
        audit.routes = compared.routes;
        let Some(held) = compared.held else {
            audit.is_compared = false;
            "the table of learned routes is busy: ask again".clone_into(&mut audit.why);
            return audit;
        };
        audit.held = held;
        audit.is_compared = compared.is_whole;
        if audit.held == audit.routes || !compared.is_whole {
            break;
        }
        // What was told got lost on its way: it is told again, and looked at once more.
        if !is_second {
            let lost = audit.held.abs_diff(audit.routes);
            audit.different += lost;
            state.repaired(lost);
        }
    }
    if !audit.is_compared {
        "the kernel's routes change: ask again".clone_into(&mut audit.why);
    }
    audit
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use stoa_api::{unix, v1};

    use super::*;
    use crate::apply::Line;
    use crate::configuration::Configuration;
    use crate::doors::Compared;
    use crate::learned::{Door, Event, Source, Target, Update, Way};

    /// A line whose configuration has a door for kernel table 254.
    fn line() -> Arc<Line> {
        let interface = json!({
            "name": "a", "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} }, "stoa-mirror:mirror": { "netns": "local" },
        });
        let door = json!({
            "type": "stoa-routing:linux", "name": "kernel", "stoa-routing:door": { "netns": "local" },
        });
        let text = json!({
            "ietf-interfaces:interfaces": { "interface": [interface] },
            "ietf-routing:routing": { "control-plane-protocols": { "control-plane-protocol": [door] } },
        });
        let configuration = Configuration::parse(Path::new("test"), text.to_string()).unwrap();
        Arc::new(Line::new(unix::connect_lazily(Path::new("/nowhere/f.sock")), configuration))
    }

    fn routes(count: u32) -> Event {
        let way = Way { interface: Some("a".into()), gateway: None, weight: 1 };
        Event::Update(Update {
            protocol: v1::Protocol::Kernel,
            target: Some(Target::Ways([way].into(), [].into())),
            ip4: (0..count).map(|number| (0x1400_0000 + (number << 8), 24)).collect(),
            ip6: vec![],
        })
    }

    /// Answers each question so, and says everything again when it is asked to.
    fn answer(state: Arc<DoorState>, door: Door, found: Compared) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move {
            loop {
                let asked = state.questions.next().await;
                if asked.iter().any(|asked| asked.says_all) {
                    door.tell(vec![Event::Up, routes(9), Event::Complete]).await;
                }
                let held = door.count().await.await.ok();
                let found = Compared { held, ..found };
                asked.into_iter().for_each(|asked| asked.answer(found));
            }
        })
    }

    #[tokio::test]
    async fn a_kernel_table_is_compared_with_what_is_held_of_it() {
        let line = line();
        let learned = Learned::start(Arc::clone(&line)).unwrap();
        let audited = learned.audit_kernels().await;
        assert_eq!((audited.len(), audited[0].table, audited[0].netns.as_str()), (1, 254, "local"));
        assert!(!audited[0].is_equal() && audited[0].why.contains("not open"), "{audited:?}");

        let state = line.doors().open("stoa-routing:linux", "kernel");
        let (name, vrf) = ("kernel".to_owned(), "".into());
        let stale_time = Duration::from_secs(60);
        let door = learned.open(Source { name, vrf, preference: None, stale_time });
        door.tell(vec![Event::Up, routes(9), Event::Complete]).await;
        let found = Compared { routes: 9, held: None, different: 0, is_whole: true };
        let task = answer(Arc::clone(&state), door.clone(), found);
        let audited = learned.audit_kernels().await;
        assert!(audited[0].is_equal() && audited[0].held == 9, "{audited:?}");

        // Two got lost between the door and the table: they are said again, and counted.
        door.tell(vec![Event::Up, routes(7), Event::Complete]).await;
        assert_eq!(door.count().await.await, Ok(7));
        let audited = learned.audit_kernels().await;
        let it = &audited[0];
        assert_eq!((it.routes, it.held, it.different, it.is_compared), (9, 9, 2, true), "{it:?}");
        assert_eq!(state.figures().repaired, 2);
        assert!(learned.audit_kernels().await[0].is_equal());
        task.abort();

        // The table that does not get to it in time proves nothing either.
        let busy = Arc::clone(&state);
        let task = tokio::spawn(async move {
            busy.questions.next().await.into_iter().for_each(|asked| asked.answer(found));
        });
        let audited = learned.audit_kernels().await;
        assert!(!audited[0].is_compared && audited[0].why.contains("busy"), "{audited:?}");
        task.await.unwrap();

        // A kernel that never rests proves nothing.
        let found = Compared { is_whole: false, ..found };
        let task = answer(state, door, found);
        let audited = learned.audit_kernels().await;
        assert!(!audited[0].is_compared && audited[0].why.contains("ask again"), "{audited:?}");
        task.abort();
    }
}
