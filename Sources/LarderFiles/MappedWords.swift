#if canImport(Darwin)
    public import Darwin
#else
    public import Synchronization
#endif

/// 64-bit words that several processes have mapped from one file. Each access is atomic and sequentially consistent.
///
/// If another program truncates the file, the next access ends the process.
@usableFromInline
package final class MappedWords: Sendable {
    #if canImport(Darwin)
        @usableFromInline nonisolated(unsafe) let words: UnsafeMutablePointer<Int64>
    #else
        @usableFromInline nonisolated(unsafe) let words: UnsafeMutablePointer<Atomic<UInt64>>
    #endif
    @usableFromInline package let count: Int
    /// For tests: called before each access, with the position. False when the process is dead: it finds zeros, and must
    /// change nothing.
    @usableFromInline let willAccess: (@Sendable (Int) -> Bool)?
    private let detachFile: @Sendable () -> Void
    private let unmap: @Sendable () -> Void

    /// `unmap` is called once, when the words are no longer used. `detach`: see there.
    package init(
        _ start: UnsafeMutableRawPointer, count: Int, willAccess: (@Sendable (Int) -> Bool)? = nil,
        detach: @escaping @Sendable () -> Void = {}, unmap: @escaping @Sendable () -> Void
    ) {
        #if canImport(Darwin)
            words = start.bindMemory(to: Int64.self, capacity: count)
        #else
            words = start.bindMemory(to: Atomic<UInt64>.self, capacity: count)
        #endif
        self.count = count
        self.willAccess = willAccess
        detachFile = detach
        self.unmap = unmap
    }

    /// Lets go of the file. Threads that still use the words find zeros of this process in their place.
    package func detach() { detachFile() }

    deinit {
        unmap()
    }

    @inlinable
    @inline(__always)
    func mayAccess(_ position: Int) -> Bool {
        precondition(position < count)
        guard let willAccess else { return true }
        return willAccess(position)
    }

    @inlinable
    @inline(__always)
    package func load(_ position: Int) -> UInt64 {
        guard mayAccess(position) else { return 0 }
        #if canImport(Darwin)
            return UInt64(bitPattern: OSAtomicAdd64Barrier(0, words + position))
        #else
            return words[position].load(ordering: .sequentiallyConsistent)
        #endif
    }

    @inlinable
    @inline(__always)
    package func store(_ value: UInt64, at position: Int) {
        guard mayAccess(position) else { return }
        #if canImport(Darwin)
            while true {
                let old = words[position]
                if OSAtomicCompareAndSwap64Barrier(old, Int64(bitPattern: value), words + position) { return }
            }
        #else
            words[position].store(value, ordering: .sequentiallyConsistent)
        #endif
    }

    /// Adds to a word; returns its new value.
    @discardableResult
    @inlinable
    @inline(__always)
    package func add(_ value: UInt64, at position: Int) -> UInt64 {
        guard mayAccess(position) else { return value }
        #if canImport(Darwin)
            return UInt64(bitPattern: OSAtomicAdd64Barrier(Int64(bitPattern: value), words + position))
        #else
            return words[position].wrappingAdd(value, ordering: .sequentiallyConsistent).newValue
        #endif
    }

    /// Stores a value if the word has the expected one. A process that is dead seems to succeed.
    @inlinable
    @inline(__always)
    package func replace(_ expected: UInt64, with value: UInt64, at position: Int) -> Bool {
        guard mayAccess(position) else { return true }
        #if canImport(Darwin)
            return OSAtomicCompareAndSwap64Barrier(
                Int64(bitPattern: expected), Int64(bitPattern: value), words + position)
        #else
            return words[position].compareExchange(
                expected: expected, desired: value, ordering: .sequentiallyConsistent
            ).exchanged
        #endif
    }

    /// Sets all words to zero. Nobody else may use them.
    package func clear() {
        guard mayAccess(0) else { return }
        UnsafeMutableRawBufferPointer(start: UnsafeMutableRawPointer(words), count: count * 8).initializeMemory(
            as: UInt8.self, repeating: 0)
    }

    /// Raises a word to at least a value; returns the result.
    @discardableResult
    package func raise(_ value: UInt64, at position: Int) -> UInt64 {
        var known = load(position)
        while known < value {
            if replace(known, with: value, at: position) { return value }
            known = load(position)
        }
        return known
    }
}

/// Two words that are compared very often: their places are checked once.
@usableFromInline
@frozen
package struct WordPair: Sendable {
    #if canImport(Darwin)
        @usableFromInline typealias Word = Int64
    #else
        @usableFromInline typealias Word = Atomic<UInt64>
    #endif
    /// Nil when a test wants to know of each access.
    @usableFromInline nonisolated(unsafe) let first: UnsafeMutablePointer<Word>?
    @usableFromInline nonisolated(unsafe) let second: UnsafeMutablePointer<Word>
    @usableFromInline let owners: (MappedWords, MappedWords)

    package init(_ position: Int, of words: MappedWords, _ otherPosition: Int, of others: MappedWords) {
        precondition(position < words.count && otherPosition < others.count)
        first = words.willAccess == nil ? words.words + position : nil
        second = others.words + otherPosition
        owners = (words, others)
    }

    /// False when the words differ, or when a test wants to know of each access.
    @inlinable
    package var areKnownEqual: Bool {
        @inline(__always) get {
            guard let first else { return false }
            #if canImport(Darwin)
                return OSAtomicAdd64Barrier(0, first) == OSAtomicAdd64Barrier(0, second)
            #else
                return first.pointee.load(ordering: .sequentiallyConsistent)
                    == second.pointee.load(ordering: .sequentiallyConsistent)
            #endif
        }
    }
}
