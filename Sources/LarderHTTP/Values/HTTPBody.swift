public import LarderFoundation

/// The body of a response: a sequence of parts that arrive one after the other.
///
/// It can be iterated once. It ends when the body is complete; a connection that is cut before throws an error.
public struct HTTPBody: AsyncSequence, Sendable {
    /// A part of the body, of any size.
    public typealias Element = Data

    private let begin: @Sendable () -> AsyncIterator

    /// A body that is known already.
    public init(_ data: Data = Data()) {
        begin = {
            var rest = data.isEmpty ? nil : Optional(data)
            return AsyncIterator {
                defer { rest = nil }
                return rest
            }
        }
    }

    /// The parts of another sequence.
    public init<Parts: AsyncSequence & Sendable>(_ parts: Parts) where Parts.Element == Data {
        begin = {
            // An iterator has one reader, which waits for each part.
            nonisolated(unsafe) var iterator = parts.makeAsyncIterator()
            return AsyncIterator { try await iterator.next() }
        }
    }

    /// Begins the iteration.
    public func makeAsyncIterator() -> AsyncIterator { begin() }

    /// Returns the parts one by one.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let nextPart: () async throws -> Data?

        fileprivate init(_ next: @escaping () async throws -> Data?) {
            nextPart = next
        }

        /// Returns the next part; nil at the end.
        public mutating func next() async throws -> Data? {
            try await nextPart()
        }
    }
}
