import LarderFiles

/// The choice of the segment to clean.
extension SegmentTable {
    /// The number of segments, their bytes, and those of dead entries, approximately. O(segments).
    func usage() throws(Errno) -> (count: Int, bytes: Int, dead: Int) {
        var usage = (count: 0, bytes: 0, dead: 0)
        for number in try numbers() {
            guard let segment = try? segment(number), let size = try? segment.size() else { continue }
            usage.count += 1
            usage.bytes += max(0, size - SegmentFormat.start)
            usage.dead += (try? deadBytes(of: segment)) ?? 0
        }
        return usage
    }

    /// A segment of which more than a third may be dead.
    struct Dirty {
        let number: UInt64
        let size: Int
        /// Bytes.
        let dead: Int

        /// The part of its bytes that are alive.
        var live: Double { 1 - Double(dead) / Double(size) }
    }

    /// A segment to clean, with its lock taken: more than a third of its bytes are dead. Nil when there is none.
    ///
    /// One look at all segments finds many, the one with the least `worth` first: another look for each would make
    /// cleaning quadratic.
    ///
    /// `mayClean`: for the number of a segment.
    func claimDirty(
        slack: Int, _ worth: (Dirty) -> Double, where mayClean: (UInt64) -> Bool
    ) throws(Errno) -> Segment? {
        if let segment = try claimFound(where: mayClean) { return segment }
        try closeDeleted()
        let found = try dirty(slack: slack).map { ($0, worth: worth($0)) }.sorted { $0.worth > $1.worth }.map(\.0)
        state.withLock { $0.dirty = found }
        return try claimFound(where: mayClean)
    }

    /// Forgets what was found: the next claim looks at all segments again.
    func forgetDirty() { state.withLock { $0.dirty = [] } }

    /// The same among those that were found and not claimed yet. What is dead stays dead.
    private func claimFound(where mayClean: (UInt64) -> Bool) throws(Errno) -> Segment? {
        while let next = state.withLock({ $0.dirty.popLast() }) {
            guard mayClean(next.number), !isClaimed(next.number) else { continue }
            do throws(Errno) {
                let segment = try segment(next.number)
                guard try claim(segment) else { continue }
                dead.raiseAllowance(by: next.dead)
                return segment
            } catch {
                // Another process may have deleted it.
                if error == .tooManyOpenFiles { throw error }
            }
        }
        return nil
    }

    /// The segments of which more than a third is dead. Notes how far cleaning is behind. O(segments).
    ///
    /// `slack`: bytes that may be dead besides half as many as are alive.
    func dirty(slack: Int) throws(Errno) -> [Dirty] {
        var dirty: [Dirty] = []
        var total = (size: 0, dead: 0)
        for number in try numbers() {
            do throws(Errno) {
                let segment = try segment(number)
                let size = try segment.size()
                // A process was killed before it stored anything there, unless it is about to.
                if size <= SegmentFormat.start { dirty.append(Dirty(number: number, size: max(size, 1), dead: size)) }
                guard segment.header != nil, size > SegmentFormat.start else { continue }
                let deadBytes = try deadBytes(of: segment)
                total = (total.size + size, total.dead + deadBytes)
                if deadBytes > size / 3 { dirty.append(Dirty(number: number, size: size, dead: deadBytes)) }
            } catch {
                // One that cannot be read does not keep others from being cleaned.
                if error == .tooManyOpenFiles { throw error }
            }
        }
        dead.setAllowance((total.size - total.dead) / 2 + slack - total.dead)
        return dirty
    }

    /// The bytes of dead entries in a segment, approximately.
    private func deadBytes(of segment: Segment) throws(Errno) -> Int {
        try segment.notedDeadBytes() + dead.count(in: segment.number)
    }

    func countDead(_ bytes: Int, in segment: Segment) {
        if dead.add(bytes, in: segment.number) { noteDeadBytes(of: segment) }
    }

    private func noteDeadBytes(of segment: Segment) {
        let bytes = dead.take(segment.number)
        // A hint: a failure costs nothing but disk space for a while.
        if bytes > 0, let noted = try? segment.notedDeadBytes() { try? segment.writeDeadBytes(noted + bytes) }
    }

    func noteDeadBytes(_ count: Int, of segment: Segment) {
        dead.forget(segment.number)
        try? segment.writeDeadBytes(count)
    }

    /// Notes all counts in the headers, at the end of the session.
    func noteDeadBytes() {
        for number in dead.numbers {
            if let segment = try? segment(number) { noteDeadBytes(of: segment) }
        }
    }
}
