import LarderFiles

/// The bytes of the page's file whose locks mean something.
enum PageLocks {
    /// Held while a process joins, and by the first one until entries and files agree.
    static let joining = 0
    /// One for each lane: its owner is alive. They are others for each token: a process that has another page than the
    /// living ones, because it has other shared memory, finds that out.
    static let lanes = 1..<lane(0, of: tokens.upperBound)
    static let tokens: Range<UInt64> = 1..<1 << 24

    static func lane(_ lane: Int, of token: UInt64) -> Int { 1 + Int(token) * PeerPage.laneCount + lane }
    static func token(of byte: Int) -> UInt64 { UInt64(byte - 1) / UInt64(PeerPage.laneCount) }
}

/// The place of this process among those that share a directory: its lane in the page, proved by a lock that ends with
/// the process. A process that has the directory alone is the only one in a page of its own, which nobody can join.
///
/// Time proves nothing: only the lock of a lane says that its owner is dead. The process that finds this out *buries*
/// it.
final class Membership: Sendable {
    let page: PeerPage
    let lane: Int
    private let token: UInt64
    /// Nobody else was there.
    let isFirst: Bool
    /// Others may join. Otherwise the directory is locked.
    let mayBeJoined: Bool
    /// The first process found this in the page of dead ones; nil: nothing is proved.
    let proof: LeftPage.Proof?
    let identity: FileIdentity
    private let fileSystem: any FileSystem
    /// The page's file is never handed out: closing it late would end the locks of a successor in this process. Nil
    /// once left.
    private let files: Lock<Files?>
    /// This process leaves files that it had to delete.
    let owesFiles = Flag()
    /// The page is no longer that of the directory: all its words are zero.
    let hasLeft = Flag()

    struct Files {
        let page: OwnedDescriptor
        let root: OwnedDescriptor
        /// The file of the page in the shared memory of the system; nil: it is in the directory.
        let memory: PageFile.Memory?
    }

    /// True while the lock for joining is held, because entries and files may not agree; for ever where nobody can join.
    private let isKeepingOut = Lock(true)
    /// The stripes that this process holds for long.
    private let longHeld = Lock<Set<Int>>([])

    private init(
        _ page: PeerPage, _ lane: Int, _ files: Files, _ identity: FileIdentity, in fileSystem: any FileSystem,
        isFirst: Bool, _ proof: LeftPage.Proof?
    ) {
        self.page = page
        self.proof = proof
        self.identity = identity
        self.fileSystem = fileSystem
        self.isFirst = isFirst
        mayBeJoined = true
        self.lane = lane
        token = page.token
        self.files = Lock(files)
    }

    /// Takes the only place in a page of its own, for a process that has locked the directory for itself, or only reads.
    init(aloneIn identity: FileIdentity, _ fileSystem: any FileSystem, path: String) throws(CacheError) {
        page = try translating("make a page", at: path) { () throws(Errno) in try .alone() }
        proof = nil
        self.identity = identity
        self.fileSystem = fileSystem
        isFirst = true
        mayBeJoined = false
        lane = 0
        token = 0
        files = Lock(nil)
        page.begin(lane)
    }

    /// Takes a lane, with the lock for joining held, which the first one keeps. Nil when all are in use.
    ///
    /// `proof`: the first process found it in the page of dead ones.
    convenience init?(
        _ page: PeerPage, _ files: Files, _ identity: FileIdentity, in fileSystem: any FileSystem, isFirst: Bool,
        _ proof: LeftPage.Proof?
    ) throws(Errno) {
        let burial = Burial(page: page, root: files.root, fileSystem: fileSystem)
        let token = page.token
        guard token == 0 || PageLocks.tokens.contains(token) else { return nil }
        var found: Int?
        for lane in 0..<PeerPage.laneCount {
            guard try fileSystem.lock(byte: PageLocks.lane(lane, of: token), of: files.page.file) else { continue }
            if page.hasOwner(lane) { burial.bury(lane) }
            found = lane
            break
        }
        guard let found else { return nil }
        self.init(page, found, files, identity, in: fileSystem, isFirst: isFirst, proof)
        page.begin(found)
        // At once: if this process is killed while it reads the journals, the next one needs their lengths.
        if let proof {
            let journals = proof.announced.inOrder(of: { $0.key }).map { JournalPart(generation: $0, length: $1) }
            page.take(journals, in: found)
        }
        if !isFirst { letJoin() }
    }

    deinit {
        leave()
    }

    /// True while others are kept from joining that might.
    var keepsOut: Bool { mayBeJoined && isKeepingOut.withLock { $0 } }

    func letJoin() {
        if !mayBeJoined { return }
        isKeepingOut.withLock { isKeepingOut in
            if isKeepingOut { unlock(byte: PageLocks.joining) }
            isKeepingOut = false
        }
    }

    private func unlock(byte: Int) {
        files.withLock { if let files = $0 { fileSystem.unlock(byte: byte, of: files.page.file) } }
    }

    /// Frees the lane.
    func leave() {
        files.withLock { files in
            guard let left = files else { return }
            // A forked child has neither the lane nor its lock.
            if !page.isGone {
                page.end(lane, isDead: owesFiles.isSet)
                removeMemory(left)
            }
            hasLeft.set()
            // The session may end long before the last reference to it.
            page.words.detach()
            // Closes the page, which releases all locks.
            files = nil
        }
    }

    /// The last process that leaves in order removes the file in the shared memory of the system. Nobody joins meanwhile.
    private func removeMemory(_ files: Files) {
        guard let memory = files.memory, !page.hasUncleanedDeaths,
            (try? fileSystem.lock(byte: PageLocks.joining, of: files.page.file)) == true, page.alive == 0
        else { return }
        try? fileSystem.remove(memory.name, in: memory.directory.file, directory: false)
    }

    /// The directory; nil once left.
    var root: OwnedDescriptor? { files.withLock { $0?.root } }

    /// Whether nobody else is there at the moment.
    var isAlone: Bool { page.isAlone(lane) }

    /// Runs `body` with whether nobody else is there; if so, nobody can join meanwhile.
    func whileNobodyJoins<Result, Failure: Error>(
        _ body: (_ isAlone: Bool) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try isKeepingOut.withLock { isKeepingOut throws(Failure) in
            if isKeepingOut { return try body(isAlone) }
            guard lock(byte: PageLocks.joining) else { return try body(false) }
            defer { unlock(byte: PageLocks.joining) }
            buryTheDead()
            return try body(isAlone)
        }
    }

    private func lock(byte: Int) -> Bool {
        files.withLock { files in
            guard let files else { return false }
            return (try? fileSystem.lock(byte: byte, of: files.page.file)) ?? false
        }
    }

    /// Keeps others from joining until `letJoin`; false when somebody is there.
    func keepOut() -> Bool {
        isKeepingOut.withLock { isKeepingOut in
            if isKeepingOut { return true }
            guard lock(byte: PageLocks.joining) else { return false }
            buryTheDead()
            isKeepingOut = isAlone
            if !isKeepingOut { unlock(byte: PageLocks.joining) }
            return isKeepingOut
        }
    }

    /// Buries a lane if its owner is dead.
    func buryIfDead(_ lane: Int) {
        guard lane != self.lane, page.hasOwner(lane) else { return }
        files.withLock { files in
            guard let files, (try? fileSystem.lock(byte: PageLocks.lane(lane, of: token), of: files.page.file)) == true
            else {
                return
            }
            defer { fileSystem.unlock(byte: PageLocks.lane(lane, of: token), of: files.page.file) }
            if page.hasOwner(lane) { Burial(page: page, root: files.root, fileSystem: fileSystem).bury(lane) }
        }
    }

    func buryTheDead() {
        for lane in page.alive.bits { buryIfDead(lane) }
    }
}

/// Waiting for others. No call waits for long while it holds anything that others in this process need.
extension Membership {
    /// How long a call waits that holds locks others need.
    enum Patience {
        /// Less than a millisecond in the first round, and twice as many looks in each later one: where others change
        /// keys of the stripe without pause, one of the rounds is long enough. At most some 0.15 seconds.
        case round(Int)
        case endless

        fileprivate var looks: Int {
            switch self {
            case .round(let number): 9 << min(number, 4)
            case .endless: .max
            }
        }
    }

    /// Waits until `isDone`; buries the lane that `blocker` returns if its owner is dead. False when no `looks` are left,
    /// or when this process has left: then it can bury nobody, and the caller finds the cache closed.
    private func wait(looks: inout Int, for isDone: () -> Bool, _ blocker: () -> Int?) -> Bool {
        var backoff = Backoff()
        while !isDone() {
            looks -= 1
            if looks <= 0 { return false }
            if looks % 8 == 0 {
                if hasLeft.isSet { return false }
                if let lane = blocker() { buryIfDead(lane) }
            }
            backoff.wait()
        }
        return true
    }

    /// Keeps other processes from changing a key of a stripe in a way that depends on its value; false when another
    /// change holds the stripe.
    func tryLock(_ key: Key) -> Bool { !mayBeJoined || tryLock(stripe: key.stripe) }

    func unlock(_ key: Key) { if mayBeJoined { unlock(stripe: key.stripe) } }

    func tryLock(stripe: Int) -> Bool { !mayBeJoined || page.tryLock(stripe: stripe, by: lane) }

    /// The same for work that takes locks of this process afterwards: nobody who has one of these waits for the stripe.
    func tryLockForLong(stripe: Int) -> Bool {
        // First: whoever finds the stripe locked must not wait for it.
        guard longHeld.withLock({ $0.insert(stripe).inserted }) else { return false }
        if tryLock(stripe: stripe) { return true }
        longHeld.withLock { _ = $0.remove(stripe) }
        return false
    }

    func unlockForLong(stripe: Int) {
        unlock(stripe: stripe)
        longHeld.withLock { _ = $0.remove(stripe) }
    }

    /// The same as `tryLock`, but waits for the other threads of this process. Stripes in ascending order: two threads
    /// that take several do not wait for each other.
    func lockUnlessElsewhere(stripe: Int) -> Bool {
        var backoff = Backoff()
        while !tryLock(stripe: stripe) {
            guard let holder = page.holder(ofStripe: stripe) else { continue }
            guard holder == lane, !longHeld.withLock({ $0.contains(stripe) }) else { return false }
            backoff.wait()
        }
        return true
    }

    func unlock(stripe: Int) {
        if mayBeJoined { page.unlock(stripe: stripe, by: lane) }
    }

    /// Returns when nobody holds a stripe. Hold nothing meanwhile: the holder may be stopped.
    func await(stripe: Int) {
        var looks = Int.max
        _ = wait(looks: &looks, for: { page.holder(ofStripe: stripe) == nil }, { page.holder(ofStripe: stripe) })
    }

    /// Returns when every change in a stripe, or of all stripes, with a lower number is published or has failed; false
    /// when the patience has ended before.
    func awaitChanges(below number: UInt64, stripe: @autoclosure () -> Int?, _ patience: Patience) -> Bool {
        if isAlone { return true }
        var looks = patience.looks
        let stripe = stripe()
        return page.alive.bits.allSatisfy { other in
            other == lane
                || wait(
                    looks: &looks,
                    for: { !page.hasOpenChange(below: number, stripe: stripe, of: other) }, { other })
        }
    }

    /// Runs `body` in a role; nil when another process has it.
    func perform<Result, Failure: Error>(
        _ role: PeerPage.Role, _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        if !page.tryLock(role, by: lane) {
            buryTheDead()
            guard page.tryLock(role, by: lane) else { return nil }
        }
        defer { page.unlock(role, by: lane) }
        return try body()
    }
}
