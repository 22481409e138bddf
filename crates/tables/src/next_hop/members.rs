//! The list of a group's members that readers walk.

use core::sync::atomic::Ordering;

use super::Member;
use crate::sync::AtomicU32;

/// Makes `slots` list these members. A reader may meet members that come or go in the meantime, but never
/// misses one that stays: that keeps its slot.
pub(super) fn write(slots: &[AtomicU32], members: &[Member]) {
    let value = |member: &Member| member.adjacency.wrapping_add(1);
    let store = |at: usize, value: u32| slots[at].store(value, Ordering::Release);
    let mut listed: Vec<u32> =
        slots.iter().map(|slot| slot.load(Ordering::Relaxed)).take_while(|it| *it != 0).collect();
    // Of a member that leaves, or a second one of a member.
    let is_free = |listed: &[u32], at: usize| {
        let is_member = members.iter().any(|member| value(member) == listed[at]);
        !is_member || listed[..at].contains(&listed[at])
    };
    for new in members.iter().map(value) {
        if listed.contains(&new) {
            continue;
        }
        let free = (0..listed.len()).find(|at| is_free(&listed, *at));
        let at = free.unwrap_or(listed.len());
        store(at, new);
        match free {
            Some(at) => listed[at] = new,
            None => listed.push(new),
        }
    }
    while let Some(last) = listed.len().checked_sub(1)
        && is_free(&listed, last)
    {
        store(last, 0);
        listed.pop();
    }
    let any = members.first().map_or(0, value);
    (0..listed.len()).filter(|at| is_free(&listed, *at)).for_each(|at| store(at, any));
}
