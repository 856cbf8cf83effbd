import LarderFiles

/// Entries.
extension SegmentTable {
    func read(_ place: Place, into bytes: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
        try segment(place.segment).read(payloadAt: place.offset, into: bytes)
    }

    /// Reads the description of an entry. Throws `.noEntry` when it is dead; nil when the segment is of a newer
    /// format, or not ours.
    func footer(of file: FileID) throws(Errno) -> EntryFile.Footer? {
        let segment = try segment(file.place.segment)
        switch try segment.entry(at: file.place) {
        case .entry(let entry, _): return entry.file == file ? .valid(entry) : .invalid
        case .dead: throw .noEntry
        case .torn, .none: return .invalid
        }
    }

    /// Throws `.noEntry` when an entry is dead or damaged.
    func requireEntry(at place: Place) throws(Errno) {
        guard let header = try segment(place.segment).entryHeader(at: place), !header.isDead else { throw .noEntry }
    }

    /// Marks an entry as dead. A missing segment is no error, and what is no entry is left alone.
    func mark(_ place: Place) throws(Errno) {
        let segment: Segment
        do throws(Errno) {
            segment = try self.segment(place.segment)
        } catch {
            if error == .noEntry || error == .notRegular { return }
            throw error
        }
        guard let header = try segment.entryHeader(at: place), !header.isDead else { return }
        try segment.mark(place)
        state.withLock { _ = $0.unsynced.insert(place.segment) }
        countDead(header.span, in: segment)
    }

    /// Returns when all marks of this process are on stable storage, and those of sessions before it. `ofAll`: those of
    /// all processes.
    func syncMarks(ofAll: Bool) throws(Errno) {
        let mustSyncAll = ofAll || !state.withLock { $0.isSynced }
        var unsynced = state.withLock { state in
            defer { state.unsynced = [] }
            return state.unsynced
        }
        var failure: Errno?
        if mustSyncAll {
            do throws(Errno) { unsynced.formUnion(try numbers()) } catch { failure = error }
        }
        for number in unsynced {
            do throws(Errno) {
                try segment(number).sync()
            } catch {
                if error == .noEntry || error == .notRegular { continue }
                state.withLock { _ = $0.unsynced.insert(number) }
                failure = error
            }
        }
        if let failure { throw failure }
        state.withLock { $0.isSynced = true }
    }

    /// Overwrites a life slot. Returns nil when the segment is not ours, and false when the entry is damaged.
    func writeSlot(
        _ life: Life, _ change: UInt64, at place: Place, isPowerSafe: Bool
    ) throws(Errno) -> Bool? {
        let segment: Segment
        do throws(Errno) {
            segment = try self.segment(place.segment)
        } catch {
            guard error == .notRegular else { throw error }
            return nil
        }
        guard let header = try segment.entryHeader(at: place) else { return false }
        if header.isDead { throw .noEntry }
        try segment.writeSlot(life, change, header, at: place)
        if isPowerSafe { try segment.sync() }
        return true
    }

    /// The entries of all segments that are not dead, in no particular order. O(bytes). Counts the dead bytes anew: a
    /// killed process has not noted all.
    ///
    /// `unsettled`: only those of which a change may have been under way when the last session was killed.
    func files(unsettled: Bool = false) throws(Errno) -> [FileID] {
        var found: [FileID] = []
        for number in try numbers() {
            let segment: Segment
            do throws(Errno) {
                segment = try self.segment(number)
            } catch {
                if error == .noEntry || error == .notRegular { continue }
                throw error
            }
            guard let header = segment.header else { continue }
            var live = 0
            try segment.forEachEntry(from: unsettled ? header.settled : SegmentFormat.start) { _, reading in
                guard case .entry(let entry, let span) = reading else { return }
                found.append(entry.file)
                live += span
            }
            if !unsettled, !isClaimed(number) {
                noteDeadBytes(max(0, try segment.size() - SegmentFormat.start - live), of: segment)
            }
        }
        return found
    }
}

/// What a file says about whether a directory is a cache.
enum Evidence {
    case proof
    /// Empty, cut within the first words, or all zeros: the remains of a new file after a kill or a power cut.
    case blank
    case foreign
}

extension SegmentTable {
    /// Looks for the header of a segment.
    func evidence() throws(Errno) -> Evidence {
        guard let directory = try directory() else { return .blank }
        var evidence = Evidence.blank
        for number in try numbers() {
            do throws(Errno) {
                let file = try fileSystem.open(.number(number), in: directory.file, for: .reading)
                var bytes = [UInt8](repeating: 0, count: SegmentFormat.start)
                let count = try fileSystem.read(file, at: 0, into: &bytes)
                if case .invalid = bytes.withBytes({ SegmentFormat.header(of: number, $0) }) {
                    if bytes.prefix(count).contains(where: { $0 != 0 }) { evidence = .foreign }
                } else {
                    return .proof
                }
            } catch {
                // An unreadable file proves nothing; another may.
                if ![.io, .accessDenied, .notPermitted, .noEntry, .notRegular].contains(error) { throw error }
                evidence = .foreign
            }
        }
        return evidence
    }
}
