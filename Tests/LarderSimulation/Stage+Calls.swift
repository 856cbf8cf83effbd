import Foundation
import Larder
import LarderFiles
import LarderTesting

/// The calls of a story.
extension Stage {
    /// A call that has begun.
    struct Begun {
        let call: Story.Call
        let process: SimulatedProcess
        let begin: Int
        /// The time of the world at its beginning.
        let start: Int64
        /// The moment at which it began to fetch.
        var fetch: Int?
        var isOver = false
        /// The time when it failed because its process was killed.
        var failure: Int64?
        var seen: Seen?
    }

    /// What a call has told.
    enum Seen: Sendable {
        case nothing
        case value(Int?)
        case was(Bool)
    }

    func begin(_ call: Story.Call, _ process: SimulatedProcess, _ caller: Int, group: Int = 0) {
        process.perform(on: caller, group: group) { [self] in
            guard process.isLiving, let disk = process.disk, process.closing == nil || call == .close else { return }
            make(call, process, disk)
        }
    }

    private func make(_ call: Story.Call, _ process: SimulatedProcess, _ disk: DiskCache) {
        let number = begun.count
        let begin = tick()
        simulator.note("\(begin): process \(process.place) calls \(call)")
        begun.append(Begun(call: call, process: process, begin: begin, start: time.milliseconds))
        if call == .close { process.closing = process.closing ?? begin }
        let result = Result { try perform(call, number, process, disk) }
        let isAlive = process.isLiving
        let end = tick()
        // What a closed cache answers says nothing.
        let isClosed = process.closing.map { $0 < end } ?? false
        if isAlive, case .failure(let error) = result {
            // A value that is read while the cache is closed is not found, and not known to be absent.
            let isOfClosed = isClosed && [.closed, .io].contains((error as? CacheError)?.code)
            if !isAllowed(error) && !isOfClosed { find("\(call) fails in process \(process.place): \(error)") }
        }
        if call == .close, isAlive, process.closing == begin {
            process.release()
            if places[process.place] === process { places[process.place] = nil }
        }
        begun[number].seen = try? result.get()
        guard isAlive else { return begun[number].failure = time.milliseconds }
        begun[number].isOver = true
        simulator.note("\(end): \(call) has returned \(begun[number].seen, default: "nothing")")
        let isCertain = begun[number].seen != nil && !isClosed
        record(number, end: isCertain ? end : nil, limit: end)
    }

    private func perform(
        _ call: Story.Call, _ number: Int, _ process: SimulatedProcess, _ disk: DiskCache
    ) throws -> Seen {
        func front(_ key: Int) -> (cache: Cache<Data>, part: DiskCache, name: String) {
            (process.cache(key), process.part(key), SimulatedProcess.name(key))
        }
        @Sendable func ttl(_ life: Int) -> TimeToLive { .milliseconds(Double(life)) }
        switch call {
        case .get(let key):
            let (cache, part, name) = front(key)
            guard story.setting.hasMemory else { return try seen(part.data(forKey: name)) }
            return try seen(try process.await { await cache.value(forKey: name) })
        case .set(let key, let value, let life, let isTagged):
            let (cache, part, name) = front(key)
            let (data, tags) = (Payload.data(value), isTagged ? ["tag"] : [])
            records.note(value, isTagged: isTagged)
            if story.setting.hasMemory {
                try process.await { try await cache.setValue(data, forKey: name, ttl: ttl(life), tags: tags) }
            } else {
                try part.setData(data, forKey: name, ttl: ttl(life), tags: tags)
            }
            return .nothing
        case .setIfAbsent(let key, let value, let life, let isTagged):
            let (cache, _, name) = front(key)
            let (data, tags) = (Payload.data(value), isTagged ? ["tag"] : [])
            records.note(value, isTagged: isTagged)
            return try seen(
                try process.await {
                    try await cache.setValueIfAbsent(data, forKey: name, ttl: ttl(life), tags: tags)
                })
        case .modify(let key, let value, let life):
            let (cache, _, name) = front(key)
            records.note(value, isTagged: false)
            return try seen(
                try process.await {
                    try await cache.modifyValue(forKey: name, ttl: ttl(life)) { content in
                        defer { content = Payload.data(value) }
                        return content
                    }
                })
        case .fetch(let key, let value, let life):
            let (cache, _, name) = front(key)
            records.note(value, isTagged: false)
            return try seen(
                try process.await {
                    try await cache.value(forKey: name, ttl: ttl(life)) {
                        // A process that is dead stores nothing.
                        if process.isLiving { self.begun[number].fetch = self.tick() }
                        return Payload.data(value)
                    }
                })
        case .remove(let key): return .was(try front(key).part.removeValue(forKey: front(key).name))
        case .renew(let key, let life):
            return .was(try front(key).part.setTimeToLive(ttl(life), forKey: front(key).name))
        case .expire(let key): return .was(try front(key).part.expireValue(forKey: front(key).name))
        case .clear(true): try disk.removeAll()
        case .clear(false): try disk.namespace("").removeAll()
        case .clearTag(true): try disk.expireAll(tagged: "tag")
        case .clearTag(false): try disk.removeAll(tagged: "tag")
        case .expireAll: try disk.expireAll()
        case .removeExpired: _ = disk.removeExpired()
        case .trim(let count): disk.trim(toCount: count)
        case .flush: try disk.flush()
        case .close: try disk.close()
        }
        return .nothing
    }

    private struct DamagedValue: Error {}

    private func seen(_ data: Data?) throws -> Seen {
        guard let data else { return .value(nil) }
        guard let value = Payload.value(data) else {
            find("a value of \(data.count) bytes is not one that was stored")
            throw DamagedValue()
        }
        return .value(value)
    }
}

/// What calls have told about keys.
struct Records {
    var operations: [Int: [History.Operation]] = [:]
    private var values: Set<Int> = []
    private var tagged: Set<Int> = []
    /// Values that have the tag of the one which they replaced, if it was tagged; or of one that is not known.
    private var parents: [Int: Int] = [:]
    private var perhapsTagged: Set<Int> = []
    /// Values that calls have fetched, with the moments at which those calls ended.
    private var fetched: [Int: Int] = [:]
    /// Values that calls that fetch have found.
    private var found: [(key: Int, value: Int, History.Operation)] = []

    mutating func note(_ value: Int, isTagged: Bool) {
        if isTagged { tagged.insert(value) }
        values.insert(value)
    }

    mutating func note(_ value: Int, inPlaceOf parent: Int?) {
        if let parent { parents[value] = parent }
    }

    mutating func noteUnknownParent(of value: Int) {
        perhapsTagged.insert(value)
    }

    mutating func noteFetch(of value: Int, until end: Int) {
        fetched[value] = end
    }

    /// A call that fetches has found a value: in the cache, or with another call that was fetching.
    mutating func noteFound(_ key: Int, _ value: Int, _ read: History.Operation) {
        found.append((key, value, read))
    }

    mutating func add(_ operation: History.Operation, to key: Int) {
        operations[key, default: []].append(operation)
    }

    var tags: [Int: History.Tagging] {
        var tags: [Int: History.Tagging] = [:]
        for value in values {
            var origin = value
            while let parent = parents[origin] { origin = parent }
            tags[value] = perhapsTagged.contains(origin) ? .perhaps : tagged.contains(origin) ? .tagged : .untagged
        }
        return tags
    }

    /// All that is known, once every call has ended.
    mutating func finish() {
        for (key, value, read) in found {
            // A value with another call need not have been stored.
            if let end = fetched[value], end >= read.begin { continue }
            add(read, to: key)
        }
        found = []
    }
}

extension Stage {
    /// Notes what a call tells about each key. `end`: nil when its result is not known; then it has had its effect by
    /// `limit`, or never will.
    func record(_ number: Int, end: Int?, limit: Int) {
        let (call, process, begin, start) = (
            begun[number].call, begun[number].process, begun[number].begin, begun[number].start
        )
        let now = begun[number].failure ?? time.milliseconds
        func content(_ value: Int, _ life: Int) -> History.Content {
            History.Content(value: value, from: start + Int64(life), to: now + Int64(life), life: Int64(life))
        }
        func operation(_ effect: History.Effect, from: Int? = nil, to end: Int?) -> History.Operation {
            History.Operation(effect: effect, begin: from ?? begin, end: end, limit: limit, origin: number)
        }
        func add(_ key: Int, _ effect: History.Effect) {
            records.add(operation(effect, to: end), to: key)
        }
        let value: Int?? = if end != nil, case .value(let value) = begun[number].seen { value } else { .none }
        let was: Bool? = if end != nil, case .was(let was) = begun[number].seen { was } else { nil }
        switch call {
        case .get(let key), .setIfAbsent(let key, _, _, _), .fetch(let key, _, _):
            // Before its process was killed it may have used the value.
            if end == nil, story.setting.slides { add(key, .use(start: start)) }
        default: break
        }
        switch call {
        case .get(let key): if let value { add(key, .read(value, start: start)) }
        case .set(let key, let value, let life, _): add(key, .write(content(value, life)))
        case .setIfAbsent(let key, let new, let life, _):
            add(key, .writeIfAbsent(content(new, life), seen: value ?? nil, start: start))
        case .modify(let key, let new, let life):
            if let value {
                add(key, .modify(content(new, life), seen: value, start: start))
                records.note(new, inPlaceOf: value)
            } else {
                add(key, .write(content(new, life)))
                records.noteUnknownParent(of: new)
            }
        case .fetch(let key, let new, let life):
            if let fetch = begun[number].fetch {
                // It saw none, and stores its own unless the key has changed meanwhile.
                if process.closing.map({ $0 > fetch }) ?? true {
                    records.add(operation(.read(nil), to: fetch), to: key)
                }
                records.noteFetch(of: new, until: limit)
                records.add(operation(.write(content(new, life)), from: fetch, to: nil), to: key)
                if let value, value != new { find("\(call) brings \(new) and answers \(value ?? 0)") }
            } else if let found = value ?? nil {
                records.noteFound(key, found, operation(.read(found, start: start), to: end))
            }
        case .remove(let key), .expire(let key): add(key, .remove(was, start: start))
        case .renew(let key, let life): add(key, .renew(content(0, life), was ?? true, start: start))
        case .expireAll: for key in 0..<Self.keys { add(key, .clear(onlyTagged: false)) }
        case .clear(let everything):
            for key in 0..<Self.keys where everything || key % 2 == 0 { add(key, .clear(onlyTagged: false)) }
        case .clearTag: for key in 0..<Self.keys where key % 2 == 0 { add(key, .clear(onlyTagged: true)) }
        // Which keys it evicts is not known; one that is stored meanwhile may go again.
        case .trim:
            for key in 0..<Self.keys {
                for _ in 0..<2 { records.add(operation(.evict, to: nil), to: key) }
            }
        case .removeExpired, .flush, .close: break
        }
    }
}
