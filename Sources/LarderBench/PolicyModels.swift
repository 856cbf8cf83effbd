import LarderTesting

/// A policy of other caches, simulated as its authors describe it, to compare with. It evicts one entry at a time, and
/// counts entries, not their sizes.
protocol PolicyModel {
    init(room: Int, keyCount: Int)
    /// Reads a key, and stores it if it is not there; returns whether it was.
    mutating func request(_ key: Int) -> Bool
}

extension RequestTrace {
    func hits(of model: any PolicyModel.Type, _ room: Int) -> Int {
        var model = model.init(room: room, keyCount: keyCount)
        var hits = 0
        for (place, request) in requests.enumerated() where model.request(Int(request)) && place >= warmUp { hits += 1 }
        return hits
    }
}

/// S3-FIFO: a small queue with a tenth of the room, a main queue whose entries go round while they have hits, and the
/// keys that have left the small one. Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023; an
/// entry moves to the main queue after its first hit.
struct S3FIFO: PolicyModel {
    private let room: Int
    private var (small, main, ghosts): (KeyQueue, KeyQueue, KeyQueue)
    private var hits: [UInt8]

    init(room: Int, keyCount: Int) {
        self.room = room
        small = KeyQueue(keyCount)
        (main, ghosts) = (small, small)
        hits = [UInt8](repeating: 0, count: keyCount)
    }

    mutating func request(_ key: Int) -> Bool {
        if small.contains(key) || main.contains(key) {
            hits[key] = min(3, hits[key] + 1)
            return true
        }
        let returns = ghosts.contains(key)
        if returns { ghosts.remove(key) }
        while small.count + main.count >= room { evict() }
        hits[key] = 0
        if returns { main.append(key) } else { small.append(key) }
        return false
    }

    private mutating func evict() {
        guard small.count >= max(1, room / 10) || main.count == 0, let key = small.first else {
            let key = main.first!
            main.remove(key)
            guard hits[key] > 0 else { return }
            hits[key] -= 1
            return main.append(key)
        }
        small.remove(key)
        if hits[key] > 0 {
            hits[key] = 0
            return main.append(key)
        }
        ghosts.append(key)
        if ghosts.count > max(1, room - room / 10) { ghosts.remove(ghosts.first!) }
    }
}

/// SIEVE: one queue, a bit that a hit sets, and a hand that clears it. Zhang et al., "SIEVE is Simpler than LRU", NSDI
/// 2024.
struct Sieve: PolicyModel {
    private let room: Int
    private var queue: KeyQueue
    private var isUsed: [Bool]
    private var hand: Int?

    init(room: Int, keyCount: Int) {
        self.room = room
        queue = KeyQueue(keyCount)
        isUsed = [Bool](repeating: false, count: keyCount)
    }

    mutating func request(_ key: Int) -> Bool {
        if queue.contains(key) {
            isUsed[key] = true
            return true
        }
        if queue.count == room {
            var candidate = hand ?? queue.first!
            while isUsed[candidate] {
                isUsed[candidate] = false
                candidate = queue.key(after: candidate) ?? queue.first!
            }
            hand = queue.key(after: candidate)
            queue.remove(candidate)
        }
        isUsed[key] = false
        queue.append(key)
        return false
    }
}

/// ARC: keys seen once and keys seen again, each with a memory of what it gave up that moves the border between them.
/// Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003.
struct AdaptiveReplacement: PolicyModel {
    private let room: Int
    private var (once, again, onceGhosts, againGhosts): (KeyQueue, KeyQueue, KeyQueue, KeyQueue)
    private var target = 0

    init(room: Int, keyCount: Int) {
        self.room = room
        once = KeyQueue(keyCount)
        (again, onceGhosts, againGhosts) = (once, once, once)
    }

    mutating func request(_ key: Int) -> Bool {
        if once.contains(key) || again.contains(key) {
            if once.contains(key) { once.remove(key) } else { again.remove(key) }
            again.append(key)
            return true
        }
        if onceGhosts.contains(key) {
            target = min(room, target + max(1, againGhosts.count / onceGhosts.count))
            replace(returns: false)
            onceGhosts.remove(key)
            again.append(key)
        } else if againGhosts.contains(key) {
            target = max(0, target - max(1, onceGhosts.count / againGhosts.count))
            replace(returns: true)
            againGhosts.remove(key)
            again.append(key)
        } else {
            if once.count + onceGhosts.count == room {
                if once.count < room {
                    onceGhosts.remove(onceGhosts.first!)
                    replace(returns: false)
                } else {
                    once.remove(once.first!)
                }
            } else if once.count + again.count + onceGhosts.count + againGhosts.count >= room {
                if once.count + again.count + onceGhosts.count + againGhosts.count == 2 * room {
                    againGhosts.remove(againGhosts.first!)
                }
                replace(returns: false)
            }
            once.append(key)
        }
        return false
    }

    /// Gives up one entry, if there is no room.
    private mutating func replace(returns: Bool) {
        guard once.count + again.count >= room else { return }
        if let key = once.first, once.count > target || returns && once.count == target || again.count == 0 {
            once.remove(key)
            onceGhosts.append(key)
        } else if let key = again.first {
            again.remove(key)
            againGhosts.append(key)
        }
    }
}

/// W-TinyLFU: a window of 1 % before a segmented main part, for which the more frequent key wins, as a sketch counts
/// them. Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM TOS 2017.
struct WindowTinyLFU: PolicyModel {
    private let (windowRoom, mainRoom): (Int, Int)
    private var (window, probation, protected): (KeyQueue, KeyQueue, KeyQueue)
    private var sketch: FrequencySketch

    init(room: Int, keyCount: Int) {
        windowRoom = max(1, room / 100)
        mainRoom = room - windowRoom
        window = KeyQueue(keyCount)
        (probation, protected) = (window, window)
        sketch = FrequencySketch(room)
    }

    mutating func request(_ key: Int) -> Bool {
        sketch.count(key)
        if window.contains(key) {
            window.remove(key)
            window.append(key)
        } else if protected.contains(key) {
            protected.remove(key)
            protected.append(key)
        } else if probation.contains(key) {
            probation.remove(key)
            protected.append(key)
            if protected.count > mainRoom * 4 / 5, let oldest = protected.first {
                protected.remove(oldest)
                probation.append(oldest)
            }
        } else {
            window.append(key)
            if window.count > windowRoom { admit(window.first!) }
            return false
        }
        return true
    }

    /// Lets a key of the window compete for the main part.
    private mutating func admit(_ candidate: Int) {
        window.remove(candidate)
        if probation.count + protected.count < mainRoom { return probation.append(candidate) }
        guard let victim = probation.first ?? protected.first,
            sketch.estimate(candidate) > sketch.estimate(victim)
        else { return }
        if probation.contains(victim) { probation.remove(victim) } else { protected.remove(victim) }
        probation.append(candidate)
    }
}

/// Counts to 15 in four rows of four counters for each entry, and halves all counters after ten requests for each entry.
private struct FrequencySketch {
    private var rows: [[UInt8]]
    private let mask: UInt64
    private let period: Int
    private var counted = 0

    init(_ room: Int) {
        var width = 8
        while width < 4 * room { width *= 2 }
        rows = Array(repeating: [UInt8](repeating: 0, count: width), count: 4)
        mask = UInt64(width - 1)
        period = 10 * max(1, room)
    }

    private func place(_ key: Int, _ row: Int) -> Int {
        var numbers = SeededGenerator(seed: UInt64(key) &* 4 &+ UInt64(row))
        return Int(numbers.next() & mask)
    }

    func estimate(_ key: Int) -> UInt8 { (0..<4).map { rows[$0][place(key, $0)] }.min()! }

    mutating func count(_ key: Int) {
        for row in 0..<4 { rows[row][place(key, row)] = min(15, rows[row][place(key, row)] + 1) }
        counted += 1
        guard counted >= period else { return }
        counted /= 2
        for row in 0..<4 { rows[row] = rows[row].map { $0 / 2 } }
    }
}

/// Keys in a row, each at most once: a list that is linked through arrays. Every method is O(1).
private struct KeyQueue {
    private(set) var count = 0
    /// The neighbours of each key, at the place of the last one those of the ends; -1: the key is not there.
    private var (next, previous): ([Int32], [Int32])
    private let end: Int

    init(_ keyCount: Int) {
        end = keyCount
        next = [Int32](repeating: -1, count: keyCount + 1)
        next[end] = Int32(end)
        previous = next
    }

    var first: Int? { key(after: end) }

    func key(after key: Int) -> Int? { next[key] == Int32(end) ? nil : Int(next[key]) }

    func contains(_ key: Int) -> Bool { next[key] >= 0 }

    mutating func append(_ key: Int) {
        let last = previous[end]
        (next[Int(last)], previous[key], next[key], previous[end]) = (Int32(key), last, Int32(end), Int32(key))
        count += 1
    }

    mutating func remove(_ key: Int) {
        (next[Int(previous[key])], previous[Int(next[key])]) = (next[key], previous[key])
        (next[key], previous[key]) = (-1, -1)
        count -= 1
    }
}
