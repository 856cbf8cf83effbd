import LarderFiles

/// Damage that is found while the cache is in use: in a group of the manifest, when it is loaded.
///
/// Its good lines are hints, and the files decide, as after an opening with a damaged index. It concerns only what was
/// stored in earlier sessions: whatever this one has changed is known.
extension Reconciler {
    /// Makes the index provisional, and has the files listed in the background. Called while the group is loaded.
    func distrustIndex() {
        guard let groups = index.unloaded, provisional.distrust(through: groups.lastNumber) else { return }
        // Removals from here on must keep files dead that the index does not know.
        index.forEachShard { $0.rememberTombstones() }
        begin()
    }

    /// Loads the rest of the index, lists the files, and notes what has to be examined. Returns false when the files
    /// cannot be listed; the sweep tries again.
    func listFiles() -> Bool {
        reporter.count { $0.damagedLines += 1 }
        info.demandSave()
        index.loadAll()
        let isListed = reporter.attempt { () throws(CacheError) in
            try disk.run { directory throws(CacheError) in
                // Another directory may have been opened meanwhile.
                guard let last = provisional.distrusted else { return true }
                try info.removeShutdownMarker()
                let names = try translating("list the entries", at: path) { () throws(Errno) in
                    try fileSystem.numbers(.regular, in: directory.entries.file)
                }
                // After the listing: a file that has been replaced since is obsolete, or already deleted.
                let findings = findings(names, through: last)
                provisional.update { $0.take(findings) }
                return true
            }
        }
        return isListed ?? false
    }

    private func findings(_ names: [UInt64], through last: UInt64) -> Reconciliation.Findings {
        var findings = Reconciliation.Findings()
        var unmentioned = Set(names.lazy.filter { $0 > 0 && $0 <= last })
        let files = unmentioned
        for shard in 0..<Index.shardCount {
            index.withShard(at: shard) { shard in
                for entry in shard.table.entries where entry.file != 0 && entry.file <= last {
                    unmentioned.remove(entry.file)
                    if files.contains(entry.file) {
                        findings.unverified.append((entry.key, entry.file))
                    } else {
                        findings.missing.append((entry.key, entry.file))
                    }
                }
                for entry in shard.table.evacuated { unmentioned.remove(entry.file) }
                for file in shard.obsolete { unmentioned.remove(file.file) }
            }
        }
        findings.unverified.sort { $0.file < $1.file }
        findings.suspects = unmentioned.sorted()
        findings.unreadTombstones = names.compactMap(DirectoryLayout.number(ofTombstone:)).filter { $0 <= last }
        findings.aside = names.compactMap(DirectoryLayout.number(ofAside:)).filter { $0 <= last }
        return findings
    }
}
