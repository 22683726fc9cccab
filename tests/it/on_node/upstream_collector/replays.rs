//! Plays forests again that two collectors left in different states. What ends in several ways depends on the order of two
//! calls, in kube-controller-manager too: then it leaves our state sometimes.

use std::collections::{BTreeMap, BTreeSet};

use super::comparison::{Difference, NEVER_EXISTED, comparable};
use super::{PATIENCE, plant, sentinel};
use crate::on_node::owner_forests::forest::{Forest, ForestObject, Reference, State};
use crate::on_node::owner_forests::player::Player;
use crate::rig::{NodeRig, Program};

/// How often a forest is played again.
const COPIES: usize = 20;
/// The copies that are created while kube-controller-manager is stopped. The others it sees object by object, so it checks
/// some of their objects later.
const CREATED_BEFORE: usize = 10;
/// How often it starts, each time beside as many of these copies. It lists the resources in another order each time.
const STARTS: usize = 5;
/// More forests than this differ by a rule, so they would differ again.
const MOST_FORESTS: usize = 10;

/// What kube-controller-manager left of the forests that were played again.
#[derive(Default)]
pub struct Replays {
    /// By forest: after each step, the states of all copies.
    outcomes: BTreeMap<String, Vec<Vec<State>>>,
    /// Which differences are none, as text.
    shown: BTreeSet<String>,
}

// === impl Replays ===

impl Replays {
    /// Returns the differences after `steps` steps without those of a forest that has a copy which kube-controller-manager
    /// left as our collector did.
    pub fn unknown(&mut self, steps: usize, different: &[Difference]) -> Vec<Difference> {
        let mut unknown = Vec::new();
        for of_forest in different.chunk_by(|a, b| a.forest == b.forest) {
            match self.count(steps, of_forest) {
                0 => unknown.extend(of_forest.iter().cloned()),
                count => self.shown.extend(of_forest.iter().map(|difference| {
                    format!("{difference} after step {steps}, as kube-controller-manager in {count} of {COPIES} copies")
                })),
            }
        }
        unknown
    }

    /// Returns how many copies of a forest have each of these objects as our collector left it.
    fn count(&self, steps: usize, different: &[Difference]) -> usize {
        let Some(after) = self.outcomes.get(&different[0].forest) else { return 0 };
        let is_ours = |state: &&State| different.iter().all(|it| state.get(&it.id) == it.ours.as_ref());
        after[steps.min(after.len() - 1)].iter().filter(is_ours).count()
    }

    /// Describes what kube-controller-manager left of an object in the copies.
    pub fn describe(&self, steps: usize, Difference { forest, id, .. }: &Difference) -> String {
        let mut counts = BTreeMap::<_, usize>::new();
        for state in self.outcomes.get(forest).iter().flat_map(|after| &after[steps.min(after.len() - 1)]) {
            *counts.entry(format!("{:?}", state.get(id))).or_default() += 1;
        }
        format!("kube-controller-manager left {id} in copies: {counts:?}")
    }

    /// Plays the forests that were not played again yet, unless they are many.
    pub async fn add(&mut self, forests: impl Iterator<Item = &Forest>) {
        let new: Vec<_> = forests.filter(|forest| !self.outcomes.contains_key(&forest.name)).collect();
        if !new.is_empty() && new.len() <= MOST_FORESTS {
            self.outcomes.extend(Box::pin(play(&new)).await);
        }
    }

    /// Prints which differences are none.
    pub fn print(&self) {
        for shown in &self.shown {
            println!("{shown}");
        }
    }
}

/// Plays all steps of each forest, in all copies at once, on an API server of their own.
async fn play(forests: &[&Forest]) -> BTreeMap<String, Vec<Vec<State>>> {
    let (node, player) = plant_all(forests).await;
    let mut outcomes = BTreeMap::<_, Vec<_>>::new();
    let between = async |steps| {
        let states = settled(&player, steps).await;
        for forest in forests {
            let left = (0..copies_of(forest)).map(|number| state_of(&states, forest, number)).collect();
            outcomes.entry(forest.name.clone()).or_default().push(left);
        }
    };
    player.play(between).await;
    drop(node);
    outcomes
}

/// While kube-controller-manager runs, it may delete an object before its circle is closed, which is another forest.
fn copies_of(forest: &Forest) -> usize {
    if forest.objects.iter().all(|object| object.late_owners.is_empty()) { COPIES } else { CREATED_BEFORE }
}

/// Creates the objects of all copies.
async fn plant_all(forests: &[&Forest]) -> (NodeRig, Player) {
    let copies = |numbers: Vec<usize>| {
        let of =
            |number: usize| forests.iter().filter(move |it| number < copies_of(it)).map(move |it| copy(it, number));
        numbers.into_iter().flat_map(of).collect::<Vec<_>>()
    };
    let at_start = |start: usize| copies((start..CREATED_BEFORE).step_by(STARTS).collect());
    let (node, mut player) = plant(at_start(0)).await;
    node.launch(Program::ControllerManager);
    settled(&player, 0).await;
    for start in 1..STARTS {
        node.end(Program::ControllerManager);
        let mut forests = at_start(start);
        forests.push(sentinel::without_steps(start));
        player.add(forests).await;
        node.launch(Program::ControllerManager);
        settled(&player, 0).await;
    }
    player.add(copies((CREATED_BEFORE..COPIES).collect())).await;
    (node, player)
}

/// Waits until kube-controller-manager has nothing to do, and returns what it left.
async fn settled(player: &Player, steps: usize) -> BTreeMap<String, State> {
    let mut last = BTreeMap::new();
    let look = async || match player.states().await {
        Ok(states) => {
            let mut waits = sentinel::waits(steps, &states, "kube-controller-manager");
            waits.extend(sentinel::waits_in_namespaces(player.forests(), &states, "kube-controller-manager"));
            waits.extend((states != last).then(|| "objects change".to_owned()));
            last = states;
            waits
        }
        Err(error) => vec![error.to_string()],
    };
    PATIENCE.agree(look).await;
    last
}

/// Returns a copy whose absent owners are its own.
fn copy(forest: &Forest, number: usize) -> Forest {
    let of_copy = |references: &[Reference]| {
        let uid = |uid: &String| uid.replace(NEVER_EXISTED, &middle(number));
        references.iter().map(|it| Reference { uid: it.uid.as_ref().map(uid), ..it.clone() }).collect()
    };
    let objects = forest.objects.iter().map(|object| ForestObject {
        owners: of_copy(&object.owners),
        late_owners: of_copy(&object.late_owners),
        ..object.clone()
    });
    Forest { name: name_of(forest, number), objects: objects.collect(), ..forest.clone() }
}

/// Returns the state of a copy with the uids of the forest itself.
fn state_of(states: &BTreeMap<String, State>, forest: &Forest, number: usize) -> State {
    let mut state = states.get(&name_of(forest, number)).cloned().unwrap_or_default();
    for (uid, ..) in state.values_mut().flat_map(|left| &mut left.owners) {
        *uid = uid.replace(&middle(number), NEVER_EXISTED);
    }
    comparable(forest, &state)
}

fn name_of(forest: &Forest, number: usize) -> String {
    format!("{}x{number}", forest.name)
}

fn middle(number: usize) -> String {
    format!("-{:04x}-4000-", number + 1)
}
