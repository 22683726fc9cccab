//! Makes the traces of `tests/data/traces.toml`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kubegc::model::{DiskSample, FileSystem, Image, ImageEvent, Trace, TraceEvent, TracedImage};
use serde::Deserialize;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The time between two passes over images, in seconds.
const PASS: i64 = 300;
const DAY: i64 = 24 * 60 * 60;

/// A node whose uses are made by chance.
#[derive(Clone, Debug, Deserialize)]
pub struct Load {
    pub name: String,
    seed: u64,
    services: u32,
    zipf: f64,
    jobs: usize,
    releases: usize,
    builds: usize,
    pub disk_gib: u64,
    others: u64,
    #[serde(default = "month")]
    pub days: i64,
}

/// The uses of one image: from when until when, in seconds since the start.
struct Uses {
    name: String,
    bytes: u64,
    times: Vec<(i64, i64)>,
}

/// Numbers that look random: splitmix64.
struct Chance(u64);

fn month() -> i64 {
    30
}

/// Returns the nodes of the file.
pub fn loads() -> Vec<Load> {
    #[derive(Deserialize)]
    struct Loads {
        trace: Vec<Load>,
    }
    toml::from_str::<Loads>(include_str!("../../data/traces.toml")).unwrap().trace
}

/// When each trace begins.
pub fn start() -> Timestamp {
    "2026-10-01T00:00:00Z".parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

// === impl Load ===

impl Load {
    /// Returns a node with so many images of each sort.
    pub fn of(seed: u64, counts: [usize; 4], disk_gib: u64, days: i64) -> Self {
        let [services, jobs, releases, builds] = counts;
        let services = u32::try_from(services).unwrap();
        let name = format!("{counts:?}");
        Self { name, seed, services, zipf: 1.0, jobs, releases, builds, disk_gib, others: 20, days }
    }

    /// Returns the trace: each image is removed right after its use, so a replay is free to keep it.
    pub fn trace(&self) -> Trace {
        let mut trace = Trace::default();
        for (number, uses) in self.uses().into_iter().enumerate() {
            let (id, tags) = (format!("sha256:{number:064x}"), vec![format!("{}:1", uses.name)]);
            let image = Image { id: id.as_str().into(), tags, size_bytes: uses.bytes, ..Image::default() };
            trace.images.push(TracedImage { image, ..TracedImage::default() });
            for (from, until) in uses.times {
                let events = [
                    (from, ImageEvent::Appeared),
                    (from, ImageEvent::Used),
                    (until, ImageEvent::LastUsed),
                    (until + 1, ImageEvent::Collected),
                ];
                trace.events.extend(events.map(|(second, event)| TraceEvent { at: at(second), image: number, event }));
            }
        }
        trace.events.sort_by_key(|event| (event.at, event.event, event.image));
        self.add_disk(&mut trace);
        trace
    }

    /// Adds a sample of the disk for each pass: what others hold grows during the day, and the images in use.
    fn add_disk(&self, trace: &mut Trace) {
        let capacity_bytes = self.disk_gib * GIB;
        let (mut events, mut images) = (trace.events.iter().peekable(), 0);
        for pass in 1..self.days * DAY / PASS {
            while let Some(event) = events.next_if(|event| event.at <= at(pass * PASS)) {
                let bytes = trace.images[event.image].image.size_bytes;
                match event.event {
                    ImageEvent::Appeared => images += bytes,
                    ImageEvent::Collected => images -= bytes,
                    _ => {}
                }
            }
            let of_day = u64::try_from(pass * PASS % DAY * 100 / DAY).unwrap();
            let others = capacity_bytes / 100 * self.others * (50 + of_day / 2) / 100;
            let available_bytes = capacity_bytes.saturating_sub(others + images);
            let file_system = FileSystem { capacity_bytes, available_bytes, ..FileSystem::default() };
            trace.disk.push(DiskSample { at: at(pass * PASS), file_system });
        }
    }

    fn uses(&self) -> Vec<Uses> {
        let mut chance = Chance(self.seed);
        let mut all = Vec::new();
        for rank in 0..self.services {
            let weight = f64::from(rank + 1).powf(-self.zipf);
            let gap = Duration::from_secs_f64(2.0 * 3_600.0 / weight).as_secs();
            all.push(self.repeated(&mut chance, &format!("services/s{rank}"), gap, 4 * 3_600));
        }
        for job in 0..self.jobs {
            let (bytes, hour) = (chance.bytes(), i64::try_from(chance.below(20)).unwrap());
            let times = (0..self.days).map(|day| (day * DAY + hour * 3_600, day * DAY + hour * 3_600 + 1_200));
            all.push(Uses { name: format!("jobs/j{job}"), bytes, times: times.collect() });
        }
        for release in 0..self.releases {
            all.extend(self.versions(&mut chance, release));
        }
        for day in (0..self.days).filter(|day| day % 2 == 0) {
            for build in 0..self.builds {
                let from = day * DAY + i64::try_from(chance.below(36_000)).unwrap() / PASS * PASS;
                let name = format!("builds/d{day}-b{build}");
                all.push(Uses { name, bytes: chance.bytes(), times: vec![(from, from + 900)] });
            }
        }
        all
    }

    /// Returns an image whose uses have times of chance between them, and last as long.
    fn repeated(&self, chance: &mut Chance, name: &str, gap: u64, length: u64) -> Uses {
        let (bytes, mut times, mut now) = (chance.bytes(), Vec::new(), 0);
        loop {
            now += i64::try_from(chance.below(2 * gap) + 600).unwrap() / PASS * PASS;
            let until = now + i64::try_from(chance.below(2 * length) + 600).unwrap() / PASS * PASS;
            if until >= self.days * DAY {
                return Uses { name: name.to_owned(), bytes, times };
            }
            times.push((now, until));
            now = until + PASS;
        }
    }

    /// Returns the versions of an image: each is used until the next one, with restarts.
    fn versions(&self, chance: &mut Chance, release: usize) -> Vec<Uses> {
        let (bytes, mut now, mut versions) = (chance.bytes(), 0, Vec::new());
        while now < self.days * DAY {
            let until = now + i64::try_from(chance.below(6 * 86_400) + 86_400).unwrap() / PASS * PASS;
            let end = until.min(self.days * DAY - PASS);
            let half = (now + (end - now) / 2) / PASS * PASS;
            let times = vec![(now, half - 2 * PASS), (half, end)];
            let times = times.into_iter().filter(|(from, until)| from < until).collect();
            versions.push(Uses { name: format!("releases/r{release}-v{}", versions.len()), bytes, times });
            now = until + PASS;
        }
        versions
    }
}

// === impl Chance ===

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Returns a size from 32 MiB to 2 GiB; each doubling is as likely.
    fn bytes(&mut self) -> u64 {
        let doubled = MIB << (5 + self.below(6));
        doubled + self.below(doubled)
    }
}
