import LarderFiles
import LarderFoundation

/// Asking the remote tier.
extension RemoteBackend {
    /// Makes the copies of these keys as good as the remote tier knows them. Returns the fresh values that it had and
    /// that are new here.
    func bring(_ keys: [Key]) async -> [Lookup<Value>?] {
        let call = RemoteCall(at: clock.now)
        guard keys.count > 1 else { return keys.isEmpty ? [] : [await bring(keys[0], call)] }
        let found = await withTaskGroup(of: (Int, Lookup<Value>?).self) { group in
            var found: [Int: Lookup<Value>] = [:]
            for (index, key) in keys.enumerated() {
                if index >= Self.mostAtOnce, let (index, lookup) = await group.next() { found[index] = lookup }
                group.addTask { (index, await bring(key, call)) }
            }
            for await (index, lookup) in group { found[index] = lookup }
            return found
        }
        return keys.indices.map { found[$0] }
    }

    /// The questions of one call that are under way at a time.
    private static var mostAtOnce: Int { 256 }

    private func bring(_ key: Key, _ call: RemoteCall) async -> Lookup<Value>? {
        let entry = knownEntry(key)
        switch link.use(of: key, entry) {
        case .returned where entry?.isInForce(at: disk.now) == true: return nil
        case .returned where link.isPending(key): return nil
        case .returned, .askedFor, .refused: break
        }
        if local.hasUnstoredValue(key.text) { return nil }
        let limit = link.policy.timeout
        if limit <= .zero || call.isHopeless { return nil }
        if link.isSlow {
            askLater(key, call)
            return nil
        }
        do {
            // The question goes on afterwards, so that a late answer is there for the next read.
            let found = try await RemoteRace.run(limit, clock, outlives: true) {
                await questions.ask(key) { close in await ask(key, call, close) }
            }
            if found != nil { counts.update { $0.remoteHits += 1 } }
            return found
        } catch {
            link.noteFailure(error, call)
            return nil
        }
    }

    /// Asks for the next read, unless somebody is asking.
    private func askLater(_ key: Key, _ call: RemoteCall) {
        guard let number = questions.begin(key) else { return }
        Flight.$current.withValue(nil) {
            _ = clock.begin(nil) {
                _ = await questions.answer(key, number) { close in await ask(key, call, close) }
            }
        }
    }

    /// Asks once more when a notice has come meanwhile.
    private func ask(_ key: Key, _ call: RemoteCall, _ close: () -> Void) async -> Lookup<Value>? {
        let end = clock.now.advanced(byMilliseconds: link.policy.timeout.milliseconds)
        for _ in 0..<3 {
            let watch = flights.watch(key)
            defer { flights.endWatch(watch) }
            let answer = await link.asking(key) { number in
                await ask(key, number, watch, until: end, call, close)
            }
            guard case .again = answer else { return answer.found }
        }
        return nil
    }

    private enum Answer {
        case found(Lookup<Value>)
        case nothing
        /// The server has a value that cannot be used here.
        case unusable
        /// The answer was outdated when it came.
        case again

        var found: Lookup<Value>? {
            if case .found(let found) = self { return found }
            return nil
        }
    }

    private func ask(
        _ key: Key, _ number: UInt64, _ watch: Watch, until end: Timestamp, _ call: RemoteCall, _ close: () -> Void
    ) async -> Answer {
        let entry = knownEntry(key)
        let stamp = entry?.remoteStamp
        let tags = entry?.tags ?? []
        // A change of this machine that may reach the server after the question, and be sent by the time of the answer.
        let floor = link.pendingVersion(key)
        let request = RemoteRead(
            key: link.name(key), known: stamp?.version, tags: tags.map(\.text), sizeLimit: link.policy.sizeLimit)
        guard let reading = await link.read(request, key, call) else { return .nothing }
        close()
        if link.isOutdated(key, tags, since: number) { return .again }
        guard let entry else { return await take(reading, key, nil, floor, number, watch) }
        switch link.verdict(on: reading, entry, key) {
        case .valid:
            return link.noteConfirmed(key, tags, since: number) ? .nothing : .again
        case .unsent:
            if let stamp { link.resend(key, stamp) }
            // The server may refuse it.
            await link.awaitSent([key], .milliseconds(end.millisecondsSince(clock.now)))
            return knownEntry(key)?.isSameValue(as: entry) == true ? .nothing : .again
        case .replaced:
            let answer = await take(reading, key, entry, floor, number, watch)
            // The copy is outdated all the same.
            if case .unusable = answer { await link.drop(key, entry) }
            return answer
        case .invalid:
            // The copy was sent meanwhile: the answer is from before.
            if floor != nil, link.pendingVersion(key) == nil { return .again }
            link.count { $0.misses += 1 }
            await link.drop(key, entry)
            return .nothing
        }
    }

    /// Stores a value of the server here, instead of `copy`, unless this machine or another has changed the key
    /// meanwhile. `floor` is the version of a change that the server did not know when it was asked.
    private func take(
        _ reading: RemoteReading, _ key: Key, _ copy: IndexEntry?, _ floor: RemoteVersion?, _ number: UInt64,
        _ watch: Watch
    ) async -> Answer {
        guard case .value(let entry, let version, let life) = reading.finding else {
            link.count { $0.misses += 1 }
            return .nothing
        }
        guard let value = RemoteValue(entry, life, key, sizeLimit: link.policy.sizeLimit) else {
            link.noteMalformed(key)
            return .unusable
        }
        let isOld = [floor, link.pendingVersion(key)].contains { $0.map { version < $0 } ?? false }
        if isOld || link.isCleared(version, value.tags) {
            link.count { $0.misses += 1 }
            let isCopyOlder = copy?.remoteStamp.map { $0.version < version } ?? false
            return isCopyOlder ? .unusable : .nothing
        }
        if link.hasSentClear(after: version, since: number) { return .again }
        link.observe(version)
        let stamp = link.state.withLock { $0.knownStamp(version) }
        return await disk.store.io.run { store(value, stamp, key, copy, number, watch) }
    }

    private func store(
        _ remote: RemoteValue, _ stamp: RemoteStamp, _ key: Key, _ copy: IndexEntry?, _ number: UInt64,
        _ watch: Watch
    ) -> Answer {
        let now = disk.now
        let life = remote.life(at: now)
        var decoded: Value?
        if !remote.isAbsent {
            guard let value = decode(remote, key) else { return .unusable }
            decoded = value
        }
        let storing = link.beginStoring(key, stamp, .server, since: number)
        defer { link.endStoring(key, storing) }
        guard let store = try? disk.openStore else { return found(decoded, remote, life, now) }
        let permit = RemotePermit(
            link: link, index: store.index, flights: flights, watch: watch, copy: copy, stamp: stamp,
            tags: remote.tags, number: number)
        let request = SetRequest(
            key: key, life: life, attachments: remote.attachments(stamp, in: disk.keyNamespace), now: now,
            stored: remote.stored(at: now), condition: .ifPermitted(permit),
            promotion: decoded.flatMap { local.promotion(of: $0, key.text, size: remote.payload.count) })
        let isStored = try? remote.payload.withBytes { bytes throws(CacheError) in try store.set(bytes, request) }
        guard let isStored else { return found(decoded, remote, life, now) }
        if !isStored || !link.noteConfirmed(key, remote.tags, since: number, isHit: true) { return .again }
        return found(decoded, remote, life, now)
    }

    private func found(_ value: Value?, _ remote: RemoteValue, _ life: Life, _ now: Timestamp) -> Answer {
        guard let value, now < life.expires else { return .nothing }
        return .found(
            Lookup(
                value, from: .remote, life: MemoryLife(begun: remote.stored(at: now), expires: life.expires),
                metadata: remote.metadata, at: now))
    }

    private func decode(_ remote: RemoteValue, _ key: Key) -> Value? {
        let coder = local.coder
        guard coder.reads(remote.coding), let value = try? coder.decode(remote.payload, remote.coding) else {
            link.noteMalformed(key)
            return nil
        }
        return value
    }
}

/// The right to store a value of the server: nobody here has changed or cleared the key since the question began, there
/// was no notice, and no newer copy has come: only the one that the answer has outdated is replaced.
private struct RemotePermit: WritePermit {
    let link: RemoteLink
    let index: Index
    let flights: Flights
    let watch: Watch
    let copy: IndexEntry?
    let stamp: RemoteStamp
    let tags: [Key]
    let number: UInt64

    /// Fetches go on: what they bring is newer.
    var event: CacheEvent.Kind? { nil }

    func isValid(for key: Key) -> Bool {
        guard flights.isUnchanged(watch) else { return false }
        let entry = index.entry(key)
        if let entry, let version = entry.remoteStamp?.version, version > stamp.version,
            copy?.isSameValue(as: entry) != true
        {
            return false
        }
        if link.isCleared(stamp.version, tags) || link.hasSentClear(after: stamp.version, since: number) {
            return false
        }
        return !link.isOutdated(key, entry?.tags ?? [], since: number)
    }
}
