/// A queue: elements leave in the order in which they came. O(1) amortized.
package struct FIFO<Element: Sendable>: Sendable {
    /// The elements before `next` have been taken.
    @usableFromInline var elements: [Element?] = []
    @usableFromInline var next = 0

    @inlinable
    package init() {}

    @inlinable package var count: Int { elements.count - next }

    @inlinable
    package mutating func append(_ element: Element) {
        elements.append(element)
    }

    @inlinable
    package mutating func take() -> Element? {
        guard next < elements.count else { return nil }
        let element = elements[next]
        elements[next] = nil
        next += 1
        if next == elements.count || next >= 64 && next * 2 >= elements.count {
            elements.removeFirst(next)
            next = 0
        }
        return element
    }

    @inlinable
    package mutating func removeAll(where isGone: (Element) -> Bool) {
        elements = elements.filter { $0.map { !isGone($0) } ?? false }
        next = 0
    }
}
