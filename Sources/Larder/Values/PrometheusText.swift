/// The text of metrics that Prometheus and its like read: the exposition format, version 0.0.4, of
/// prometheus.io/docs/instrumenting/exposition_formats. Names follow prometheus.io/docs/practices/naming.
private struct PrometheusText {
    /// Namespaces with a time series of their own. The others are summed up: each series costs the reader memory.
    static let mostNamespaces = 100
    static let others = "other"

    private(set) var text = ""
    private let prefix: String

    /// What is not allowed in a name becomes an underscore.
    init(prefix: String) {
        let allowed = { (byte: UInt8) in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        let name = String(decoding: prefix.utf8.map { allowed($0) ? $0 : UInt8(ascii: "_") }, as: UTF8.self)
        self.prefix = name.utf8.first.map { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 } ?? true ? "_" + name : name
    }

    private mutating func begin(_ name: String, _ type: String, _ help: String) {
        text += "# HELP \(prefix)_\(name) \(help)\n# TYPE \(prefix)_\(name) \(type)\n"
    }

    mutating func counter(_ name: String, _ value: Int, _ help: String) {
        begin(name + "_total", "counter", help)
        text += "\(prefix)_\(name)_total \(value)\n"
    }

    mutating func counter(_ name: String, _ value: Duration, _ help: String) {
        begin(name + "_total", "counter", help)
        text += "\(prefix)_\(name)_total \(Self.seconds(value))\n"
    }

    mutating func gauge(_ name: String, _ value: Int, _ help: String) {
        begin(name, "gauge", help)
        text += "\(prefix)_\(name) \(value)\n"
    }

    mutating func gauge(_ name: String, _ value: Duration, _ help: String) {
        begin(name, "gauge", help)
        text += "\(prefix)_\(name) \(Self.seconds(value))\n"
    }

    /// One series for each namespace.
    mutating func gauge(_ name: String, of values: [(namespace: String, value: Int)], _ help: String) {
        begin(name, "gauge", help)
        for (namespace, value) in values {
            text += "\(prefix)_\(name){namespace=\"\(Self.escaped(namespace))\"} \(value)\n"
        }
    }

    private static func seconds(_ time: Duration) -> Double {
        let (seconds, attoseconds) = time.components
        return Double(seconds) + Double(attoseconds) / 1e18
    }

    private static func escaped(_ label: String) -> String {
        var escaped = ""
        for scalar in label.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\"": escaped += "\\\""
            case "\n": escaped += "\\n"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}

extension CacheStatistics {
    /// Returns these statistics as metrics for Prometheus: its text format, version 0.0.4.
    ///
    ///     let text = disk.statistics.prometheusText(namespaces: disk.namespaces())
    ///
    /// Counters end in `_total`. They count since the directory was opened in this process; Prometheus knows a counter
    /// that begins anew. The only label is the namespace, "" for the part without one: never a key, a tag or a path. The
    /// 100 largest namespaces are listed, the rest is `other`. O(namespaces).
    ///
    /// - Parameters:
    ///   - prefix: The beginning of each name, so that several caches of a program can be told apart; what is not a
    ///     letter, a digit or an underscore becomes an underscore. Default: `larder`.
    ///   - namespaces: What each namespace takes; see ``DiskCache/namespaces()``. Default: none, and no such metrics.
    /// - Returns: Lines that end in a newline, in UTF-8.
    public func prometheusText(prefix: String = "larder", namespaces: [NamespaceUsage] = []) -> String {
        var metrics = PrometheusText(prefix: prefix)
        metrics.counter("hits", hits, "Reads that returned a value.")
        metrics.counter("misses", misses, "Reads that found no value.")
        metrics.counter("stores", stores, "Values stored.")
        metrics.counter("removals", removals, "Entries removed by a caller.")
        metrics.counter("expirations", expirations, "Entries removed because they had expired.")
        metrics.counter("evictions_for_count", evictions.count, "Entries evicted for the limit on their number.")
        metrics.counter("evictions_for_size", evictions.size, "Entries evicted for the limit on their size.")
        metrics.counter("evictions_for_age", evictions.age, "Entries evicted for the limit on their age.")
        metrics.counter("evictions_for_free_space", evictions.freeSpace, "Entries evicted to keep the disk free.")
        metrics.counter("corruptions", corruptions, "Entries removed because their data was damaged.")
        metrics.counter("losses", losses, "Entries removed because their file was missing.")
        metrics.counter("adoptions", adoptions, "Entries recovered from their files after an unclean close.")
        metrics.counter("orphans_deleted", orphansDeleted, "Files without an entry that were deleted.")
        metrics.counter("damaged_lines", damagedLines, "Lines of the index that could not be read.")
        metrics.counter("failures", failures, "Failed operations.")
        metrics.counter("events_dropped", eventsDropped, "Events that were not delivered.")
        metrics.gauge("segments", segments.count, "Segments in the directory.")
        metrics.gauge("segment_live_bytes", segments.liveBytes, "Bytes of segments that belong to entries.")
        metrics.gauge("segment_dead_bytes", segments.deadBytes, "Bytes of segments that belong to no entry.")
        metrics.counter("segments_cleaned", segments.cleaned, "Segments cleaned and deleted.")
        metrics.counter("segment_moved_bytes", segments.movedBytes, "Bytes moved to other segments.")
        if namespaces.isEmpty { return metrics.text }
        let parts = Self.largest(namespaces)
        metrics.gauge("entries", of: parts.map { ($0.name, $0.usage.count) }, "Entries.")
        metrics.gauge("payload_bytes", of: parts.map { ($0.name, $0.usage.payloadSize) }, "Bytes of values.")
        metrics.gauge("allocated_bytes", of: parts.map { ($0.name, $0.usage.allocatedSize) }, "Bytes on disk.")
        return metrics.text
    }

    /// The largest namespaces, and the sum of the others, which one with that name joins.
    private static func largest(_ namespaces: [NamespaceUsage]) -> [(name: String, usage: NamespaceUsage)] {
        let sorted = namespaces.sorted {
            ($1.allocatedSize, $0.namespace ?? "") < ($0.allocatedSize, $1.namespace ?? "")
        }
        let isOther = { (name: String?) in name == PrometheusText.others }
        let named = sorted.filter { !isOther($0.namespace) }
        let shown = named.prefix(PrometheusText.mostNamespaces)
        let rest = named.dropFirst(shown.count) + sorted.filter { isOther($0.namespace) }
        let parts = shown.map { (name: $0.namespace ?? "", usage: $0) }
        if rest.isEmpty { return parts }
        let sum = NamespaceUsage(
            namespace: PrometheusText.others, count: rest.reduce(0) { $0 + $1.count },
            payloadSize: rest.reduce(0) { $0 + $1.payloadSize },
            allocatedSize: rest.reduce(0) { $0 + $1.allocatedSize })
        return parts + [(PrometheusText.others, sum)]
    }
}

extension TierStatistics {
    /// Returns these statistics as metrics for Prometheus, with those of the directory, whose names go on with
    /// `_directory`; see ``CacheStatistics/prometheusText(prefix:namespaces:)``. O(namespaces).
    ///
    /// - Parameters:
    ///   - prefix: The beginning of each name; each cache of a program needs its own. Default: `larder`.
    ///   - namespaces: What each namespace of the directory takes. Default: none, and no such metrics.
    /// - Returns: Lines that end in a newline, in UTF-8.
    public func prometheusText(prefix: String = "larder", namespaces: [NamespaceUsage] = []) -> String {
        var metrics = PrometheusText(prefix: prefix)
        metrics.counter("memory_hits", memoryHits, "Reads answered from memory.")
        metrics.counter("disk_hits", diskHits, "Reads answered from disk.")
        metrics.counter("remote_hits", remoteHits, "Reads answered by the remote tier.")
        metrics.counter("misses", misses, "Reads that no tier answered.")
        metrics.counter("absent_answers", absentAnswers, "Calls answered by the knowledge that there is no value.")
        metrics.counter("fetches", fetches.begun, "Fetches started.")
        metrics.counter("fetch_failures", fetches.failed, "Fetches that failed or took too long.")
        metrics.counter("fetches_coalesced", fetches.coalesced, "Calls that waited for the fetch of another.")
        metrics.counter("stale_answers", fetches.staleAnswers, "Calls that returned a stale value.")
        metrics.counter("fetch_seconds", fetches.totalTime, "Duration of all fetches.")
        metrics.gauge("longest_fetch_seconds", fetches.longestTime, "Duration of the longest fetch.")
        if let memory { add(memory, to: &metrics) }
        if let remote { add(remote, to: &metrics) }
        return metrics.text + (disk?.prometheusText(prefix: prefix + "_directory", namespaces: namespaces) ?? "")
    }

    private func add(_ memory: MemoryStatistics, to metrics: inout PrometheusText) {
        metrics.counter("memory_stores", memory.stores, "Values stored in memory.")
        metrics.counter("memory_removals", memory.removals, "Entries removed from memory.")
        metrics.counter("memory_expirations", memory.expirations, "Entries removed from memory as expired.")
        metrics.counter("memory_evictions_for_count", memory.evictions.count, "Entries evicted for their number.")
        metrics.counter("memory_evictions_for_cost", memory.evictions.cost, "Entries evicted for their cost.")
        metrics.counter("memory_evictions_for_age", memory.evictions.age, "Entries evicted for their age.")
    }

    private func add(_ remote: RemoteStatistics, to metrics: inout PrometheusText) {
        metrics.counter("remote_misses", remote.misses, "Reads that the remote tier answered without a value.")
        metrics.counter("remote_confirmations", remote.confirmations, "Local copies that it has confirmed.")
        metrics.counter("remote_failures", remote.failures, "Calls of the remote tier that failed.")
        metrics.counter("remote_late_answers", remote.late, "Answers after the timeout.")
        metrics.counter("remote_changes", remote.changes, "Changes that it has taken.")
        metrics.counter("remote_refusals", remote.refusals, "Changes that it has refused.")
        metrics.counter("remote_changes_dropped", remote.dropped, "Changes that were not sent.")
        metrics.counter("remote_malformed_answers", remote.malformed, "Answers that could not be read.")
        metrics.counter("remote_notices", remote.notices, "Notices of changes by other machines.")
        metrics.gauge("remote_changes_waiting", remote.waiting, "Changes that wait to be sent.")
    }
}
