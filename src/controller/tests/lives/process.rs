//! One process of the controller: the real services, the observer of its requests, and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::judge::{Shown, judge, sort_of};
use super::script::{KINDS, Reply, Serving, Sort};
use super::stage::Stage;
use crate::controller::{
    Candidate, ControllerSettings, OwnersService, PodCollector, PodGcSettings, PodsService, ResourceFilter,
};
use crate::testing::fake_api::{Answer, FakeApi, Made, Objects, Observer, failure};
use crate::testing::lives::clock;

/// The requests of a life: far more than any life needs.
const MOST: usize = 20_000;
/// How long the process is down after its end.
const RESTART: Duration = Duration::from_secs(3);

/// A process, as the server sees it.
struct Process {
    number: usize,
    stage: Stage,
    is_dead: AtomicBool,
    shown: Mutex<Shown>,
}

/// Runs one process after the other.
pub(super) async fn run(server: FakeApi, stage: Stage, elects: bool) {
    for number in 0.. {
        let shown = Mutex::new(Shown::new(&server.objects(), stage.acts().served));
        let process = Arc::new(Process { number, stage: stage.clone(), is_dead: AtomicBool::default(), shown });
        let killed = Arc::clone(&stage.acts().killed);
        let observed = server.observed_by(Arc::clone(&process) as Arc<_>);
        let end = tokio::select! {
            biased;
            () = killed.notified() => "is killed",
            () = live(&observed, elects.then_some(number)) => "loses the lease",
        };
        process.is_dead.store(true, Ordering::Relaxed);
        stage.log(format_args!("process {number} {end}"));
        sleep(RESTART).await;
    }
}

/// The controller, as `kubegc controller run --namespaces` runs it, until it loses the lease if there is an election.
async fn live(server: &FakeApi, candidate: Option<usize>) {
    let connection = Arc::new(server.connection());
    // Nothing else runs while the client is made.
    connection.cluster().await;
    let settings = ControllerSettings { namespaces: true, ..ControllerSettings::default() };
    let lease = settings.lease.clone();
    let owners = OwnersService::new(&connection, settings, ResourceFilter::default(), false, clock);
    let pods = PodCollector::new(&connection, PodGcSettings::default(), false, clock, |_| {});
    let attention = owners.attention();
    let stop = CancellationToken::new();
    let services = async { tokio::join!(Box::pin(owners.run(stop.clone())), PodsService::new(pods).run(stop.clone())) };
    let Some(number) = candidate else {
        services.await;
        return;
    };
    let mut candidate = Candidate::new(connection, lease, format!("process-{number}"), clock, attention);
    candidate.lead(|_| {}).await;
    tokio::select! {
        biased;
        _ = services => {}
        () = candidate.stay() => {}
    }
}

// === impl Process ===

impl Process {
    /// Returns how a request is answered because of what happens to its kind.
    fn by_kind(&self, made: &Made, sort: Sort) -> Option<Answer> {
        let kind = KINDS.iter().position(|kind| made.path().split('/').any(|part| part == kind.1))?;
        let serving = self.stage.acts().served[kind];
        let fails = serving == Serving::Down || serving == Serving::Unlistable && sort == Sort::Lists;
        fails.then(|| refusal(503, "ServiceUnavailable"))
    }

    fn is_killed(&self, made: &Made) -> Option<Answer> {
        let (left, has_effect) = self.stage.acts().kill?;
        self.stage.acts().kill = left.checked_sub(1).map(|left| (left, has_effect));
        (left == 0).then(|| {
            self.stage.log(format_args!("kill at {} {}, which has an effect: {has_effect}", made.method, made.path()));
            self.is_dead.store(true, Ordering::Relaxed);
            self.stage.acts().killed.notify_one();
            if has_effect { Answer::StopsAfter(0) } else { Answer::Never }
        })
    }

    fn by_trouble(&self, sort: Sort) -> Answer {
        let is_change = matches!(sort, Sort::Deletions | Sort::Patches);
        match self.stage.trouble(sort) {
            None => Answer::Right,
            Some(Reply::Busy) => Answer::RetryAfter(429, 1, failure(429, "TooManyRequests", &json!({})).to_string()),
            Some(Reply::Conflict) if is_change => refusal(409, "Conflict"),
            Some(Reply::Broken | Reply::Conflict) => refusal(500, "InternalError"),
            Some(Reply::Lost) => Answer::Never,
            Some(_) if sort == Sort::Watches => refusal(500, "InternalError"),
            Some(Reply::Unanswered) => Answer::StopsAfter(0),
            Some(Reply::CutOff) => Answer::BreaksAfter(0),
            Some(Reply::Late(seconds)) => Answer::Late(Duration::from_secs(seconds)),
        }
    }
}

fn refusal(code: u16, reason: &str) -> Answer {
    Answer::Text(code, failure(code, reason, &json!({})).to_string())
}

impl Observer for Process {
    fn answer(&self, made: &Made) -> Answer {
        self.stage.acts().requests += 1;
        let requests = self.stage.acts().requests;
        if requests == MOST {
            self.stage.fault(format!("{MOST} requests, the last one to {}", made.uri));
        }
        if requests >= MOST || self.is_dead.load(Ordering::Relaxed) {
            return Answer::Never;
        }
        let sort = sort_of(made);
        if sort == Some(Sort::Discoveries) {
            self.shown.lock().unwrap().discovers(self.stage.acts().served);
        }
        self.stage.log(format_args!("{} {} {}", self.number, made.method, made.uri));
        let killed = sort.and_then(|_| self.is_killed(made));
        let by_kind = || sort.and_then(|sort| self.by_kind(made, sort));
        killed.or_else(by_kind).unwrap_or_else(|| sort.map_or(Answer::Right, |sort| self.by_trouble(sort)))
    }

    fn changed(&self, made: &Made, before: &Objects) {
        let mut shown = self.shown.lock().unwrap();
        shown.served = self.stage.acts().served;
        if sort_of(made).is_some() {
            self.stage.log(format_args!("{} has changed: {} {} {}", self.number, made.method, made.path(), made.body));
        }
        if let Err(fault) = judge(made, before, &shown) {
            self.stage.fault(format!("{} {}: {fault}", made.method, made.path()));
        }
    }

    fn shown(&self, object: &Value, is_read: bool) {
        self.shown.lock().unwrap().add(object, is_read);
    }
}
