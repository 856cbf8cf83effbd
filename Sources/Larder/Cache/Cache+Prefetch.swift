import LarderFiles

extension Cache {
    /// Fetches values that will be needed soon, at low priority, a few at a time.
    ///
    ///     let prefetching = thumbnails.prefetch(urls) { url in try await download(url) }
    ///     prefetching.cancel()            // the user has scrolled on
    ///
    /// Keys with a fresh value are skipped. A call that needs a key now joins its fetch, which then runs at the
    /// priority of that call (on Apple platforms from macOS 26 and iOS 26 on). For a key whose turn has not come the
    /// call begins a fetch at once. Failures are events.
    ///
    /// - Parameters:
    ///   - keys: Any strings, the most urgent ones first.
    ///   - ttl: How long the values are fresh. Default: the configured life.
    ///   - tags: Names by which they can be removed with others. Default: none.
    ///   - policy: How the fetches run. Default: the configured policy.
    ///   - fetch: Brings the value of a key. At most `Configuration.maximumConcurrentFetches` run at a time; without
    ///     such a limit four.
    /// - Returns: A task that ends with the last fetch. Cancelling it stops the fetches that nobody else waits for.
    @discardableResult
    public func prefetch(
        _ keys: some Sequence<String>, ttl: TimeToLive = .default, tags: [String] = [], policy: FetchPolicy = .default,
        fetch: @escaping @Sendable (_ key: String) async throws -> Value
    ) -> Task<Void, Never> {
        let options = options(ttl, tags, policy, acceptsAbsence: false)
        let queue = Lock(Array(keys.map { backend.key($0) }.reversed()))
        let fetcher = fetcher
        let width = max(1, maximumConcurrentFetches ?? 4)
        // Not a part of a fetch that begins it: that does not wait for it.
        return Flight.$current.withValue(nil) {
            backend.clock.begin(.low) { await Self.prefetch(queue, width, fetcher, options, fetch) }
        }
    }

    private static func prefetch(
        _ queue: Lock<[Key]>, _ width: Int, _ fetcher: Fetcher<Value>, _ options: FetchOptions,
        _ fetch: @escaping @Sendable (_ key: String) async throws -> Value
    ) async {
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<width {
                group.addTask {
                    while !Task.isCancelled, let key = queue.withLock({ $0.popLast() }) {
                        if case .fresh = fetcher.backend.freshness(of: key, at: fetcher.backend.clock.now) {
                            continue
                        }
                        let request = FetchRequest<Value>(key, options) { _ in
                            .value(try await fetch(key.text))
                        }
                        _ = try? await fetcher.existing(request)
                    }
                }
            }
        }
    }
}
