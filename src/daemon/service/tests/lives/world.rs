//! Plays a script: people, the kubelet and the rest of the node act, and an observer judges the agent.

use std::collections::HashMap;
use std::fs::File;
use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::agent::{Stage, processes, settings};
use super::files::Files;
use super::judge::{POD_UID, is_newest, leftover};
use super::script::{Api, IMAGES, PODS, Step, archives};
use crate::daemon::process::signals::Reload;
use crate::daemon::{end_pause, write_pause};
use crate::fleet::Pause;
use crate::model::{ContainerState, Phase, Pod, SandboxState};
use crate::sim::sim_node::{SimContainer, SimSandbox};
use crate::sim::{GIB, Node, Sim};
use crate::testing::in_memory;
use crate::testing::lives::{self, Life, clock, jump};

/// For how many minutes after the last step something may be left. What could not be removed waits for an hour at most.
const QUIET: usize = 75;

struct World {
    sim: Arc<Sim>,
    stage: Stage,
    reload: Reload,
    /// The number of uids and images so far.
    made: usize,
    uids: [String; PODS],
    works: bool,
    files: Files,
}

/// Plays a script.
pub(super) fn play(steps: &[Step]) -> Life {
    lives::alone(|| async {
        let mut world = World::new(archives(steps));
        let (sim, stage, reload) = (Arc::clone(&world.sim), world.stage.clone(), world.reload.clone());
        tokio::select! {
            biased;
            () = sim.serve(in_memory::listen()) => {}
            () = processes(&sim, &stage, &reload) => {}
            () = world.lives(steps) => {}
        }
        stage.acts().record.take()
    })
}

fn image(number: usize) -> String {
    format!("r.example/app:{number}")
}

// === impl World ===

impl World {
    fn new(archives: bool) -> Self {
        let node = Node::new().disk(100 * GIB, 40 * GIB).image("r.example/pinned:1", &[("pinned", GIB)]).pinned();
        let sim = Arc::new(Sim::start_here(node).unwrap());
        let stage = Stage::new(sim.dir().join("kubelet/pods"));
        let observer = stage.clone();
        sim.observe(move |method, id, node| observer.acts().observe(method, id, node));
        sim.set_listening_since(clock()).unwrap();
        stage.acts().settings = usize::from(archives);
        let (reload, uids, files) = (Reload::default(), Default::default(), Files::new(Arc::clone(&sim), archives));
        Self { sim, stage, reload, made: 0, uids, works: true, files }
    }

    async fn lives(&mut self, steps: &[Step]) {
        for step in steps {
            self.stage.acts().record.log(format_args!("-- {step:?}"));
            self.takes(*step).await;
            if self.stage.acts().record.life.fault.is_some() {
                return;
            }
        }
        self.ends().await;
    }

    async fn takes(&mut self, step: Step) {
        match step {
            Step::Wait(seconds) => {
                sleep(Duration::from_secs(seconds)).await;
                self.syncs();
            }
            Step::Bind(at, image) => {
                self.made += 1;
                self.binds(at, &format!("u{at}-{}", self.made), image);
            }
            Step::Return(at) if !self.uids[at].is_empty() => self.binds(at, &self.uids[at].clone(), at),
            Step::Crash(at) => {
                self.sim.state().set_time(clock());
                for id in self.containers(&self.uids[at], ContainerState::Running) {
                    self.sim.state().end_container(&id, 1);
                }
            }
            Step::Restart(at) => self.ends_sandboxes(&self.uids[at]),
            Step::Finish(at) => {
                if let Some(pod) = &mut self.stage.acts().pods[at] {
                    pod.phase = Phase::Succeeded;
                }
                self.ends_sandboxes(&self.uids[at]);
            }
            Step::Delete(at) => self.stage.acts().pods[at] = None,
            Step::Create(at) => {
                if let Some(sandbox) = self.ready_sandbox(&self.uids[at]) {
                    self.pulls(at, false);
                    self.builds(|node| node.in_sandbox(&sandbox).created("late", &image(at)));
                }
            }
            Step::Start(at) if self.ready_sandbox(&self.uids[at]).is_some() => {
                for id in self.containers(&self.uids[at], ContainerState::Created) {
                    self.sim.state().start_container(&id).unwrap();
                }
            }
            Step::Pull(number) => self.pulls(number, false),
            Step::Retag(number) => self.pulls(number, true),
            Step::Kubelet(works) => self.works = works,
            Step::Collect => self.collects(),
            Step::Fill(gibibytes) => self.sim.state().set_other_bytes(gibibytes * GIB),
            Step::Api(api) => self.shows(api),
            Step::Trouble(sort, reply, times) => self.stage.acts().troubles.extend(repeat_n((sort, reply), times)),
            Step::Kill(after, has_effect) => self.stage.acts().kill = Some((after, has_effect)),
            Step::Reload(number) => {
                self.stage.acts().settings = number;
                self.stage.acts().relieves |= number == 3;
                self.reload.request();
            }
            Step::Pause(true) => self.pauses().await,
            Step::Pause(false) => self.resumes(),
            Step::Jump(seconds) => jump(seconds),
            Step::Return(_) | Step::Start(_) => {}
        }
    }

    fn binds(&mut self, at: usize, uid: &str, number: usize) {
        self.files.begins_again(&format!("default_pod-{at}_{uid}"), uid);
        let acts = &mut *self.stage.acts();
        let slot = &mut acts.pods[at];
        if slot.is_none() {
            acts.absent.entry(uid.to_owned()).or_default();
            uid.clone_into(&mut self.uids[at]);
            let (namespace, name) = ("default".to_owned(), format!("pod-{at}"));
            let (uid, phase) = (uid.into(), Phase::Running);
            // Every third image comes with another one as a volume.
            let volume = (number.is_multiple_of(3)).then_some((number + 1) % IMAGES);
            let images = [number].into_iter().chain(volume).map(image).collect();
            *slot = Some(Pod { uid, namespace, name, phase, images, ..Pod::default() });
        }
    }

    fn shows(&self, api: Api) {
        let acts = &mut *self.stage.acts();
        if api == Api::Stale {
            acts.stale = acts.pods.iter().flatten().cloned().collect();
        }
        acts.api = api;
    }

    /// Changes the node by its builder, now.
    fn builds(&self, build: impl FnOnce(Node) -> Node) {
        self.sim.state().also(|node| build(node.now(clock()))).unwrap();
    }

    fn containers(&self, uid: &str, state: ContainerState) -> Vec<String> {
        let is_in = |it: &&SimContainer| it.state() == state;
        self.sim.state().containers.of_pod(uid).filter(is_in).map(|it| it.listed.id.clone()).collect()
    }

    fn ready_sandbox(&self, uid: &str) -> Option<String> {
        let is_ready = |it: &&SimSandbox| it.state() == SandboxState::Ready;
        self.sim.state().sandboxes.of_pod(uid).find(is_ready).map(|it| it.listed.id.clone())
    }

    fn ends_sandboxes(&self, uid: &str) {
        self.sim.state().set_time(clock());
        while let Some(id) = self.ready_sandbox(uid) {
            self.sim.state().stop_sandbox(&id).unwrap();
        }
    }

    /// Pulls an image, or another one of its name.
    fn pulls(&mut self, number: usize, is_new: bool) {
        let name = image(number);
        if is_new || self.sim.state().image_id(&name).is_none() {
            self.made += 1;
            let (id, layer) = (format!("sha256:{:064x}", self.made), format!("layer-{}", self.made));
            self.builds(|node| node.id(&id).image(&name, &[("base", GIB), (&layer, 3 * GIB)]));
            if number % 2 == 1 {
                self.files.records(&id);
            }
        }
    }

    /// What the containers and the kubelet do.
    fn syncs(&mut self) {
        let fault = self.files.judge(&self.stage.acts());
        if let Some(fault) = fault {
            return self.stage.acts().record.fault(fault);
        }
        self.files.writes();
        if !self.works {
            return;
        }
        let dirs = self.stage.acts().dirs.clone();
        for entry in std::fs::read_dir(&dirs).into_iter().flatten() {
            let uid = entry.unwrap().file_name().into_string().unwrap();
            if !self.stage.acts().exists(&uid) {
                self.ends_sandboxes(&uid);
                std::fs::rename(dirs.join(&uid), self.sim.dir().join(format!("was-{uid}-{}", clock()))).unwrap();
            }
        }
        for at in 0..PODS {
            let pod = self.stage.acts().pods[at].clone();
            if let Some(pod) = pod.filter(|pod| pod.phase == Phase::Running) {
                std::fs::create_dir_all(dirs.join(pod.uid.to_string())).unwrap();
                self.runs(&pod);
            }
        }
    }

    fn runs(&mut self, pod: &Pod) {
        let uid = pod.uid.to_string();
        if !self.containers(&uid, ContainerState::Running).is_empty() {
            return;
        }
        for number in (0..IMAGES).filter(|number| pod.images.contains(&image(*number))) {
            self.pulls(number, false);
        }
        let sandbox = self.ready_sandbox(&uid);
        self.builds(|node| {
            let node = match sandbox {
                Some(sandbox) => node.in_sandbox(&sandbox),
                None => node.pod("default", &pod.name, &uid),
            };
            let node = node.running("app", &pod.images[0]);
            pod.images[1..].iter().fold(node, |node, volume| node.mounting(volume))
        });
    }

    /// What the kubelet removes: all of pods that do not exist, and of the others all dead containers but the newest.
    fn collects(&mut self) {
        let (acts, node) = (self.stage.acts(), &mut *self.sim.state());
        let is_gone = |labels: &HashMap<String, String>| !acts.exists(&labels[POD_UID]);
        let is_old = |it: &&SimContainer| is_gone(&it.listed.labels) || !is_newest(it, node, |_| true);
        let dead = node.containers.iter().filter(|it| it.state() == ContainerState::Exited).filter(is_old);
        for container in dead.cloned().collect::<Vec<_>>() {
            node.remove_container(&container.listed.id).unwrap();
            self.files.removes_of(&container);
        }
        let is_empty = |it: &&SimSandbox| it.state() == SandboxState::NotReady && it.containers.is_empty();
        let dead = node.sandboxes.iter().filter(is_empty).filter(|it| is_gone(&it.listed.labels));
        for id in dead.map(|it| it.listed.id.clone()).collect::<Vec<_>>() {
            node.remove_sandbox(&id).unwrap();
        }
    }

    /// As `kubegc pause`: it returns when no removal is in progress.
    async fn pauses(&self) {
        let file = settings(&self.sim, 0).state.pause_file();
        write_pause(&file, &Pause::default()).unwrap();
        let lock = File::options().create(true).append(true).open(file.with_extension("removals")).unwrap();
        while lock.try_lock().is_err() {
            sleep(Duration::from_secs(1)).await;
        }
        self.stage.acts().is_paused = true;
    }

    fn resumes(&self) {
        self.stage.acts().is_paused = false;
        end_pause(&settings(&self.sim, 0).state.pause_file()).unwrap();
    }

    /// All works again, and after a while nothing is left that should not be.
    async fn ends(&mut self) {
        self.stage.acts().record.log("-- quiet");
        (self.works, self.stage.acts().kill) = (true, None);
        self.stage.acts().troubles.clear();
        self.shows(Api::Works);
        self.resumes();
        // A removal without an answer waits for an hour, or for the next process.
        self.stage.acts().killed.notify_one();
        let mut left = Some(String::new());
        for _ in 0..QUIET {
            sleep(Duration::from_mins(1)).await;
            self.syncs();
            let before = left;
            left = leftover(&self.sim.state(), &self.stage.acts());
            if before.is_none() && left.is_none() || self.stage.acts().record.life.fault.is_some() {
                return;
            }
        }
        if let Some(left) = left {
            self.stage.acts().record.fault(left);
        }
    }
}
