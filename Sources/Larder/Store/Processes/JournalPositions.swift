import LarderFiles

/// How far the journals of all lanes have been read.
struct JournalPositions: Sendable {
    struct Position: Equatable, Sendable {
        /// The number of the journal among those of the lane; 0: none.
        var number: UInt64 = 0
        var part = JournalPart(generation: 0, length: 0)
    }

    var lanes: [Int: Position] = [:]
    /// False when the page is damaged: the position of a lane cannot be told.
    private(set) var isWhole = true
    /// Everything up to this epoch is in them.
    var epoch: UInt64 = 0
    /// Journals above this generation had not been announced, and neither had these.
    private var lastGeneration: UInt64 = 0
    private var beginning: Set<UInt64> = []
    /// All journals that have been announced, as far as they are remembered, with their lengths.
    private var announced: [UInt64: Int] = [:]
    /// Nobody lives who has published them.
    private(set) var areOfDead = false

    init() {}

    /// Those of dead processes: what they had not published was cut off.
    init(ofDead announced: [UInt64: Int]) {
        self.announced = announced
        lastGeneration = .max
        areOfDead = true
    }

    /// The journals as they are published now. A change is never in them without those that it builds on: the lengths
    /// are read until two passes agree.
    init(of page: PeerPage, but own: Int? = nil) {
        epoch = page.epoch
        if page.isPublishing(but: own) { epoch -= 1 }
        lastGeneration = page.lastGeneration
        while let again = Self.lanes(of: page, own) {
            if again == lanes { return }
            lanes = again
            // Between two passes that agree: no journal that another one has followed has a higher generation.
            lastGeneration = page.lastGeneration
        }
        isWhole = false
    }

    /// The same to read whole journals, without those that are being begun. Waits a little for one whose generation is
    /// not known; without lines, it does not matter.
    static func forReading(_ page: PeerPage) -> JournalPositions {
        var backoff = Backoff()
        for attempt in 0..<20 {
            var found: [(lane: Int, journal: PeerPage.BeginningJournal)] = []
            for lane in page.alive.bits {
                if let journal = page.beginningJournal(of: lane) { found.append((lane, journal)) }
            }
            // Afterwards: one that is announced meanwhile is in both.
            var positions = JournalPositions(of: page)
            for case (let lane, .created(let generation)) in found
            where !positions.arePast(generation, of: lane, on: page) {
                positions.beginning.insert(generation)
            }
            positions.announced = page.announcedJournals
            if attempt == 19 || !found.contains(where: { $0.journal == .soon }) { return positions }
            backoff.wait()
        }
        return JournalPositions(of: page)
    }

    /// True when a lane has announced a journal and, after it, the one in these positions: it is published whole.
    private func arePast(_ generation: UInt64, of lane: Int, on page: PeerPage) -> Bool {
        guard let last = lanes[lane]?.number else { return false }
        return page.journals(before: last, of: lane).contains { $0.generation == generation }
    }

    /// How often a lane is looked at.
    private static let mostLooks = 10_000

    /// Nil when the page is damaged.
    private static func lanes(of page: PeerPage, _ own: Int?) -> [Int: Position]? {
        var lanes: [Int: Position] = [:]
        for lane in page.used.bits where lane != own {
            var looks = 0
            while case let number = page.journalCount(of: lane), number > 0 {
                if let part = page.journal(number, of: lane) {
                    lanes[lane] = Position(number: number, part: part)
                    break
                }
                // The lane begins journals faster than they can be looked at, or the page is damaged.
                looks += 1
                if looks == mostLooks { return nil }
            }
        }
        return lanes
    }

    /// The published length of a journal. One that nobody has in use is published whole.
    func length(of generation: UInt64) -> Int {
        if let part = lanes.values.first(where: { $0.part.generation == generation })?.part { return part.length }
        return generation > lastGeneration || beginning.contains(generation) ? 0 : .max
    }

    /// The length that a journal must have. A shorter one is damaged.
    func leastLength(of generation: UInt64) -> Int {
        let length = length(of: generation)
        return length == .max ? announced[generation] ?? 0 : length
    }

    /// True when a journal that lanes have announced is gone, and the save of a generation has not replaced it.
    func lacksAnnounced(_ journals: [UInt64], since generation: UInt64) -> Bool {
        announced.lacks(journals, since: generation)
    }
}

extension [UInt64: Int] {
    /// True when one of these journals is not among those that exist, and the save of a generation has not replaced it.
    /// Nothing else would tell that the last journal is missing: beside a save, there is one before it.
    func lacks(_ journals: [UInt64], since generation: UInt64) -> Bool {
        keys.contains { $0 >= Swift.max(generation, 1) && !journals.contains($0) }
    }
}
