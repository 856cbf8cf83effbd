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
        case .entry(let entry, _):
            if entry.file != file { return .invalid }
            return entry.life == .over ? .last(entry) : .valid(entry)
        case .dead: throw .noEntry
        case .torn, .none: return .invalid
        }
    }

    /// Reads what the header of an entry says about it. An entry without a segment is dead.
    func condition(at place: Place) throws(Errno) -> SegmentFormat.Condition {
        do throws(Errno) {
            return try segment(place.segment).condition(at: place)
        } catch {
            guard error == .noEntry else { throw error }
            return .dead
        }
    }

    /// Marks an entry as dead. A missing segment is no error, and what is no entry is left alone.
    ///
    /// `number`: of the value. Pass it when an earlier session has owed the mark: if the entry was never written, its
    /// place may belong to another one by now.
    func mark(_ place: Place, ifItIs number: UInt64? = nil) throws(Errno) {
        let segment: Segment
        do throws(Errno) {
            segment = try self.segment(place.segment)
        } catch {
            if error == .noEntry || error == .notRegular { return }
            throw error
        }
        guard let header = try segment.entryHeader(at: place), !header.isDead else { return }
        if let number, case .entry(let found, _) = try segment.entry(at: place), found.file != number { return }
        try segment.mark(place, wasLast: header.isLast)
        state.withLock { $0.noteChange(of: place.segment) }
        countDead(header.span, in: segment)
    }

    /// Marks the last entry of a removed key: it hides the older ones until it is marked as dead. Throws `.noEntry`
    /// when it is dead or missing; false when it does not tell its key.
    func markLast(_ file: FileID) throws(Errno) -> Bool {
        switch try footer(of: file) {
        case .last?: return true
        case .valid?: break
        case .invalid?, .longer?, .newer?, nil: return false
        }
        try segment(file.place.segment).markLast(file.place)
        state.withLock { $0.noteChange(of: file.place.segment) }
        return true
    }

    /// Returns when all marks of this process, and all names of segments that it has made or deleted, are on stable
    /// storage, and those of sessions before it. `ofAll`: the marks of all processes.
    func sync(ofAll: Bool) throws(Errno) {
        let (unsynced, isSynced) = state.withLock { ($0.unsynced, $0.isSynced) }
        var segments = Set(unsynced.keys)
        var failure: Errno?
        if ofAll || !isSynced {
            segments.insert(SegmentTable.names)
            do throws(Errno) { segments.formUnion(try numbers()) } catch { failure = error }
        }
        var synced: Set<UInt64> = []
        for number in segments.sorted() {
            do throws(Errno) {
                try sync(number, isOwn: unsynced[number] != nil)
                synced.insert(number)
            } catch {
                if error == .noEntry || error == .notRegular { synced.insert(number) } else { failure = error }
            }
        }
        // Only now: until then another call must wait for the same changes. Later ones are others.
        state.withLock { state in
            for number in synced where state.unsynced[number] == unsynced[number] { state.unsynced[number] = nil }
        }
        if let failure { throw failure }
        state.withLock { $0.isSynced = true }
    }

    /// `isOwn`: this process has marked entries of the segment. The header of any other need not be readable.
    private func sync(_ number: UInt64, isOwn: Bool) throws(Errno) {
        if isOwn, number != SegmentTable.names { return try segment(number).sync() }
        guard let directory = try directory() else { return }
        if number == SegmentTable.names { return try fileSystem.sync(directory.file) }
        let file = try fileSystem.open(.number(number), in: directory.file, for: .updating)
        try fileSystem.sync(file)
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
        if header.isDead || header.isLast { throw .noEntry }
        try segment.writeSlot(life, change, header, at: place)
        if try !segment.isLinked() { throw .noEntry }
        if isPowerSafe { try segment.sync() }
        return true
    }

    /// The content of all segments.
    struct Listing {
        /// The entries that are not dead, in no particular order. Those of unreadable segments are incomplete.
        var entries: [FileID] = []
        /// Of these, the last of removed keys.
        var last: Set<FileID> = []
        /// The segments that could not be read to their end.
        var unreadable: [UInt64: Errno] = [:]
        /// The highest number of a segment.
        var highest: UInt64 = 0
    }

    /// Lists the entries of all segments. O(bytes). Counts the dead bytes anew: a killed process has not noted all.
    ///
    /// `unsettled`: only entries of which a change may have been under way when the last session was killed.
    ///
    /// `goesOn`: asked between two segments; once it returns false the listing is nil.
    func list(unsettled: Bool = false, while goesOn: () -> Bool) throws(Errno) -> Listing? {
        var listing = Listing()
        for number in try numbers() {
            if !goesOn() { return nil }
            listing.highest = max(listing.highest, number)
            do throws(Errno) {
                try list(number, unsettled: unsettled, into: &listing)
            } catch {
                switch error {
                case .noEntry, .notRegular: break
                // A later call may have a descriptor.
                case .tooManyOpenFiles: throw error
                default: listing.unreadable[number] = error
                }
            }
        }
        return listing
    }

    func list(unsettled: Bool = false) throws(Errno) -> Listing {
        try list(unsettled: unsettled, while: { true }) ?? Listing()
    }

    /// Adds the entries of a segment that are not dead. O(bytes).
    func list(_ number: UInt64, unsettled: Bool = false, into listing: inout Listing) throws(Errno) {
        let segment = try segment(number)
        guard let header = segment.header else { return }
        var live = 0
        try segment.forEachEntry(from: unsettled ? header.settled : SegmentFormat.start) { _, reading in
            guard case .entry(let entry, let span) = reading else { return }
            listing.entries.append(entry.file)
            if entry.life == .over { listing.last.insert(entry.file) }
            live += span
        }
        if !unsettled, !isClaimed(number) {
            noteDeadBytes(max(0, try segment.size() - SegmentFormat.start - live), of: segment)
        }
    }
}

/// Segments that are set aside because they cannot be read. They have names in the directory of the entries then.
extension SegmentTable {
    /// Sets a segment aside, unless some process writes to it or cleans it.
    func setAside(_ number: UInt64, as name: UInt64) throws(Errno) {
        guard let directory = try directory() else { return }
        let file = OwnedDescriptor(try fileSystem.open(.number(number), in: directory.file, for: .updating))
        let segment = Segment(number, file, nil, in: fileSystem)
        guard try claim(segment) else { return }
        defer { release(segment) }
        try fileSystem.rename(.number(number), in: directory.file, to: .number(name), in: entries.file)
        forget(number)
    }

    /// Calls `body` with each entry that is not dead. Does nothing when the file is no segment. O(bytes).
    func forEachEntry(setAside name: UInt64, _ body: (IndexEntry) -> Void) throws(Errno) {
        let file = OwnedDescriptor(try fileSystem.open(.number(name), in: entries.file, for: .reading))
        var bytes = [UInt8](repeating: 0, count: SegmentFormat.start)
        guard try fileSystem.read(file.file, at: 0, into: &bytes) == bytes.count else { return }
        for begin in [0, SegmentFormat.headerLength] {
            let number = bytes.withBytes { $0.word(at: begin + SegmentFormat.numberOffset) }
            guard case .valid(let header) = bytes.withBytes({ SegmentFormat.header(of: number, $0) }) else { continue }
            try Segment(number, file, header, in: fileSystem).forEachEntry { _, reading in
                if case .entry(let entry, _) = reading { body(entry) }
            }
            return
        }
    }
}

/// The evidence of a file that a directory is a cache.
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
