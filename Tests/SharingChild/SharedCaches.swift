import Foundation
import Larder
import LarderTestSupport

/// The caches of one process over the shared directory.
struct SharedCaches {
    private struct DamagedValue: Error, CustomStringConvertible {
        let data: Data

        var description: String {
            "damaged value of \(data.count) bytes: \(String(decoding: data.prefix(60), as: UTF8.self))"
        }
    }

    private let disk: DiskCache
    private let hasMemory: Bool
    private let root: Cache<Data>
    private let namespaced: Cache<Data>

    init(_ disk: DiskCache, hasMemory: Bool) {
        self.disk = disk
        self.hasMemory = hasMemory
        var configuration = Cache<Data>.Configuration()
        if !hasMemory { configuration.memory = nil }
        root = Cache(disk: disk, namespace: "", configuration: configuration)
        namespaced = Cache(disk: disk, namespace: SharingCall.namespace, configuration: configuration)
    }

    func run(_ call: SharingCall, padding: Int) async throws -> ObservedCall.Result {
        switch call.target {
        case .key(let key) where hasMemory: return try await runOnTiers(call.operation, key, padding)
        case .key(let key): return try await runOnDisk(call.operation, key, padding)
        case .root:
            if hasMemory { try await root.removeAll() } else { try disk.namespace("").removeAll() }
        case .namespace:
            if hasMemory {
                try await namespaced.removeAll()
            } else {
                try disk.namespace(SharingCall.namespace).removeAll()
            }
        case .everything: try disk.removeAll()
        }
        return .none
    }

    private func runOnTiers(
        _ operation: ObservedCall.Operation, _ key: Int, _ padding: Int
    ) async throws -> ObservedCall.Result {
        let cache = SharingCall.namespace(ofKey: key).isEmpty ? root : namespaced
        let name = SharingCall.name(ofKey: key)
        switch operation {
        case .get: return .value(try value(of: await cache.value(forKey: name)))
        case .set(let value):
            try await cache.setValue(SharingSetup.payload(of: value, padding: padding), forKey: name)
            return .none
        case .remove: return .wasDone(try await cache.removeValue(forKey: name))
        case .renew: return .wasDone(try await cache.setTimeToLive(.days(1_000), forKey: name))
        case .setIfAbsent(let value):
            let payload = SharingSetup.payload(of: value, padding: padding)
            return .value(try self.value(of: await cache.setValueIfAbsent(payload, forKey: name)))
        case .modify(let value):
            let payload = SharingSetup.payload(of: value, padding: padding)
            let old = try await cache.modifyValue(forKey: name) { value in
                defer { value = payload }
                return value
            }
            return .value(try self.value(of: old))
        case .clear: return .none
        }
    }

    /// Runs on the disk tier alone what it offers, and the rest on a cache without a memory tier.
    private func runOnDisk(
        _ operation: ObservedCall.Operation, _ key: Int, _ padding: Int
    ) async throws -> ObservedCall.Result {
        let disk = disk.namespace(SharingCall.namespace(ofKey: key))
        let name = SharingCall.name(ofKey: key)
        switch operation {
        case .get: return .value(try value(of: disk.data(forKey: name)))
        case .set(let value):
            try disk.setData(SharingSetup.payload(of: value, padding: padding), forKey: name)
            return .none
        case .remove: return .wasDone(try disk.removeValue(forKey: name))
        case .renew: return .wasDone(try disk.setTimeToLive(.days(1_000), forKey: name))
        case .setIfAbsent, .modify, .clear: return try await runOnTiers(operation, key, padding)
        }
    }

    private func value(of payload: Data?) throws -> Int? {
        guard let payload else { return nil }
        guard let value = SharingSetup.value(of: payload) else { throw DamagedValue(data: payload) }
        return value
    }
}
