import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Random walks against a model, with kills at any system call and losses of the index.
@Suite("Random changes, expiries, kills and losses of the index leave what a model expects", .storm)
struct ExpiryWalkTests {
    private struct Entry: Equatable {
        var value: String
        var keptStale: Int64
        var expires: Int64
        var tags: Set<String>

        func isFresh(_ now: Int64) -> Bool { now < expires }
        func isUsable(_ now: Int64) -> Bool { now < expires || now < expires + keptStale }
    }

    private struct Name: Hashable {
        var space: String
        var key: String
    }

    private enum Action: String, CaseIterable {
        case set, setKept, live, renew, remove, expire, expireAll, expireTag, clear, clearTag, clearEverything
    }

    private static let spaces = ["", "space", "space/inner"]
    private static let keys = (0..<7).map { "key \($0)" }
    private static let tags = ["t", "u"]

    enum Kind {
        case readable
        /// Files that cannot be read, but no lives are renewed.
        case unrenewed
        /// The same with renewals, but no losses.
        case renewing
        /// The power goes, too.
        case powerCut
    }

    private typealias Model = [Name: Entry]

    private final class Walk {
        var world: World
        var cache: DiskCache
        var model: Model = [:]
        /// Names whose state is one of two, after a kill.
        var before: Model?
        var counter = 0
        var generator: SeededGenerator
        let seed: UInt64
        var log: [String] = []
        var kind: Kind
        /// Files that cannot be read for now, and names of which less than the model may be left.
        var unreadable: Set<String> = []
        var lenient: Set<Name> = []

        init(_ seed: UInt64, _ durability: Durability, _ kind: Kind) throws {
            self.seed = seed
            self.kind = kind
            generator = SeededGenerator(seed: seed)
            world = World {
                $0.sweepInterval = nil
                $0.durability = durability
            }
            cache = try world.open()
            // Its footer proves that the directory is a cache.
            try cache.namespace("anchor").setString("anchor", forKey: "anchor", ttl: .forever)
        }

        func makeUnreadable() {
            let anchor = cache.namespace("anchor").entryFileName(forKey: "anchor")
            guard kind == .unrenewed || kind == .renewing,
                let name = world.entryFiles.randomElement(using: &generator), name != anchor
            else { return }
            log.append("EIO \(name)")
            world.files.setUnreadable(true, at: "/cache/entries/" + name)
            unreadable.insert(name)
        }

        func makeReadable() {
            for name in unreadable { world.files.setUnreadable(false, at: "/cache/entries/" + name) }
            if !unreadable.isEmpty { log.append("no EIO") }
            unreadable = []
        }

        var now: Int64 { world.clock.milliseconds }
        var context: Comment { Comment(rawValue: "seed \(seed): \(log.suffix(40))") }

        func part(_ space: String) -> DiskCache { cache.namespace(space) }

        /// Returns the model after the action.
        func act(_ action: Action) throws -> Model {
            let space = spaces.randomElement(using: &generator) ?? ""
            let key = keys.randomElement(using: &generator) ?? ""
            let tag = tags.randomElement(using: &generator) ?? ""
            let name = Name(space: space, key: key)
            let part = part(space)
            var next = model
            counter += 1
            log.append("\(action.rawValue) '\(space)' \(key.suffix(1)) \(tag)")
            func end(_ isConcerned: (Name, Entry) -> Bool) {
                for (name, entry) in next where isConcerned(name, entry) && entry.expires > now {
                    next[name]?.expires = now
                }
            }
            let error: (any Error)?
            do {
                switch action {
                case .set, .setKept:
                    let isForever = generator.chance(30)
                    let keptStale: Int64 = action == .set ? 0 : 60_000
                    let tags = Self.someTags(using: &generator)
                    next[name] = Entry(
                        value: "v\(counter)", keptStale: keptStale, expires: isForever ? .max / 2 : now + 3_600_000,
                        tags: Set(tags))
                    try part.setKept(
                        "v\(counter)", forKey: key, ttl: isForever ? .forever : .hours(1), keptStale: keptStale,
                        tags: tags)
                case .live:
                    let seconds = generator.chance(50) ? 30 : 7_200
                    if next[name]?.isFresh(now) == true { next[name]?.expires = now + Int64(seconds) * 1_000 }
                    if try !part.setTimeToLive(.seconds(Double(seconds)), forKey: key) { next = model }
                case .renew:
                    guard let known = next[name], known.keptStale > 0, known.isUsable(now),
                        cache.store.index.entry(part.key(key)) != nil
                    else { return model }
                    next[name]?.expires = now + 3_600_000
                    if try !part.renew(key) { next = model }
                case .remove:
                    next[name] = nil
                    try part.removeValue(forKey: key)
                case .expire:
                    if let known = next[name], known.isFresh(now) {
                        if known.keptStale > 0 { next[name]?.expires = now } else { next[name] = nil }
                    }
                    if !unreadable.isEmpty { lenient.insert(name) }
                    try part.expireValue(forKey: key)
                case .expireAll:
                    end { name, _ in name.space == space }
                    try part.expireAll()
                case .expireTag:
                    end { name, entry in name.space == space && entry.tags.contains(tag) }
                    try part.expireAll(tagged: tag)
                case .clear:
                    next = next.filter { $0.key.space != space }
                    try part.removeAll()
                case .clearTag:
                    next = next.filter { $0.key.space != space || !$0.value.tags.contains(tag) }
                    try part.removeAll(tagged: tag)
                case .clearEverything:
                    next = [:]
                    try cache.removeAll()
                    try cache.namespace("anchor").setString("anchor", forKey: "anchor", ttl: .forever)
                }
                error = nil
            } catch let failure {
                error = failure
            }
            if let error, !world.files.isDead {
                if !unreadable.isEmpty { return model }
                throw error
            }
            return next
        }

        private let spaces = ExpiryWalkTests.spaces
        private let keys = ExpiryWalkTests.keys
        private let tags = ExpiryWalkTests.tags

        private static func someTags(using generator: inout SeededGenerator) -> [String] {
            ExpiryWalkTests.tags.filter { _ in generator.chance(50) }
        }

        func names() -> [Name] { spaces.flatMap { space in keys.map { Name(space: space, key: $0) } } }

        /// Nothing but fresh values of the model, or misses.
        func checkFirst() {
            for name in names() {
                guard let found = part(name.space).string(forKey: name.key) else { continue }
                let candidates = [model[name], before?[name]].compactMap { $0 }.filter { $0.isFresh(now) }
                #expect(candidates.contains { $0.value == found }, "\(name) has \(found); \(context)")
            }
        }

        func checkAll(mayLackStale: Bool) throws {
            makeReadable()
            try cache.flush()
            try cache.flush()
            for name in names() {
                let (fresh, usable) = (part(name.space).string(forKey: name.key), part(name.space).usable(name.key))
                let entries = before == nil ? [model[name]] : [model[name], before?[name]]
                let isRight = entries.contains { entry in
                    let isFresh = entry?.isFresh(now) == true
                    let isUsable = entry?.isUsable(now) == true
                    if fresh != (isFresh ? entry?.value : nil) { return false }
                    return usable == (isUsable ? entry?.value : nil)
                        || (mayLackStale || lenient.contains(name)) && !isFresh && usable == nil
                }
                let isAmbiguous = before != nil && before?[name] != model[name]
                #expect(
                    isRight || isAmbiguous && mayLackStale && usable == nil,
                    "\(name) is \(fresh ?? "-"), \(usable ?? "-"), not \(entries.map { "\($0?.value ?? "-") until \(($0?.expires ?? now) - now)" }); \(context)"
                )
                if isAmbiguous || usable == nil, model[name] != nil || before?[name] != nil {
                    try part(name.space).removeValue(forKey: name.key)
                    model[name] = nil
                }
            }
            before = nil
            lenient = []
            try cache.flush()
            cache.checkInvariants(world, settled: true)
            #expect(!cache.store.index.hasMarks && !cache.store.reaper.hasTombstones, context)
            #expect(cache.statistics.corruptions == 0, context)
        }

        func restart(expiringFirst: Bool) throws {
            let losses: [[String]] =
                kind == .renewing ? [[]] : [[], [], ["manifest.json"], ["journal"], ["manifest.json", "journal"]]
            let loss = losses.randomElement(using: &generator) ?? []
            let wasKilled = world.files.isDead
            log.append("restart \(wasKilled ? "killed" : "") without \(loss)")
            if kind == .powerCut {
                world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            }
            for name in world.names where loss.contains(where: { name.hasPrefix($0) }) { world.remove(name) }
            world.restart()
            unreadable = []
            for _ in 0..<Int.random(in: 0...2, using: &generator) { makeUnreadable() }
            cache = try world.open()
            checkFirst()
            for _ in 0..<Int.random(in: 0...3, using: &generator) where before == nil {
                var actions: [Action] = [.set, .setKept, .remove, .expire, .clear, .clearTag, .live]
                if expiringFirst || loss.isEmpty { actions += [.expireAll, .expireTag, .renew] }
                if kind == .unrenewed { actions.removeAll { $0 == .live || $0 == .renew } }
                let action = actions.randomElement(using: &generator) ?? .set
                model = try act(action)
            }
            checkFirst()
            if !loss.isEmpty || before != nil || generator.chance(50) {
                try checkAll(mayLackStale: wasKilled && !loss.isEmpty || kind == .powerCut)
            }
        }

        /// A directory with nothing but torn files is refused.
        func run(_ steps: Int, expiringFirst: Bool) throws {
            do {
                try walk(steps, expiringFirst: expiringFirst)
            } catch let error as CacheError where error.code == .notACache || error.code == .io {
                // Or no footer is readable.
                return
            }
        }

        private func walk(_ steps: Int, expiringFirst: Bool) throws {
            for _ in 0..<steps {
                if generator.chance(8) { _ = world.killing(in: Int.random(in: 1...25, using: &generator)) }
                let old = model
                if generator.chance(4) { makeUnreadable() }
                var action = Action.allCases.randomElement(using: &generator) ?? .set
                if kind == .unrenewed, action == .live || action == .renew { action = .expireTag }
                let next = try act(action)
                if world.files.isDead {
                    (before, model) = (old, next)
                    try restart(expiringFirst: expiringFirst)
                    continue
                }
                model = next
                if generator.chance(30) {
                    let seconds = Int.random(in: 0...20, using: &generator)
                    log.append("+\(seconds) s")
                    world.clock.advance(by: .seconds(seconds))
                }
                switch Int.random(in: 0..<24, using: &generator) {
                case 0: cache.settle()
                case 1: _ = cache.removeExpired()
                case 2 where !world.files.isDead:
                    world.files.inject(nil)
                    if world.files.isDead { break }
                    try checkAll(mayLackStale: false)
                case 3:
                    world.files.inject(nil)
                    if world.files.isDead { break }
                    log.append("close")
                    makeReadable()
                    try cache.close()
                    cache = try world.open()
                case 4: try? cache.store.housekeeper.save(always: true)
                default: break
                }
                if world.files.isDead {
                    before = old
                    try restart(expiringFirst: expiringFirst)
                } else if generator.chance(4) {
                    world.files.inject(nil)
                    if !world.files.isDead { try restart(expiringFirst: expiringFirst) }
                } else {
                    checkFirst()
                }
            }
            world.files.inject(nil)
            if !world.files.isDead { try checkAll(mayLackStale: false) }
        }
    }

    @Test("files that can be read", arguments: [Durability.killSafe, .powerSafe])
    func walks(durability: Durability) throws {
        for seed in Sample.few(2, of: 1...6 as ClosedRange<UInt64>) {
            try Walk(seed, durability, .readable).run(100, expiringFirst: false)
        }
    }

    @Test("expiries first after a loss")
    func walksExpiringFirst() throws {
        for seed in Sample.few(2, of: 5_000...5_006 as ClosedRange<UInt64>) {
            try Walk(seed, .killSafe, .readable).run(100, expiringFirst: true)
        }
    }

    @Test("files that cannot be read for some time", arguments: [Kind.unrenewed, .renewing])
    func walksUnreadable(kind: Kind) throws {
        for seed in Sample.few(2, of: 7_000...7_008 as ClosedRange<UInt64>) {
            try Walk(seed, .killSafe, kind).run(100, expiringFirst: true)
        }
    }

    @Test("power cuts")
    func walksPowerCut() throws {
        for seed in Sample.few(4, of: 10_000...10_019 as ClosedRange<UInt64>) {
            try Walk(seed, .powerSafe, .powerCut).run(100, expiringFirst: true)
        }
    }
}
