// The names that README and articles use without declaring them. `.ci/snippets` compiles this file with their snippets;
// none of it ever runs. An extension holds names that have another meaning in one article.

import Foundation
import Larder

#if canImport(CryptoKit)
    import CryptoKit
#endif

nonisolated func stub<Value>() -> Value { fatalError("compiled, not run") }

nonisolated struct User: Codable, Sendable {
    var id: String
    var name: String
}

nonisolated struct Order: Codable, Sendable {
    var articles: [String]
}

nonisolated struct Point: Sendable {
    var x: Double
    var y: Double
}

nonisolated struct DecodingFailed: Error {}

nonisolated struct Response: Sendable {
    var status: Int
    var body: Data
    var etag: String
}

nonisolated func get(_ url: String, ifNoneMatch etag: String?) async throws -> Response { stub() }

nonisolated struct API<User>: Sendable {
    func user(_ id: String) async throws -> User { stub() }
    func findUser(_ id: String) async throws -> User? { stub() }
    func users(_ ids: [String]) async throws -> [String: User] { stub() }
    func prices() async throws -> [String: Double] { stub() }
    func order(_ id: String) async throws -> Order { stub() }
}

nonisolated var api: API<User> { stub() }
nonisolated var disk: DiskCache { stub() }
nonisolated var users: Cache<User> { stub() }
nonisolated var orders: Cache<Order> { stub() }
nonisolated var tokens: Cache<String> { stub() }
nonisolated var token: String { stub() }
nonisolated var lists: Cache<[String: Double]> { stub() }
nonisolated var configuration: DiskCache.Configuration {
    get { stub() }
    set { fatalError("\(newValue)") }
}

nonisolated var id: String { stub() }
nonisolated var ids: [String] { stub() }
nonisolated var user: User { stub() }
nonisolated var bytes: Data { stub() }
nonisolated var page: Data { stub() }
nonisolated var etag: String { stub() }
nonisolated var midnight: Date { stub() }
nonisolated var url: URL { stub() }
nonisolated var folder: URL { stub() }
nonisolated var film: URL { stub() }
nonisolated var target: URL { stub() }
nonisolated var oldDirectory: URL { stub() }

// These snippets declare their own `User`, as a reader would.
nonisolated extension README {
    static var api: API<User> { stub() }
}

nonisolated extension Larder {
    static var api: API<User> { stub() }
}

nonisolated extension TypedValues {
    static var user: User { stub() }
    static var api: API<User> { stub() }
}

nonisolated extension FetchingThroughTheCache {
    static var url: String { stub() }
    static var pages: Cache<Data> { stub() }
    static var counters: Cache<Int> { stub() }
}

nonisolated extension EncryptingValues {
    static var key: SymmetricKey { stub() }
    @Sendable static func compress(_ bytes: Data) throws -> Data { stub() }
    @Sendable static func decompress(_ bytes: Data) throws -> Data { stub() }
    @Sendable static func seal(_ bytes: Data) throws -> Data { stub() }
    @Sendable static func open(_ bytes: Data) throws -> Data { stub() }
}

#if !canImport(CryptoKit)
    /// The shape of CryptoKit.
    nonisolated struct SymmetricKey: Sendable {}

    nonisolated enum AES {
        enum GCM {
            struct SealedBox {
                let combined: Data?

                init(combined: Data) throws { self.combined = combined }
            }

            static func seal(_ bytes: Data, using key: SymmetricKey) throws -> SealedBox { stub() }
            static func open(_ box: SealedBox, using key: SymmetricKey) throws -> Data { stub() }
        }
    }
#endif
