/// Slots of some storage in an order: a doubly linked list without nodes of its own, 8 bytes per slot.
@usableFromInline
struct SlotList: Sendable {
    @usableFromInline
    struct Link: Sendable {
        @usableFromInline var older: UInt32
        @usableFromInline var newer: UInt32

        @inlinable
        init(older: UInt32, newer: UInt32) {
            self.older = older
            self.newer = newer
        }
    }

    @inlinable static var none: UInt32 { .max }

    @usableFromInline var links: ContiguousArray<Link> = []
    @usableFromInline var first = Self.none
    @usableFromInline var last = Self.none

    @inlinable
    init() {}

    @inlinable var oldest: Int? { Self.slot(first) }

    @inlinable
    func newer(than slot: Int) -> Int? { Self.slot(links[slot].newer) }

    /// Appends a slot that is not in the list. O(1) amortized.
    @inlinable
    mutating func append(_ slot: Int) {
        while links.count <= slot { links.append(Link(older: Self.none, newer: Self.none)) }
        links[slot] = Link(older: last, newer: Self.none)
        if last == Self.none { first = UInt32(slot) } else { links[Int(last)].newer = UInt32(slot) }
        last = UInt32(slot)
    }

    /// Removes a slot. O(1).
    @inlinable
    mutating func remove(_ slot: Int) {
        let link = links[slot]
        if link.older == Self.none { first = link.newer } else { links[Int(link.older)].newer = link.newer }
        if link.newer == Self.none { last = link.older } else { links[Int(link.newer)].older = link.older }
    }

    /// Moves a slot of the list to its end. O(1).
    @inlinable
    mutating func moveToEnd(_ slot: Int) {
        if last == UInt32(slot) { return }
        precondition(slot < links.count, "no such slot")
        let end = last
        links.withUnsafeMutableBufferPointer { links in
            let link = links[slot]
            // There is a newer slot, because this one is not the last.
            links[Int(link.newer)].older = link.older
            if link.older == Self.none { first = link.newer } else { links[Int(link.older)].newer = link.newer }
            links[Int(end)].newer = UInt32(slot)
            links[slot] = Link(older: end, newer: Self.none)
        }
        last = UInt32(slot)
    }

    @inlinable
    static func slot(_ link: UInt32) -> Int? { link == none ? nil : Int(link) }
}
