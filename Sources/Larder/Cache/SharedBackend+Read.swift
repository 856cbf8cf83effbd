import LarderFiles
import LarderFoundation

/// Asking the shared tier.
extension SharedBackend {
    /// Makes the copies of these keys as good as the shared tier knows them. Returns the fresh values that it had and
    /// that are new here.
    func bring(_ keys: [Key]) async -> [Lookup<Value>?] {
        guard keys.count > 1 else { return keys.isEmpty ? [] : [await bring(keys[0])] }
        let found = await withTaskGroup(of: (Int, Lookup<Value>?).self) { group in
            for (index, key) in keys.enumerated() { group.addTask { (index, await bring(key)) } }
            return await group.reduce(into: [Int: Lookup<Value>]()) { $0[$1.0] = $1.1 }
        }
        return keys.indices.map { found[$0] }
    }

    private func bring(_ key: Key) async -> Lookup<Value>? {
        let entry = knownEntry(key)
        switch link.use(of: key, entry) {
        case .returned where entry?.isInForce(at: disk.now) == true: return nil
        case .returned where link.isPending(key): return nil
        case .returned, .askedFor, .refused: break
        }
        if local.hasUnstoredValue(key.text) { return nil }
        return await questions.ask(key) { close in await ask(key, close) }
    }

    /// Asks once more when a notice has come meanwhile.
    private func ask(_ key: Key, _ close: () -> Void) async -> Lookup<Value>? {
        for _ in 0..<3 {
            let watch = flights.watch(key)
            defer { flights.endWatch(watch) }
            let answer = await link.asking(key) { number in await ask(key, number, watch, close) }
            guard case .again = answer else { return answer.found }
        }
        return nil
    }

    private enum Answer {
        case found(Lookup<Value>)
        case nothing
        /// The answer was outdated when it came.
        case again

        var found: Lookup<Value>? {
            if case .found(let found) = self { return found }
            return nil
        }
    }

    private func ask(_ key: Key, _ number: UInt64, _ watch: Watch, _ close: () -> Void) async -> Answer {
        let entry = knownEntry(key)
        let stamp = entry?.sharedStamp
        let tags = entry?.tags ?? []
        // A change of this machine that may reach the server after the question, and be sent by the time of the answer.
        let floor = link.pendingVersion(key)
        let request = SharedRead(
            key: link.name(key), known: stamp?.version, tags: tags.map(\.text), sizeLimit: link.policy.sizeLimit)
        guard let reading = await link.read(request) else { return .nothing }
        close()
        link.learn(reading, tags)
        if link.isOutdated(key, tags, since: number) { return .again }
        guard let entry else { return await take(reading, key, floor, number, watch) }
        switch link.verdict(on: reading, entry, key) {
        case .valid:
            return link.noteConfirmed(key, tags, since: number) ? .nothing : .again
        case .replaced:
            return await take(reading, key, floor, number, watch)
        case .invalid(let version):
            link.count { $0.misses += 1 }
            await link.drop(key, upTo: version ?? stamp?.version ?? link.nextVersion())
            return .nothing
        }
    }

    /// Stores a value of the server here, unless this machine or another has changed the key meanwhile. `floor` is the
    /// version of a change that the server did not know when it was asked.
    private func take(
        _ reading: SharedReading, _ key: Key, _ floor: SharedVersion?, _ number: UInt64, _ watch: Watch
    ) async -> Answer {
        guard case .value(let entry, let version, let life, let generations) = reading.finding else {
            link.count { $0.misses += 1 }
            return .nothing
        }
        guard let value = SharedValue(entry, life, key, sizeLimit: link.policy.sizeLimit),
            generations.count == value.tags.count + 1
        else {
            link.noteMalformed(key)
            return .nothing
        }
        let isOld = [floor, link.pendingVersion(key)].contains { $0.map { version < $0 } ?? false }
        if isOld || link.isCleared(version, value.tags) {
            link.count { $0.misses += 1 }
            return .nothing
        }
        link.observe(version)
        let stamp = SharedStamp(version: version, epoch: link.epoch, generations: generations)
        return await disk.store.io.run { store(value, stamp, key, number, watch) }
    }

    private func store(
        _ shared: SharedValue, _ stamp: SharedStamp, _ key: Key, _ number: UInt64, _ watch: Watch
    ) -> Answer {
        let now = disk.now
        let life = shared.life(at: now)
        var decoded: Value?
        if !shared.isAbsent {
            guard let value = decode(shared, key) else { return .nothing }
            decoded = value
        }
        let storing = link.beginStoring(key, stamp.version, since: number)
        defer { link.endStoring(key, storing) }
        guard let store = try? disk.openStore else { return found(decoded, shared, life, now) }
        let permit = SharedPermit(
            link: link, index: store.index, flights: flights, watch: watch, stamp: stamp, number: number)
        let request = SetRequest(
            key: key, life: life, attachments: shared.attachments(stamp, in: disk.keyNamespace), now: now,
            stored: shared.stored(at: now), condition: .ifPermitted(permit),
            promotion: decoded.flatMap { local.promotion(of: $0, key.text, size: shared.payload.count) })
        let isStored = try? shared.payload.withBytes { bytes throws(CacheError) in try store.set(bytes, request) }
        guard let isStored else { return found(decoded, shared, life, now) }
        if !isStored || !link.noteConfirmed(key, shared.tags, since: number, isHit: true) { return .again }
        return found(decoded, shared, life, now)
    }

    private func found(_ value: Value?, _ shared: SharedValue, _ life: Life, _ now: Timestamp) -> Answer {
        guard let value, now < life.expires else { return .nothing }
        counts.update { $0.sharedHits += 1 }
        return .found(
            Lookup(
                value, from: .shared, life: MemoryLife(begun: shared.stored(at: now), expires: life.expires),
                metadata: shared.metadata, at: now))
    }

    private func decode(_ shared: SharedValue, _ key: Key) -> Value? {
        guard shared.mayBeRead(as: local.coder.coding), let value = try? local.coder.decode(shared.payload) else {
            link.noteMalformed(key)
            return nil
        }
        return value
    }
}

/// The right to store a value of the server: nobody here has changed the key since the question began, there was no
/// notice, and the copy is not newer.
private struct SharedPermit: WritePermit {
    let link: SharedLink
    let index: Index
    let flights: Flights
    let watch: Watch
    let stamp: SharedStamp
    let number: UInt64

    func isValid(for key: Key) -> Bool {
        guard flights.isUnchanged(watch) else { return false }
        let entry = index.entry(key)
        if let version = entry?.sharedStamp?.version, version > stamp.version, link.isPending(key) { return false }
        return !link.isOutdated(key, entry?.tags ?? [], since: number)
    }
}
