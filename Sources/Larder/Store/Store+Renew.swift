import LarderFiles

extension Store {
    /// Gives a fresh entry a new life without rewriting its payload. Returns false when there is none.
    ///
    /// The life slot of the file is written before the journal when the life gets shorter, and after it when it gets
    /// longer: wherever the process is killed, a rebuild never finds a longer life than the requested one.
    func setLife(_ life: Life, of key: Key, at now: Timestamp) throws(CacheError) -> Bool {
        try renew(key, Renewal(life: life), at: now) { $0.isFresh(at: now) }
    }

    /// Gives a known entry a new life and new metadata, fresh or not. Returns false when the permit is no longer valid,
    /// or the value has been replaced.
    func renew(
        _ known: IndexEntry, _ key: Key, _ renewal: Renewal, with permit: any WritePermit
    ) throws(CacheError) -> Bool {
        try renew(key, renewal, at: clock.now) { permit.isValid(for: key) && $0.isSameValue(as: known) }
    }

    /// The changes that need no new file.
    struct Renewal {
        var life: Life
        var update: Attachments.Update?
    }

    private func renew(
        _ key: Key, _ renewal: Renewal, at now: Timestamp, if isRight: (IndexEntry) -> Bool
    ) throws(CacheError) -> Bool {
        try retryingReopened(key) { () throws(CacheError) in
            var rounds = 0
            while true {
                let isRenewed = try disk.run(changing: key) { directory throws(CacheError) in
                    try renewOnce(key, renewal, at: now, in: directory, .round(rounds), if: isRight)
                }
                if let isRenewed { return isRenewed }
                awaitOthers(key)
                rounds += 1
            }
        }
    }

    /// Returns nil while another process changes all keys.
    private func renewOnce(
        _ key: Key, _ renewal: Renewal, at now: Timestamp, in directory: StoreDirectory,
        _ patience: Membership.Patience, if isRight: (IndexEntry) -> Bool
    ) throws(CacheError) -> Bool? {
        index.load(key)
        if provisional.mayLackFiles,
            !recovery.settle(key, at: now, checkingFile: true, in: directory, holdsStripe: true)
        {
            return false
        }
        while let entry = index.entry(key), isRight(entry) {
            try info.removeShutdownMarker()
            let number = try info.takeNumber(.key(key))
            // An expiry with a lower number would not cover the new life.
            guard disk.others.object.membership.awaitChanges(below: number, stripe: nil, patience) else { return nil }
            try disk.followOrThrow()
            guard let current = index.entry(key), isRight(current) else { return false }
            if current.change != entry.change { continue }
            if try renew(entry, key, renewal, number: number, in: directory) { return true }
            // Another process may have replaced the value, and deleted the file.
            try disk.followOrThrow()
            if index.isCurrentFile(entry, key) { return false }
        }
        return false
    }

    /// The same for the key's entry, with the key's stripe held and a number taken. Returns false when the file is
    /// missing.
    func renew(
        _ entry: IndexEntry, _ key: Key, _ renewal: Renewal, number: UInt64, in directory: StoreDirectory
    ) throws(CacheError) -> Bool {
        let life = renewal.life
        let update = entry.update == renewal.update ? nil : renewal.update
        if let update { try EntryWriter.checkRecord(length(of: entry, update)) }
        let isShorter = life.expires < entry.life.expires
        if isShorter {
            do {
                guard try writeSlot(life, number, of: entry, in: directory) else { return false }
            } catch {
                _ = try? writeSlot(entry.life, entry.change, of: entry, in: directory)
                throw error
            }
        }
        let ticket: CommitQueue.Ticket?
        do {
            let record = Record.life(key: key, file: entry.file.number, change: number, life, update)
            ticket = try info.commit(Changes(record)) {
                index.change(key, .replaced) { $0.setLife(life, change: number, update, of: entry, key) }
            }
        } catch {
            if isShorter { _ = try? writeSlot(entry.life, entry.change, of: entry, in: directory) }
            throw error
        }
        do {
            if !isShorter, try !writeSlot(life, number, of: entry, in: directory) { return false }
            try info.wait(for: ticket)
        } catch {
            // Restores the old life: in memory always, on disk if possible. Where other processes have seen the new one,
            // and cannot be told of the old one, it stays.
            let number = try info.takeNumber(.key(key))
            let old = update == nil ? nil : entry.update
            let change = Record.life(key: key, file: entry.file.number, change: number, entry.life, old)
            let isUndone = info.takeBack(Changes(change)) {
                index.change(key, .replaced) { $0.setLife(entry.life, change: number, old, of: entry, key) }
            }
            if isUndone { _ = try? writeSlot(entry.life, number, of: entry, in: directory) }
            throw error
        }
        return true
    }

    /// The length of the record in the next manifest. Bytes.
    private func length(of entry: IndexEntry, _ update: Attachments.Update) -> Int {
        var entry = entry
        entry.attachments = entry.attachments(after: update)
        var printer = RecordPrinter()
        printer.append(.set(entry))
        return printer.count
    }

    /// Overwrites the life slot of an entry file. Returns false when the file is missing.
    private func writeSlot(
        _ life: Life, _ change: UInt64, of entry: IndexEntry, in directory: StoreDirectory
    ) throws(CacheError) -> Bool {
        let outcome: Bool?
        do {
            outcome = try directory.writeSlot(life, change, of: entry, isPowerSafe: settings.isPowerSafe)
        } catch .noEntry {
            return false
        } catch {
            throw CacheError(error, doing: "renew a life", path: directory.path(of: entry.file))
        }
        guard outcome != nil else { throw directory.notOurs(entry.file) }
        return true
    }
}
