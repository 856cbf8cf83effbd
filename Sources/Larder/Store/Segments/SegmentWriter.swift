import LarderFiles

/// Appends entries to a segment that belongs to this process alone: its lock says so, and ends with the process.
final class SegmentWriter: Sendable {
    /// After how many bytes the segment notes below which no change is under way.
    private static let settlingDistance = 256 << 10
    /// The number of the last segments that are tried before a new one is begun.
    private static let mostTried = 16

    private let table: SegmentTable
    /// It continues segments of processes that have ended.
    private let continuesOthers: Bool
    private let state = Lock(State())

    private struct State {
        var active: Active?
        /// A call looks for the next segment.
        var isPreparing = false
        /// Full segments in which changes are still under way.
        var retiring: [Active] = []

        mutating func reserve(_ span: Int, after: UInt64) -> Reservation? {
            guard let active, active.end + span <= active.length, active.segment.number > after,
                let place = Place(segment: active.segment.number, offset: active.end)
            else { return nil }
            self.active!.end += span
            self.active!.underWay.append(place.offset)
            return Reservation(segment: active.segment, salt: active.salt, place: place, span: span)
        }

        /// Gives up the segment. Returns it if no change is under way in it.
        mutating func retireActive() -> Active? {
            guard let active = active.take() else { return nil }
            if active.underWay.isEmpty { return active }
            retiring.append(active)
            return nil
        }
    }

    private struct Active {
        let segment: Segment
        let salt: UInt64
        /// The segment gets no longer than that. Bytes.
        let length: Int
        /// The offset of the next entry.
        var end: Int
        /// The offsets of the entries of changes under way.
        var underWay: [Int] = []
        /// The offset that the segment has noted.
        var settled: Int

        var firstUnderWay: Int { underWay.min() ?? end }
    }

    init(_ table: SegmentTable, continuesOthers: Bool) {
        self.table = table
        self.continuesOthers = continuesOthers
    }

    /// Room for an entry whose change is under way.
    struct Reservation {
        let segment: Segment
        let salt: UInt64
        let place: Place
        let span: Int
    }

    /// Reserves room for an entry; continues or begins a segment if need be.
    ///
    /// `after`: the number of the segment is higher than that. `length`: of a new segment, in bytes.
    ///
    /// - Returns: Nil when there can be no room: the entry or the number of a segment is too large, the name of their
    ///   directory is taken, or another call is looking for a segment, which this one does not wait for.
    func reserve<Failure: Error>(
        _ span: Int, after: UInt64 = 0, length: @autoclosure () -> Int, number: () throws(Failure) -> UInt64
    ) throws(SegmentError<Failure>) -> Reservation? {
        var mustPrepare = false
        var full: Active?
        let reservation = state.withLock { state -> Reservation? in
            if let reservation = state.reserve(span, after: after) { return reservation }
            if state.isPreparing { return nil }
            (state.isPreparing, mustPrepare) = (true, true)
            full = state.retireActive()
            return nil
        }
        guard mustPrepare else { return reservation }
        // Outside of the lock: other calls store their values in files of their own meanwhile.
        if let full { retire(full) }
        let next: Active?
        do throws(SegmentError<Failure>) {
            next = try self.next(span, length(), number)
        } catch {
            state.withLock { $0.isPreparing = false }
            throw error
        }
        return state.withLock { state in
            state.isPreparing = false
            state.active = next
            return state.reserve(span, after: after)
        }
    }

    /// Notes that the change of an entry is committed or has failed.
    ///
    /// `unwritten`: the bytes that were reserved in vain.
    func end(_ place: Place, unwritten: Int? = nil) {
        var settled: (Segment, Int)?
        let full: Active? = state.withLock { state in
            if let active = state.active, active.segment.number == place.segment {
                state.active!.underWay.removeAll { $0 == place.offset }
                // The next entry is written over one that failed, or a full disk would fill the segment with them.
                if let unwritten, active.end == place.offset + unwritten { state.active!.end = place.offset }
                let first = state.active!.firstUnderWay
                if first - active.settled >= Self.settlingDistance {
                    state.active!.settled = first
                    settled = (active.segment, first)
                }
                return nil
            }
            guard let position = state.retiring.firstIndex(where: { $0.segment.number == place.segment }) else {
                return nil
            }
            state.retiring[position].underWay.removeAll { $0 == place.offset }
            return state.retiring[position].underWay.isEmpty ? state.retiring.remove(at: position) : nil
        }
        // A segment that does not know is read from an earlier offset.
        if let (segment, offset) = settled { try? segment.writeSettled(offset) }
        if let full { retire(full) }
    }

    /// Notes that all changes so far are committed or have failed. For many entries of one caller.
    func endAll() {
        let full = state.withLock { state in
            state.active?.underWay = []
            defer { state.retiring = [] }
            return state.retiring
        }
        full.forEach(retire)
    }

    /// Gives up the segment.
    func stop() {
        if let full = state.withLock({ $0.retireActive() }) { retire(full) }
    }

    /// The same for a segment that somebody has deleted.
    func giveUp(_ segment: Segment) {
        let full = state.withLock { $0.active?.segment === segment ? $0.retireActive() : nil }
        if let full { retire(full) }
    }

    /// The segment that is written to; nil when there is none.
    var segment: Segment? { state.withLock { $0.active?.segment } }

    private func retire(_ full: Active) {
        if full.end > full.settled { try? full.segment.writeSettled(full.end) }
        table.release(full.segment)
    }

    private func next<Failure: Error>(
        _ span: Int, _ length: Int, _ number: () throws(Failure) -> UInt64
    ) throws(SegmentError<Failure>) -> Active? {
        if span > length - SegmentFormat.start { return nil }
        if continuesOthers {
            do throws(Errno) {
                if let found = try unfinished(span, length: length) { return found }
            } catch {
                throw .io(error)
            }
        }
        while true {
            let taken: UInt64
            do throws(Failure) { taken = try number() } catch { throw .other(error) }
            if taken > Place.lastSegment { return nil }
            do throws(Errno) {
                let segment = try table.create(taken)
                guard let salt = segment.header?.salt else { throw .io }
                return Active(
                    segment: segment, salt: salt, length: length, end: SegmentFormat.start,
                    settled: SegmentFormat.start)
            } catch {
                if error == .notDirectory { return nil }
                if error != .exists { throw .io(error) }
            }
        }
    }

    /// One of the last segments that has room, if its process has ended.
    private func unfinished(_ span: Int, length: Int) throws(Errno) -> Active? {
        for number in try table.numbers().sorted(by: >).prefix(Self.mostTried) {
            do throws(Errno) {
                let segment = try table.segment(number)
                // After a power cut, lines may mention entries behind the end.
                guard let header = segment.header, header.boot != 0, header.boot == table.boot else { continue }
                let end = (try segment.size() + Place.unit - 1) / Place.unit * Place.unit
                // One with little room is left as it is.
                guard length - end >= max(span, length / 64), end >= SegmentFormat.start, try table.claim(segment)
                else { continue }
                do throws(Errno) {
                    // It may have grown before it was claimed.
                    if try segment.size() <= end {
                        try segment.writeSettled(end)
                        return Active(segment: segment, salt: header.salt, length: length, end: end, settled: end)
                    }
                } catch {
                    table.release(segment)
                    throw error
                }
                table.release(segment)
            } catch {
                // One that cannot be read does not keep others from being written.
                if error == .tooManyOpenFiles { throw error }
            }
        }
        return nil
    }
}

/// The reason why an entry is not appended.
enum SegmentError<Failure: Error>: Error {
    case io(Errno)
    case other(Failure)
}
