import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// A row of the table of kills: what a process does until it is killed, and what must hold afterwards.
///
/// A row is a value that notes what it does. `prepare` runs once; each kill starts from a copy of the row and of the
/// disk, and `KillTable` does the rest: it kills, damages, recovers, flushes and checks the invariants.
protocol KillRow: Sendable {
    var name: String { get }
    var modes: [KillMode] { get }
    /// More kills than this must be possible.
    var least: Int { get }
    /// More kills than this must leave what `inspect` looks for; nil: it looks for nothing.
    var leastTelling: Int? { get }
    /// How many kills a run tries at most, unless it tries everything; nil: its share, because there are many.
    var tried: Int? { get }

    /// What all modes have in common.
    func configure(_ configuration: inout DiskCache.Configuration)
    /// Fills the disk. May change the configuration for what follows.
    mutating func prepare(_ world: inout World) async throws
    /// Lets another process, which lives on, begin to use the directory.
    mutating func welcome(_ witness: DiskCache) async throws
    /// Begins a session, in which nothing is killed yet; nil: the opening may be killed, too.
    mutating func begin(_ world: World) throws -> DiskCache?
    /// The operation. It may throw only when the process has been killed.
    mutating func act(_ cache: DiskCache, in world: World) async throws

    /// Whether the process may be killed in a call of this kind; only such calls are counted.
    func kills(in operation: MemoryFileSystem.Operation) -> Bool
    /// What else is wrong with the disk during the operation.
    func fault(in operation: MemoryFileSystem.Operation) -> MemoryFileSystem.Fault?
    /// The calls in which kills are tried, of so many that the whole operation makes.
    func candidates(_ calls: Int) -> [Int]

    /// Looks at what the killed process has left; returns whether it is of the kind that the row is about.
    func inspect(_ remains: World, _ context: Comment) -> Bool
    /// What the next process does at once. It may restart the world, which is opened again afterwards.
    mutating func react(_ scene: inout KillScene) throws
    /// Checks what is found, right after the opening and again after a flush.
    func check(_ cache: DiskCache, _ scene: KillScene) async throws
    /// Changes between these checks, before anything is flushed.
    mutating func use(_ cache: DiskCache, _ scene: KillScene) throws
    /// What else must hold, once the invariants have been checked.
    func finish(_ cache: DiskCache, _ scene: inout KillScene) throws
}

extension KillRow {
    var modes: [KillMode] { [KillMode(name: "kept")] }
    var leastTelling: Int? { nil }
    var tried: Int? { nil }

    func configure(_ configuration: inout DiskCache.Configuration) {}
    mutating func prepare(_ world: inout World) async throws {}
    mutating func welcome(_ witness: DiskCache) async throws {}
    mutating func begin(_ world: World) throws -> DiskCache? { nil }
    func kills(in operation: MemoryFileSystem.Operation) -> Bool { true }
    func fault(in operation: MemoryFileSystem.Operation) -> MemoryFileSystem.Fault? { nil }
    func candidates(_ calls: Int) -> [Int] { Array(0..<calls).map { $0 + 1 } }
    func inspect(_ remains: World, _ context: Comment) -> Bool { true }
    mutating func react(_ scene: inout KillScene) throws {}
    mutating func use(_ cache: DiskCache, _ scene: KillScene) throws {}
    func finish(_ cache: DiskCache, _ scene: inout KillScene) throws {}
}

extension DiskCache {
    /// Throws when the background work of the process was killed during a change: nobody has heard that it returned.
    func requireLiving() throws {
        if let files = store.fileSystem as? MemoryFileSystem, files.isDead {
            throw CacheError(code: .io, message: "killed")
        }
    }
}

/// How values are stored, and what happens after a kill.
struct KillMode: Sendable {
    let name: String
    /// Whether another process on the directory lives on.
    var hasWitness = false
    var configure: @Sendable (inout DiskCache.Configuration) -> Void = { _ in }
    /// What happens after a kill in a call, each to a copy of the disk. The number is 0 where nothing was killed.
    var aftermaths: @Sendable (_ number: Int) -> [Aftermath] = { _ in [Aftermath()] }

    static let aloneAndShared = [DiskCache.Sharing.exclusive, .processes].map { sharing in
        KillMode(name: "\(sharing)", configure: { $0.sharing = sharing })
    }

    /// The disk loses power; after the first `lossy` cuts the index is lost, too.
    static func powerCuts(_ count: Int, losingIndex lossy: Int = 0) -> KillMode {
        let cuts = (0..<count).map { Aftermath(lost: $0 < lossy ? Aftermath.index : [], cut: $0) }
        return KillMode(name: "power cuts", configure: { $0.durability = .powerSafe }) { _ in cuts }
    }
}

/// What happens between a kill and the next opening.
struct Aftermath: Sendable, CustomStringConvertible {
    /// Everything but the entries.
    static let index = [""]
    /// The ways to lose parts of the index, or none.
    static let losses = [[], ["manifest"], ["journal"], ["manifest", "journal"]]

    /// The parts of the index that are lost: prefixes of names.
    var lost: [String] = []
    /// The calls in which one recovery after another is killed.
    var again: [Int] = []
    /// The number of the power cut that the disk suffers, if any.
    var cut: Int?
    /// Whether the disk goes on with what is not synced, for a later power cut.
    var keepsUnsynced = false

    /// Each loss with each kill of the recovery.
    static func each(_ losses: [[String]], again: [[Int]]) -> [Aftermath] {
        losses.flatMap { lost in again.map { Aftermath(lost: lost, again: $0) } }
    }

    var description: String {
        [
            cut.map { "power cut \($0)" }, lost.isEmpty ? nil : "lost \(lost)",
            again.isEmpty ? nil : "killed again in \(again)",
        ].compactMap { $0 }.joined(separator: ", ")
    }
}

/// What a row knows about the kill whose consequences it checks.
struct KillScene {
    /// The call in which the process was killed; nil: it was not.
    let number: Int?
    let mode: KillMode
    let aftermath: Aftermath
    let seed: UInt64
    var world: World
    var generator: SeededGenerator
    var isFlushed = false
    /// Whether the cache is that of the process which lived on.
    var isWitness = false

    var context: Comment {
        """
        \(number.map { "killed in call \($0)" } ?? "not killed") (\(mode.name)); \(aftermath), seed \(seed)\
        \(isWitness ? ", beside it" : "")\(isFlushed ? ", flushed" : "")
        """
    }
}
