//! Which two GPUs share the work best: one prepares the data, the other trains the model.

use std::cmp::Reverse;
use voxmill_format::size;

use super::{GpuFacts, Link, Links};

/// Two GPUs by their places in the list that they were chosen from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuPair {
    pub data: usize,
    pub model: usize,
    /// `None` where it is not known.
    pub link: Option<Link>,
    /// A sentence for the person who asked for the choice.
    pub why: String,
}

/// The pair with the best link; of those that are equally good, the one whose model device has the
/// most memory, then whose data device has, then the first. The weaker of the two is for data: less
/// total memory, and where that is equal the later one. One that does not report its memory is taken
/// for the weakest, for most of those share the host's.
///
/// `None` where there are no two different devices.
pub fn best_pair(gpus: &[GpuFacts], links: &Links) -> Option<GpuPair> {
    let memory = |place: usize| gpus[place].memory_total_bytes;
    let places = 0..gpus.len();
    let pairs: Vec<(usize, usize, Option<Link>)> = places
        .flat_map(|a| (a + 1..gpus.len()).map(move |b| (a, b)))
        .map(|(a, b)| {
            let (model, data) = if memory(a) >= memory(b) {
                (a, b)
            } else {
                (b, a)
            };
            (model, data, links.between(a, b))
        })
        .filter(|(_, _, link)| *link != Some(Link::Same))
        .collect();
    let &(model, data, link) = pairs.iter().min_by_key(|&&(model, data, link)| {
        // An unknown link is worse than a bad one.
        let by_link = (link.is_none(), link);
        (
            by_link,
            Reverse(memory(model)),
            Reverse(memory(data)),
            model,
            data,
        )
    })?;
    Some(GpuPair {
        data,
        model,
        link,
        why: why(&gpus[model], &gpus[data], link, pairs.len()),
    })
}

fn why(model: &GpuFacts, data: &GpuFacts, link: Option<Link>, pairs: usize) -> String {
    let linked = match link {
        Some(link) => format!("they are linked {}", link.describe()),
        None => "how they are linked is not known".to_owned(),
    };
    let compared = match (pairs, link) {
        (..=1, _) => ", and there is no other pair",
        (_, Some(_)) => ", and no other pair has a better link",
        (_, None) => ", nor is it of any other pair",
    };
    let weaker = match (model.memory_total_bytes, data.memory_total_bytes) {
        (Some(more), Some(less)) if more > less => format!(
            "the one for data has less memory ({} against {})",
            size(less),
            size(more)
        ),
        (Some(same), Some(_)) => format!("both have {}, so the first one trains", size(same)),
        (Some(_), None) => "the one for data does not report its memory".to_owned(),
        (None, _) => "neither reports its memory, so the first one trains".to_owned(),
    };
    format!(
        "{} prepares data and {} trains: {linked}{compared}; {weaker}",
        named(data),
        named(model)
    )
}

/// Two cards of a pair often have one name.
fn named(gpu: &GpuFacts) -> String {
    match gpu.pci {
        Some(pci) => format!("{} at {pci}", gpu.name),
        None => gpu.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Source, Vendor};
    use super::*;

    fn gpu(place: usize, gibibytes: Option<u64>) -> GpuFacts {
        GpuFacts {
            name: "RTX".to_owned(),
            vendor: Vendor::Nvidia,
            pci: format!("0000:{place:02x}:00.0").parse().ok(),
            uuid: None,
            memory_total_bytes: gibibytes.map(|gibibytes| gibibytes << 30),
            memory_free_bytes: None,
            numa_node: None,
            pcie: None,
            source: Source::Nvml,
        }
    }

    fn chosen(memory: &[Option<u64>], links: &[((usize, usize), Link)]) -> Option<GpuPair> {
        let gpus: Vec<GpuFacts> = (0..).zip(memory).map(|(p, &m)| gpu(p, m)).collect();
        best_pair(&gpus, &links.iter().copied().collect())
    }

    /// The places for data and for the model.
    fn places(memory: &[Option<u64>], links: &[((usize, usize), Link)]) -> (usize, usize) {
        let pair = chosen(memory, links).unwrap();
        (pair.data, pair.model)
    }

    /// The links of three devices: 0 to 1, 0 to 2, 1 to 2.
    fn three([a, b, c]: [Link; 3]) -> [((usize, usize), Link); 3] {
        [((0, 1), a), ((0, 2), b), ((1, 2), c)]
    }

    #[test]
    fn one_device_is_no_pair() {
        assert_eq!(chosen(&[], &[]), None);
        assert_eq!(chosen(&[Some(24)], &[]), None);
        let twice = [((0, 1), Link::Same)];
        assert_eq!(chosen(&[Some(24), Some(24)], &twice), None);
    }

    #[test]
    fn the_weaker_one_prepares_data() {
        assert_eq!(places(&[Some(24), Some(12)], &[]), (1, 0));
        assert_eq!(places(&[Some(12), Some(24)], &[]), (0, 1));
        assert_eq!(places(&[Some(24), Some(24)], &[]), (1, 0), "the later one");
        assert_eq!(places(&[None, Some(8)], &[]), (0, 1));
        assert_eq!(places(&[None, None], &[]), (1, 0));
    }

    #[test]
    fn the_best_link_decides_before_memory() {
        let links = three([Link::Sys, Link::Phb, Link::Pix]);
        let pair = chosen(&[Some(80), Some(8), Some(12)], &links).unwrap();
        assert_eq!((pair.data, pair.model), (1, 2));
        assert_eq!(pair.link, Some(Link::Pix));
    }

    #[test]
    fn a_link_that_is_not_known_is_the_worst() {
        let links = [((1, 2), Link::Sys)];
        assert_eq!(places(&[Some(80), Some(8), Some(12)], &links), (1, 2));
    }

    #[test]
    fn equal_links_leave_it_to_memory_and_then_to_the_order() {
        let phb = three([Link::Phb; 3]);
        assert_eq!(places(&[None, Some(24), Some(12)], &phb), (2, 1));
        assert_eq!(places(&[Some(12), Some(12), Some(24)], &phb), (0, 2));
        assert_eq!(places(&[Some(24), Some(24), Some(24)], &phb), (1, 0));
    }

    #[test]
    fn the_reason_is_a_sentence() {
        let pair = chosen(&[Some(24), Some(12)], &[((0, 1), Link::Pix)]).unwrap();
        assert_eq!(
            pair.why,
            "RTX at 0000:01:00.0 prepares data and RTX at 0000:00:00.0 trains: they are linked \
             through a single PCIe switch, and there is no other pair; the one for data has less \
             memory (12.9 GB against 25.8 GB)"
        );
        let links = three([Link::Phb, Link::Sys, Link::Sys]);
        let why = chosen(&[Some(24), Some(24), Some(24)], &links).unwrap().why;
        let expected = "they are linked through the CPU's PCIe host bridge, and no other pair has \
                        a better link; both have 25.8 GB, so the first one trains";
        assert!(why.ends_with(expected), "{why}");
        let why = chosen(&[None, None, Some(1)], &[]).unwrap().why;
        let expected = "how they are linked is not known, nor is it of any other pair; the one for \
                        data does not report its memory";
        assert!(why.ends_with(expected), "{why}");
        let why = chosen(&[None, None], &[]).unwrap().why;
        let expected = "neither reports its memory, so the first one trains";
        assert!(why.ends_with(expected), "{why}");
    }

    fn any_link() -> impl Strategy<Value = Option<Link>> {
        let links = vec![Link::Nvlink, Link::Pix, Link::Sys];
        prop::option::of(prop::sample::select(links))
    }

    proptest! {
        #[test]
        fn no_pair_is_better_linked_and_the_data_device_is_the_weaker_one(
            memory in prop::collection::vec(prop::option::of(0u64..4), 2..6),
            any in prop::collection::vec(any_link(), 15),
        ) {
            let pairs = (0..memory.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
            let links: Vec<((usize, usize), Link)> =
                pairs.zip(any).filter_map(|(pair, link)| Some((pair, link?))).collect();
            let pair = chosen(&memory, &links).unwrap();
            let best = links.iter().map(|(_, link)| *link).min();
            prop_assert_eq!(pair.link, best);
            let strength = |place: usize| (memory[place], Reverse(place));
            prop_assert!(strength(pair.data) < strength(pair.model));
        }
    }
}
