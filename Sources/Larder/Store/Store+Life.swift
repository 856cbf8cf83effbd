import LarderFiles

extension Store {
    /// Gives a fresh entry a new life without rewriting its payload. Returns false when there is none.
    ///
    /// The life slot of the file is written before the journal when the life gets shorter, and after it when it gets
    /// longer: wherever the process is killed, what a rebuild finds is never longer than what was asked for.
    func setLife(_ life: Life, of key: Key, at now: Timestamp) throws(CacheError) -> Bool {
        try renew(key, life, nil, at: now) { $0.isFresh(at: now) }
    }

    /// Gives the entry that a flight was given a new life, and new metadata, fresh or not. Returns false when the key
    /// was set or removed since.
    func renew(
        _ known: IndexEntry, _ key: Key, _ life: Life, _ update: Attachments.Update, with permit: any WritePermit
    ) throws(CacheError) -> Bool {
        try renew(key, life, update, at: clock.now) { permit.isValid(for: key) && $0.isSameValue(as: known) }
    }

    private func renew(
        _ key: Key, _ life: Life, _ update: Attachments.Update?, at now: Timestamp, if isRight: (IndexEntry) -> Bool
    ) throws(CacheError) -> Bool {
        do {
            return try changing(shard: key.shard) { volume throws(CacheError) in
                if provisional.isSet, !settle(key, at: now, looking: true, in: volume, holdsStripe: true) {
                    return false
                }
                guard let entry = index.withShard(of: key, { $0.table.entry(key) }), isRight(entry) else {
                    return false
                }
                return try renew(entry, key, life, update, in: volume)
            }
        } catch {
            report(error, of: key)
            throw error
        }
    }

    private func renew(
        _ entry: IndexEntry, _ key: Key, _ life: Life, _ update: Attachments.Update?, in volume: StoreDirectory
    ) throws(CacheError) -> Bool {
        let update = entry.update == update ? nil : update
        if let update { try checkRecord(length(of: entry, update)) }
        try clearShutdownMarker()
        let number = try takeNumber()
        let isShorter = life.expires < entry.life.expires
        if isShorter {
            do {
                guard try writeSlot(life, number, of: entry, in: volume) else { return false }
            } catch {
                _ = try? writeSlot(entry.life, entry.change, of: entry, in: volume)
                throw error
            }
        }
        let ticket: Ticket?
        do {
            ticket = try commitLife(life, number, update, of: entry, key, in: volume)
        } catch {
            if isShorter { _ = try? writeSlot(entry.life, entry.change, of: entry, in: volume) }
            throw error
        }
        do {
            if !isShorter, try !writeSlot(life, number, of: entry, in: volume) { return false }
            try wait(for: ticket)
        } catch {
            // Back to the old life, in memory whatever happens, and on disk as far as it still listens.
            let number = try takeNumber()
            let back = update == nil ? nil : entry.update
            let record = Record.life(key: key, file: entry.file, change: number, entry.life, back)
            _ = commitBestEffort(record, in: volume) { index in
                index.change(key, .replaced) { $0.table.setLife(entry.life, change: number, back, for: key) }
            }
            _ = try? writeSlot(entry.life, number, of: entry, in: volume)
            throw error
        }
        return true
    }

    /// Bytes of the record that the manifest will have.
    private func length(of entry: IndexEntry, _ update: Attachments.Update) -> Int {
        var entry = entry
        entry.attachments = entry.attachments(after: update)
        var printer = RecordPrinter()
        printer.append(.set(entry))
        return printer.count
    }

    private func commitLife(
        _ life: Life, _ number: UInt64, _ update: Attachments.Update?, of entry: IndexEntry, _ key: Key,
        in volume: StoreDirectory
    ) throws(CacheError) -> Ticket? {
        let record = Record.life(key: key, file: entry.file, change: number, life, update)
        return try commit(JournalFormat.lines(record), in: volume) { index in
            index.change(key, .replaced) { $0.table.setLife(life, change: number, update, for: key) }
        }.ticket
    }

    /// Writes a life that slid to the file, so that it survives the loss of the index; unless it was replaced or
    /// renewed since.
    func writeSlidSlot(of entry: IndexEntry, in volume: StoreDirectory) {
        let key = entry.key
        stripes[key.shard].withLock { _ in
            guard let current = index.withShard(of: key, { $0.table.entry(key) }), current.isSameValue(as: entry),
                current.change == entry.change
            else { return }
            do throws(Errno) {
                _ = try overwriteSlot(current.life, current.change, of: current, in: volume)
            } catch {
                if error == .noEntry { return }
                report(CacheError(error, doing: "renew a life", path: volume.path(of: entry.file)), of: key)
            }
        }
    }

    /// Overwrites the life slot in the trailer of an entry file. Returns false when the file is gone. A damaged trailer
    /// is left alone: it tells a rebuild nothing, with this life or another.
    private func writeSlot(
        _ life: Life, _ change: UInt64, of entry: IndexEntry, in volume: StoreDirectory
    ) throws(CacheError) -> Bool {
        let outcome: Bool?
        do {
            outcome = try overwriteSlot(life, change, of: entry, in: volume)
        } catch .noEntry {
            return false
        } catch {
            throw CacheError(error, doing: "renew a life", path: volume.path(of: entry.file))
        }
        guard outcome != nil else { throw volume.notOurs(entry.file) }
        return true
    }

    /// Returns nil when the file's name belongs to something else, and false when the trailer is damaged.
    private func overwriteSlot(_ life: Life, _ change: UInt64, of entry: IndexEntry, in volume: StoreDirectory)
        throws(Errno) -> Bool?
    {
        guard
            let (file, size) = try fileSystem.openRegular(.number(entry.file), in: volume.entries.file, for: .updating)
        else {
            return nil
        }
        let position = size - EntryFile.trailerLength
        guard position >= entry.size else { return false }
        var trailer = [UInt8](repeating: 0, count: EntryFile.trailerLength)
        let count = try fileSystem.read(file.file, at: position, into: &trailer)
        guard count == trailer.count, let check = trailer.withBytes({ EntryFile.recordCheck(inTrailer: $0) }) else {
            return false
        }
        try fileSystem.write(
            EntryFile.slot(life: life, change: change, recordCheck: check), to: file.file, at: position)
        if isPowerSafe { try fileSystem.sync(file.file) }
        return true
    }
}
