/// Slots of some storage in several orders: doubly linked rings without nodes of their own, 8 bytes per slot. Each slot
/// is in at most one.
@usableFromInline
struct SlotRings: Sendable {
    @usableFromInline
    struct Link: Sendable {
        @usableFromInline var previous: UInt32
        @usableFromInline var next: UInt32

        @inlinable
        init(previous: UInt32, next: UInt32) {
            self.previous = previous
            self.next = next
        }
    }

    /// First the heads, then the slots.
    @usableFromInline var links: ContiguousArray<Link> = []
    @usableFromInline let heads: Int

    @inlinable
    init(_ heads: Int) { self.heads = heads }

    /// The first slot of a ring; nil: it is empty. O(1).
    @inlinable
    func first(in ring: Int) -> Int? { links.isEmpty ? nil : slot(links[ring].next) }

    /// The last slot of a ring; nil: it is empty. O(1).
    @inlinable
    func last(in ring: Int) -> Int? { links.isEmpty ? nil : slot(links[ring].previous) }

    /// The slot after another of its ring. O(1).
    @inlinable
    func next(after slot: Int) -> Int? { self.slot(links[slot &+ heads].next) }

    /// The slot before another of its ring. O(1).
    func previous(before slot: Int) -> Int? { self.slot(links[slot &+ heads].previous) }

    /// Moves a slot before another one. O(1).
    mutating func move(_ slot: Int, before other: Int) {
        links.withUnsafeMutableBufferPointer { links in
            Self.remove(slot &+ heads, links)
            Self.append(slot &+ heads, to: other &+ heads, links)
        }
    }

    @inlinable
    func slot(_ node: UInt32) -> Int? { node < heads ? nil : Int(node) &- heads }

    /// Appends a slot that is in no ring. O(1) amortized.
    @inlinable
    mutating func append(_ slot: Int, to ring: Int) {
        let node = slot &+ heads
        while links.count <= node {
            let own = UInt32(links.count)
            links.append(Link(previous: own, next: own))
        }
        links.withUnsafeMutableBufferPointer { Self.append(node, to: ring, $0) }
    }

    /// Removes a slot from its ring. O(1).
    @inlinable
    mutating func remove(_ slot: Int) {
        let node = slot &+ heads
        precondition(node < links.count, "no such slot")
        links.withUnsafeMutableBufferPointer { Self.remove(node, $0) }
    }

    /// Moves a slot to the end of a ring. O(1).
    @inlinable
    mutating func move(_ slot: Int, toEndOf ring: Int) {
        let node = slot &+ heads
        precondition(node < links.count, "no such slot")
        links.withUnsafeMutableBufferPointer { links in
            if links[ring].previous == UInt32(node) { return }
            Self.remove(node, links)
            Self.append(node, to: ring, links)
        }
    }

    @inlinable
    static func append(_ node: Int, to ring: Int, _ links: UnsafeMutableBufferPointer<Link>) {
        let last = links[ring].previous
        links[node] = Link(previous: last, next: UInt32(truncatingIfNeeded: ring))
        links[Int(last)].next = UInt32(truncatingIfNeeded: node)
        links[ring].previous = UInt32(truncatingIfNeeded: node)
    }

    @inlinable
    static func remove(_ node: Int, _ links: UnsafeMutableBufferPointer<Link>) {
        let link = links[node]
        links[Int(link.previous)].next = link.next
        links[Int(link.next)].previous = link.previous
    }

    /// Frees the memory. The slots are then appended again.
    mutating func removeAll() { links = [] }
}
