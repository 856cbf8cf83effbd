import LarderFiles

extension Store {
    /// Appends a change's lines to the journal and publishes it: from then on it is committed. Call it in a block of `disk`.
    ///
    /// A process killed before the write has changed nothing; one killed after it finds the change again.
    func commit<Result>(
        _ lines: UnsafeRawBufferPointer, count: Int = 1, in volume: StoreDirectory, _ publish: (Index) -> Result
    ) throws(CacheError) -> (result: Result, ticket: Ticket?) {
        try info.run { () throws(CacheError) in
            try translating("write the journal", at: volume.path) { () throws(Errno) in
                try journal.append(lines, count: count, last: lastTaken)
            }
            if journal.schedule.changed() { scheduleSave() }
            let ticket = isPowerSafe ? journal.sync.map { Ticket(sync: $0, number: $0.note()) } : nil
            return (publish(index), ticket)
        }
    }

    func commit<Result>(
        _ lines: [UInt8], count: Int = 1, in volume: StoreDirectory, _ publish: (Index) -> Result
    ) throws(CacheError) -> (result: Result, ticket: Ticket?) {
        try lines.withBytes { bytes throws(CacheError) in try commit(bytes, count: count, in: volume, publish) }
    }

    /// Publishes a change whose record is only a help to the next opening, and writes the record if that can be done.
    func commitBestEffort(_ record: Record, in volume: StoreDirectory, _ publish: (Index) -> Void) -> Ticket? {
        commitBestEffort(JournalFormat.lines(record), count: 1, in: volume, publish)
    }

    func commitBestEffort(
        _ lines: [UInt8], count: Int, in volume: StoreDirectory, _ publish: (Index) -> Void
    ) -> Ticket? {
        do {
            return try commit(lines, count: count, in: volume, publish).ticket
        } catch {
            report(error)
            info.run {
                publish(index)
                journal.demandSave()
                if journal.schedule.changed() { scheduleSave() }
            }
            return nil
        }
    }

    /// Waits for a record, if it has to. After a failed sync the journal is given up: what it holds is no longer known.
    func wait(for ticket: Ticket?) throws(CacheError) {
        guard let ticket else { return }
        try translating("sync the journal", at: path) { () throws(Errno) in
            do throws(Errno) {
                try ticket.wait()
            } catch {
                info.run {
                    journal.abandon()
                    journal.demandSave()
                }
                throw error
            }
        }
    }

    /// A record on its way to stable storage.
    struct Ticket {
        let sync: GroupSync
        let number: Int

        func wait() throws(Errno) {
            try sync.sync(through: number)
        }
    }
}
