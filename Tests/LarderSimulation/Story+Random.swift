import LarderTesting

extension Story {
    /// What may happen in a random story, beside kills, stops and power cuts.
    package enum Kind: String, CaseIterable, Sendable {
        case sound
        /// Tags that several processes store and clear.
        case tags
        /// A full disk.
        case full
        /// A journal that is cut at a line after its process was killed.
        case journalCut
        /// A journal that is deleted, or replaced by an older copy, while processes live.
        case journalLost
        /// A flipped bit in a journal.
        case journalFlip
        /// A flipped bit in the manifest.
        case manifestFlip
        /// All processes are killed, and the manifest and the journals are gone.
        case indexLost
        /// Damage to any file, tags and full disks.
        case damaged
    }

    /// A random story: settings, processes, some 200 calls and mishaps.
    package static func random(_ seed: UInt64, _ kind: Kind = .sound, calls: Int = 200) -> Story {
        var author = Author(seed, kind)
        return author.write(calls)
    }

    private struct Author {
        private var generator: SeededGenerator
        private var setting = Setting()
        private let kind: Kind
        private var acts: [Act] = []
        private let places: Int
        private var lastValue = 0
        private var openPlaces: Set<Int> = []
        private var stopped: Set<Int> = []
        private var isFull = false
        // What this story has at all.
        private let hasTags: Bool
        private let hasShortLives: Bool
        private let mishaps: Int
        private let fills: Bool
        private let cutsPower: Bool
        private let pace: Int

        init(_ seed: UInt64, _ kind: Kind) {
            var generator = SeededGenerator(seed: seed &* 0x2545_F491_4F6C_DD1D)
            func chance(_ percent: Int) -> Bool { generator.chance(percent) }
            self.kind = kind
            places = [1, 1, 2, 2, 2, 3, 4, 5].randomElement(using: &generator)!
            setting.seed = seed
            setting.isShared = places > 1 || generator.chance(50)
            setting.hasSegments = generator.chance(50)
            setting.hasMemory = generator.chance(40)
            setting.slides = generator.chance(15)
            setting.isPowerSafe = generator.chance(20)
            setting.isPropertyList = !setting.isShared && generator.chance(20)
            setting.countLimit = generator.chance(15) ? 3 : nil
            setting.countsAccesses = setting.isShared && generator.chance(40)
            setting.switchPercent = [2, 10, 30, 60].randomElement(using: &generator)!
            setting.callers = generator.chance(30) ? 2 : 1
            let sharesTags = [.tags, .manifestFlip, .damaged].contains(kind)
            hasTags = generator.chance(50) && (places == 1 || sharesTags)
            hasShortLives = generator.chance(50)
            mishaps = [0, 2, 5, 10].randomElement(using: &generator)!
            fills = generator.chance(kind == .full ? 50 : 20) && [.full, .damaged].contains(kind)
            cutsPower = generator.chance(20)
            pace = [3, 20, 100].randomElement(using: &generator)!
            self.generator = generator
        }

        mutating func write(_ calls: Int) -> Story {
            var made = 0
            while made < calls {
                if openPlaces.isEmpty || openPlaces.count < places && generator.chance(15) {
                    let place = Int.random(in: 1...places, using: &generator)
                    if openPlaces.insert(place).inserted { acts.append(.open(place)) }
                    if generator.chance(50) { acts.append(.settle) }
                }
                if generator.chance(mishaps) { addMishap() }
                let place = openPlaces.sorted().randomElement(using: &generator)!
                let caller = Int.random(in: 0..<setting.callers, using: &generator)
                acts.append(.call(process: place, caller: caller, call()))
                made += 1
                if case .call(_, _, .close)? = acts.last { leave(place) }
                addPace()
            }
            return Story(setting, acts)
        }

        private mutating func leave(_ place: Int) {
            openPlaces.remove(place)
            stopped.remove(place)
        }

        private mutating func addPace() {
            if generator.chance(5), stopped.isEmpty { return acts.append(.settle) }
            if generator.chance(60) { acts.append(.run(Int.random(in: 1...pace, using: &generator))) }
            if generator.chance(hasShortLives ? 15 : 6) {
                acts.append(.advance([100, 600, 1_500, 70_000].randomElement(using: &generator)!))
            }
        }

        private mutating func addMishap() {
            let place = openPlaces.sorted().randomElement(using: &generator)!
            if let damage = damage(place) {
                acts += damage
                return
            }
            switch Int.random(in: 0..<100, using: &generator) {
            case 0..<20:
                acts.append(.kill(place))
                leave(place)
            case 20..<55:
                acts.append(.killIn(place, calls: Int.random(in: 1...40, using: &generator)))
                acts.append(.call(process: place, caller: 0, call()))
                acts.append(.run(Int.random(in: 1...200, using: &generator)))
                acts.append(.kill(place))
                leave(place)
            case 55..<70 where setting.isShared && openPlaces.count > stopped.count + 1:
                stopped.insert(place)
                acts.append(.stop(place))
            case 55..<85:
                for place in stopped.sorted() { acts.append(.resume(place)) }
                stopped = []
            case 85..<93 where cutsPower:
                acts.append(.powerCut)
                for place in openPlaces.sorted() { leave(place) }
            case 85..<100 where fills:
                isFull.toggle()
                acts.append(.fill(isFull))
            default: break
            }
            if openPlaces.isEmpty {
                openPlaces.insert(place)
                acts.append(.open(place))
            }
        }

        private mutating func damage(_ place: Int) -> [Act]? {
            guard generator.chance(40) else { return nil }
            let position = Int.random(in: 0..<1 << 20, using: &generator)
            switch kind {
            case .sound, .tags, .full: return nil
            case .journalCut:
                leave(place)
                openPlaces.insert(place)
                return [.kill(place), .damage(.cut(.journal, position: position, atLine: true)), .open(place)]
            case .journalLost:
                let damages: [Damage] = [
                    .note, .restore(.journal, position: position), .delete(.journal, position: position),
                ]
                return [.damage(damages.randomElement(using: &generator)!)]
            case .journalFlip: return [.damage(.flipBit(.journal, position: position))]
            case .manifestFlip: return [.damage(.flipBit(.manifest, position: position))]
            case .indexLost:
                let kills = openPlaces.sorted().map(Act.kill)
                (openPlaces, stopped) = ([place], [])
                return kills + Story.lossOfIndex + [.open(place)]
            case .damaged: return [.damage(anyDamage(position))]
            }
        }

        private mutating func anyDamage(_ position: Int) -> Damage {
            let files: [Damage.File] = [.manifest, .journal, .journal, .page, .segment, .entry]
            let file = files.randomElement(using: &generator)!
            return switch Int.random(in: 0..<5, using: &generator) {
            case 0: .flipBit(file, position: position)
            case 1: .cut(file, position: position, atLine: generator.chance(70))
            case 2: .delete(file, position: position)
            case 3: .restore(file, position: position)
            default: .note
            }
        }

        private mutating func value() -> Int {
            lastValue += 1
            return lastValue
        }

        private mutating func life() -> Int {
            hasShortLives && generator.chance(50) ? [50, 500, 2_000].randomElement(using: &generator)! : 86_400_000
        }

        private mutating func call() -> Call {
            let key = Int.random(in: 0..<Stage.keys, using: &generator)
            let isTagged = hasTags && generator.chance(40)
            switch Int.random(in: 0..<100, using: &generator) {
            case 0..<32: return .get(key)
            case 32..<57: return .set(key, value: value(), life: life(), isTagged: isTagged)
            case 57..<65: return .remove(key)
            case 65..<71: return .setIfAbsent(key, value: value(), life: life(), isTagged: isTagged)
            case 71..<76: return .modify(key, value: value(), life: life())
            case 76..<81: return fills && setting.hasMemory ? .get(key) : .fetch(key, value: value(), life: life())
            case 81..<84: return .renew(key, life: life())
            case 84..<86: return .expire(key)
            case 86..<88: return .clear(everything: false)
            case 88: return key.isMultiple(of: 2) ? .clear(everything: true) : .expireAll
            case 89..<93: return hasTags ? .clearTag(expires: generator.chance(40)) : .get(key)
            case 93..<95: return .removeExpired
            case 95: return setting.countLimit == nil && generator.chance(70) ? .get(key) : .trim(2)
            case 96..<98: return .flush
            default: return .close
            }
        }
    }
}
