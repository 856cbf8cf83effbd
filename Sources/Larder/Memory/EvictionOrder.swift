/// The order in which the entries of a memory cache are given up: their slots in rings.
///
/// *Least recently used*: one ring, and a use moves the slot to its end.
///
/// *Adaptive*: a use moves nothing; it counts to three. New entries are in the *window*, first in, first out, which
/// has a tenth of the room. The first one to leave it is compared with the entry that the *main* part would give up:
/// `Regrets` say how many hits it needs. The main part has two rings. An entry in *probation* that was used becomes
/// *protected* when its turn comes; the protected ones have at most half of the main part, and then return to
/// probation.
///
/// Where costs are limited, entries that have one are in rings of their own: only they are evicted for cost.
///
/// No step looks at many entries: after `patience` used ones, the next one goes, used or not.
@usableFromInline
struct EvictionOrder: Sendable {
    /// The number of entries in a ring, and the sum of their costs.
    @usableFromInline
    struct Size: Sendable {
        @usableFromInline var count = 0
        @usableFromInline var cost = 0

        @inlinable
        init() {}

        @inlinable
        mutating func add(_ cost: Int) {
            count &+= 1
            self.cost &+= cost
        }

        @inlinable
        mutating func remove(_ cost: Int) {
            count &-= 1
            self.cost &-= cost
        }
    }

    /// The groups, by their first rings, the windows: entries whose costs do not matter, and those whose costs are
    /// limited.
    @inlinable static var free: Int { 0 }
    @inlinable static var costly: Int { 3 }
    /// The other rings of a group, from its first one on.
    @inlinable static var probation: Int { 1 }
    @inlinable static var protected: Int { 2 }

    @usableFromInline let isAdaptive: Bool
    @usableFromInline var rings = SlotRings(6)
    /// The sizes of the rings, and of both groups. Not in the order of use.
    @usableFromInline var sizes = ContiguousArray(repeating: Size(), count: 6)
    @usableFromInline var free = Size()
    @usableFromInline var costly = Size()
    /// Whether costs are limited.
    @usableFromInline var weighs: Bool
    /// The group to which a slot was added last; -1: its window has been settled since.
    @usableFromInline var grown = -1
    /// By slot: the hits in two bits, and above them the ring. Empty in the order of use.
    @usableFromInline var marks: ContiguousArray<UInt8> = []
    @usableFromInline var regrets = Regrets()
    /// In the order of use: the oldest slot that may have a cost; all that were used before it cost 0, so an eviction
    /// for cost begins here. -1 when no slot has one. It only moves on: entries are only added at the end and moved
    /// there.
    @usableFromInline var firstCostly = -1

    @inlinable
    init(_ policy: EvictionPolicy, weighs: Bool) {
        isAdaptive = policy == .adaptive
        self.weighs = weighs
    }

    /// Notes a use. O(1).
    @inlinable
    mutating func use(_ slot: Int) {
        if isAdaptive {
            if hits(slot) < 3 { marks[slot] &+= 1 }
        } else {
            moveToEnd(slot)
        }
    }

    /// Adds a slot, whose key has this fingerprint. O(1) amortized.
    @inlinable
    mutating func append(_ slot: Int, cost: Int, fingerprint: UInt32) {
        if isAdaptive {
            while marks.count <= slot { marks.append(0) }
            grown = group(ofCost: cost)
            place(slot, in: grown, cost: cost, hits: regrets.noteStored(fingerprint))
        } else {
            rings.append(slot, to: 0)
            if firstCostly < 0 { firstCostly = slot }
        }
    }

    /// Notes that a slot has another value, which is a use. O(1).
    @inlinable
    mutating func replace(_ slot: Int, cost old: Int, by cost: Int) {
        use(slot)
        if !isAdaptive {
            if firstCostly < 0 { firstCostly = slot }
        } else if old != cost {
            let hits = hits(slot)
            grown = group(ofCost: cost)
            let ring = grown &+ part(of: slot)
            remove(slot, cost: old)
            place(slot, in: ring, cost: cost, hits: hits)
        }
    }

    /// Removes a slot. O(1).
    @inlinable
    mutating func remove(_ slot: Int, cost: Int) {
        if slot == firstCostly { firstCostly = rings.next(after: slot) ?? -1 }
        rings.remove(slot)
        if !isAdaptive { return }
        let ring = ring(of: slot)
        sizes[ring].remove(cost)
        if ring >= Self.costly { costly.remove(cost) } else { free.remove(cost) }
    }

    @inlinable
    mutating func moveToEnd(_ slot: Int) {
        if slot == firstCostly, let newer = rings.next(after: slot) { firstCostly = newer }
        rings.move(slot, toEndOf: 0)
    }

    @inlinable
    func hits(_ slot: Int) -> UInt8 { marks[slot] & 3 }

    @inlinable
    func ring(of slot: Int) -> Int { Int(marks[slot] >> 2) }

    /// Window, probation or protected.
    @inlinable
    func part(of slot: Int) -> Int { ring(of: slot) &- (ring(of: slot) >= Self.costly ? Self.costly : Self.free) }

    @inlinable
    func group(ofCost cost: Int) -> Int { weighs && cost > 0 ? Self.costly : Self.free }

    @inlinable
    mutating func place(_ slot: Int, in ring: Int, cost: Int, hits: UInt8) {
        marks[slot] = UInt8(truncatingIfNeeded: ring << 2) | hits
        rings.append(slot, to: ring)
        sizes[ring].add(cost)
        if ring >= Self.costly { costly.add(cost) } else { free.add(cost) }
    }

    /// Notes whether costs are limited from now on. O(n) where that changes.
    mutating func weigh(_ weighs: Bool, _ costs: (Int) -> Int) {
        if weighs == self.weighs { return }
        self.weighs = weighs
        if !isAdaptive { return }
        for slot in slots.map(Int.init) where costs(slot) > 0 {
            let (ring, hits) = (group(ofCost: costs(slot)) &+ part(of: slot), hits(slot))
            remove(slot, cost: costs(slot))
            place(slot, in: ring, cost: costs(slot), hits: hits)
        }
    }

    /// All slots, ring by ring, each from the one that goes first. O(n).
    var slots: ContiguousArray<UInt32> {
        var slots: ContiguousArray<UInt32> = []
        for ring in 0..<rings.heads {
            var next = rings.first(in: ring)
            while let slot = next {
                slots.append(UInt32(slot))
                next = rings.next(after: slot)
            }
        }
        return slots
    }

    /// Gives all slots the numbers 0, 1, 2, and so on, in the order of `slots`. O(n).
    mutating func renumber(_ slots: ContiguousArray<UInt32>) {
        let (old, costly) = (marks, firstCostly)
        regrets.shrink(to: slots.count)
        rings.removeAll()
        marks = isAdaptive ? ContiguousArray(slots.map { old[Int($0)] }) : []
        for (number, slot) in slots.enumerated() {
            rings.append(number, to: isAdaptive ? ring(of: number) : 0)
            if Int(slot) == costly { firstCostly = number }
        }
    }
}

/// The adaptive order. `costs` returns the cost of a slot.
extension EvictionOrder {
    /// How full the rings of a group are: in entries, or in costs where these are limited.
    @usableFromInline
    struct Measure: Sendable {
        @usableFromInline let group: Int
        /// The limit of the group.
        @usableFromInline let limit: Int
        /// The largest cost of an entry in the window; nil: entries are counted.
        @usableFromInline let largest: Int?

        @inlinable
        init(_ group: Int, limit: Int, largest: Int?) {
            (self.group, self.limit, self.largest) = (group, limit, largest)
        }

        @inlinable var countsCost: Bool { largest != nil }

        @inlinable
        func of(_ size: Size) -> Int { countsCost ? size.cost : size.count }
    }

    /// The part of the room that the window has: one in so many.
    @inlinable static var windowShare: Int { 10 }

    /// How many values a new one may push out that is larger than the window; twice as many if it is stored again soon.
    @inlinable static var mostForNew: Int { 4 }

    @inlinable
    func size(ofGroup group: Int) -> Size { group == Self.costly ? costly : free }

    /// Moves the first entries of a window that is too large to the main part, which has room. O(1) amortized.
    @inlinable
    mutating func settle(_ measure: Measure, _ costs: (Int) -> Int) {
        let group = measure.group
        grown = -1
        while let first = rings.first(in: group) {
            let share = min(measure.of(size(ofGroup: group)), measure.limit) / Self.windowShare
            if measure.of(sizes[group]) <= share || sizes[group].count == 1, !isTooLarge(first, for: measure, costs) {
                return
            }
            admit(first, costs)
        }
    }

    /// The slot to be evicted next, of a group that has more than it may have; nil without one. O(1) amortized.
    @inlinable
    mutating func next(_ measure: Measure, _ costs: (Int) -> Int) -> Int? {
        let group = measure.group
        while let first = rings.first(in: group), let last = rings.last(in: group) {
            let window = measure.of(sizes[group])
            let all = measure.of(size(ofGroup: group))
            let limit = min(all, measure.limit)
            let share = max(1, limit / Self.windowShare)
            // A new value that is too large is compared at once: before others have to go for it.
            if isTooLarge(last, for: measure, costs) {
                let most = Self.mostForNew * Int(hits(last) + 1)
                if !mayReplace(most, of: measure, costs(last), costs) { return last }
                admit(last, costs)
                continue
            }
            if window <= share || all &- window > limit &- share { break }
            let most = Int(hits(first)) - regrets.threshold
            if !mayReplace(most, of: measure, costs(first), costs) { return first }
            admit(first, costs)
        }
        return mainVictim(group, costs) ?? rings.first(in: group)
    }

    /// Whether a value is larger than the whole window. It then belongs to the main part.
    @inlinable
    func isTooLarge(_ slot: Int, for measure: Measure, _ costs: (Int) -> Int) -> Bool {
        measure.largest.map { costs(slot) > $0 } ?? false
    }

    /// Whether an entry from the window would push out at most `most` others: as many as have its cost together, or one
    /// where entries are counted.
    @inlinable
    mutating func mayReplace(_ most: Int, of measure: Measure, _ cost: Int, _ costs: (Int) -> Int) -> Bool {
        if most < 1 { return false }
        if !measure.countsCost { return true }
        var (freed, number) = (0, 0)
        var last: Int?
        for _ in 0..<Self.patience where freed < cost {
            let next = last.map { rings.next(after: $0) } ?? rings.first(in: measure.group + Self.probation)
            guard let slot = next ?? demote(measure.group, costs) else { return true }
            if hits(slot) > 0 {
                protect(slot, costs)
                continue
            }
            number += 1
            if number > most { return false }
            freed += costs(slot)
            last = slot
        }
        return freed >= cost
    }

    /// Moves a slot of the window to the main part. One that was used is protected.
    @inlinable
    mutating func admit(_ slot: Int, _ costs: (Int) -> Int) {
        if hits(slot) > 0 {
            marks[slot] &-= 1
            move(slot, Self.protected, costs)
        } else {
            move(slot, Self.probation, costs)
        }
    }

    /// The first slot of probation without hits, or the first one after many with hits.
    @inlinable
    mutating func mainVictim(_ group: Int, _ costs: (Int) -> Int) -> Int? {
        for _ in 0..<Self.patience {
            guard let slot = rings.first(in: group + Self.probation) ?? demote(group, costs) else { return nil }
            if hits(slot) == 0 { return slot }
            protect(slot, costs)
        }
        return rings.first(in: group + Self.probation) ?? demote(group, costs)
    }

    /// How many entries a step looks at.
    @inlinable static var patience: Int { 64 }

    /// Moves a slot of probation to the protected ones, which have at most half of the main part.
    @inlinable
    mutating func protect(_ slot: Int, _ costs: (Int) -> Int) {
        marks[slot] &= ~3
        move(slot, Self.protected, costs)
        let group = ring(of: slot) &- Self.protected
        var remaining = Self.patience / 8
        while isOverfull(group), let first = rings.first(in: group + Self.protected) {
            if hits(first) > 0, remaining > 0 {
                marks[first] &-= 1
                move(first, Self.protected, costs)
            } else {
                move(first, Self.probation, costs)
            }
            remaining -= 1
        }
    }

    @inlinable
    func isOverfull(_ group: Int) -> Bool {
        let (probation, protected) = (sizes[group + Self.probation], sizes[group + Self.protected])
        return group == Self.costly ? protected.cost > probation.cost : protected.count > probation.count
    }

    /// Moves the first of the protected slots to the end of probation; returns it.
    @inlinable
    mutating func demote(_ group: Int, _ costs: (Int) -> Int) -> Int? {
        guard let slot = rings.first(in: group + Self.protected) else { return nil }
        if hits(slot) > 0 { marks[slot] &-= 1 }
        move(slot, Self.probation, costs)
        return slot
    }

    /// Moves a slot to the end of another ring of its group.
    @inlinable
    mutating func move(_ slot: Int, _ part: Int, _ costs: (Int) -> Int) {
        let (old, cost) = (ring(of: slot), costs(slot))
        let ring = (old >= Self.costly ? Self.costly : Self.free) &+ part
        rings.move(slot, toEndOf: ring)
        marks[slot] = UInt8(truncatingIfNeeded: ring << 2) | hits(slot)
        sizes[old].remove(cost)
        sizes[ring].add(cost)
    }

    /// Notes that a slot is about to be evicted. `entries`: how many there are.
    @inlinable
    mutating func noteEvicted(_ slot: Int, _ fingerprint: UInt32, entries: Int) {
        if !isAdaptive { return }
        regrets.noteEvicted(fingerprint, part(of: slot) == 0 ? .refused : .givenUp, entries: entries)
    }
}
